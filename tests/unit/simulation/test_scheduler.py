"""The modelled scheduler ends every sequence, within its budget and its blocks."""

from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.simulation.blocks import BlockPool, prefix_hashes
from domain.simulation.scheduler import Scheduler, Sequence

BLOCK = 4


def scheduler_of(blocks: int = 64, seats: int = 4, budget: int = 16) -> Scheduler[str]:
    return Scheduler(BlockPool(blocks, BLOCK), seats, budget)


def sequence_of(name: str, prompt: int = 8, target: int = 4, priority: int = 0, salt: str = "") -> Sequence[str]:
    hashes = prefix_hashes(b"x" * prompt, salt or name, BLOCK)
    return Sequence(name, prompt, target, priority, hashes)


def step(scheduler: Scheduler[str], now_s: float = 0.0) -> list[str]:
    return [sequence.owner for sequence in scheduler.commit(scheduler.plan(now_s))]


def run_dry(scheduler: Scheduler[str], most_steps: int = 10_000) -> list[str]:
    """Names in the order in which they ended."""
    ended: list[str] = []
    for _ in range(most_steps):
        planned = scheduler.plan(0.0)
        if not planned.chunks:
            break
        ended += [sequence.owner for sequence in scheduler.commit(planned) if sequence.gone]
    return ended


def test_a_step_gives_every_running_sequence_one_token() -> None:
    scheduler = scheduler_of()
    for name in "ab":
        scheduler.add(sequence_of(name))

    assert [step(scheduler) for _ in range(5)] == [["a", "b"]] * 4 + [[]]


def test_a_long_prompt_is_computed_in_chunks_beside_decoding() -> None:
    scheduler = scheduler_of(budget=16)
    scheduler.add(sequence_of("short", prompt=4, target=8))
    assert step(scheduler) == ["short"]
    scheduler.add(sequence_of("long", prompt=40, target=1))

    assert [step(scheduler) for _ in range(3)] == [["short"], ["short"], ["short", "long"]]


def test_never_more_than_the_seats_run() -> None:
    scheduler = scheduler_of(seats=2)
    for name in "abcd":
        scheduler.add(sequence_of(name))

    assert step(scheduler) == ["a", "b"]
    assert len(scheduler.running) == 2
    assert scheduler.max_waiting == 4
    assert run_dry(scheduler) == ["a", "b", "c", "d"]


def test_the_more_urgent_waits_less() -> None:
    scheduler = scheduler_of(seats=1)
    for name, priority in (("late", 20), ("soon", 10), ("now", 0), ("soon too", 10)):
        scheduler.add(sequence_of(name, priority=priority))

    assert run_dry(scheduler) == ["now", "soon", "soon too", "late"]


def test_an_equal_prefix_is_computed_once() -> None:
    scheduler = scheduler_of()
    first, second = sequence_of("a", prompt=12, salt="s"), sequence_of("b", prompt=12, salt="s")
    scheduler.add(first)
    run_dry(scheduler)
    scheduler.add(second)
    planned = scheduler.plan(0.0)

    assert first.cached_tokens == 0
    assert second.cached_tokens == 8  # the last token is computed always, and so is its block
    assert planned.tokens == 4


def test_equal_prompts_of_one_step_are_computed_once() -> None:
    scheduler = scheduler_of(budget=64)
    sequences = [sequence_of(name, prompt=13, salt="s") for name in "abc"]
    for sequence in sequences:
        scheduler.add(sequence)
    planned = scheduler.plan(0.0)

    assert [sequence.cached_tokens for sequence in sequences] == [0, 12, 12]
    assert planned.tokens == 13 + 1 + 1
    assert [sequence.owner for sequence in scheduler.commit(planned)] == ["a", "b", "c"]


def test_the_less_urgent_gives_up_its_blocks() -> None:
    scheduler = scheduler_of(blocks=8, budget=64)
    low, high = (
        sequence_of("low", prompt=12, target=16, priority=20),
        sequence_of("high", prompt=12, target=16, priority=0),
    )
    scheduler.add(low)
    step(scheduler)
    scheduler.add(high)

    assert run_dry(scheduler) == ["high", "low"]
    assert low.preemptions > 0
    assert high.preemptions == 0
    assert scheduler.pool.free == 8


def test_a_held_back_sequence_computes_its_prompt_and_waits() -> None:
    scheduler = scheduler_of()
    held = sequence_of("held")
    held.ready_at_s = 2.0
    scheduler.add(held)

    assert step(scheduler, 0.0) == []
    assert held.computed == 7
    assert not scheduler.plan(1.0).chunks
    assert scheduler.next_ready_s(1.0) == 2.0
    assert step(scheduler, 2.0) == ["held"]


def test_a_silent_sequence_does_not_stop_the_others() -> None:
    scheduler = scheduler_of(seats=2)
    silent = sequence_of("silent")
    silent.ready_at_s = inf
    scheduler.add(silent)
    for name in "abc":
        scheduler.add(sequence_of(name))

    assert run_dry(scheduler) == ["a", "b", "c"]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_aborting_frees_everything_once(steps: int) -> None:
    scheduler = scheduler_of(seats=1)
    running, waiting = sequence_of("a"), sequence_of("b")
    scheduler.add(running)
    scheduler.add(waiting)
    for _ in range(steps):
        step(scheduler)
    for sequence in (running, waiting, running):
        scheduler.abort(sequence)

    assert scheduler.pool.free == scheduler.pool.blocks
    assert not scheduler.running
    assert not scheduler.waiting


def test_what_was_aborted_during_a_step_gets_no_token() -> None:
    scheduler = scheduler_of()
    gone, stays = sequence_of("gone"), sequence_of("stays")
    scheduler.add(gone)
    scheduler.add(stays)
    planned = scheduler.plan(0.0)
    scheduler.abort(gone)

    assert scheduler.commit(planned) == [stays]


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="KV cache"):
        scheduler_of(blocks=2).add(sequence_of("huge", prompt=8, target=1))


def test_an_answer_begun_elsewhere_goes_on() -> None:
    scheduler = scheduler_of()
    begun = sequence_of("begun", target=5)
    begun.produced = 3
    scheduler.add(begun)

    assert [step(scheduler) for _ in range(3)] == [["begun"], ["begun"], []]
    assert begun.produced == 5


@dataclass(frozen=True, slots=True)
class Load:
    """One sequence of a generated workload, and the step at which it comes or is aborted."""

    prompt: int
    target: int
    priority: int
    salt: int
    arrives: int
    aborts: int | None


LOADS = st.lists(
    st.builds(
        Load,
        prompt=st.integers(1, 30),
        target=st.integers(1, 12),
        priority=st.sampled_from([0, 10, 20]),
        salt=st.integers(0, 2),
        arrives=st.integers(0, 20),
        aborts=st.none() | st.integers(0, 60),
    ),
    max_size=14,
)


@settings(max_examples=200, deadline=None)
@given(LOADS, st.integers(11, 40), st.integers(1, 6), st.integers(1, 24))
def test_every_sequence_ends_within_budget_seats_and_blocks(
    loads: list[Load], blocks: int, seats: int, budget: int
) -> None:
    scheduler: Scheduler[int] = Scheduler(BlockPool(blocks, BLOCK), seats, budget)
    sequences = [
        Sequence(index, load.prompt, load.target, load.priority, prefix_hashes(b"x" * load.prompt, str(load.salt), 4))
        for index, load in enumerate(loads)
    ]
    tokens = [0] * len(loads)
    for now in range(20_000):
        for load, sequence in zip(loads, sequences, strict=True):
            if load.arrives == now:
                scheduler.add(sequence)
            if load.aborts == now and load.arrives <= now:
                scheduler.abort(sequence)
        planned = scheduler.plan(float(now))
        assert planned.tokens == sum(chunk for _, chunk in planned.chunks) <= budget
        assert all(chunk > 0 for _, chunk in planned.chunks)
        assert len(scheduler.running) <= seats
        _check_blocks(scheduler)
        for sequence in scheduler.commit(planned):
            tokens[sequence.owner] += 1
        if now > 60 and not planned.chunks:
            break

    assert not scheduler.running
    assert not scheduler.waiting
    assert scheduler.pool.free == blocks
    for load, count, sequence in zip(loads, tokens, sequences, strict=True):
        assert sequence.gone
        assert count <= load.target
        if load.aborts is None:
            assert count == load.target


def _check_blocks(scheduler: Scheduler[int]) -> None:
    held = {block for sequence in scheduler.running for block in sequence.blocks}
    assert scheduler.pool.free == scheduler.pool.blocks - len(held)
    for sequence in scheduler.running:
        assert len(set(sequence.blocks)) == len(sequence.blocks)
        assert len(sequence.blocks) * BLOCK >= sequence.computed


def test_a_block_of_the_step_in_which_its_sequence_is_preempted_cannot_be_found() -> None:
    scheduler = scheduler_of(blocks=6)
    low, high = sequence_of("low", prompt=16, target=1, priority=20), sequence_of("high", prompt=8, target=4)
    low.ready_at_s = 2.0
    scheduler.add(low)
    step(scheduler, 0.0)  # all but its last token
    scheduler.add(high)
    step(scheduler, 1.0)
    planned = scheduler.plan(2.0)

    assert [sequence.owner for sequence, _ in planned.chunks] == ["high"]
    assert low.preemptions == 1
    assert len(scheduler.pool.share(low.hashes)) == 3


@settings(max_examples=300, deadline=None)
@given(LOADS, st.integers(11, 20), st.integers(2, 6), st.integers(1, 24))
def test_no_prefix_is_found_that_was_not_computed(loads: list[Load], blocks: int, seats: int, budget: int) -> None:
    scheduler: Scheduler[int] = Scheduler(BlockPool(blocks, BLOCK), seats, budget)
    sequences = [
        Sequence(index, load.prompt, load.target, load.priority, prefix_hashes(b"x" * load.prompt, str(load.salt), 4))
        for index, load in enumerate(loads)
    ]
    computed: set[bytes] = set()
    for now in range(100):
        for load, sequence in zip(loads, sequences, strict=True):
            if load.arrives == now:
                scheduler.add(sequence)
        planned = scheduler.plan(float(now))
        scheduler.commit(planned)
        for sequence, _ in planned.chunks:
            computed.update(sequence.hashes[: sequence.computed // BLOCK])
        for sequence in sequences:
            found = scheduler.pool.share(sequence.hashes)
            scheduler.pool.release(found)
            assert computed.issuperset(sequence.hashes[: len(found)])


@given(st.integers(2, 12), st.integers(1, 3))
def test_equal_priorities_end_in_the_order_they_came(count: int, seats: int) -> None:
    scheduler = scheduler_of(seats=seats)
    names = [str(index) for index in range(count)]
    for name in names:
        scheduler.add(sequence_of(name))

    assert run_dry(scheduler) == names
