"""What operators do with the whitelist: pin, ban, let expire, release, each with who and when.

Every gateway follows within two seconds; one whose store was away when something changed, within a window of counting.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from redis import Redis
from redis.exceptions import RedisError

from tenants.models import HotKey, StoredPrompt

log = logging.getLogger(__name__)

MOST_SET = 1_000
"""Keys that are pinned or banned at once, at most: they are kept out of the order in which others go."""
DEFAULT_DAYS = 7
MOST_DAYS = 366

State = HotKey.State

_LIST, _ASKED = "sl:hot:list", "asked"
_TIMEOUT_S = 1.0
_ANSWER_KEY = re.compile(r"[0-9a-f]{32}")


class WhitelistError(ValueError):
    """It cannot be set; the message tells a person why.

    Attributes:
        field: of the row that is wrong, "" for none.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def default_end() -> datetime:
    """When what is set now is over, if nobody says otherwise."""
    return timezone.now() + timedelta(days=DEFAULT_DAYS)


def check_end(until: datetime | None) -> datetime:
    """Return a moment until which something may be set.

    Raises:
        WhitelistError: there is none, or it does not lie ahead, or too far.
    """
    now = timezone.now()
    if until is None:
        raise WhitelistError(_("Say until when: what operators set comes to an end."), "expires_at")
    if not now < until <= now + timedelta(days=MOST_DAYS):
        raise WhitelistError(_("It must lie ahead, by a year at most."), "expires_at")
    return until


def find_or_new(kind: str, text: str) -> HotKey:
    """Return the row of a key as a person wrote it: one that counting has found, or a new one that is not saved.

    Raises:
        WhitelistError: there can be no such key, or it is set already.
    """
    key = text.strip()
    if kind == HotKey.Kind.ANSWER:
        key = key.lower()
        if not _ANSWER_KEY.fullmatch(key):
            told = _("The key of an answer is 32 hexadecimal digits, as in the header x-sluice-cache-key.")
            raise WhitelistError(told, "key")
        owner = None
    else:
        owner = StoredPrompt.objects.filter(public_id=key).values_list("tenant_id", flat=True).first()
        if owner is None:
            raise WhitelistError(_("There is no stored prompt with this id."), "key")
    row = HotKey.objects.filter(kind=kind, key=key).first()
    if row is None:
        return HotKey(kind=kind, key=key, tenant_id=owner)
    if row.state != State.AUTO:
        raise WhitelistError(_("This key is pinned or banned already. Change it there."), "key")
    return row


def check_room(rows: Sequence[HotKey]) -> None:
    """Pass if all of these may be pinned or banned beside those that are.

    Raises:
        WhitelistError: they would be too many.
    """
    others = HotKey.objects.exclude(Q(state=State.AUTO) | Q(pk__in=[row.pk for row in rows if row.pk]))
    if others.count() + len(rows) > MOST_SET:
        told = _("At most %(most)d keys can be pinned or banned at once. Release some first.")
        raise WhitelistError(told % {"most": MOST_SET})


def set_rows(rows: Iterable[HotKey], state: str, until: datetime, user: Any, note: str | None = None) -> int:
    """Pin or ban rows until a moment; return how many. New ones are saved.

    Args:
        rows: which.
        state: ``HotKey.State.PINNED`` or ``BANNED``.
        until: see :func:`check_end`.
        user: who does it.
        note: what is told about them from now on; None to leave that as it is.

    Raises:
        WhitelistError: too many would be set, or the end is wrong; then none is.
    """
    check_end(until)
    with transaction.atomic():
        chosen = list(rows)
        check_room(chosen)
        for row in chosen:
            row.state, row.expires_at = state, until
            if note is not None:
                row.note = note
            _save(row, user)
        transaction.on_commit(ask_anew)
    return len(chosen)


def let_expire(rows: Iterable[HotKey], until: datetime, user: Any) -> int:
    """Move the end of what is pinned or banned; return how many that were, others are passed over.

    Raises:
        WhitelistError: the end is wrong.
    """
    check_end(until)
    return _change([row for row in rows if row.state != State.AUTO], user, expires_at=until)


def release(rows: Iterable[HotKey], user: Any) -> int:
    """End what is pinned or banned at once; return how many that were, others are passed over."""
    return _change([row for row in rows if row.state != State.AUTO], user, state=State.AUTO, expires_at=None)


def _change(rows: list[HotKey], user: Any, **values: Any) -> int:
    with transaction.atomic():
        for row in rows:
            for name, value in values.items():
                setattr(row, name, value)
            _save(row, user)
        transaction.on_commit(ask_anew)
    return len(rows)


def _save(row: HotKey, user: Any) -> None:
    row.changed_at, row.changed_by, row.changed_by_name = timezone.now(), user, user.get_username()
    # The rest belongs to counting, which may write at the same time.
    fields = ["state", "expires_at", "note", "changed_at", "changed_by", "changed_by_name"]
    row.save(update_fields=None if row.pk is None else fields)


def ask_anew() -> None:
    """Tell the gateways that the list has changed; if the store is away, they find out by themselves."""
    try:
        with Redis.from_url(
            settings.SLUICE.ready_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        ) as store:
            store.hincrby(_LIST, _ASKED, 1)
    except (RedisError, OSError) as error:
        log.warning("The gateways see a change of the whitelist later: %s", error)
