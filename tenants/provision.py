"""Making the rows that a fresh installation and its operators need."""

from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from domain.qos import QosClass
from tenants.keys import describe_key, make_key
from tenants.models import LIMIT_FIELDS, ApiKey, Plan, Tenant

DEMO = "demo"
_KEPT_BY_A_SUCCESSOR = ("tenant", "name", "expires_at", "scopes", "allowed_addresses", *LIMIT_FIELDS)


def create_key(tenant: Tenant, name: str, expires_at: datetime | None = None) -> tuple[ApiKey, str]:
    """Make a key of ``tenant``; the second value is its text, which cannot be had again."""
    new = make_key()
    key = ApiKey.objects.create(tenant=tenant, name=name, prefix=new.prefix, digest=new.digest, expires_at=expires_at)
    return key, new.plaintext


def rotate_key(old: ApiKey, grace: timedelta) -> tuple[ApiKey, str]:
    """Make a successor of ``old`` that may do the same; ``old`` itself stops working after ``grace``."""
    made = make_key()
    same = {name: getattr(old, name) for name in _KEPT_BY_A_SUCCESSOR}
    with transaction.atomic():
        revoke_key(old, timezone.now() + grace)
        return ApiKey.objects.create(prefix=made.prefix, digest=made.digest, **same), made.plaintext


def revoke_key(key: ApiKey, at: datetime) -> None:
    """End ``key`` at ``at``; an earlier end stays."""
    if key.revoked_at is None or at < key.revoked_at:
        key.revoked_at = at
        key.save(update_fields=["revoked_at"])


def ensure_demo_tenant(secret: str) -> Tenant:
    """Make sure that the demo tenant exists and that ``secret`` is one of its keys.

    Its plan is generous but finite, and allows every class, so that all of the product can be tried.

    Raises:
        ValueError: ``secret`` does not have the form of a key (:func:`tenants.keys.make_key` makes one).
    """
    given = describe_key(secret)
    with transaction.atomic():
        plan, _ = Plan.objects.get_or_create(
            name=DEMO,
            defaults={
                "requests_per_minute": 1_000_000,
                "tokens_per_minute": 1_000_000_000,
                "max_concurrent": 10_000,
                "best_class": QosClass.P0.value,
            },
        )
        tenant, _ = Tenant.objects.get_or_create(slug=DEMO, defaults={"name": "Demo", "plan": plan})
        ApiKey.objects.get_or_create(
            digest=given.digest, defaults={"tenant": tenant, "name": "first key", "prefix": given.prefix}
        )
    return tenant


def is_spent(secret: str) -> bool:
    """Whether the key was ended: revoked, or past its time. One that was never made is not."""
    now = timezone.now()
    ended = Q(revoked_at__lte=now) | Q(expires_at__lte=now)
    return ApiKey.objects.filter(ended, digest=describe_key(secret).digest).exists()


def ensure_admin(username: str, password: str) -> None:
    """Make the first superuser, unless there is a user of that name: what operators changed of him stays."""
    users = get_user_model().objects
    if not users.filter(username=username).exists():
        users.create_superuser(username=username, password=password)
