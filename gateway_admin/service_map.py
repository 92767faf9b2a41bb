"""Who calls whom, made of the ways of the latest requests: nodes and the edges between them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypedDict

from domain.trace.attribution import HOP_MS, percentile
from domain.trace.stages import HOPS, STAGES, Stage
from tracing.store.recent import Passed

MOST = 4
"""Gateways, and workers, that are drawn one by one; the others are gathered."""

OTHERS = "…"


class Way(NamedTuple):
    """A kind of edge: from what to what, what passes there, and which stages tell its time.

    ``by`` is the side by which it is told apart: stages know the gateway and the worker of a request.
    """

    what: str
    source: str
    target: str
    by: str
    stages: tuple[Stage, ...]


WAYS = (
    Way("ask", "client", "gateway", "gateway", (Stage.RECEIVE,)),
    Way("answer", "gateway", "client", "gateway", (Stage.RELAY,)),
    Way("admit", "gateway", "store", "gateway", (Stage.ADMIT,)),
    Way("back", "store", "gateway", "gateway", (Stage.RETURN,)),
    Way("ticket", "gateway", "broker", "gateway", (Stage.TRANSIT,)),
    Way("ticket", "broker", "worker", "worker", (Stage.TRANSIT,)),
    Way("claim", "worker", "store", "worker", (Stage.CLAIM,)),
    Way("back", "worker", "store", "worker", (Stage.RETURN,)),
    Way("run", "worker", "engine", "worker", (Stage.PREPARE, Stage.ENGINE_QUEUE, Stage.PREFILL, Stage.DECODE)),
)
"""Ticket and way back pass through broker and store, and are measured from end to end: by gateway, and by worker."""


class NodeView(TypedDict):
    """A process, or what stands for several; ``id`` is ``<kind>:<name>``. ``requests`` passed it."""

    id: str
    kind: str
    name: str
    requests: int
    errors: int


class EdgeView(TypedDict):
    """What passes between two nodes.

    Attributes:
        source, target: ids of nodes.
        what: see :data:`WAYS`.
        requests: that passed; ``per_s`` of them.
        typical_ms: median; ``p95_ms`` 95th percentile; None where only errors are known.
        errors: requests that failed there with a status of 500 or more.
        is_hop: it goes from process to process; ``slow``: at 2 ms and more at the 95th percentile.
    """

    source: str
    target: str
    what: str
    requests: int
    per_s: float
    typical_ms: float | None
    p95_ms: float | None
    errors: int
    is_hop: bool
    slow: bool


class MapView(TypedDict):
    """All of it."""

    nodes: list[NodeView]
    edges: list[EdgeView]


def map_of(passed: Sequence[Passed], seconds: float) -> MapView:
    """Make the map of some requests that began within so many seconds."""
    gateways = _names(one.gateway_id for one in passed)
    workers = _names(one.worker_id for one in passed)
    edges = [edge for way in WAYS for edge in _edges(way, passed, gateways, workers, seconds)]
    return {"nodes": list(_nodes(passed, gateways, workers)), "edges": edges}


def _names(told: Iterable[str]) -> dict[str, str]:
    """By what name each process is drawn: its own, or that of the others."""
    ranked = [name for name, _count in Counter(name for name in told if name).most_common()]
    drawn = ranked if len(ranked) <= MOST else ranked[: MOST - 1]
    return {name: name if name in drawn else OTHERS for name in ranked}


def _nodes(passed: Sequence[Passed], gateways: dict[str, str], workers: dict[str, str]) -> Iterator[NodeView]:
    if not passed:
        return
    ran = [one for one in passed if one.worker_id]
    yield _node("client", "", passed)
    for name in dict.fromkeys(sorted(gateways.values())):
        yield _node("gateway", name, [one for one in passed if gateways[one.gateway_id] == name])
    yield _node("store", "", [])
    yield _node("broker", "", [])
    for kind in ("worker", "engine"):
        for name in dict.fromkeys(sorted(workers.values())):
            yield _node(kind, name, [one for one in ran if workers[one.worker_id] == name])


def _node(kind: str, name: str, passed: Sequence[Passed]) -> NodeView:
    errors = sum(one.status >= 500 for one in passed)
    return {"id": f"{kind}:{name}", "kind": kind, "name": name, "requests": len(passed), "errors": errors}


def _edges(
    way: Way, passed: Sequence[Passed], gateways: dict[str, str], workers: dict[str, str], seconds: float
) -> Iterator[EdgeView]:
    numbers = [STAGES.index(stage) for stage in way.stages]
    times: dict[str, list[int]] = defaultdict(list)
    errors: dict[str, int] = defaultdict(int)
    for one in passed:
        name = gateways.get(one.gateway_id) if way.by == "gateway" else workers.get(one.worker_id)
        if name is None:
            continue
        length_us = sum(one.lengths_us[number] for number in numbers)
        if length_us:
            times[name].append(length_us)
        if _failed_there(one, way.what):
            errors[name] += 1
    for name in sorted(times.keys() | errors.keys()):
        yield _edge(way, name, times[name], errors[name], seconds)


def _failed_there(one: Passed, what: str) -> bool:
    """What failed with a worker is put down to its engine, what failed before to the admission; clients see both."""
    if one.status < 500:
        return False
    return what == "answer" or (what == "run" and bool(one.worker_id)) or (what == "admit" and not one.worker_id)


def _edge(way: Way, name: str, times_us: Sequence[int], errors: int, seconds: float) -> EdgeView:
    p95_ms = percentile(times_us, 0.95) / 1000 if times_us else None
    is_hop = all(stage in HOPS for stage in way.stages)
    return {
        "source": _end(way.source, name),
        "target": _end(way.target, name),
        "what": way.what,
        "requests": len(times_us),
        "per_s": len(times_us) / seconds,
        "typical_ms": percentile(times_us, 0.5) / 1000 if times_us else None,
        "p95_ms": p95_ms,
        "errors": errors,
        "is_hop": is_hop,
        "slow": is_hop and p95_ms is not None and p95_ms >= HOP_MS,
    }


def _end(kind: str, name: str) -> str:
    return f"{kind}:" if kind in ("client", "store", "broker") else f"{kind}:{name}"
