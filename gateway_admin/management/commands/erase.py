"""Erase what was kept of a tenant: ``manage.py erase TENANT``, with ``--prompts`` and ``--files`` for more of it."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from redis.exceptions import RedisError

from gateway_admin.audit import note_erasure
from gateway_admin.erasure import Erasure, erase
from gateway_admin.supervisor.store import store_url
from tenants.models import Tenant

_INCOMPLETE, _COULD_NOT_RUN = 1, 2
_GATEWAYS_S = 15.0


class Command(BaseCommand):
    """Removes kept answers, and stored prompts, files and batches if asked to, on a live system."""

    help = (
        "Erase the kept answers of a tenant: in the store, in every gateway, on their machines' disks; and its stored "
        "prompts, its files and batches if asked to. Exit status: 0 all is gone; 1 some may be left, run it again; 2 "
        "it could not run."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", metavar="TENANT", help="short name of the tenant")
        parser.add_argument("--prompts", action="store_true", help="its stored prompts too, for good")
        parser.add_argument(
            "--files", action="store_true", help="its files and batches too, for good; open batches are cancelled"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for the store's file (60)")

    def handle(self, *args: Any, **given: Any) -> None:
        tenant = Tenant.objects.filter(slug=given["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {given['tenant']}.", returncode=_COULD_NOT_RUN)
        what = _named(prompts=given["prompts"], files=given["files"])
        if not given["yes"] and input(f"Erase the {what} of {tenant.slug} for good? [y/N] ").strip().lower() != "y":
            raise CommandError("Nothing was erased.", returncode=_COULD_NOT_RUN)
        try:
            url = store_url(settings.SLUICE)
        except (OSError, ValueError, KeyError) as error:
            text = "Nothing runs on this data directory. Set SLUICE_DATA_DIR to the instance's, or SLUICE_REDIS_URL."
            raise CommandError(text, returncode=_COULD_NOT_RUN) from error
        # Before, so that no attempt goes unseen.
        note_erasure(tenant, prompts=given["prompts"], files=given["files"])
        try:
            done = erase(
                url,
                tenant.pk,
                prompts=given["prompts"],
                files_path=settings.SLUICE.files_path if given["files"] else None,
                gateways_s=_GATEWAYS_S,
                log_s=given["wait"],
            )
        except (RedisError, DatabaseError, OSError) as error:
            text = f"The store or the database does not answer: {type(error).__name__}. Run it again when they do."
            raise CommandError(text, returncode=_COULD_NOT_RUN) from error
        self.stdout.write(_as_text(done))
        if not done.is_complete:
            raise SystemExit(_INCOMPLETE)


def _named(*, prompts: bool, files: bool) -> str:
    """What is asked for, in words."""
    asked = {"kept answers": True, "stored prompts": prompts, "files": files, "batches": files}
    *names, last = [name for name, is_asked in asked.items() if is_asked]
    return f"{', '.join(names)} and {last}" if names else last


def _as_text(done: Erasure) -> str:
    lines = [
        f"{done.answers} answers were left in the store and are gone, {done.prompts} stored prompts, "
        f"{done.hot_keys} hot keys, {done.files} files, {done.jobs} batches. "
        f"{done.forgotten} of {done.gateways} gateways have forgotten the tenant."
    ]
    if done.forgotten < done.gateways:
        lines.append("The others were not heard in time: run it again.")
    if done.files_left:
        lines.append(
            f"{done.files_left} files could not be removed from the disk. A bulk process removes them once it can: "
            "see that the directory of files can be written."
        )
    if not done.log_is_clean:
        lines.append(
            "The store's append-only file was not rewritten in time and may tell of old answers: run it again."
        )
    return "\n".join(lines)
