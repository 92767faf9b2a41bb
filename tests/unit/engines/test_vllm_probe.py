"""The probe: what it compares, and how it tells a slow engine from a hung one."""

import asyncio
from collections.abc import Sequence

import pytest

from workers.engines import vllm_probe
from workers.engines.known_answer import GreedyAnswer, Reference
from workers.engines.port import EngineDead
from workers.engines.vllm_arguments import PROBE_SEQS
from workers.engines.vllm_probe import Probe

ANSWERS = tuple(GreedyAnswer(f"question {number}", (number,), (7, 8, number)) for number in range(4))
REFERENCE = Reference("somebody", (1, 2, 3), (0.5, 0.25), ANSWERS)


class Computer:
    """Answers as the reference does; ``looks`` is how often it lets the probe look before it answers."""

    def __init__(self, *, looks: int = 0, moves: bool = True) -> None:
        self.nll = [0.5, 0.25]
        self.wrong_greedy = False
        self.dead = False
        self.most_at_once = 0
        self._at_once = 0
        self._looks = looks
        self._moves = moves
        self._steps = 0

    def steps_made(self) -> int:
        self._steps += self._moves
        return self._steps

    def tokenize(self, text: str) -> list[int]:
        return [1, 2, 3]

    async def likelihood(self, tokens: Sequence[int]) -> list[float]:
        await self._compute()
        return self.nll

    async def greedy(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        await self._compute()
        return (7, 8, prompt[0] + self.wrong_greedy)[:count]

    async def _compute(self) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._looks * vllm_probe.LOOK_S)
        self._at_once -= 1
        if self.dead:
            raise EngineDead("gone")


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_probe, "LOOK_S", 0.01)


async def test_a_right_engine_passes_in_the_places_kept_for_the_probe() -> None:
    computer = Computer()
    await Probe(computer, REFERENCE, "float32").prove()

    assert computer.most_at_once == PROBE_SEQS


async def test_a_wrong_likelihood_is_told_with_what_was_expected() -> None:
    computer = Computer()
    computer.nll = [0.5, 0.75]
    with pytest.raises(EngineDead, match=r"known-answer probe: mean NLL: expected 0.3750 .* found 0.6250"):
        await Probe(computer, REFERENCE, "bfloat16").prove()


async def test_wrong_greedy_tokens_count_in_float32_only() -> None:
    computer = Computer()
    computer.wrong_greedy = True
    await Probe(computer, REFERENCE, "bfloat16").prove()
    with pytest.raises(EngineDead, match=r"known-answer probe: greedy tokens of 'question"):
        await Probe(computer, REFERENCE, "float32").prove()


async def test_without_a_reference_only_finite_numbers_are_asked_for() -> None:
    computer = Computer()
    computer.nll = [9.0, 9.0]
    await Probe(computer, None, "float32").prove()
    computer.nll = [9.0, float("nan")]
    with pytest.raises(EngineDead, match="not finite at token 2"):
        await Probe(computer, None, "float32").prove()


async def test_an_engine_that_died_meanwhile_is_told_as_such() -> None:
    computer = Computer()
    computer.dead = True
    with pytest.raises(EngineDead, match=r"^gone$"):
        await Probe(computer, REFERENCE, "float32").prove()


@pytest.mark.usefixtures("short_looks")
async def test_a_slow_engine_that_makes_steps_is_waited_for() -> None:
    await Probe(Computer(looks=2 * vllm_probe.IDLE_LOOKS), None, "float32").prove()


@pytest.mark.usefixtures("short_looks")
async def test_an_engine_that_makes_no_step_has_hung() -> None:
    with pytest.raises(EngineDead, match="no step of the engine"):
        await Probe(Computer(looks=1_000_000, moves=False), None, "float32").prove()


@pytest.mark.usefixtures("short_looks")
async def test_steps_without_an_answer_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_probe, "TIMEOUT_S", 0.05)
    with pytest.raises(EngineDead, match=r"expected an answer within 0\.05 s"):
        await Probe(Computer(looks=1_000_000), None, "float32").prove()
