"""Fair order: which tenant is next inside a class, and which class is next (requirement W3).

Inside a class: virtual token counters, after Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024
(arXiv 2401.00588), with weights. :class:`FairOrder` is the reference in memory; the ready set keeps the same order in
the store.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from domain.qos import QosClass

UNCACHED_PROMPT_COST = 1.0
CACHED_PROMPT_COST = 0.1
OUTPUT_COST = 2.0
AGED_EVERY = 8


def service_cost(uncached_prompt: int, cached_prompt: int, output: int) -> float:
    """Weighted tokens of service for so many tokens of each kind.

    An output token counts as two of the prompt, as in the paper. A prompt token found in the KV cache is not computed
    again, yet it is read in every step: a tenth.
    """
    return UNCACHED_PROMPT_COST * uncached_prompt + CACHED_PROMPT_COST * cached_prompt + OUTPUT_COST * output


def next_class(
    oldest_wait_ms: Mapping[QosClass, float], taken_count: int, ageing_ms: Mapping[QosClass, float]
) -> QosClass | None:
    """The class whose turn it is, or None when nothing waits.

    The most urgent class is next; but every ``AGED_EVERY``-th item is one of the class whose oldest item is the most
    overdue, if any is. So an item with A before it in its aged class is taken within ``AGED_EVERY * (A + 1)``.

    Args:
        oldest_wait_ms: how long the oldest item of each class has waited; classes with nothing waiting are absent.
        taken_count: items taken so far, of all classes.
        ageing_ms: the wait after which a class has aged; absent for a class that never ages.
    """
    if taken_count % AGED_EVERY == AGED_EVERY - 1:
        overdue = {name: wait - ageing_ms[name] for name, wait in oldest_wait_ms.items() if name in ageing_ms}
        aged = [name for name in sorted(overdue) if overdue[name] > 0]
        if aged:
            return max(aged, key=overdue.__getitem__)
    return min(oldest_wait_ms, default=None)  # "p0" < "p1" < "p2"


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """One item in line. ``order``: its place inside the tenant, lower is earlier. ``prompt_cost``: weighted tokens."""

    tenant: str
    item_id: str
    order: float
    prompt_cost: float


class FairOrder:
    """The items of one model and class that wait, taken from the tenant with the smallest counter.

    A counter is the service a tenant got, in weighted tokens, divided by its weight. It grows by the prompt's cost when
    an item is taken and by :meth:`charge` while the item runs. Every operation takes O(log n), amortised.
    """

    def __init__(self) -> None:
        self._clock = 0.0  # the smallest counter at the last take: where newcomers start while nobody waits
        self._counters: dict[str, float] = {}
        self._weights: dict[str, float] = {}
        self._items: dict[str, WaitingItem] = {}
        self._lines: dict[str, list[tuple[float, str]]] = {}
        self._depths: dict[str, int] = {}
        # Each tenant that waits has one valid turn, no later than its counter; it is brought up to date at the head.
        self._turns: list[tuple[float, str]] = []
        self._turn_of: dict[str, float] = {}

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._items)

    def counter(self, tenant: str) -> float:
        """Service of a tenant so far, over its weight; lifted when it came back from idle."""
        return self._counters.get(tenant, 0.0)

    def arrive(self, tenant: str, weight: float, item_id: str, order: float, prompt_cost: float) -> None:
        """Put an item in line; one that waits already stays where it is.

        Raises:
            ValueError: ``weight`` is not positive.
        """
        if weight <= 0:
            raise ValueError(f"A weight must be positive, not {weight}.")
        self._weights[tenant] = weight
        if item_id in self._items:
            return
        if tenant not in self._lines:
            self._join(tenant)
        self._items[item_id] = WaitingItem(tenant, item_id, order, prompt_cost)
        self._depths[tenant] += 1
        heapq.heappush(self._lines[tenant], (order, item_id))

    def peek(self) -> WaitingItem | None:
        """The item that is next, or None when nothing waits."""
        tenant = self._first_tenant()
        if tenant is None:
            return None
        line = self._lines[tenant]
        while True:
            order, item_id = line[0]
            item = self._items.get(item_id)
            if item is not None and item.order == order:
                return item
            heapq.heappop(line)  # it was withdrawn

    def take(self) -> WaitingItem | None:
        """Take the next item and charge its prompt to its tenant; None when nothing waits."""
        item = self.peek()
        if item is None:
            return None
        self._clock = max(self._clock, self._counters[item.tenant])
        self.withdraw(item.item_id)
        self.charge(item.tenant, item.prompt_cost)
        return item

    def withdraw(self, item_id: str) -> bool:
        """Let an item leave without service (cancelled, expired); False if it does not wait."""
        item = self._items.pop(item_id, None)
        if item is None:
            return False
        self._depths[item.tenant] -= 1
        if not self._depths[item.tenant]:
            del self._depths[item.tenant], self._lines[item.tenant], self._turn_of[item.tenant]
        return True

    def charge(self, tenant: str, cost: float) -> None:
        """Add service to a tenant's counter; a negative cost corrects an estimate that was too high.

        Raises:
            KeyError: nothing of this tenant ever arrived.
        """
        counter = self._counters[tenant] + cost / self._weights[tenant]
        self._counters[tenant] = counter
        if tenant in self._turn_of and counter < self._turn_of[tenant]:
            self._give_turn(tenant)

    def _join(self, tenant: str) -> None:
        """Lift a tenant that had nothing waiting to the present, so that idle time earns no credit."""
        first = self._first_tenant()
        present = self._clock if first is None else self._counters[first]
        self._counters[tenant] = max(self.counter(tenant), present)
        self._lines[tenant] = []
        self._depths[tenant] = 0
        self._give_turn(tenant)

    def _give_turn(self, tenant: str) -> None:
        self._turn_of[tenant] = self._counters[tenant]
        heapq.heappush(self._turns, (self._counters[tenant], tenant))

    def _first_tenant(self) -> str | None:
        while self._turns:
            turn, tenant = self._turns[0]
            if self._turn_of.get(tenant) == turn == self._counters[tenant]:
                return tenant
            heapq.heappop(self._turns)
            if self._turn_of.get(tenant) == turn:
                self._give_turn(tenant)
        return None
