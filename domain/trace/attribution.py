"""Where the time of the slow requests went: the attribution tree (requirement W16).

The root is the 95th percentile of a time over a selection of requests. It is split by what the requests at and above it
spent in each stage: a share of the root is the stage's part of all their time, so shares add up to 1 however the
lengths are spread. A child of 15 % or more becomes a branch, the rest of its siblings are gathered into one leaf. A hop
from process to process that takes 2 ms or more carries an amplification factor: how many times as long it takes in the
slow requests as in the typical one (the median of the selection). A branch that is mostly one worker's or one tenant's
doing says whose: of the requests that it holds up like the slow ones, more are theirs than chance explains.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from domain.trace.stages import AFTER_FIRST_TOKEN, GROUPS, HOPS, STAGES, Stage

PERCENTILE = 0.95
BRANCH_SHARE = 0.15
HOP_MS = 2.0
CONCENTRATED_SHARE = 0.6
CONCENTRATED_TIMES = 1.5
ALIKE = 0.5
"""A request is held up like the slow ones by a stage that takes half as long as in them, or longer."""

CHANCE = 0.01
TTFT, DURATION = "ttft", "duration"
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Sample:
    """What the tree needs of one request.

    Attributes:
        lengths_us: of its stages, in the order of :data:`domain.trace.stages.STAGES`.
        time_us: the time that is explained: to the first token, or the whole.
        worker_id, tenant: whose it was; "" for nobody's.
    """

    lengths_us: tuple[int, ...]
    time_us: int
    worker_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Culprit:
    """One worker or tenant that holds most of a branch.

    Attributes:
        kind: "worker" or "tenant".
        name: which one.
        share: of the requests that the branch holds up like the slow ones.
        of_requests: its share of all requests of the selection.
    """

    kind: str
    name: str
    share: float
    of_requests: float


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the time.

    Attributes:
        name: "ttft" or "duration" for the root, a group, a stage, or "other" for what was gathered.
        share: of the root, 0 to 1.
        ms: the same as time of the 95th percentile.
        slow_ms: mean in the slow requests; ``typical_ms`` median over the selection.
        amplification: of a hop of 2 ms or more: how many times its typical length; None for others.
        culprit: who holds most of it, if somebody does.
        children: largest first, the gathered rest last; they add up to this node.
        gathered: names of what the rest is made of.
    """

    name: str
    share: float
    ms: float
    slow_ms: float
    typical_ms: float
    amplification: float | None = None
    culprit: Culprit | None = None
    children: tuple["Node", ...] = ()
    gathered: tuple[str, ...] = ()

    def find(self, name: str) -> "Node | None":
        """The node of that name below or at this one."""
        if self.name == name:
            return self
        return next((found for child in self.children if (found := child.find(name))), None)


@dataclass(frozen=True, slots=True)
class Tree:
    """The answer.

    Attributes:
        root: the time and its parts.
        requests: of the selection; ``slow`` of them are at or above the percentile.
    """

    root: Node
    requests: int
    slow: int


@dataclass(frozen=True, slots=True)
class Change:
    """What one stage takes in two selections: mean ms of their slow requests, and how many times as much."""

    name: str
    before_ms: float
    after_ms: float

    @property
    def added_ms(self) -> float:
        """What it takes more."""
        return self.after_ms - self.before_ms


def attribute(samples: Sequence[Sample], measure: str = TTFT) -> Tree | None:
    """Build the tree of a selection; None for an empty one.

    Args:
        samples: all requests of the selection that have the time in question.
        measure: "ttft" leaves out the stages after the first token.
    """
    if not samples:
        return None
    bound_us = percentile([sample.time_us for sample in samples], PERCENTILE)
    slow = [sample for sample in samples if sample.time_us >= bound_us]
    builder = _Builder(samples, slow, bound_us)
    used = [stage for stage in STAGES if measure == DURATION or stage not in AFTER_FIRST_TOKEN]
    groups = [
        builder.node(name, own, tuple(builder.node(stage.value, (stage,)) for stage in own))
        for name, stages in GROUPS.items()
        if (own := tuple(stage for stage in stages if stage in used))
    ]
    return Tree(builder.node(measure, tuple(used), tuple(groups)), len(samples), len(slow))


def compare(before: Sequence[Sample], after: Sequence[Sample], measure: str = TTFT) -> list[Change]:
    """What changed between two selections, stage by stage, the largest change first; empty if one of them is."""
    if not before or not after:
        return []
    means = [_slow_means_ms(samples) for samples in (before, after)]
    changes = [
        Change(stage.value, means[0][number], means[1][number])
        for number, stage in enumerate(STAGES)
        if measure == DURATION or stage not in AFTER_FIRST_TOKEN
    ]
    return sorted(changes, key=lambda change: -abs(change.added_ms))


def percentile(values: Sequence[int], share: float) -> int:
    """The value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _slow_means_ms(samples: Sequence[Sample]) -> list[float]:
    bound = percentile([sample.time_us for sample in samples], PERCENTILE)
    slow = [sample for sample in samples if sample.time_us >= bound]
    return [sum(sample.lengths_us[number] for sample in slow) / len(slow) / 1000 for number in range(len(STAGES))]


class _Builder:
    """Reckons nodes of one selection."""

    def __init__(self, samples: Sequence[Sample], slow: Sequence[Sample], bound_us: int) -> None:
        self._samples, self._slow, self._bound_us = samples, slow, bound_us
        self._total_us = sum(sample.time_us for sample in slow)

    def node(self, name: str, stages: Sequence[Stage], children: Sequence[Node] = ()) -> Node:
        """The node of some stages."""
        numbers = [STAGES.index(stage) for stage in stages]

        def length(sample: Sample) -> int:
            return sum(sample.lengths_us[number] for number in numbers)

        spent_us = sum(map(length, self._slow))
        slow_ms = spent_us / len(self._slow) / 1000
        typical_ms = percentile([length(sample) for sample in self._samples], 0.5) / 1000
        is_hop = len(stages) == 1 and stages[0] in HOPS and slow_ms >= HOP_MS
        share = spent_us / self._total_us if self._total_us else 0.0
        return Node(
            name,
            share,
            share * self._bound_us / 1000,
            slow_ms,
            typical_ms,
            slow_ms / max(typical_ms, 0.001) if is_hop else None,
            self._culprit(length, spent_us) if len(stages) == 1 and share >= BRANCH_SHARE else None,
            self._branches(children),
        )

    def _branches(self, children: Sequence[Node]) -> tuple[Node, ...]:
        """Children that are branches, and one leaf for the others."""
        ordered = sorted(children, key=lambda node: -node.share)
        branches = [node for node in ordered if node.share >= BRANCH_SHARE]
        rest = [node for node in ordered if node.share < BRANCH_SHARE and node.share > 0]
        if rest:
            branches.append(
                Node(
                    OTHER,
                    sum(node.share for node in rest),
                    sum(node.ms for node in rest),
                    sum(node.slow_ms for node in rest),
                    sum(node.typical_ms for node in rest),
                    gathered=tuple(node.name for node in rest),
                )
            )
        return tuple(branches)

    def _culprit(self, length: Callable[[Sample], int], spent_us: int) -> Culprit | None:
        bound_us = ALIKE * spent_us / len(self._slow)
        held_up = [sample for sample in self._samples if length(sample) >= bound_us]
        for kind, whose in (("tenant", _tenant), ("worker", _worker)):
            name, count = Counter(map(whose, held_up)).most_common(1)[0]
            share = count / len(held_up)
            of_requests = sum(whose(sample) == name for sample in self._samples) / len(self._samples)
            is_much = share >= CONCENTRATED_SHARE and share >= CONCENTRATED_TIMES * of_requests
            if name and is_much and _by_chance(count, len(held_up), of_requests) < CHANCE:
                return Culprit(kind, name, share, of_requests)
        return None


def _by_chance(count: int, of: int, share: float) -> float:
    """How likely it is that ``count`` or more of so many requests are of somebody who has this share of all: the tail
    of the binomial distribution."""
    if share >= 1:
        return 1.0

    def likely(number: int) -> float:
        ways = lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1)
        return exp(ways + number * log(share) + (of - number) * log(1 - share))

    return sum(map(likely, range(count, of + 1)))


def _worker(sample: Sample) -> str:
    return sample.worker_id


def _tenant(sample: Sample) -> str:
    return sample.tenant
