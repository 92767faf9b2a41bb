"""The simulator's wording: from what is asked to the answer, token by token, before any of it is produced."""

from dataclasses import dataclass

import orjson

from domain.simulation.answers import (
    Answer,
    apply_stops,
    big_tokens,
    cut,
    multibyte_tokens,
    natural_length,
    question_key,
    resume,
    words,
)
from domain.simulation.schema_instance import UnsupportedSchema, instance_of
from workers.engines.port import Job
from workers.engines.simulator_request import Asked, Prompt, rejected


@dataclass(frozen=True, slots=True)
class Model:
    """What decides the model's answers; ``wrong`` is set once it computes garbage."""

    seed: int
    max_model_len: int
    wrong: bool = False

    def key(self, prompt: bytes, request_seed: int | None, choice: int) -> bytes:
        """Digest from which the answer to ``prompt`` follows."""
        return question_key(self.seed, prompt, request_seed, f"{choice}{'!' if self.wrong else ''}")


def word_answer(model: Model, asked: Asked, prompt: Prompt, choice: int, job: Job) -> Answer:
    """The answer number ``choice`` to ``prompt``, with what earlier attempts delivered taken off.

    Raises:
        RequestRejected: a JSON schema of which the simulator can make no instance.
    """
    limit = model.max_model_len - prompt.tokens
    if asked.max_tokens is not None:
        limit = min(limit, asked.max_tokens)
    answer = _uninterrupted(asked, model.key(prompt.data, asked.seed, choice), limit)
    if asked.stops and asked.schema is None and asked.tool is None:
        answer = apply_stops(answer, asked.stops, asked.min_tokens, keep_stop=asked.keep_stop)
    if asked.echo:
        emitted = [prompt.text + answer.emitted[0], *answer.emitted[1:]]
        answer = Answer(answer.tokens, emitted, answer.finish_reason)
    if job.delivered_text or job.delivered_tokens:
        exact = len(job.delivered_ids) == job.delivered_tokens > 0
        answer = resume(answer, job.delivered_text, job.delivered_tokens, exact=exact)
    return answer


def _uninterrupted(asked: Asked, key: bytes, limit: int) -> Answer:
    if asked.tool is not None:
        ended = "stop" if asked.tool_named else "tool_calls"
        return _bounded(cut(_json_of(asked.tool[1])), limit, ended)
    if asked.schema is not None:
        return _bounded(cut(_json_of(asked.schema)), limit, "stop")
    if asked.faults.big is not None:
        return _bounded(big_tokens(key, asked.faults.big, limit), limit, "stop")
    length = _length(asked, key, limit)
    count = min(length, limit)
    tokens = multibyte_tokens(count) if asked.faults.utf8 else words(key, count)
    return Answer(tokens, tokens, "stop" if length <= limit else "length")


def _length(asked: Asked, key: bytes, limit: int) -> int:
    if asked.faults.tokens is not None:
        return asked.faults.tokens
    if asked.ignore_eos:
        return limit + 1  # more than is allowed, so that the answer is cut and says so
    return max(natural_length(key), asked.min_tokens)


def _bounded(tokens: list[str], limit: int, ended: str) -> Answer:
    if len(tokens) > limit:
        return Answer(tokens[:limit], tokens[:limit], "length")
    return Answer(tokens, tokens, ended)


def _json_of(schema: object) -> str:
    try:
        return orjson.dumps(instance_of(schema)).decode()
    except (UnsupportedSchema, TypeError, RecursionError) as error:
        raise rejected(f"The JSON schema cannot be satisfied: {error}", "response_format") from error
