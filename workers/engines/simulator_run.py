"""One job on the simulator: its choices, and the frames that become of their tokens."""

import asyncio
from collections import deque
from collections.abc import Sequence as ListLike
from time import time

import orjson

from domain.simulation.answers import Answer
from domain.simulation.scheduler import Sequence
from domain.usage import Usage
from workers.engines.openai_shapes import Choice, ChunkWriter, whole_answer
from workers.engines.port import EngineDead, Frame, Job, RequestFailed
from workers.engines.simulator_request import Asked


class Part:
    """One choice under way: its answer and the modelled sequence that produces it."""

    __slots__ = ("answer", "index", "logged", "run", "sequence", "told")

    def __init__(self, run: "Run", index: int, answer: Answer) -> None:
        self.run = run
        self.index = index
        self.answer = answer
        self.logged = self.told = answer.start
        self.sequence: Sequence[Part]


class Run:
    """The frames of one job, produced token by token and taken one by one.

    ``frames`` holds what was produced and not taken; ``ended`` says that no more will come, ``error`` how it ended
    if not well.
    """

    def __init__(self, job: Job, asked: Asked, model: str) -> None:
        self.job = job
        self.asked = asked
        self.parts: list[Part] = []
        self.frames: deque[Frame] = deque()
        self.ended = False
        self.error: EngineDead | RequestFailed | None = None
        self.tokens = 0
        self._model = model
        self._chat = job.endpoint == "chat"
        self._created = int(time())
        self._open = 0
        self._waiter: asyncio.Future[None] | None = None
        self._prompt_tokens = sum(prompt.tokens for prompt in asked.prompts)
        self._completed = 0
        self._resumed = bool(job.delivered_text or job.delivered_tokens)
        self._chunks = ChunkWriter(
            job.request_id, model, self._created, chat=self._chat, with_usage=asked.include_usage
        )

    def add_part(self, answer: Answer) -> Part:
        """One more choice; choices are numbered in the order in which they are added."""
        part = Part(self, len(self.parts), answer)
        self.parts.append(part)
        self._open += 1
        self._completed += answer.start
        return part

    def take_token(self, part: Part) -> None:
        """The next token of ``part`` is there."""
        answer = part.answer
        if self.job.stream and part.sequence.produced == answer.start + 1:
            self._open_stream(part)
        self.tokens += 1
        self._completed += 1
        position = part.sequence.produced - 1
        last = position == len(answer.tokens) - 1
        if self.job.stream:
            self._stream_token(part, position, last)
        if last:
            self._open -= 1
            if not self._open:
                self._finish()

    def fail(self, error: EngineDead | RequestFailed) -> None:
        """End the job with ``error``, after the frames that are there."""
        if not self.ended:
            self.ended = True
            self.error = error
        self.wake()

    def wake(self) -> None:
        """Let whoever waits in ``wait`` look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Return when there is something new."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _open_stream(self, part: Part) -> None:
        if self._chat and not self._resumed:
            self._put(self._chunks.role(part.index))
        if self.asked.tool is not None:
            self._put(self._chunks.tool_call(part.index, self._call_id(part), self.asked.tool[0]))

    def _stream_token(self, part: Part, position: int, last: bool) -> None:
        text = part.answer.emitted[position]
        reason = part.answer.finish_reason if last else None
        if self.asked.tool is not None:
            self._put(self._chunks.tool_arguments(part.index, text, reason), self._new_ids(part, position))
        elif text or last:
            data = self._chunks.text(part.index, text, reason, self._logprobs(part, position))
            self._put(data, self._new_ids(part, position))

    def _new_ids(self, part: Part, position: int) -> tuple[int, ...]:
        """The model's tokens have no numbers but their places in the answer."""
        ids = tuple(range(part.told, position + 1)) if len(self.parts) == 1 else ()
        part.told = position + 1
        return ids

    def _finish(self) -> None:
        self.ended = True
        if not self.job.stream:
            choices = [self._choice(part) for part in self.parts]
            usage = self._usage()
            head = (self.job.request_id, self._model, self._created)
            self._put(whole_answer(*head, choices, usage, chat=self._chat))
        elif self.asked.include_usage:
            self._put(self._chunks.usage(self._usage()))

    def _put(self, data: bytes, token_ids: tuple[int, ...] = ()) -> None:
        self.frames.append(Frame(data, self._usage(), token_ids))

    def _usage(self) -> Usage:
        if len(self.parts) == 1:
            cached = self.parts[0].sequence.cached_tokens
        else:
            # Choices of one prompt share it: what its first choice found in the cache counts once.
            cached = sum(part.sequence.cached_tokens for part in self.parts[:: self.asked.choices])
        return Usage(self._prompt_tokens, cached, self._completed)

    def _choice(self, part: Part) -> Choice:
        answer = part.answer
        name = self.asked.tool[0] if self.asked.tool is not None else ""
        text = "".join(answer.emitted[answer.start :])
        logprobs = self._logprobs(part, len(answer.tokens) - 1)
        return Choice(part.index, text, answer.finish_reason, logprobs, name, self._call_id(part) if name else "")

    def _call_id(self, part: Part) -> str:
        return f"call_{self.job.request_id.replace('-', '')}{part.index}"

    def _logprobs(self, part: Part, position: int) -> bytes | None:
        top = self.asked.logprobs
        if top is None:
            return None
        tokens = part.answer.tokens[part.logged : position + 1]
        offset = sum(map(len, part.answer.tokens[: part.logged]))
        part.logged = position + 1
        return _chat_logprobs(tokens, top) if self._chat else _text_logprobs(tokens, top, offset)


def _alternatives(token: str, top: int) -> list[tuple[str, float]]:
    """Made-up but well-formed: the token itself first, then ever less likely ones."""
    own = -0.1 * (1 + len(token) % 7)
    return [(token if rank == 0 else f"{token}{rank}", own - rank) for rank in range(max(top, 1))]


def _chat_logprobs(tokens: ListLike[str], top: int) -> bytes:
    content = []
    for token in tokens:
        rows = [
            {"token": text, "logprob": logprob, "bytes": list(text.encode())}
            for text, logprob in _alternatives(token, top)
        ]
        content.append({**rows[0], "top_logprobs": rows[:top]})
    return orjson.dumps({"content": content, "refusal": None})


def _text_logprobs(tokens: ListLike[str], top: int, offset: int) -> bytes:
    rows = [_alternatives(token, top) for token in tokens]
    offsets = [offset]
    for token in tokens:
        offsets.append(offsets[-1] + len(token))
    return orjson.dumps(
        {
            "tokens": list(tokens),
            "token_logprobs": [row[0][1] for row in rows],
            "top_logprobs": [dict(row[:top]) for row in rows] if top else None,
            "text_offset": offsets[:-1],
        }
    )
