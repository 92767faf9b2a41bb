"""What holds for the engine that embeds: the contract where it applies, and that a batch equals single rows."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from engine_client import Reply, ask, chat, completion, opened

np = pytest.importorskip("numpy", reason="comes with the engine's requirements")
torch = pytest.importorskip("torch", reason="comes with the engine's requirements")

from domain.config import Config  # noqa: E402 (after the check)
from workers.engines.factory import make_engine  # noqa: E402
from workers.engines.models.embedding_reference import load_tokenizer  # noqa: E402
from workers.engines.models.numpy_bert import NumpyBert  # noqa: E402
from workers.engines.models.prepare import prepare  # noqa: E402
from workers.engines.padded import PaddedEngine  # noqa: E402
from workers.engines.port import EngineDead, Job, RequestFailed, RequestRejected  # noqa: E402

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

SEATS, LONGEST, SIZE = 4, 512, 384
CONFIG = Config(engine="padded", model="all-minilm-l6-v2", max_num_seqs=SEATS, max_num_batched_tokens=512)
SENTENCE = "The keeper opens the gate and lets the water in. "
MIXED = [SENTENCE * times for times in (1, 9, 2, 1, 4)] + ["Water", "?", "水", "a " * 150]
STEPS = 400
"""How often a test looks before it takes something for never happening."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[PaddedEngine]:
    made = make_engine(CONFIG)
    assert isinstance(made, PaddedEngine)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for each other by spinning, on cores that other tests need
    await made.start()
    yield made
    torch.set_num_threads(threads)
    await made.stop()


def embed(given: Any, **fields: Any) -> Job:
    """A job that asks for embeddings."""
    body = {"model": "any", "input": given, **fields}
    return Job(str(uuid4()), "embeddings", json.dumps(body).encode(), stream=False)


def vectors(reply: Reply) -> Any:
    """Shape (inputs, size), float64."""
    (whole,) = reply.objects
    assert [entry["index"] for entry in whole["data"]] == list(range(len(whole["data"])))
    return np.array([entry["embedding"] for entry in whole["data"]])


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


async def until_idle(engine: PaddedEngine) -> bool:
    for _ in range(STEPS):
        if engine.room().free_seqs == SEATS and not engine._buckets:
            return True
        await asyncio.sleep(0.02)
    return False


# --- right answers ------------------------------------------------------------------------------------------------


async def test_passes_are_told_as_steps(engine: PaddedEngine) -> None:
    assert await until_idle(engine)
    engine.take_steps()
    reply = await ask(engine, embed(MIXED))
    steps = engine.take_steps()

    assert sum(step.running for step in steps) == len(MIXED)
    assert sum(step.prompt_tokens for step in steps) == reply.usage.prompt_tokens
    assert all(step.duration_us > 0 for step in steps)
    assert engine.take_steps() == engine.take_launches() == []


async def test_a_batch_of_mixed_lengths_equals_single_rows(engine: PaddedEngine) -> None:
    alone = np.concatenate([vectors(await ask(engine, embed(text))) for text in MIXED])
    together = vectors(await ask(engine, embed(MIXED)))

    assert cosines(alone, together).min() > 0.999999


async def test_concurrent_jobs_get_their_own_embeddings_in_order(engine: PaddedEngine) -> None:
    alone = vectors(await ask(engine, embed(MIXED)))
    jobs = [embed([MIXED[index], MIXED[-index - 1]]) for index in range(4)]
    replies = await asyncio.gather(*(ask(engine, replace(job, priority=n % 3)) for n, job in enumerate(jobs)))

    for index, reply in enumerate(replies):
        assert cosines(vectors(reply), alone[[index, -index - 1]]).min() > 0.999999


async def test_it_agrees_with_an_implementation_without_padding(engine: PaddedEngine) -> None:
    directory = prepare(CONFIG, lambda _: None)
    tokenizer, model = load_tokenizer(directory), NumpyBert(directory)
    texts = [MIXED[1], *MIXED[-5:-1]]
    expected = np.stack([model.embed(tokenizer.encode(text).ids) for text in texts])

    assert cosines(vectors(await ask(engine, embed(texts))), expected).min() > 0.999999


async def test_near_meanings_are_nearer_than_far_ones(engine: PaddedEngine) -> None:
    boat, ship, tax = vectors(
        await ask(engine, embed(["A boat on a river", "A ship upon the water", "Income tax is due in May"]))
    )

    assert boat @ ship > 0.5 > boat @ tax


async def test_the_whole_answer_is_openais(engine: PaddedEngine) -> None:
    reply = await ask(engine, embed(["one", "two words"]))
    (whole,) = reply.objects

    assert whole["object"] == "list"
    assert whole["model"] == "all-minilm-l6-v2"
    assert {entry["object"] for entry in whole["data"]} == {"embedding"}
    assert whole["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 0)
    assert np.linalg.norm(vectors(reply), axis=1) == pytest.approx(1, abs=1e-5)


async def test_base64_holds_the_same_numbers(engine: PaddedEngine) -> None:
    plain = vectors(await ask(engine, embed(MIXED[:3])))
    (whole,) = (await ask(engine, embed(MIXED[:3], encoding_format="base64"))).objects
    decoded = [np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in whole["data"]]

    assert np.abs(np.stack(decoded) - plain).max() < 1e-6


@pytest.mark.parametrize("dimensions", [1, 100, SIZE])
async def test_fewer_dimensions_are_cut_and_scaled_again(engine: PaddedEngine, dimensions: int) -> None:
    full = vectors(await ask(engine, embed(SENTENCE)))
    cut = vectors(await ask(engine, embed(SENTENCE, dimensions=dimensions)))

    assert cut.shape == (1, dimensions)
    assert cut == pytest.approx(full[:, :dimensions] / np.linalg.norm(full[:, :dimensions]), abs=1e-6)


async def test_token_ids_are_taken_as_they_are(engine: PaddedEngine) -> None:
    tokenizer = load_tokenizer(prepare(CONFIG, lambda _: None))
    ids = tokenizer.encode(SENTENCE).ids
    text = vectors(await ask(engine, embed([SENTENCE])))

    assert cosines(vectors(await ask(engine, embed(ids))), text).min() > 0.999999
    both = vectors(await ask(engine, embed([ids, ids[1:-1]])))
    assert cosines(both[:1], text).min() > 0.999999
    assert cosines(both[1:], text).max() < 0.999


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "fields", "param", "code", "said"),
    [
        ("a " * 511, {}, "input", "context_length_exceeded", "maximum context length is 512 tokens.*513"),
        (["fits", "a " * 600], {}, "input", "context_length_exceeded", "input 1 has 602 tokens"),
        ("x" * 100_000, {}, "input", "context_length_exceeded", "100000 characters"),
        ([7] * 513, {}, "input", "context_length_exceeded", "512"),
        ([30522], {}, "input", None, "0 to 30521"),
        ([[5], [-1]], {}, "input", None, "Input 1"),
        ("hi", {"dimensions": SIZE + 1}, "dimensions", None, "384"),
    ],
)
async def test_what_the_model_cannot_do_is_rejected_with_its_limit(
    engine: PaddedEngine, given: Any, fields: dict[str, Any], param: str, code: str | None, said: str
) -> None:
    neighbour = asyncio.create_task(ask(engine, embed(SENTENCE)))
    with pytest.raises(RequestRejected, match=said) as refusal:
        await ask(engine, embed(given, **fields))

    assert refusal.value.status == 400
    assert (refusal.value.error["param"], refusal.value.error["code"]) == (param, code)
    assert (await neighbour).frames


@pytest.mark.parametrize("make", [chat, completion])
async def test_other_endpoints_are_rejected_and_told_the_right_one(engine: PaddedEngine, make: Any) -> None:
    with pytest.raises(RequestRejected, match="/v1/embeddings"):
        await ask(engine, make("hello"))


# --- room, abort and order ----------------------------------------------------------------------------------------


async def test_a_job_takes_one_seat_however_many_inputs_it_has(engine: PaddedEngine) -> None:
    assert await until_idle(engine)
    task = asyncio.create_task(ask(engine, embed([SENTENCE * 3] * 20)))
    while engine.room().free_seqs == SEATS:
        await asyncio.sleep(0)
    room = engine.room()
    await task

    assert room.free_seqs == SEATS - 1
    assert (room.kv_blocks, room.free_kv_blocks) == (0, 0)
    assert await until_idle(engine)
    assert engine.room().step_ms > 0


async def test_a_cancelled_job_leaves_no_rows_behind(engine: PaddedEngine) -> None:
    task = asyncio.create_task(ask(engine, embed([SENTENCE * 9] * 200)))
    while not engine._buckets:
        await asyncio.sleep(0)
    before = engine.real_tokens
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(engine._buckets) == 0
    assert await until_idle(engine)
    await ask(engine, embed("still there"))
    assert engine.real_tokens - before < 10_000


async def test_closing_before_the_first_frame_frees_its_room(engine: PaddedEngine) -> None:
    async with aclosing(opened(engine, embed(SENTENCE))):
        pass

    assert await until_idle(engine)


async def test_an_urgent_job_overtakes_the_rows_that_wait(engine: PaddedEngine) -> None:
    bulk = asyncio.create_task(ask(engine, replace(embed([SENTENCE * 9] * 24), priority=20)))
    while not engine._buckets:
        await asyncio.sleep(0)
    await ask(engine, replace(embed("urgent"), priority=0))

    assert not bulk.done()
    assert len(vectors(await bulk)) == 24


async def test_more_jobs_than_seats_all_finish(engine: PaddedEngine) -> None:
    jobs = [ask(engine, embed(f"{number} {SENTENCE}")) for number in range(3 * SEATS)]
    tasks = [asyncio.create_task(job) for job in jobs]
    await asyncio.sleep(0)
    assert engine.room().free_seqs == 0

    assert all(reply.frames for reply in await asyncio.gather(*tasks))
    assert await until_idle(engine)


async def test_waste_is_told_and_small(engine: PaddedEngine) -> None:
    await ask(engine, embed(MIXED))
    details = engine.info.details

    assert 0 < engine.real_tokens <= engine.padded_tokens
    assert details["padding_waste"] == pytest.approx(1 - engine.real_tokens / engine.padded_tokens, abs=1e-3)
    assert 0 <= engine.padding_waste() < 0.12


# --- known answers ------------------------------------------------------------------------------------------------


async def test_the_probe_passes_beside_load(engine: PaddedEngine) -> None:
    load = asyncio.create_task(ask(engine, embed(MIXED)))
    await engine.probe()
    await load


@pytest.mark.parametrize("spoil", ["mask", "pooling", "not a number"])
async def test_the_probe_finds_a_wrong_computation(
    engine: PaddedEngine, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine._loaded
    model = engine._loaded.model
    right = model._pool

    def wrong(states: Any, mask: Any) -> Any:
        if spoil == "mask":
            return right(states, mask * 0 + 1)
        return states[:, 0] if spoil == "pooling" else right(states, mask) * float("nan")

    monkeypatch.setattr(model, "_pool", wrong)
    with pytest.raises(EngineDead, match=r"known-answer probe: .*expected .*found"):
        await engine.probe()


async def test_without_known_answers_the_probe_compares_a_batch_with_single_rows(
    engine: PaddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine._loaded
    monkeypatch.setattr(engine, "_loaded", replace(engine._loaded, known=None))
    await engine.probe()
    monkeypatch.setattr(engine._loaded.model, "_pool", lambda states, _mask: states.mean(dim=1))
    with pytest.raises(EngineDead, match="cosine"):
        await engine.probe()


@pytest.mark.parametrize("flaw", ["raises", "not a number"])
async def test_a_failed_pass_fails_its_jobs_and_no_later_ones(
    engine: PaddedEngine, flaw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rows: Any) -> Any:
        if flaw == "raises":
            raise MemoryError("no memory")
        return np.full((len(rows), SIZE), np.nan, dtype=np.float32)

    assert engine._loaded
    with monkeypatch.context() as patch:
        patch.setattr(engine._loaded.model, "embed", broken)
        with pytest.raises(RequestFailed, match=r"no memory|not finite"):
            await ask(engine, embed(["one", SENTENCE * 5]))

    assert (await ask(engine, embed("one"))).frames
    assert await until_idle(engine)


# --- life of the engine -------------------------------------------------------------------------------------------


async def test_a_stopped_engine_is_dead_and_starts_again(engine: PaddedEngine) -> None:
    before = vectors(await ask(engine, embed(SENTENCE)))
    task = asyncio.create_task(ask(engine, embed([SENTENCE * 20] * 100)))
    while not engine._buckets:
        await asyncio.sleep(0)
    await engine.stop()
    await engine.stop()
    with pytest.raises(EngineDead):
        await task
    with pytest.raises(EngineDead):
        await ask(engine, embed(SENTENCE))
    with pytest.raises(EngineDead):
        await engine.probe()
    assert engine.room().free_seqs == 0

    info = await engine.start()

    assert (info.engine, info.endpoints, info.max_model_len) == ("padded", ("embeddings",), LONGEST)
    assert len(info.version.rsplit("-", 1)[1]) == 12
    assert (vectors(await ask(engine, embed(SENTENCE))) == before).all()
    await engine.probe()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_num_batched_tokens": 100}, "at least 512"),
        ({"dtype": "bfloat16"}, "float32"),
        ({"model": "/nowhere"}, "could not start"),
    ],
)
async def test_settings_that_do_not_fit_keep_it_from_starting(fields: dict[str, Any], said: str) -> None:
    engine = make_engine(replace(CONFIG, **fields))
    with pytest.raises(EngineDead, match=said):
        await engine.start()
    assert engine.room().free_seqs == 0
