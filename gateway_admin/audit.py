"""The audit log: who changed which plan, tenant, key, price, hot key, token, user and so on, when and from where.

django-auditlog writes the rows. Who did it is added here: its own middleware reads the session only, so it knows
nobody who came with a token, and believes any X-Forwarded-For.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from auditlog.models import LogEntry
from auditlog.registry import auditlog
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Model
from django.db.models.signals import pre_save
from django.http import HttpRequest, HttpResponse

from gateway.client_address import client_address, parse_networks
from gateway_admin.models import AutomationToken
from tenants.models import Adjustment, ApiKey, BulkJob, HotKey, Plan, Price, Tenant

COMMAND_LINE = "command line"

_UNTOLD = frozenset(
    {"digest", "cache_salt", "token_key", "id", "revision", "last_login", "date_joined", "created", "created_at"}
) | {"rate_per_minute", "trend", "first_seen_at", "last_seen_at", "changed_at", "changed_by", "changed_by_name"}
WATCHED: dict[type[Model], tuple[str, ...]] = {
    Plan: (),
    Tenant: (),
    ApiKey: (),
    Price: (),
    Adjustment: (),
    HotKey: (),
    AutomationToken: (),
    User: ("groups", "user_permissions"),
    Group: ("permissions",),
}
"""Model -> its relations that are watched too."""
TOLD_OF: tuple[type[Model], ...] = (*WATCHED, BulkJob)
"""Models of which there may be entries."""


@dataclass(slots=True)
class Who:
    """Who is at work in this context.

    Attributes:
        request: its user is asked for when something is written: only then must the session be read.
        token: the name of the automation token, "" for a session.
        user: who came with the token.
    """

    request: HttpRequest
    token: str = ""
    user: User | None = None


_who: ContextVar[Who | None] = ContextVar("audit_who", default=None)


class AuditMiddleware:
    """Tells the audit log on whose behalf the request is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request."""
        mark = _who.set(Who(request))
        try:
            return self._get_response(request)
        finally:
            _who.reset(mark)


def came_with_token(user: User, token: AutomationToken) -> None:
    """Say that the request at hand is ``user``'s by ``token``: what it changes is put down to them."""
    who = _who.get()
    if who is not None:
        who.user, who.token = user, token.name


def note_erasure(tenant: Tenant, *, prompts: bool, files: bool = False) -> None:
    """Write down that what was kept of a tenant was erased: its new salt is told to nobody."""
    asked = {"kept answers": True, "stored prompts": prompts, "files and batches": files}
    what = {name: ("kept", "erased") for name, is_asked in asked.items() if is_asked}
    LogEntry.objects.log_create(tenant, force_log=True, action=LogEntry.Action.UPDATE, changes=what)


def note_cancelling(job: BulkJob, before: str, reason: str) -> None:
    """Write down that an operator has a batch cancelled, and why; ``before`` is the status that it had.

    Batches are not watched: what becomes of them by themselves is no operator's change.
    """
    what = {"status": (before, job.status), "reason": ("", reason)}
    LogEntry.objects.log_create(job, force_log=True, action=LogEntry.Action.UPDATE, changes=what)


def hide(value: str) -> str:
    """What is told of a secret: whether there is one."""
    return "***" if value not in ("", "None") else value


def watch() -> None:
    """Register the models and the receiver that adds who did it."""
    for model, relations in WATCHED.items():
        told = [field.name for field in model._meta.concrete_fields if field.name not in _UNTOLD]
        auditlog.register(
            model,
            include_fields=told,
            m2m_fields=set(relations),
            mask_fields=["password", "alert_webhook"],  # that they were changed is told, and nothing of them
            mask_callable="gateway_admin.audit.hide",
        )
    pre_save.connect(_add_who, sender=LogEntry, dispatch_uid="audit-who")


def _add_who(instance: LogEntry, **kwargs: Any) -> None:
    if instance.pk is not None:
        return
    who = _who.get()
    if who is None:
        instance.additional_data = {"by": COMMAND_LINE}
        return
    user = who.user or who.request.user
    instance.actor = user if user.is_authenticated else None
    # The name is kept beside the link, which ends with the user.
    instance.additional_data = {"by": user.get_username(), **({"token": who.token} if who.token else {})}
    instance.remote_addr = _address(who.request)


def _address(request: HttpRequest) -> str | None:
    """From where the request comes, through trusted proxies; None if that cannot be said."""
    if isinstance(request, ASGIRequest):
        address = client_address(request.scope, parse_networks(settings.SLUICE.trusted_proxies))
        return None if address is None else str(address)
    return request.META.get("REMOTE_ADDR") or None
