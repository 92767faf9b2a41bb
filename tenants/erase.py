"""Erasing what was kept of a tenant: the part of it that is in the database."""

from dataclasses import dataclass, field

from django.db import transaction

from tenants.models import BulkJob, HotKey, StoredFile, StoredPrompt, Tenant, make_cache_salt
from tenants.prompts import erase_prompts


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """What went.

    Attributes:
        prompt_ids: stored prompts, with all their versions.
        hot_keys: rows of the whitelist.
        salt: the tenant's new cache salt.
        file_ids: files, whose contents are to be removed now; ``job_ids`` bulk jobs, and what lies on the disk of each.
    """

    prompt_ids: list[str]
    hot_keys: int
    salt: str
    file_ids: list[str] = field(default_factory=list)
    job_ids: list[str] = field(default_factory=list)


def prompt_ids(tenant_id: int) -> list[str]:
    """Ids of a tenant's stored prompts."""
    return list(StoredPrompt.objects.filter(tenant_id=tenant_id).values_list("public_id", flat=True))


def erase_rows(tenant_id: int, *, prompts: bool, files: bool = False) -> ErasedRows:
    """Give a tenant a new cache salt, and remove its hot keys and, if asked for, its stored prompts, files and batches.

    The salt is part of the name of each kept answer: with a new one, none that was kept before can be found again, also
    where it was missed, and none that a request under way keeps under its old name. Gateways see the new salt within a
    moment and forget what they keep themselves. Engines find cached prefixes by the salt too: those are computed anew.

    Raises:
        Tenant.DoesNotExist: no such tenant.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer; nothing was changed.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().get(pk=tenant_id)
        erased_ids = erase_prompts(tenant_id) if prompts else []
        file_ids, job_ids = _erase_files(tenant_id) if files else ([], [])
        hot = HotKey.objects.filter(tenant=tenant)
        # Unless its prompts go too, what operators said of them stays; names of answers mean nothing from now on.
        _, by_model = (hot if prompts else hot.filter(kind=HotKey.Kind.ANSWER)).delete()
        tenant.cache_salt = make_cache_salt()
        tenant.save(update_fields=["cache_salt"])
    return ErasedRows(erased_ids, by_model.get(HotKey._meta.label, 0), tenant.cache_salt, file_ids, job_ids)


def _erase_files(tenant_id: int) -> tuple[list[str], list[str]]:
    """Remove the rows of a tenant's files and bulk jobs; return their ids. The tenant's row is held.

    That cancels what is open: a bulk process whose slice or job has no row any more ends its requests within two
    seconds, and writes no result.
    """
    # Locked before anything is looked for below them: else a job's slices might begin in between.
    jobs = BulkJob.objects.select_for_update().filter(tenant_id=tenant_id).order_by("pk")
    job_ids = list(jobs.values_list("public_id", flat=True))
    BulkJob.objects.filter(tenant_id=tenant_id).delete()
    files = StoredFile.objects.filter(tenant_id=tenant_id)
    file_ids = list(files.values_list("public_id", flat=True))
    files.delete()
    return file_ids, job_ids
