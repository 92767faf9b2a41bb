"""The batches of the soak: one after the other, each to its end, and what their tenant gets of each request."""

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.soak_load import MODEL

TENANT = "soak-batches"
LINES = 150
POLL_S = 1.0
PATIENCE_S = 240.0
CHAT = "/v1/chat/completions"
OPEN = ("validating", "in_progress", "finalizing")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one request of a batch: as its line of a file says."""

    custom_id: str
    status: int
    request_id: str
    prompt: int
    completion: int


@dataclass(slots=True)
class Batch:
    """One batch: the ids that were sent, its last word on how it stands, and its results."""

    sent: list[str]
    told: Mapping[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)


class BatchClient:
    """Sends batches until its time is over; what fails for want of a gateway it does again, as a script would."""

    def __init__(self, base_url: str, key: str, seed: int) -> None:
        self.batches: list[Batch] = []
        self._url, self._headers = base_url, {"authorization": f"Bearer {key}"}
        self._random = random.Random(seed)

    async def run(self, seconds: float) -> None:
        """Send one after the other; return when the last one has ended."""
        end_s = asyncio.get_running_loop().time() + seconds
        async with httpx.AsyncClient(timeout=30, headers=self._headers) as self._http:
            while asyncio.get_running_loop().time() < end_s:
                await self._work_off()

    async def _work_off(self) -> None:
        number = len(self.batches)
        ids = [f"b{number}-{one}" for one in range(LINES)]
        content = b"".join(self._line(one) for one in ids)
        batch = Batch(ids)
        self.batches.append(batch)
        file = await self._insist("POST", "/files", files={"file": ("soak.jsonl", content)}, data={"purpose": "batch"})
        wanted = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
        key = {"idempotency-key": f"soak-{number}"}
        batch.told = await self._insist("POST", "/batches", json=wanted, headers=key)
        async with asyncio.timeout(PATIENCE_S):
            while batch.told["status"] in OPEN:
                await asyncio.sleep(POLL_S)
                batch.told = await self._insist("GET", f"/batches/{batch.told['id']}")
        for name in ("output_file_id", "error_file_id"):
            if batch.told[name]:
                text = await self._insist_text(f"/files/{batch.told[name]}/content")
                batch.results += [_result(json.loads(line)) for line in text.splitlines()]

    def _line(self, custom_id: str) -> bytes:
        words = " ".join(self._random.choices(("boat", "lock", "water", "hill", "gate"), k=self._random.randint(1, 60)))
        script = f"tokens={self._random.randint(2, 40)},itl={self._random.choice((0.01, 0.03))}"
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"{custom_id} {words}"}],
            "max_tokens": 64,
            "metadata": {"sim": script},
        }
        return json.dumps({"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}).encode() + b"\n"

    async def _insist(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self._sent(method, path, **request)).json()
        return found

    async def _insist_text(self, path: str) -> str:
        return (await self._sent("GET", path)).text

    async def _sent(self, method: str, path: str, **request: Any) -> httpx.Response:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    answer = await self._http.request(method, self._url + path, **request)
                    if answer.status_code < 500:
                        answer.raise_for_status()
                        return answer
                except httpx.TransportError:
                    pass  # the gateway was killed under it
                await asyncio.sleep(0.5)


def _result(line: Mapping[str, Any]) -> Result:
    response = line["response"] or {"status_code": 0, "request_id": "", "body": {}}
    usage = response["body"].get("usage", {})
    return Result(
        line["custom_id"],
        response["status_code"],
        response["request_id"],
        usage.get("prompt_tokens", 0),
        usage.get("completion_tokens", 0),
    )
