"""A worker sends its engine's steps once a second, says which layers it traces, and fails open."""

from typing import Any, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as Away

from domain.config import Config
from domain.trace.launches import TRITON, WINDOW_US, Launches
from domain.trace.step import Step
from tracing.kernel.driver_probe import CannotProbe
from tracing.store.step_packing import unpack_steps
from workers import below_gateway
from workers.below_gateway import STREAM, BelowGateway
from workers.engines.port import Engine
from workers.state import OwnState

STEPS = [Step(2_000_000, 10, generated_tokens=1), Step(2_500_000, 10)]
LAUNCHES = [Launches(1_900_000, 1, TRITON, "add", 3)]


class Made:
    """An engine of which only what it made matters."""

    def __init__(self, steps: list[Step], launches: list[Launches]) -> None:
        self.steps, self.launches = steps, launches

    def take_steps(self) -> list[Step]:
        steps, self.steps = self.steps, []
        return steps

    def take_launches(self) -> list[Launches]:
        return self.launches


class Store:
    """Takes messages, or is away."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.got: list[tuple[str, dict[str, Any]]] = []

    async def xadd(self, stream: str, fields: dict[str, Any], **bounds: Any) -> None:
        assert bounds["maxlen"] > 0
        if self.away:
            raise Away("away")
        self.got.append((stream, fields))


def below(
    config: Config, store: Store, steps: list[Step] = STEPS, launches: list[Launches] = LAUNCHES
) -> tuple[BelowGateway, OwnState]:
    own = OwnState("m", config.engine)
    engine = cast("Engine", Made(list(steps), list(launches)))
    return BelowGateway(config, "w1", engine, cast("Redis", store), own), own


async def test_all_that_happened_goes_in_one_message() -> None:
    store = Store()
    one, _ = below(Config(), store)
    await one.send()
    ((stream, fields),) = store.got

    assert (stream, fields["w"], fields["f"], fields["t"]) == (STREAM, "w1", 1_900_000 + WINDOW_US, 2_500_000)
    assert unpack_steps(fields["p"]) == (STEPS, LAUNCHES)


async def test_an_idle_engine_sends_nothing() -> None:
    store = Store()
    one, _ = below(Config(), store, [], [])
    await one.send()
    assert store.got == []


async def test_steps_that_are_not_wanted_are_not_sent() -> None:
    store = Store()
    one, _ = below(Config(engine_steps=False), store)
    await one.send()
    assert unpack_steps(store.got[0][1]["p"]) == ([], LAUNCHES)


async def test_steps_are_dropped_while_the_store_is_away() -> None:
    store = Store(away=True)
    one, _ = below(Config(), store, launches=[])
    await one.send()
    store.away = False
    await one.send()
    assert store.got == []


# --- which layers are on ----------------------------------------------------------------------------------------------


async def test_by_default_there_is_nothing_to_say() -> None:
    one, own = below(Config(), Store())
    await one.begin()
    assert "tracing_below" not in own.fields()


async def test_what_cannot_be_traced_is_told_in_one_line_each_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, str]] = []
    monkeypatch.setattr(below_gateway.log, "warning", lambda _event, **fields: lines.append(fields), raising=False)
    monkeypatch.setattr(below_gateway.triton_hook, "why_off", lambda: "Triton is not installed")
    one, own = below(Config(trace_model=True, trace_triton=True, trace_kernels=True), Store())
    await one.begin()
    driver = "no process of the engine has loaded libcuda: it uses no NVIDIA GPU"

    assert lines == [
        {"layer": "triton", "reason": "Triton is not installed"},
        {"layer": "driver", "reason": driver},
    ]
    assert own.fields()["tracing_below"] == f"model: on; triton: off, Triton is not installed; driver: off, {driver}"


async def test_another_engine_has_no_layers_inside() -> None:
    one, own = below(Config(engine="simulator", trace_model=True), Store())
    await one.begin()
    assert own.fields()["tracing_below"] == "model: off, the engine is simulator, not vLLM"


async def test_launches_at_the_driver_are_sent_and_the_probe_ends_with_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    class Probe:
        def __init__(self, library: str, pids: list[int]) -> None:
            done.append(library)

        def start(self) -> None:
            done.append("started")

        def take(self) -> list[Launches]:
            return LAUNCHES

        def stop(self) -> None:
            done.append("stopped")

    monkeypatch.setattr(below_gateway, "library_of", lambda _pids: "libcuda.so")
    monkeypatch.setattr(below_gateway, "DriverProbe", Probe)
    monkeypatch.setattr(below_gateway, "PERIOD_S", 0)
    store = Store()
    one, own = below(Config(engine_steps=False, trace_kernels=True), store, launches=[])

    async def stop_after_one(*_: Any, **__: Any) -> None:
        store.got.append(("", {}))
        raise RuntimeError

    monkeypatch.setattr(store, "xadd", stop_after_one)
    with pytest.raises(RuntimeError):
        await one.run()
    assert done == ["libcuda.so", "started", "stopped"]
    assert own.fields()["tracing_below"] == "driver: on"
    assert len(store.got) == 1


async def test_a_refusal_of_the_kernel_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pids: list[int]) -> None:
        raise CannotProbe("the kernel lets only root set probes")

    monkeypatch.setattr(below_gateway, "library_of", refuse)
    one, own = below(Config(trace_kernels=True), Store())
    await one.begin()
    assert own.fields()["tracing_below"] == "driver: off, the kernel lets only root set probes"
