"""Known answers: what a healthy engine must compute, and how far it may be off.

A reference is made once, when a model is prepared, by an implementation that shares no code with the engine
(``workers.engines.models.numpy_llama``). Likelihood is compared within a tolerance for each dtype; greedy tokens only
in float32, where one step's rounding (about 1e-5) is far below the margin that every stored token has.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REFERENCE_NAME = "reference.json"

MIN_MARGIN = 0.05
"""Natural-log distance from the best to the second-best token below which no greedy token is stored."""


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """One prompt and the tokens that follow it greedily; both are token ids."""

    label: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The known answers of one model.

    Attributes:
        made_by: the implementation that computed them.
        text_tokens: token ids of the stored text.
        nll: negative log-likelihood (nats) of each of ``text_tokens`` but the first, given those before it.
        greedy: prompts with their greedy continuations.
    """

    made_by: str
    text_tokens: tuple[int, ...]
    nll: tuple[float, ...]
    greedy: tuple[GreedyAnswer, ...]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far the likelihood may be off, in nats: on average over the text, and for any one token."""

    mean: float
    worst: float


TOLERANCES: dict[str, Tolerance] = {
    # Measured over 135 tokens of one model on CPUs: float32 1.4e-5 a token, bfloat16 0.10 to 0.14 a token and at most
    # 0.005 on average. Each bound is several times that, and far below what a wrong kernel or weight costs (over 0.1).
    "float32": Tolerance(mean=0.001, worst=0.01),
    "float16": Tolerance(mean=0.01, worst=0.25),
    "bfloat16": Tolerance(mean=0.03, worst=0.75),
}


class WrongAnswer(Exception):
    """An engine's answer differs from the known one; the message says what was expected and what was found."""


def load_reference(path: Path) -> Reference | None:
    """Read a stored reference; None if there is none."""
    if not path.is_file():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    greedy = tuple(GreedyAnswer(g["label"], tuple(g["prompt"]), tuple(g["tokens"])) for g in raw["greedy"])
    return Reference(raw["made_by"], tuple(raw["text_tokens"]), tuple(raw["nll"]), greedy)


def save_reference(path: Path, reference: Reference) -> None:
    """Write ``reference`` as JSON."""
    path.write_text(json.dumps(asdict(reference)), encoding="utf-8")


def check_finite(nll: Sequence[float]) -> None:
    """Accept any finite likelihood: all that can be asked without a reference.

    Raises:
        WrongAnswer: a value is not a number or infinite.
    """
    bad = [index for index, value in enumerate(nll) if not math.isfinite(value)]
    if bad:
        raise WrongAnswer(f"log-likelihood is not finite at token {bad[0] + 1} ({len(bad)} of {len(nll)} tokens)")


def check_likelihood(reference: Reference, nll: Sequence[float], dtype: str) -> None:
    """Compare the likelihood of the stored text with the reference.

    Raises:
        WrongAnswer: too few values, values that are not finite, or off by more than the dtype's tolerance.
    """
    if len(nll) != len(reference.nll):
        raise WrongAnswer(f"expected the likelihood of {len(reference.nll)} tokens, found {len(nll)}")
    check_finite(nll)
    tolerance = TOLERANCES[dtype]
    expected, found = _mean(reference.nll), _mean(nll)
    if abs(expected - found) > tolerance.mean:
        raise WrongAnswer(f"mean NLL: expected {expected:.4f} within {tolerance.mean} ({dtype}), found {found:.4f}")
    worst = max(range(len(nll)), key=lambda index: abs(nll[index] - reference.nll[index]))
    if abs(nll[worst] - reference.nll[worst]) > tolerance.worst:
        raise WrongAnswer(
            f"NLL of token {worst + 1}: expected {reference.nll[worst]:.4f} within {tolerance.worst} ({dtype}), "
            f"found {nll[worst]:.4f}"
        )


def check_greedy(answer: GreedyAnswer, tokens: Sequence[int]) -> None:
    """Compare greedy tokens one by one.

    Raises:
        WrongAnswer: they differ.
    """
    if tuple(tokens) != answer.tokens:
        raise WrongAnswer(f"greedy tokens of {answer.label!r}: expected {list(answer.tokens)}, found {list(tokens)}")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
