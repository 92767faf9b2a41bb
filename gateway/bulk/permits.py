"""How many requests of bulk jobs are under way, and whose turn it is.

What waits in the ready sets is fair already; but only what is there. So each tenant gets its part of the places here
too, however many slices another one has.
"""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping

from domain.bulk.pace import Left, Pace

MIN_LOOK_S = 0.01


class Permits:
    """Made once a process. Use from one event loop."""

    def __init__(self, capacity: Callable[[], int]) -> None:
        """None is taken.

        Args:
            capacity: how many may be under way at once, of all tenants.
        """
        self._capacity = capacity
        self._taken: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        self._most: dict[int, int] = {}
        self._paces: defaultdict[int, Pace] = defaultdict(Pace)
        self._reasons: dict[int, tuple[str, float]] = {}
        self._look_at: asyncio.TimerHandle | None = None

    async def take(self, tenant_id: int, most: int) -> None:
        """Wait until one more request of a tenant may be under way; ``most`` of its own at once."""
        self._most[tenant_id] = most
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            self._forget(tenant_id, turn)
            raise

    def give(self, tenant_id: int) -> None:
        """It is under way no longer."""
        self._taken[tenant_id] -= 1
        self._grant()

    def waits_for(self, tenant_id: int) -> str:
        """Why a request of the tenant came back; "" if none did, or one that was sent later was answered."""
        return self._reasons[tenant_id][0] if tenant_id in self._reasons else ""

    def rest_s(self, tenant_id: int) -> float:
        """Seconds for which nothing of the tenant is sent, since what was sent came back; 0 for none."""
        pace = self._paces.get(tenant_id)
        if pace is None or tenant_id not in self._reasons:
            return 0.0
        return max(0.0, pace.resume_at_s - time.monotonic())

    def refused(self, tenant_id: int, sent_at_s: float, wait_s: float, reason: str) -> None:
        """A request of the tenant that was sent then (seconds of the monotonic clock) is to come back later."""
        now = time.monotonic()
        self._reasons[tenant_id] = reason, now
        self._paces[tenant_id].refused(sent_at_s, now, wait_s)

    def answered(self, tenant_id: int, headers: Mapping[str, str], sent_at_s: float) -> None:
        """A request of the tenant that was sent then was answered with these headers."""
        if tenant_id in self._reasons and sent_at_s >= self._reasons[tenant_id][1]:
            del self._reasons[tenant_id]
        self._paces[tenant_id].answered(limits_in(headers), time.monotonic())

    def _forget(self, tenant_id: int, turn: "asyncio.Future[None]") -> None:
        if turn.done() and not turn.cancelled():  # it had its turn at the same moment
            self.give(tenant_id)
        elif tenant_id in self._waiting:
            with_turns = self._waiting[tenant_id]
            if turn in with_turns:
                with_turns.remove(turn)
            if not with_turns:
                del self._waiting[tenant_id]

    def _grant(self) -> None:
        now = time.monotonic()
        while self._waiting and self._taken.total() < self._capacity():
            able = [one for one in self._waiting if self._allows(one, now)]
            if not able:
                break
            tenant_id = min(able, key=lambda one: self._taken[one])
            turns = self._waiting.pop(tenant_id)
            turn = turns.popleft()
            if turns:
                self._waiting[tenant_id] = turns  # behind the others
            if not turn.done():
                self._taken[tenant_id] += 1
                turn.set_result(None)
        self._look_again(now)

    def _allows(self, tenant_id: int, now: float) -> bool:
        return self._paces[tenant_id].allows(self._taken[tenant_id], self._most[tenant_id], now)

    def _look_again(self, now: float) -> None:
        """Look when a pause ends; whatever else may let somebody in, calls."""
        pauses = [self._paces[one].resume_at_s for one in self._waiting if self._paces[one].resume_at_s > now]
        if self._look_at is not None:
            self._look_at.cancel()
            self._look_at = None
        if pauses:
            wait_s = max(MIN_LOOK_S, min(pauses) - now)
            self._look_at = asyncio.get_running_loop().call_later(wait_s, self._grant)


def limits_in(headers: Mapping[str, str]) -> tuple[Left, ...]:
    """What an answer's ``x-ratelimit-*`` say."""
    found = []
    for kind in ("requests", "tokens"):
        cap = headers.get(f"x-ratelimit-limit-{kind}")
        if cap is not None:
            left, reset = headers[f"x-ratelimit-remaining-{kind}"], headers[f"x-ratelimit-reset-{kind}"]
            found.append(Left(int(cap), int(left), float(reset.removesuffix("s"))))
    return tuple(found)
