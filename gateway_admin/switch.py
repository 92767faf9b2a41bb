"""Pausing, draining and opening: one field of the hash ``sl:switch``, and one row that says who did it.

The scripts of the ready set read the hash at each admission and claim, so a switch works at once and everywhere, and
stays when processes start again. An absent field means open.
"""

from dataclasses import dataclass
from typing import cast

from django.contrib.auth.models import User
from redis import Redis
from redis.exceptions import RedisError

from gateway_admin.models import Action, Kind, OperatorAction, Result, State

KEY = "sl:switch"
PERMISSION = "gateway_admin.switch_traffic"

STATE_AFTER = {Action.PAUSE: State.PAUSED, Action.DRAIN: State.DRAINING, Action.OPEN: State.OPEN}

# Two operators at once: what the second one saw is no longer so, and the script says what is.
_COMPARE_AND_SET = """
local now = redis.call('HGET', KEYS[1], ARGV[1])
if now ~= 'paused' and now ~= 'draining' then now = 'open' end
if now ~= ARGV[2] or now == ARGV[3] then return now end
if ARGV[3] == 'open' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return now
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A queue or a worker.

    Attributes:
        kind: which of the two.
        name: ``<model>:<class>`` of a queue, the id of a worker.
    """

    kind: Kind
    name: str

    @property
    def field(self) -> str:
        """Its field in the hash."""
        return f"{self.kind.value}:{self.name}"


def read_states(redis: "Redis") -> dict[str, State]:
    """Read all that is not open, by field.

    Raises:
        redis.exceptions.RedisError: Valkey does not answer.
    """
    return parse_states(cast("dict[str, str]", redis.hgetall(KEY)))


def parse_states(raw: dict[str, str]) -> dict[str, State]:
    """Keep what the scripts obey; anything else in the hash they take for open."""
    return {field: State(value) for field, value in raw.items() if value in (State.PAUSED, State.DRAINING)}


def switch(redis: "Redis", operator: User, target: Target, action: Action, seen: State, reason: str) -> OperatorAction:
    """Do ``action`` if ``target`` still stands as the operator saw it; return the row that tells what came of it.

    Its outcome is ``failed`` when Valkey did not answer: then only the store itself can tell whether it was done.
    """
    row = OperatorAction.objects.create(
        operator=operator,
        operator_name=operator.get_username(),
        action=action,
        kind=target.kind,
        target=target.name,
        reason=reason,
    )
    try:
        raw = redis.eval(_COMPARE_AND_SET, 1, KEY, target.field, seen.value, STATE_AFTER[action].value)
    except (RedisError, OSError):
        row.outcome = Result.FAILED
    else:
        before = State(cast("str", raw))
        row.previous_state, row.outcome = before, _outcome(before, seen, STATE_AFTER[action])
    row.save(update_fields=["previous_state", "outcome"])
    return row


def _outcome(before: State, seen: State, wanted: State) -> Result:
    if before == wanted:
        return Result.UNCHANGED
    return Result.DONE if before == seen else Result.OVERTAKEN


def last_switches(states: dict[str, State]) -> dict[str, OperatorAction]:
    """Find, for each field that is not open, the action that brought it there; none if it was not one of ours."""
    found = {}
    for field, state in states.items():
        kind, _colon, name = field.partition(":")
        row = OperatorAction.objects.filter(kind=kind, target=name, outcome=Result.DONE).first()
        if row is not None and STATE_AFTER[Action(row.action)] == state:
            found[field] = row
    return found
