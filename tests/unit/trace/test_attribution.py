"""The attribution tree names what is to blame."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.trace.attribution import (
    BRANCH_SHARE,
    DURATION,
    OTHER,
    TTFT,
    Node,
    Sample,
    attribute,
    compare,
    percentile,
)
from domain.trace.stages import AFTER_FIRST_TOKEN, STAGES, Stage


def sample(worker: str = "w1", tenant: str = "acme", **ms: float) -> Sample:
    lengths = tuple(int(1000 * ms.get(stage.value, 0)) for stage in STAGES)
    before = sum(length for stage, length in zip(STAGES, lengths, strict=True) if stage not in AFTER_FIRST_TOKEN)
    return Sample(lengths, before, worker, tenant)


FAST = [sample(admit=1, transit=2, prefill=20, relay=1) for _ in range(95)]


def found(node: Node | None) -> Node:
    assert node is not None
    return node


def test_a_selection_without_requests_has_no_tree() -> None:
    assert attribute([]) is None


def test_what_slows_the_slow_requests_is_the_largest_branch() -> None:
    tree = attribute([*FAST, *(sample(admit=1, transit=180, prefill=20, relay=1) for _ in range(6))])
    assert tree is not None
    assert (tree.requests, tree.slow) == (101, 6)
    assert [child.name for child in tree.root.children] == ["celery", OTHER]
    transit = found(tree.root.find(Stage.TRANSIT.value))
    assert transit.share == pytest.approx(180 / 202)
    assert transit.ms == pytest.approx(180, rel=0.01)
    assert transit.amplification == pytest.approx(90)


def test_a_hop_below_two_ms_carries_no_factor_and_neither_does_what_is_no_hop() -> None:
    tree = attribute([sample(admit=1.9, prefill=2)])
    assert tree is not None
    assert found(tree.root.find("admit")).amplification is None
    assert found(tree.root.find("prefill")).amplification is None


def test_children_below_the_bound_are_gathered_by_name() -> None:
    tree = attribute([sample(receive=5, count=6, admit=20, prefill=69)])
    assert tree is not None
    gateway = found(tree.root.find("gateway"))
    rest = gateway.children[-1]
    assert [child.name for child in gateway.children[:-1]] == [
        "admit",
    ]
    assert rest.name == OTHER
    assert rest.gathered == ("count", "receive")
    assert rest.share == pytest.approx(0.11)


def test_one_workers_doing_is_told_as_such() -> None:
    slow = [sample(worker="w2", prefill=300, admit=1) for _ in range(6)]
    tree = attribute([*FAST, *slow])
    assert tree is not None
    culprit = found(tree.root.find("prefill")).culprit
    assert culprit is not None
    assert (culprit.kind, culprit.name, culprit.share) == ("worker", "w2", 1.0)


def test_one_tenants_doing_is_told_as_such() -> None:
    slow = [sample(tenant="big", engine_queue=300) for _ in range(6)]
    tree = attribute([*FAST, *slow])
    assert tree is not None
    culprit = found(tree.root.find("engine_queue")).culprit
    assert culprit is not None
    assert (culprit.kind, culprit.name) == ("tenant", "big")


def test_nobody_is_blamed_for_what_all_share() -> None:
    tree = attribute(
        [sample(worker=f"w{number % 2}", tenant=f"t{number % 3}", prefill=50 + number) for number in range(60)]
    )
    assert tree is not None
    assert found(tree.root.find("prefill")).culprit is None


def test_the_whole_time_counts_what_comes_after_the_first_token() -> None:
    long = sample(prefill=10, decode=90)
    tree = attribute([replace(long, time_us=100_000)], DURATION)
    assert tree is not None
    assert found(tree.root.find("decode")).share == pytest.approx(0.9)


def test_what_changed_most_comes_first() -> None:
    changes = compare(FAST, [sample(admit=1, transit=2, prefill=70, relay=1)] * 30)
    assert (changes[0].name, changes[0].added_ms) == ("prefill", pytest.approx(50))
    assert compare([], FAST) == []


_samples = st.builds(
    lambda lengths, worker, tenant: Sample(
        lengths,
        sum(length for stage, length in zip(STAGES, lengths, strict=True) if stage not in AFTER_FIRST_TOKEN),
        worker,
        tenant,
    ),
    st.tuples(*[st.integers(0, 10_000_000)] * len(STAGES)),
    st.sampled_from(["w1", "w2", ""]),
    st.sampled_from(["a", "b"]),
)


def leaves(node: Node) -> list[Node]:
    return [leaf for child in node.children for leaf in leaves(child)] if node.children else [node]


@given(st.lists(_samples, min_size=1, max_size=40))
def test_shares_of_every_level_add_up_to_their_parent(samples: list[Sample]) -> None:
    tree = attribute(samples, TTFT)
    assert tree is not None

    def check(node: Node) -> None:
        if node.children:
            assert math.isclose(sum(child.share for child in node.children), node.share, abs_tol=1e-9)
            assert all(child.share >= BRANCH_SHARE for child in node.children if child.name != OTHER)
        for child in node.children:
            check(child)

    check(tree.root)
    if any(one.time_us for one in samples):
        assert math.isclose(tree.root.share, 1.0, abs_tol=1e-9)
        assert math.isclose(sum(leaf.share for leaf in leaves(tree.root)), 1.0, abs_tol=1e-9)
    assert tree.slow >= 1


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=200))
def test_a_percentile_is_not_exceeded_by_its_share(values: list[int]) -> None:
    bound = percentile(values, 0.95)
    assert bound in values
    assert sum(value <= bound for value in values) >= 0.95 * len(values)
