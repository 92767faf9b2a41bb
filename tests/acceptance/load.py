"""Requests side by side, and what became of them: in answers, the ready set, usage rows and the workers' logs."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from tests.acceptance.caller import Caller
from tests.stack import Stack, wait_until

MODEL = "smollm2-135m-instruct"
TIERS = {"p0": "priority", "p1": "default", "p2": "flex"}
SOON_S = 20.0


def body_of(sim: str = "", qos_class: str = "p1", text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A request that the simulator answers as ``sim`` says."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "service_tier": TIERS[qos_class]}
    return body | ({"metadata": {"sim": sim}} if sim else {}) | fields


def client_of(stack: Stack, key: str = "") -> httpx.AsyncClient:
    """A client with any number of connections."""
    headers = {"authorization": f"Bearer {key or stack.api_key}"}
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=stack.base_url, headers=headers, timeout=60, limits=limits)


async def post_all(stack: Stack, bodies: Sequence[dict[str, Any]], key: str = "") -> list[httpx.Response]:
    """Send all at once, each on a connection of its own."""
    async with client_of(stack, key) as client:
        return await asyncio.gather(*(client.post("/chat/completions", json=body) for body in bodies))


async def post(stack: Stack, body: dict[str, Any], key: str = "") -> httpx.Response:
    """Send one."""
    return (await post_all(stack, [body], key))[0]


async def until(what: Callable[[], Any]) -> Any:
    """Wait for a true value and return it, while other tasks go on."""
    async with asyncio.timeout(SOON_S):
        while not (value := what()):
            await asyncio.sleep(0.02)
    return value


# --- the ready set ---------------------------------------------------------------------------------------------------


def waiting(stack: Stack, qos_class: str) -> int:
    """Requests of a class that wait."""
    return int(stack.store().zcard(f"sl:ready:{MODEL}:{qos_class}"))


def rooms(stack: Stack, qos_class: str) -> dict[str, int]:
    """Sequences free for a class, by worker id."""
    found = stack.store().hgetall(f"sl:room:{MODEL}:{qos_class}")
    return {name.decode(): int(free) for name, free in found.items()}


def workers(stack: Stack) -> dict[str, dict[str, str]]:
    """What each live worker says about itself, by worker id."""
    store, found = stack.store(), {}
    for name in sorted(member.decode() for member in store.smembers("sl:workers")):
        if state := store.hgetall(f"sl:worker:{name}"):
            found[name] = {key.decode(): value.decode() for key, value in state.items()}
    return found


def worker_id(stack: Stack, name: str) -> str:
    """The id of the live worker of that name, which is a new one after each start."""
    found = wait_until(lambda: [one for one in workers(stack) if re.fullmatch(f"{name}-[0-9a-f]{{6}}", one)], SOON_S)
    return str(found[0])


def held(stack: Stack, worker: str) -> list[str]:
    """The class of each request that a worker runs."""
    store = stack.store()
    found = [store.hget(f"sl:item:{one.decode()}", "class") for one in store.smembers(f"sl:held:{worker}")]
    return [qos_class.decode() for qos_class in found if qos_class]


@contextmanager
def switched(stack: Stack, fields: Mapping[str, str]) -> Iterator[None]:
    """Pause or drain queues (``queue:<class>``) and workers (``worker:<name>``), and open them in the end."""
    full = {_switch_field(stack, field): state for field, state in fields.items()}
    stack.store().hset("sl:switch", mapping=full)
    paused = [field.removeprefix("worker:") for field in full if field.startswith("worker:")]
    try:
        wait_until(lambda: not any(rooms(stack, one).get(name) for name in paused for one in TIERS), SOON_S)
        yield
    finally:
        stack.store().hdel("sl:switch", *full)


def _switch_field(stack: Stack, field: str) -> str:
    kind, _, name = field.partition(":")
    return f"queue:{MODEL}:{name}" if kind == "queue" else f"worker:{worker_id(stack, name)}"


@contextmanager
def holding(stack: Stack, count: int, qos_class: str = "p1", key: str = "") -> Iterator[None]:
    """Hold so many sequences with requests that never end by themselves."""
    holders = [Caller(stack, body_of("hang_after=1", qos_class, stream=True), key) for _ in range(count)]
    try:
        yield
    finally:
        for holder in holders:
            holder.leave()


def at_rest(stack: Stack) -> None:
    """Wait until nothing runs or waits and all is settled."""
    wait_until(lambda: stack.leftovers() == {} and stack.store().xlen("sl:settle") == 0, SOON_S, "something was left")


# --- what was written down -------------------------------------------------------------------------------------------


def row(stack: Stack, response: httpx.Response) -> dict[str, Any]:
    """The usage row of a request that has ended."""
    return rows(stack, [response])[0]


def rows(stack: Stack, responses: Sequence[httpx.Response]) -> list[dict[str, Any]]:
    """The usage rows of requests that have ended, in their order."""
    return rows_of(stack, [response.headers["x-request-id"] for response in responses])


COLUMNS = (
    "request_id, outcome, status, error_code, qos_class, worker_id, claimed_at, admitted_at, batch_id, retry_attempt, "
    "rollback_cause, prompt_tokens, cached_tokens, completion_tokens"
)


def rows_of(stack: Stack, request_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The same by request id."""

    def settled() -> list[dict[str, Any]]:
        names = COLUMNS.split(", ")
        found = {one[0]: dict(zip(names, one, strict=True)) for one in stack.usage_rows(COLUMNS)}
        return [found[one] for one in request_ids] if found.keys() >= set(request_ids) else []

    found: list[dict[str, Any]] = wait_until(settled, SOON_S, "a request was never settled")
    return found


def logged(stack: Stack, event: str, process: str = "worker-") -> list[dict[str, Any]]:
    """All lines of one event in the logs of processes whose names begin so, a log after the other."""
    lines = []
    for path in sorted((stack.data_dir / "logs").glob(f"{process}*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if f'"event": "{event}"' in line:
                lines.append(json.loads(line))
    return lines


def metric(stack: Stack, sample: str, job: str = "sluice-worker") -> float:
    """The sum of a sample, such as ``name_total{label="x"}``, over all processes of a job."""
    total = 0.0
    for target in json.loads((stack.data_dir / "prometheus_targets.json").read_text()):
        if target["labels"]["job"] == job:
            text = httpx.get(f"http://{target['targets'][0]}/metrics", timeout=10).text
            total += sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(sample + " "))
    return total
