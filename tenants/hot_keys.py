"""Hot keys in the database: what counting has found, and what the list is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from auditlog.context import disable_auditlog
from django.db import transaction
from django.db.models import Q

from tenants.models import HotKey, Tenant

KEEP_COLD = timedelta(minutes=10)
"""So long a key that was found by counting, and is asked for no more, stays in the operators' list."""
_FRESH = timedelta(minutes=1)
_MUCH = 0.1
_COOLED = {"rate_per_minute": 0.0, "trend": -1.0}
_WRITTEN = ["tenant", "model", "rate_per_minute", "trend", "last_seen_at"]


@dataclass(frozen=True, slots=True)
class Listed:
    """Keys as bytes: 16 of a kept answer, the text of a stored prompt's id."""

    hot: frozenset[bytes]
    pinned: frozenset[bytes]
    banned: frozenset[bytes]


def key_text(kind: str, key: bytes) -> str:
    """A key as the database holds it."""
    return key.hex() if kind == HotKey.Kind.ANSWER else key.decode(errors="replace")


def key_bytes(kind: str, text: str) -> bytes:
    """A key as gateways look for it.

    Raises:
        ValueError: an answer's key that is not hexadecimal.
    """
    return bytes.fromhex(text) if kind == HotKey.Kind.ANSWER else text.encode()


def record_found(found: Sequence[HotKey], now: datetime) -> None:
    """Write what counting has found: unsaved rows, the top as it stands at ``now``; end what is over.

    Rows that hardly differ from what is stored are not written again; if all are so, nothing is. What operators have
    set stays until it is over.

    Raises:
        django.db.DatabaseError: it could not be written.
    """
    known = {(row.kind, row.key): row for row in HotKey.objects.all()}
    owners = {row.tenant_id for row in found if row.tenant_id is not None}
    living = set(Tenant.objects.filter(pk__in=owners).values_list("pk", flat=True)) if owners else set()
    hot = {(row.kind, row.key): row for row in found if row.tenant_id is None or row.tenant_id in living}
    changed = [row for name, row in hot.items() if _differs(row, known.get(name))]
    others = [row for name, row in known.items() if name not in hot]
    cold = [row.pk for row in others if row.rate_per_minute]
    gone = [row.pk for row in others if row.state == HotKey.State.AUTO and row.last_seen_at < now - KEEP_COLD]
    over = [row.pk for row in known.values() if row.expires_at is not None and row.expires_at <= now]
    if changed or cold or gone or over:
        _write(changed, cold, gone, over, now)


def read_listed(places: int, now: datetime) -> Listed:
    """What the list is made of: the ``places`` hottest keys, and what operators have set and is not over.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    state, asked = HotKey.State, ("kind", "key", "state")
    hot = HotKey.objects.filter(state=state.AUTO, rate_per_minute__gt=0).values_list(*asked)[:places]
    in_force = Q(expires_at=None) | Q(expires_at__gt=now)
    chosen = HotKey.objects.filter(in_force, state__in=[state.PINNED, state.BANNED]).values_list(*asked)
    keys: dict[str, set[bytes]] = {name: set() for name in state.values}
    for kind, key, which in [*hot, *chosen]:
        keys[which].add(key_bytes(kind, key))
    return Listed(*(frozenset(keys[name]) for name in (state.AUTO, state.PINNED, state.BANNED)))


def _differs(new: HotKey, old: HotKey | None) -> bool:
    if old is None or new.last_seen_at - old.last_seen_at >= _FRESH:
        return True
    return abs(new.rate_per_minute - old.rate_per_minute) > _MUCH * old.rate_per_minute


def _write(changed: list[HotKey], cold: list[int], gone: list[int], over: list[int], now: datetime) -> None:
    with transaction.atomic():
        HotKey.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["kind", "key"], update_fields=_WRITTEN
        )
        HotKey.objects.filter(pk__in=cold).update(**_COOLED)
        # Operators may have moved its end since it was read.
        HotKey.objects.filter(pk__in=over, expires_at__lte=now).update(state=HotKey.State.AUTO, expires_at=None)
        with disable_auditlog():  # the log tells what people did; these came and went by themselves
            HotKey.objects.filter(pk__in=gone, state=HotKey.State.AUTO).delete()
