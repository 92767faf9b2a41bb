"""What gateways tell of kept answers, read from the store for the page "Cache"; and fixing what they evict by.

The keys are described in :mod:`gateway.cache_tuning`; those of the second level in ``workers/ready/lua/answers.lua``.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypedDict, cast

from django.contrib.auth.models import User
from redis import Redis
from redis.exceptions import RedisError

from domain.eviction.tuning import CHOICES
from gateway.cache_tuning import DECISIONS, FIXED, HISTORY, STATE
from gateway_admin.live import read_members
from gateway_admin.models import Action, Kind, OperatorAction, Result

_DECISIONS, _HISTORY = 30, 1_500
_STORE_FIELDS = ("once", "more", "once_bytes", "more_bytes", "evicted", "expired")
# Two operators at once: what the second one saw is no longer so, and the script says what is.
_COMPARE_AND_SET = """
local now = redis.call('GET', KEYS[1]) or ''
if now ~= ARGV[1] or now == ARGV[2] then return now end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return now
"""

Figures = dict[str, Any]


class CacheView(TypedDict):
    """All of it.

    Attributes:
        gateways: what each gateway that lives told last, with its ``id``.
        decisions: the last changes of policies, the latest first.
        history: for each minute the means over gateways of ``hit_rate``, ``ceiling`` and ``watermark``, and the policy.
        store: figures of the second level; None if nothing was ever kept there.
        fixed: what an operator fixed; "" for nothing.
    """

    gateways: list[Figures]
    decisions: list[Figures]
    history: list[Figures]
    store: Figures | None
    fixed: str


def read_cache(redis: "Redis") -> CacheView:
    """Read the view.

    Raises:
        redis.exceptions.RedisError: Valkey does not answer.
    """
    (ids,) = read_members(redis, "sl:gateways")
    with redis.pipeline(transaction=False) as pipe:
        for gateway in ids:
            pipe.hgetall(f"{STATE}{gateway}")
        pipe.hmget("sl:answers", list(_STORE_FIELDS))
        pipe.xrevrange(DECISIONS, count=_DECISIONS)
        pipe.xrevrange(HISTORY, count=_HISTORY)
        *states, store, decisions, history = pipe.execute()
    return {
        "gateways": [{"id": gateway, **_unpack(raw)} for gateway, raw in zip(ids, states, strict=True) if raw],
        "decisions": _entries(decisions),
        "history": _by_minute(reversed(_entries(history))),
        "store": _store(store),
        "fixed": read_fixed(redis),
    }


def read_fixed(redis: "Redis") -> str:
    """What an operator fixed; "" for nothing.

    Raises:
        redis.exceptions.RedisError: Valkey does not answer.
    """
    found = cast("str | None", redis.get(FIXED))
    return found if found in CHOICES else ""


def fix(redis: "Redis", operator: User, choice: str, seen: str, reason: str) -> OperatorAction:
    """Fix ``choice``, or give it back to the setting (""), if it stands as the operator saw it.

    Returns the row that tells what came of it; its outcome is ``failed`` when Valkey did not answer: then only the
    store itself can tell whether it was done.
    """
    row = OperatorAction.objects.create(
        operator=operator,
        operator_name=operator.get_username(),
        action=Action.FIX if choice else Action.RELEASE,
        kind=Kind.CACHE,
        target=choice or seen,
        reason=reason,
    )
    try:
        before = cast("str", redis.eval(_COMPARE_AND_SET, 1, FIXED, seen, choice))
    except (RedisError, OSError):
        row.outcome = Result.FAILED
    else:
        row.outcome = Result.UNCHANGED if before == choice else Result.DONE if before == seen else Result.OVERTAKEN
    row.save(update_fields=["outcome"])
    return row


def last_fix(fixed: str) -> OperatorAction | None:
    """Who fixed what is fixed; None if nothing is, or it was not done here."""
    row = OperatorAction.objects.filter(kind=Kind.CACHE, outcome=Result.DONE).first()
    return row if row is not None and fixed and (row.action, row.target) == (Action.FIX, fixed) else None


def _unpack(raw: dict[str, str]) -> Figures:
    return {name: json.loads(value) for name, value in raw.items()}


def _entries(raw: Iterable[tuple[str, dict[str, str]]]) -> list[Figures]:
    return [{"id": entry_id, **json.loads(fields["m"])} for entry_id, fields in raw]


def _store(raw: list[str | None]) -> Figures | None:
    if all(value is None for value in raw):
        return None
    return {name: int(value or 0) for name, value in zip(_STORE_FIELDS, raw, strict=True)}


def _by_minute(entries: Iterable[Figures]) -> list[Figures]:
    minutes: dict[int, list[Figures]] = defaultdict(list)
    for entry in entries:
        minutes[int(entry["at"] // 60)].append(entry)
    return [
        {
            "at": minute * 60,
            "policies": sorted({entry["policy"] for entry in told}),
            **{name: _mean(entry[name] for entry in told) for name in ("hit_rate", "ceiling", "watermark")},
        }
        for minute, told in sorted(minutes.items())
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None
