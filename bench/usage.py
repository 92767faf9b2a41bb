"""What the usage table says of a load: who was served how much, by which worker, and when."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from domain.fair_order import service_cost
from tests.stack import Stack, wait_until

SETTLED_S = 60.0
_COLUMNS = (
    "(SELECT slug FROM tenants_tenant WHERE tenants_tenant.id = tenant_id), qos_class, worker_id, outcome, "
    "prompt_tokens, cached_tokens, completion_tokens, admitted_at, claimed_at, first_token_at, finished_at"
)


@dataclass(frozen=True, slots=True)
class Served:
    """One request that an engine ran; all times are seconds since 1970.

    Attributes:
        tenant: slug.
        qos_class: "p0", "p1" or "p2".
        worker: worker id.
        prompt_tokens: of these ``cached_tokens`` came from the KV cache.
        completion_tokens: tokens of the answer.
        admitted_s: the gateway took it.
        claimed_s: the worker took it.
        first_token_s: None if it is not known, as without a stream.
        finished_s: it ended.
    """

    tenant: str
    qos_class: str
    worker: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    admitted_s: float
    claimed_s: float
    first_token_s: float | None
    finished_s: float

    @property
    def cost(self) -> float:
        """Service in weighted tokens."""
        return self._prompt_cost + self._answer_cost

    def cost_within(self, begin_s: float, end_s: float) -> float:
        """The part of the service that falls into an interval.

        The prompt's is spread evenly over the time from claim to first token, the answer's from there to the end.
        """
        middle_s = self.first_token_s
        prompt_end_s = self.finished_s if middle_s is None else middle_s
        answer_begin_s = self.claimed_s if middle_s is None else middle_s
        return self._prompt_cost * _overlap(self.claimed_s, prompt_end_s, begin_s, end_s) + (
            self._answer_cost * _overlap(answer_begin_s, self.finished_s, begin_s, end_s)
        )

    @property
    def _prompt_cost(self) -> float:
        return service_cost(self.prompt_tokens - self.cached_tokens, self.cached_tokens, 0)

    @property
    def _answer_cost(self) -> float:
        return service_cost(0, 0, self.completion_tokens)


def served(stack: Stack, since_s: float) -> list[Served]:
    """All requests that were admitted after ``since_s``, reached an engine and were answered wholly.

    Waits until every request has ended and has been settled.

    Raises:
        AssertionError: that did not happen within a minute.
    """
    wait_until(
        lambda: not stack.leftovers() and not stack.store().xlen("sl:settle"), SETTLED_S, "requests were never settled"
    )
    rows = [_decode(row) for row in stack.usage_rows(_COLUMNS) if row[3] == "completed" and row[8]]
    return [row for row in rows if row.admitted_s >= since_s]


def hit_rate(rows: Iterable[Served]) -> float:
    """Share of prompt tokens that came from the KV cache."""
    rows = list(rows)
    prompt = sum(row.prompt_tokens for row in rows)
    return sum(row.cached_tokens for row in rows) / prompt if prompt else 0.0


def _decode(row: tuple[object, ...]) -> Served:
    tenant, qos_class, worker, _, prompt, cached, completion, *times = row
    moments = [datetime.fromisoformat(str(at)).replace(tzinfo=UTC).timestamp() if at else None for at in times]
    return Served(tenant, qos_class, worker, prompt, cached, completion, *moments)  # type: ignore[arg-type]  # the columns' types


def _overlap(begin_s: float, end_s: float, from_s: float, to_s: float) -> float:
    """Part of ``begin_s``..``end_s`` that lies in ``from_s``..``to_s``, 0 to 1."""
    if end_s <= begin_s:
        return float(from_s <= begin_s < to_s)
    return max(0.0, min(end_s, to_s) - max(begin_s, from_s)) / (end_s - begin_s)
