"""How fast the requests of one tenant's bulk jobs are sent.

A tenant's limits hold for its bulk jobs and for its users alike. So that the users find room, bulk takes no more than
half of the requests at once, and lets half of a minute's budget stand: a bucket that refills evenly still gives bulk
the whole rate while nobody else wants it. What is refused all the same halves what is under way; what is answered
lets it grow again, as TCP does: fast until the first refusal, by one a round after that. What an answer says is left
does not count what was sent since, here or by other processes: so no more than half of that is under way.
"""

from dataclasses import dataclass

SHARE = 0.5
"""Part of a limit that bulk leaves alone."""

MINUTE_S = 60.0
"""Limits that take longer to come back are those of a day or a month: bulk may use them up."""

FIRST_WINDOW = 16.0
FIRST_ROOM = 2.0
"""Requests before the first answer, which tells of the limits."""
MAX_WINDOW = 4096.0
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Left:
    """What an answer says of one limit: ``cap`` at most, ``left`` of it, all of it back in ``reset_s`` seconds."""

    cap: int
    left: int
    reset_s: float


@dataclass(slots=True)
class Pace:
    """Of one tenant. Times are seconds of any steady clock.

    Attributes:
        window: requests that may be under way; ``room`` likewise, by what is left of a minute's requests.
        resume_at_s: nothing is sent before.
        cut_at_s: when the window was halved last.
    """

    window: float = FIRST_WINDOW
    room: float = FIRST_ROOM
    resume_at_s: float = 0.0
    cut_at_s: float = _NEVER

    def allows(self, under_way: int, most: int, now_s: float) -> bool:
        """Whether one more may be sent; ``most`` is what the tenant's limits leave bulk, at least 1."""
        return now_s >= self.resume_at_s and under_way < max(1, min(int(self.window), int(self.room), most))

    def refused(self, sent_at_s: float, now_s: float, wait_s: float) -> None:
        """One came back for want of room; those sent before the window was halved say nothing new."""
        self.resume_at_s = max(self.resume_at_s, now_s + wait_s)
        if sent_at_s > self.cut_at_s:
            self.window, self.cut_at_s = max(1.0, self.window / 2), now_s

    def answered(self, limits: "tuple[Left, ...]", now_s: float) -> None:
        """One was answered; ``limits`` are what its answer says."""
        was_cut = self.cut_at_s != _NEVER
        self.window = min(MAX_WINDOW, self.window + (1 / self.window if was_cut else 1))
        self.room = min((_room(limit) for limit in limits), default=MAX_WINDOW)
        pause_s = max((_pause_s(limit) for limit in limits), default=0.0)
        if pause_s:
            self.resume_at_s = max(self.resume_at_s, now_s + pause_s)


def _room(limit: Left) -> float:
    """What is sent at once of what a limit leaves bulk: half of it, since other processes send too."""
    return MAX_WINDOW if limit.reset_s > MINUTE_S else min(MAX_WINDOW, (limit.left - SHARE * limit.cap) / 2)


def _pause_s(limit: Left) -> float:
    """Seconds until the part that bulk leaves alone is there again."""
    kept = SHARE * limit.cap
    if limit.left >= kept or limit.reset_s > MINUTE_S or limit.left >= limit.cap:
        return 0.0
    return limit.reset_s * (kept - limit.left) / (limit.cap - limit.left)


def in_flight(seats: int) -> int:
    """Requests of all bulk jobs that are sent at once for an engine that runs ``seats`` sequences.

    A quarter of a seat waits for each that runs: enough that no free seat is found without somebody who waits, and few
    enough that they wait a quarter of the time that a request runs, so that also the class's other requests get their
    turn within what it tolerates (W3).
    """
    return seats + max(2, seats // 4)


def most_at_once(max_concurrent: "tuple[int, ...]") -> int:
    """What limits of requests at once leave bulk; a large number where there are none."""
    return max(1, int(min(max_concurrent) * SHARE)) if max_concurrent else int(MAX_WINDOW)
