"""The verdict: equal, near-ties, different."""

import math

import pytest

from domain.sameness import Token
from domain.usage import Usage
from workers.engines.port import EngineInfo
from workers.verify.answers import Answer
from workers.verify.prompts import Prompt
from workers.verify.report import Pass, Report

INFO = EngineInfo("vllm", "m", "1.0.0-abc", "float32", 100, 4, {})
USAGE = Usage(5, 0, 1)


def said(text: str, logprob: float = -0.5, **candidates: float) -> Answer:
    return Answer(USAGE, (Token(-1, text, logprob, {text: logprob, **candidates}),))


def embedded(*numbers: float) -> Answer:
    return Answer(Usage(5, 0, 0), embedding=numbers)


def report(alone: list[Answer], batched: list[Answer]) -> Report:
    asked = [Prompt("embeddings" if answer.embedding else "chat", "x") for answer in alone]
    return Report(INFO, 0.001, asked, Pass(1, 2.0, tuple(alone)), Pass(4, 1.0, tuple(batched)))


def test_equal_answers_are_equal() -> None:
    found = report([said("a"), said("b")], [said("a"), said("b", -0.5005)])

    assert found.verdict == "equal"
    assert "2 of 2 answers" in found.as_text()


def test_likelihoods_that_moved_too_far_are_different_though_all_tokens_are_equal() -> None:
    assert report([said("a")], [said("a", -0.6)]).verdict == "different"


def test_only_near_ties_are_called_so() -> None:
    found = report([said("a", -0.5, b=-0.501)], [said("b")])

    assert found.verdict == "near-ties"
    assert "near-tie" in found.as_text()


def test_one_real_difference_among_near_ties_is_different() -> None:
    near, real = said("a", -0.5, b=-0.501), said("a", -0.5, b=-3.0)

    assert report([near, real], [said("b"), said("b")]).verdict == "different"


@pytest.mark.parametrize(
    ("batched", "verdict"),
    [((1.0, 2.0), "equal"), ((2.0, 1.0), "different"), ((math.nan, 2.0), "different"), ((0.0, 0.0), "different")],
)
def test_embeddings_are_compared_by_their_cosine(batched: tuple[float, ...], verdict: str) -> None:
    found = report([embedded(1.0, 2.0)], [embedded(*batched)])

    assert found.verdict == verdict
    assert "cosine" in found.as_text()


def test_many_differences_are_shortened() -> None:
    text = report([said("a")] * 30, [said("z")] * 30).as_text()

    assert "... and 20 more" in text
