"""What came out: figures, verdict, and both as text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from domain.sameness import COSINE_TOLERANCE, Comparison, compare, cosine
from workers.engines.port import EngineInfo
from workers.verify.answers import Answer
from workers.verify.prompts import Prompt

_SHOWN_DIFFERENCES = 10


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over all prompts, in their order."""

    at_once: int
    took_s: float
    answers: tuple[Answer, ...]

    @property
    def tokens_per_s(self) -> float:
        """Tokens that were produced, or for embeddings read, each second."""
        return (
            sum(answer.usage.completion_tokens or answer.usage.prompt_tokens for answer in self.answers) / self.took_s
        )


@dataclass(frozen=True)
class Report:
    """Both passes, compared prompt by prompt."""

    info: EngineInfo
    tolerance_nats: float
    asked: Sequence[Prompt]
    alone: Pass
    batched: Pass

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """One for each prompt that was answered in text."""
        pairs = zip(self.alone.answers, self.batched.answers, strict=True)
        return [compare(one.tokens, other.tokens, self.tolerance_nats) for one, other in pairs if not one.embedding]

    @cached_property
    def cosines(self) -> list[float]:
        """One for each prompt that was embedded."""
        pairs = zip(self.alone.answers, self.batched.answers, strict=True)
        return [cosine(one.embedding, other.embedding) for one, other in pairs if one.embedding]

    @property
    def logprob_gap(self) -> float:
        """The largest difference of log-likelihood over all tokens that are the same, in nats."""
        return max((found.logprob_gap for found in self.comparisons), default=0.0)

    @property
    def verdict(self) -> str:
        """ "equal", "near-ties" (answers part only where rounding may choose) or "different"."""
        parted = [found.difference for found in self.comparisons if found.difference]
        likely = self.logprob_gap <= self.tolerance_nats
        close = all(value >= 1 - COSINE_TOLERANCE for value in self.cosines)
        if not likely or not close or not all(difference.is_near_tie for difference in parted):
            return "different"
        return "near-ties" if parted else "equal"

    def as_json(self) -> dict[str, Any]:
        """Everything but the answers themselves."""
        passes = {"alone": self.alone, "batched": self.batched}
        return {
            "verdict": self.verdict,
            "engine": asdict(replace(self.info, tokenization=None)),
            "prompts": len(self.asked),
            "tolerance_nats": self.tolerance_nats,
            "logprob_gap_nats": self.logprob_gap,
            "passes": {
                name: {"at_once": done.at_once, "took_s": done.took_s, "tokens_per_s": done.tokens_per_s}
                for name, done in passes.items()
            },
            "answers": [
                {"prompt": number, "endpoint": self.asked[number].endpoint, **asdict(found)}
                for number, found in enumerate(self.comparisons)
            ],
            "cosines": self.cosines,
        }

    def as_text(self) -> str:
        """For a person, the verdict last."""
        return "\n".join((*self._head(), "", *self._differences(), self._closing()))

    def _head(self) -> Iterator[str]:
        lengths = [answer.usage.prompt_tokens for answer in self.alone.answers]
        info, alone, batched = self.info, self.alone, self.batched
        yield f"engine      {info.engine}, {info.model}, {info.dtype}, version {info.version}"
        yield f"prompts     {len(self.asked)} for {', '.join(info.endpoints)}, {min(lengths)} to {max(lengths)} tokens"
        yield f"alone       {alone.took_s:8.1f} s  {alone.tokens_per_s:8.0f} tokens/s"
        yield f"batched     {batched.took_s:8.1f} s  {batched.tokens_per_s:8.0f} tokens/s, {batched.at_once} at once"
        if self.comparisons:
            same = sum(found.difference is None for found in self.comparisons)
            tokens, kept = sum(f.tokens for f in self.comparisons), sum(f.same_tokens for f in self.comparisons)
            allowed = f"{self.tolerance_nats:g} allowed in {info.dtype}"
            yield f"same        {same} of {len(self.comparisons)} answers, {kept} of {tokens} tokens"
            yield f"likelihood  off by {self.logprob_gap:.1e} nats at most, {allowed}"
        if self.cosines:
            off = [1 - value for value in self.cosines]
            mean = sum(off) / len(off)
            yield f"cosine      1 - {max(off):.1e} at least, 1 - {mean:.1e} on average, 1 - {COSINE_TOLERANCE:g} needed"

    def _differences(self) -> Iterator[str]:
        parted = [(number, found.difference) for number, found in enumerate(self.comparisons) if found.difference]
        if not parted:
            return
        yield "prompt  tokens  at token  alone           batched         gap (nats)"
        for number, found in parted[:_SHOWN_DIFFERENCES]:
            tokens = self.alone.answers[number].usage.prompt_tokens
            gap = "unknown" if found.gap_nats is None else f"{found.gap_nats:.4f}"
            kind = "near-tie" if found.is_near_tie else "real"
            said = f"{found.alone!r:14.14}  {found.batched!r:14.14}"
            yield f"{number + 1:6}  {tokens:6}  {found.place:8}  {said}  {gap}, {kind}"
        if len(parted) > _SHOWN_DIFFERENCES:
            yield f"... and {len(parted) - _SHOWN_DIFFERENCES} more"
        yield ""

    def _closing(self) -> str:
        if self.verdict == "equal":
            return "Equal: a batch means the same as each of its prompts alone."
        if self.verdict == "near-ties":
            return f"Different, but only where two tokens are so close that rounding in {self.info.dtype} may choose."
        return "Different: this engine does not compute in a batch what it computes alone."
