"""Stored prompts in the database. Each call is a tenant's own, or says whose the row is that it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, OuterRef, Q, Subquery

from tenants.models import PromptVersion, StoredPrompt, Tenant

MAX_PROMPTS = 1_000
"""Of one tenant."""
MAX_VERSIONS = 100
"""Of one prompt; they are numbered from 1 on without a gap."""
_ATTEMPTS = 3

Messages = list[dict[str, Any]]


class TooManyPrompts(Exception):
    """The tenant has ``MAX_PROMPTS``."""


class TooManyVersions(Exception):
    """The prompt has ``MAX_VERSIONS``."""


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """One version of a prompt.

    Attributes:
        tenant_id: whose it is.
        latest: number of the prompt's latest version; ``number`` this one's.
        messages: OpenAI's, with variables in their texts.
        made_at: when the prompt was made; ``version_made_at`` this version.
    """

    public_id: str
    tenant_id: int
    name: str
    latest: int
    number: int
    messages: Messages
    variables: list[str]
    made_at: datetime
    version_made_at: datetime


@dataclass(frozen=True, slots=True)
class ListedPrompt:
    """A prompt without what it says."""

    public_id: str
    name: str
    latest: int
    variables: list[str]
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version without what it says."""

    number: int
    variables: list[str]
    made_at: datetime


def create_prompt(
    tenant_id: int, public_id: str, name: str, messages: Messages, variables: Sequence[str]
) -> FoundVersion:
    """Write a prompt and its first version.

    Raises:
        TooManyPrompts: the tenant has as many as it may.
    """
    with transaction.atomic():
        # Held by the tenant's row, two that come at once cannot both be the last one that fits.
        Tenant.objects.select_for_update().get(pk=tenant_id)
        if StoredPrompt.objects.filter(tenant_id=tenant_id).count() >= MAX_PROMPTS:
            raise TooManyPrompts
        prompt = StoredPrompt.objects.create(tenant_id=tenant_id, public_id=public_id, name=name)
        version = prompt.versions.create(number=1, messages=messages, variables=list(variables))
    return _found(prompt, version, 1)


def add_version(tenant_id: int, public_id: str, messages: Messages, variables: Sequence[str]) -> FoundVersion | None:
    """Write the next version; None if the tenant has no such prompt.

    Raises:
        TooManyVersions: the prompt has as many as it may.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _add_version(tenant_id, public_id, messages, variables)
        except IntegrityError:  # where rows cannot be locked, another one took the number
            if attempt == _ATTEMPTS - 1:
                raise
    return None


def _add_version(tenant_id: int, public_id: str, messages: Messages, variables: Sequence[str]) -> FoundVersion | None:
    with transaction.atomic():
        prompt = StoredPrompt.objects.select_for_update().filter(tenant_id=tenant_id, public_id=public_id).first()
        if prompt is None:
            return None
        number = (prompt.versions.aggregate(latest=Max("number"))["latest"] or 0) + 1
        if number > MAX_VERSIONS:
            raise TooManyVersions
        version = prompt.versions.create(number=number, messages=messages, variables=list(variables))
    return _found(prompt, version, number)


def read_version(public_id: str, number: int | None) -> FoundVersion | None:
    """Read one version, of whatever tenant; the latest for None.

    A number that the prompt does not have gives its latest one: ``number`` then differs from what was asked for. None
    if there is no such prompt.
    """
    ours = PromptVersion.objects.filter(prompt__public_id=public_id).select_related("prompt").order_by("-number")
    asked = Q(number=number) if number is not None else Q()
    version = ours.filter(asked).first() or (ours.first() if number is not None else None)
    if version is None:
        return None
    latest = version.prompt.versions.aggregate(latest=Max("number"))["latest"]
    return _found(version.prompt, version, max(latest or 0, version.number))


def list_prompts(tenant_id: int, after: str | None, count: int) -> list[ListedPrompt] | None:
    """A tenant's prompts, the latest first; None if it has no prompt ``after`` which to begin."""
    prompts = StoredPrompt.objects.filter(tenant_id=tenant_id).order_by("-created_at", "-id")
    if after is not None:
        last = prompts.filter(public_id=after).first()
        if last is None:
            return None
        prompts = prompts.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, id__lt=last.id))
    newest = PromptVersion.objects.filter(prompt=OuterRef("pk")).order_by("-number")
    rows = prompts.annotate(
        latest=Subquery(newest.values("number")[:1]), latest_variables=Subquery(newest.values("variables")[:1])
    )
    return [
        ListedPrompt(row.public_id, row.name, row.latest or 0, row.latest_variables or [], row.created_at)
        for row in rows[:count]
    ]


def list_versions(tenant_id: int, public_id: str) -> list[ListedVersion]:
    """All versions of a tenant's prompt, the latest first; empty if it has no such prompt."""
    versions = PromptVersion.objects.filter(prompt__tenant_id=tenant_id, prompt__public_id=public_id)
    rows = versions.order_by("-number").values_list("number", "variables", "created_at")
    return [ListedVersion(*row) for row in rows]


def delete_prompt(tenant_id: int, public_id: str) -> bool:
    """Delete a tenant's prompt with all its versions, for good; False if it has no such prompt."""
    _, by_model = StoredPrompt.objects.filter(tenant_id=tenant_id, public_id=public_id).delete()
    return by_model.get(StoredPrompt._meta.label, 0) > 0


def erase_prompts(tenant_id: int) -> list[str]:
    """Delete all prompts of a tenant; returns their ids, for whoever keeps copies."""
    prompts = StoredPrompt.objects.filter(tenant_id=tenant_id)
    public_ids = list(prompts.values_list("public_id", flat=True))
    StoredPrompt.objects.filter(tenant_id=tenant_id, public_id__in=public_ids).delete()
    return public_ids


def _found(prompt: StoredPrompt, version: PromptVersion, latest: int) -> FoundVersion:
    return FoundVersion(
        public_id=prompt.public_id,
        tenant_id=prompt.tenant_id,
        name=prompt.name,
        latest=latest,
        number=version.number,
        messages=version.messages,
        variables=version.variables,
        made_at=prompt.created_at,
        version_made_at=version.created_at,
    )
