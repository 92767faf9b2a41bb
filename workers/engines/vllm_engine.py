"""The real engine: vLLM's AsyncLLM in this process, fed through the serving layer of vLLM's own server."""

from workers.engines.vllm_environment import keep_offline, set_up

# isort: split
import asyncio
import hashlib
import json
import logging
from argparse import Namespace
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from importlib.metadata import entry_points
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import vllm
from pydantic import ValidationError
from starlette.datastructures import State
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.serve import create_error_response
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.exceptions import VLLMValidationError
from vllm.inputs import tokens_input
from vllm.outputs import RequestOutput
from vllm.platforms import current_platform
from vllm.renderers.hf import resolve_chat_template, resolve_chat_template_content_format
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.detokenizer import IncrementalDetokenizer
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.loggers import StatLoggerBase

from domain.config import Config
from domain.trace.launches import Launches
from domain.trace.step import Step
from tracing.clock import now_us
from workers.engines import vllm_leftovers, vllm_plugin
from workers.engines.below import Receiver, layers_of
from workers.engines.known_answer import Reference
from workers.engines.models.prepare import find_reference, fingerprint, prepare
from workers.engines.port import EngineDead, EngineInfo, Frame, Job, Room
from workers.engines.vllm_arguments import arguments, tool_parser
from workers.engines.vllm_chunks import last_chunks, with_delivered
from workers.engines.vllm_meter import Meter
from workers.engines.vllm_probe import Probe
from workers.engines.vllm_refusal import LENGTH_PARAM, refusal_of, refusal_of_body, words_of
from workers.engines.vllm_request import answer_limit, clean_body, count_seqs, take_echo
from workers.engines.vllm_resume import delivered_ids, prime
from workers.engines.vllm_steps import Steps
from workers.engines.vllm_tokenization import read_rule
from workers.engines.vllm_whole import whole_answer
from workers.tokenization.check import checked
from workers.tokenization.rule import Tokenization

logger = logging.getLogger(__name__)

SEMANTIC_VERSION = "1.0.0"

PROBE_PRIORITY = -1_000_000

STOP_TIMEOUT_S = 1.0
"""vLLM always waits as long before it kills its processes, and they have nothing to save."""

_SSE_START, _SSE_TAIL, _SSE_END = "data: ", "\n\n", "data: [DONE]"

_meter: ContextVar[Meter | None] = ContextVar("vllm_meter", default=None)


class _StatLogger(StatLoggerBase):  # type: ignore[misc]  # vLLM comes without types
    """Hands what vLLM tells of each step to ``steps``."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def record(self, scheduler_stats: Any, iteration_stats: Any, *_args: Any, **_options: Any) -> None:
        self._steps.record(monotonic(), now_us(), scheduler_stats, iteration_stats)

    def log_engine_initialized(self) -> None:
        pass


class _MeteredLLM(AsyncLLM):  # type: ignore[misc]  # vLLM comes without types
    """AsyncLLM that counts what a job costs and lets it go on where an earlier attempt stopped.

    ``on_work`` is called when an idle engine gets a request.
    """

    on_work: Callable[[], None]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._resuming: dict[str, Meter] = {}

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        if not self.output_processor.has_unfinished_requests():
            self.on_work()
        meter = _meter.get()
        if meter is None:
            outputs: AsyncGenerator[Any, None] = super().generate(prompt, sampling_params, request_id, **options)
            return outputs
        if self.observability_config.otlp_traces_endpoint is not None:
            options["trace_headers"] = dict(meter.job.trace_headers) or None
        return self._metered(meter, prompt, sampling_params, request_id, options)

    def __del__(self) -> None:
        # vLLM's own shuts down again, at the interpreter's end with half of its modules gone.
        pass

    async def _metered(
        self, meter: Meter, prompt: Any, params: Any, request_id: str, options: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        asked = prompt.get("prompt_token_ids") or []
        self._check_length(len(asked), meter)
        meter.begin(request_id, len(asked))
        if meter.resumes:
            meter.exhausted = params.max_tokens <= meter.job.delivered_tokens
            self._resuming[request_id] = meter
        if meter.exhausted:
            return
        outputs = super().generate(prompt, params, request_id, **options)
        try:
            async for output in outputs:
                meter.count(request_id, output)
                if meter.resumes:
                    output.num_cached_tokens = min(output.num_cached_tokens or 0, len(asked))
                yield output
        except Exception as error:
            meter.failure = error
            raise
        finally:
            self._resuming.pop(request_id, None)
            await outputs.aclose()

    async def _add_request(self, request: Any, prompt: Any, parent: Any, index: int, queue: Any) -> None:
        """For vLLM's front a continued request is the one that was asked; only the core gets the longer prompt."""
        meter = self._resuming.pop(request.external_req_id, None)
        if meter is None:
            await super()._add_request(request, prompt, parent, index, queue)
            return
        self.output_processor.add_request(request, prompt, parent, index, queue)
        ids = self._prime(self.output_processor.request_states[request.request_id], request, meter)
        longer, params = copy(request), request.sampling_params.clone()
        longer.prompt_token_ids = [*request.prompt_token_ids, *ids]
        params.max_tokens -= meter.job.delivered_tokens
        params.min_tokens = max(0, params.min_tokens - meter.job.delivered_tokens)
        longer.sampling_params = params
        await self.engine_core.add_request_async(longer)

    def _prime(self, state: Any, request: Any, meter: Meter) -> Sequence[int]:
        """Tokens to go on from: the delivered ones if they spell the delivered text, else a new cut of that text."""
        said, tokenizer = meter.said, self.renderer.get_tokenizer()
        if meter.resume_ids and prime(state.detokenizer, meter.resume_ids) == said:
            return meter.resume_ids
        ids: list[int] = tokenizer.encode(said, add_special_tokens=False)
        state.detokenizer = IncrementalDetokenizer.from_new_request(tokenizer, request)
        prime(state.detokenizer, ids)
        return ids

    def _check_length(self, prompt_tokens: int, meter: Meter) -> None:
        """Refuse what OpenAI refuses, where vLLM would quietly shorten the answer."""
        context, wanted = self.model_config.max_model_len, meter.limit or 0
        if prompt_tokens + wanted > context:
            meter.failure = VLLMValidationError(
                f"This model's maximum context length is {context} tokens. However, you requested "
                f"{prompt_tokens + wanted} tokens ({prompt_tokens} in the prompt, {wanted} in the completion).",
                parameter=LENGTH_PARAM,
            )
            raise meter.failure


class VllmEngine:
    """One vLLM engine (see :class:`workers.engines.port.Engine`).

    :meth:`start` occupies the event loop while the engine loads (about half a minute), since the engine's processes
    live only as long as the thread that starts them; nothing else should wait on that loop.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._llm: Any = None
        self._serving: State = State()
        self._steps = Steps()
        self._meters: set[Meter] = set()
        self._reference: Reference | None = None
        self._kv_blocks = 0
        self._block_tokens = 1
        self._dtype = ""
        self._directory: Path | None = None
        self._below: Receiver | None = None

    async def start(self) -> EngineInfo:
        """Prepare and load the model.

        Raises:
            EngineDead: the model cannot be had or loaded.
        """
        begun = monotonic()
        try:
            directory = await asyncio.to_thread(prepare, self._config, logger.info)
            self._reference = await asyncio.to_thread(find_reference, self._config, directory, logger.info)
            await self._load(directory)
        except Exception as error:
            await self.stop()
            raise EngineDead(f"the engine could not start: {type(error).__name__}: {error}") from error
        return self._describe(directory, monotonic() - begun, await self._tokenization())

    async def probe(self) -> None:
        """Compare likelihood and, in float32, greedy tokens with the model's known answers.

        Raises:
            EngineDead: a wrong answer, none in time, or the engine's processes are gone.
        """
        await Probe(self, self._reference, self._dtype).prove()

    def room(self) -> Room:
        """Free sequences by our own count, free blocks by the engine's latest step less what it has not begun."""
        limit, steps = self._config.max_num_seqs, self._steps
        if self._llm is None or self._llm.errored:
            free_seqs = free_blocks = 0
        else:
            free_seqs, free_blocks = limit - sum(meter.seqs for meter in self._meters), self._free_blocks()
        kept = (self._kv_blocks, self._block_tokens, steps.preemptions, steps.pace.step_ms)
        return Room(
            *(max(0, free_seqs), limit, max(0, free_blocks), *kept),
            prompt_tokens=steps.prompt_tokens,
            cached_tokens=steps.cached_tokens,
            generated_tokens=steps.generated_tokens,
        )

    def take_steps(self) -> list[Step]:
        """See the port."""
        return self._steps.log.take()

    def take_launches(self) -> list[Launches]:
        """See the port."""
        return self._below.take_launches() if self._below else []

    def _free_blocks(self) -> int:
        if not self._meters:
            return self._kv_blocks
        waiting = sum(meter.waiting_tokens() for meter in self._meters)
        return int(self._kv_blocks * (1 - self._steps.kv_usage)) - -(-waiting // self._block_tokens)

    async def run(self, job: Job) -> AsyncIterator[Frame]:
        """Run one job through vLLM's serving layer; see the port for what is raised."""
        body = clean_body(job)
        vocabulary = self._alive().model_config.get_vocab_size()
        said = take_echo(job, body)
        meter = Meter(job, count_seqs(body), answer_limit(body), said, delivered_ids(job, vocabulary))
        self._meters.add(meter)
        try:
            answer = await self._ask(meter, body)
            if not job.stream:
                yield Frame(with_delivered(whole_answer(answer), job.delivered_tokens), meter.usage)
                return
            async for frame in self._stream(answer, meter):
                yield frame
            if meter.exhausted:
                wanted = body["stream_options"]["include_usage"]
                for data in last_chunks(job, self._config.model_name, meter.usage, wanted):
                    yield Frame(data, meter.usage)
        finally:
            self._meters.discard(meter)
            if meter.unfinished and self._llm is not None:
                await self._llm.abort(meter.unfinished)

    async def stop(self) -> None:
        """Stop the engine's processes; requests that still run end with EngineDead."""
        llm, self._llm = self._llm, None
        if llm is not None:
            if llm.output_handler is not None:
                llm.output_handler.cancel()
            llm.output_processor.propagate_error(EngineDeadError())
            await asyncio.to_thread(llm.shutdown, STOP_TIMEOUT_S)
        below, self._below = self._below, None
        if below is not None:
            below.close()
        directory, self._directory = self._directory, None
        if directory is not None:
            await asyncio.to_thread(vllm_leftovers.remove_own, directory)

    async def _load(self, directory: Path) -> None:
        vllm_leftovers.remove_leftovers()
        self._directory = vllm_leftovers.own_directory()
        layers = layers_of(self._config)
        self._below = Receiver(self._directory / "trace", layers) if layers else None
        self._steps = steps = Steps(self._below.model_us) if self._below else Steps()
        set_up(self._directory)
        _warn_without_guard()
        model = self._config.model
        if await asyncio.to_thread(directory.is_dir):
            keep_offline()
            model = str(directory)
        options = arguments(self._config, model, on_cpu=current_platform.is_cpu())
        parsed: Namespace = make_arg_parser(FlexibleArgumentParser()).parse_args(options)
        vllm_config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(UsageContext.OPENAI_API_SERVER)
        self._llm = _MeteredLLM.from_vllm_config(
            vllm_config,
            usage_context=UsageContext.OPENAI_API_SERVER,
            stat_loggers=[lambda _config, _index=0: _StatLogger(steps)],
        )
        self._llm.on_work = lambda: steps.work_came(now_us())
        model_config = vllm_config.model_config
        parsed.tool_call_parser = tool_parser(model_config.hf_config.model_type, model_config.get_vocab_size())
        parsed.enable_auto_tool_choice = parsed.tool_call_parser is not None
        await init_app_state(self._llm, self._serving, parsed, await self._llm.get_supported_tasks())
        self._kv_blocks = vllm_config.cache_config.num_gpu_blocks
        self._block_tokens = vllm_config.cache_config.block_size
        self._dtype = str(model_config.dtype).removeprefix("torch.")
        vllm_leftovers.note_shared_memory(self._directory)

    async def _tokenization(self) -> Tokenization | None:
        """How prompts become tokens here, tried on chats of every kind; None where that cannot be told as data."""
        tokenizer, config = self._alive().renderer.get_tokenizer(), self._alive().model_config
        try:
            template = resolve_chat_template(tokenizer, None, None, model_config=config)
            with_tools = resolve_chat_template(tokenizer, None, [{}], model_config=config)
            content_format = resolve_chat_template_content_format(None, None, "auto", tokenizer, model_config=config)
            rule = read_rule(tokenizer, template or "", with_tools or "", content_format)
            return await checked(rule, self._count_chat) if rule else None
        except Exception:
            logger.exception("prompts of this model are estimated, not counted, before they are admitted")
            return None

    async def _count_chat(self, body: Mapping[str, Any]) -> int:
        """Tokens of a chat's prompt as the server makes them."""
        request = ChatCompletionRequest.model_validate(body)
        made = await self._serving.openai_serving_chat.online_renderer.render_chat(request)
        if isinstance(made, ErrorResponse):
            raise ValueError(made.error.message)
        return len(made[1][0]["prompt_token_ids"])

    def _describe(self, directory: Path, took_s: float, tokenization: Tokenization | None) -> EngineInfo:
        """``took_s``: seconds that the start took."""
        model_config = self._llm.model_config
        settings = {
            "vllm": vllm.__version__,
            "dtype": self._dtype,
            "max_model_len": model_config.max_model_len,
            "tool_parser": self._serving.args.tool_call_parser,
        }
        weights = fingerprint(directory) if directory.is_dir() else model_config.hf_config.to_json_string()
        digest = hashlib.sha256((weights + json.dumps(settings, sort_keys=True)).encode()).hexdigest()
        details = {
            **settings,
            "device": current_platform.device_name,
            "kv_blocks": self._kv_blocks,
            "block_tokens": self._block_tokens,
            "start_s": round(took_s, 1),
            "known_answers": self._reference.made_by if self._reference else "none: only finite likelihood is checked",
        }
        return EngineInfo(
            engine="vllm",
            model=self._config.model_name,
            version=f"{SEMANTIC_VERSION}-{digest[:12]}",
            dtype=self._dtype,
            max_model_len=model_config.max_model_len,
            max_num_seqs=self._config.max_num_seqs,
            details=details,
            kv_tokens=self._kv_blocks * self._block_tokens,
            tokenization=tokenization,
        )

    async def _ask(self, meter: Meter, body: dict[str, Any]) -> Any:
        """Hand the body to vLLM; its answer is a stream of server-sent events or one response object."""
        llm = self._alive()
        chat = meter.job.endpoint == "chat"
        token = _meter.set(meter)
        try:
            if chat:
                request = ChatCompletionRequest.model_validate(body)
                answer = await self._serving.openai_serving_chat.create_chat_completion(request)
            else:
                request = CompletionRequest.model_validate(body)
                answer = await self._serving.openai_serving_completion.create_completion(request)
        except Exception as error:
            raise _refusal(meter.failure or error, dead=llm.errored, chat=chat) from error
        finally:
            _meter.reset(token)
        _raise_if_cancelled()
        if isinstance(answer, ErrorResponse):
            raise refusal_of(answer.error.code, answer.error.message, answer.error.param, chat=chat)
        return answer

    async def _stream(self, answer: AsyncGenerator[str, None], meter: Meter) -> AsyncIterator[Frame]:
        delivered = meter.job.delivered_tokens
        # The first chunk of each choice of a chat only says who speaks, which an earlier attempt has said.
        roles = meter.seqs if meter.job.endpoint == "chat" else 0
        try:
            async for event in answer:
                if meter.exhausted or event.startswith(_SSE_END):
                    return
                data = event[len(_SSE_START) : -len(_SSE_TAIL)].encode()
                if data.startswith(b'{"error"'):
                    raise self._failure(meter.failure, data, chat=meter.job.endpoint == "chat")
                if roles == 0:
                    yield Frame(with_delivered(data, delivered), meter.usage, meter.take_ids())
                elif not delivered:
                    yield Frame(data, meter.usage_before)
                roles = max(0, roles - 1)
        finally:
            await answer.aclose()

    def _failure(self, error: Exception | None, data: bytes, *, chat: bool) -> Exception:
        """What an error object inside a stream means; ``error`` is what the engine raised, if it did."""
        if error is not None:
            return _refusal(error, dead=self._llm is None or self._llm.errored, chat=chat)
        told = ErrorResponse.model_validate_json(data).error
        return refusal_of(told.code, told.message, told.param, chat=chat)

    def _alive(self) -> Any:
        if self._llm is None or self._llm.errored:
            raise EngineDead("the engine's processes are gone")
        return self._llm

    # --- what the probe asks ------------------------------------------------------------------------------------------

    def steps_made(self) -> int:
        """Steps since the engine started."""
        return self._steps.count

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text`` alone."""
        tokens: list[int] = self._alive().renderer.get_tokenizer().encode(text, add_special_tokens=False)
        return tokens

    async def likelihood(self, tokens: Sequence[int]) -> list[float]:
        """See :class:`workers.engines.vllm_probe.Computer`."""
        output = await self._compute(tokens, SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0))
        scores = output.prompt_logprobs or []
        return [-score[token].logprob for token, score in zip(tokens, scores, strict=True) if score is not None]

    async def greedy(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        """See :class:`workers.engines.vllm_probe.Computer`."""
        output = await self._compute(prompt, SamplingParams(temperature=0, max_tokens=count))
        return tuple(output.outputs[0].token_ids)

    async def _compute(self, prompt: Sequence[int], params: SamplingParams) -> RequestOutput:
        """Ahead of everything that waits, and computed afresh: no salt is used twice."""
        params.output_kind = RequestOutputKind.FINAL_ONLY
        salt = uuid4().hex
        inputs = tokens_input(list(prompt), cache_salt=salt)
        async for output in self._alive().generate(inputs, params, f"probe-{salt}", priority=PROBE_PRIORITY):
            if output.finished:
                return output
        raise EngineDead("the engine ended a probe without an answer")


def _refusal(error: Exception, *, dead: bool, chat: bool) -> Exception:
    """What an exception of vLLM means to the port."""
    if dead or isinstance(error, EngineDeadError):
        return EngineDead(str(error))
    if isinstance(error, ValidationError):
        return refusal_of_body(error)
    told = create_error_response(error).error
    return refusal_of(told.code, words_of(error) or told.message, told.param, chat=chat)


def _raise_if_cancelled() -> None:
    """vLLM answers a cancelled request with an error object and swallows the cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _warn_without_guard() -> None:
    names = {entry.value for entry in entry_points(group="vllm.general_plugins")}
    if f"{vllm_plugin.__name__}:register" not in names:
        logger.warning("this project is not installed: if this process is killed, the engine's processes stay behind")
