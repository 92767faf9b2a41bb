"""Of which requests all moments are kept: those that an operator will ask about, and some of the others.

The ids of every request and the lengths of its stages are kept in any case.
"""

from collections import deque

from domain.trace.record import Record

LATEST = 200
"""Requests of one model and class that tell what is slow."""

SLOW_SHARE = 0.05
EVERY = 20


def why_kept(record: Record, sample: float, *, is_slow: bool, shares_trace: bool = False) -> str:
    """Why all of a request's moments are kept: "failed", "retried", "slow", "sampled", or "" for not at all.

    Args:
        record: of the request.
        sample: share of the others that is kept, 0 to 1; the same requests in every process, since their trace ids
            decide.
        is_slow: among the slowest of its kind.
        shares_trace: its trace is that of thousands, which are not to be kept all or none: its own id decides.
    """
    if record.is_error:
        return "failed"
    if len(record.runs) > 1 or any(run.attempt for run in record.runs):
        return "retried"
    if is_slow:
        return "slow"
    lot = record.request_id if shares_trace else record.trace_id
    return "sampled" if int(lot[-8:], 16) < sample * 2**32 else ""


class SlowMark:
    """What is slow among the latest requests of each model and class: the slowest twentieth, by either measure."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Latest] = {}

    def is_slow(self, record: Record) -> bool:
        """Count a request, and say whether it is slow; none is before there are enough to tell.

        What was refused, or answered without an engine, tells nothing of what is slow.
        """
        if not record.runs:
            return False
        latest = self._kinds.setdefault((record.model, record.qos_class), _Latest())
        ttft_us = record.answered_us - record.received_us if record.stream and record.answered_us else None
        return latest.ttft.is_slow(ttft_us) | latest.duration.is_slow(record.ended_us - record.received_us)


class _Latest:
    def __init__(self) -> None:
        self.ttft, self.duration = _Mark(), _Mark()


class _Mark:
    def __init__(self) -> None:
        self._values: deque[int] = deque(maxlen=LATEST)
        self._mark: int | None = None
        self._counted = 0

    def is_slow(self, value: int | None) -> bool:
        if value is None:
            return False
        self._values.append(value)
        self._counted += 1
        if self._counted % EVERY == 0:
            self._mark = sorted(self._values)[int(len(self._values) * (1 - SLOW_SHARE))]
        return self._mark is not None and value > self._mark
