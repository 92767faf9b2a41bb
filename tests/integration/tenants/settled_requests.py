"""Requests that live and end in a real store, by the scripts of the product."""

import time
import uuid
from datetime import UTC, datetime
from typing import Any

from redis import Redis

from domain.limits import Level, Limit
from domain.price import PriceRow
from domain.qos import QosClass
from domain.usage import Usage
from tenants.spent import spent
from workers.ready import scripts
from workers.ready.item import ClassRoom, NewItem, Room, Sought
from workers.ready.ready_set import admit_arguments, claim_arguments, worker_state_arguments
from workers.reconcile.account import Account

WORKER, GATEWAY, MODEL, VERSION = "w1", "g1", "m", "1.0.0+x"


class Requests:
    """One worker, one gateway, and what they do to requests. Each thread needs one of its own."""

    def __init__(self, store: Redis) -> None:
        self._store = store
        names = (
            "admit",
            "claim",
            "finish",
            "cancel",
            "worker_beat",
            "gateway_beat",
            "seed",
            "progress",
            "lose",
            "requeue",
            "store_answer",
            "end_following",
        )
        self._scripts = {name: store.register_script(scripts.source(name)) for name in names}
        self.call("gateway_beat", GATEWAY, 600_000)
        self.call("worker_beat", *worker_state_arguments(WORKER, 600_000, True, MODEL, "p1=99", {"version": VERSION}))

    def call(self, name: str, *arguments: Any) -> Any:
        """Run one script."""
        return self._scripts[name](args=list(arguments))

    def admit(
        self,
        tenant_id: int,
        key_id: int,
        *,
        limits: tuple[Limit, ...] = (),
        prices: tuple[PriceRow, ...] = (),
        model: str = MODEL,
        answer: str = "",
    ) -> str:
        """Admit one request of 20 prompt tokens and at most 50 answer tokens; return its id.

        With ``answer`` it seeks a kept one of that name, or shares the run of one that does, at half the price.
        """
        item = NewItem(
            request_id=str(uuid.uuid4()),
            tenant=f"tenant{tenant_id}",
            tenant_id=tenant_id,
            key_id=key_id,
            limits=limits,
            soft_limits=(),
            prices=prices,
            weight=1.0,
            model=model,
            qos_class=QosClass.P1,
            gateway_id=GATEWAY,
            endpoint="chat",
            stream=True,
            body=b"{}",
            cache_salt="0" * 32,
            prompt_tokens=20,
            output_tokens=50,
            sequences=1,
            traceparent="",
            prefix=b"",
            queue_ms=600_000,
            max_waiting=10_000,
            max_waiting_bytes=None,
            sought=Sought(answer, answer, reads=True, max_age_ms=600_000, price_percent=50) if answer else None,
        )
        reply = self.call("admit", *admit_arguments(item))
        if reply[0] == b"unknown":
            self._seed(item, reply[1][1:])
            reply = self.call("admit", *admit_arguments(item))
        assert reply[0] in (b"ok", b"hit"), reply
        return item.request_id

    def _seed(self, item: NewItem, gaps: list[Any]) -> None:
        """Tell the store what the database knows, as a gateway does."""
        for level, period, since_ms in zip(gaps[::3], gaps[1::3], gaps[2::3], strict=True):
            owner = item.tenant_id if level == b"t" else item.key_id
            account = Account(Level(level.decode()), owner, period.decode())
            since = datetime.fromtimestamp(since_ms / 1000, UTC)
            known = spent(account.level, owner, account.start, account.end, since)
            self.call("seed", level, owner, period, since_ms, *known, 0)

    def claim(self) -> list[str]:
        """Let the worker take all that waits."""
        room = Room((ClassRoom(QosClass.P1, 99, 99, 5_000),), idle=True)
        _, flat, *_ = self.call("claim", *claim_arguments(WORKER, MODEL, "b-1", room, None))
        return [request_id.decode() for request_id in flat[::3]]

    def finish(self, request_id: str, used: Usage = Usage(18, 8, 7), attempt: int = 0) -> None:
        """Let the worker end one that it took, as completed."""
        usage = (used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        arguments = (request_id, WORKER, attempt, "completed", 200, "", *usage, "", VERSION, b"", MODEL, "p1=99")
        assert self.call("finish", *arguments) == 1

    def cancel(self, request_id: str, used: Usage = Usage(18, 0, 3)) -> None:
        """Let the gateway end one that waits."""
        usage = (used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        assert self.call("cancel", request_id, "cancelled", 499, "", *usage) == b"closed"

    def keep(self, answer: str, tenant_id: int, used: Usage = Usage(18, 8, 7)) -> None:
        """Keep an answer."""
        usage = (used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        now_ms = int(time.time() * 1000)
        self.call("store_answer", answer, b"packed", tenant_id, 600_000, 1_000_000, now_ms, *usage, VERSION)

    def end_following(self, request_id: str, used: Usage = Usage(18, 8, 7)) -> None:
        """Let the gateway end one that shared another's run, as completed."""
        usage = (used.prompt_tokens, used.cached_tokens, used.completion_tokens)
        assert self.call("end_following", request_id, "completed", 200, "", *usage, VERSION) == b"closed"

    def lose(self, request_id: str, made: int, delivered: int) -> None:
        """Let the worker lose one after it told of ``made`` answer tokens, and let its gateway offer it again."""
        self.call("progress", WORKER, request_id, made)
        assert self.call("lose", request_id, WORKER, 0, "engine_error", 0) == 1
        assert self.call("requeue", request_id, GATEWAY, 1, "text", delivered, b"")[0] == b"ready"

    def run(self, tenant_id: int, key_id: int, **options: Any) -> str:
        """Admit, take and finish one."""
        request_id = self.admit(tenant_id, key_id, **options)
        assert self.claim() == [request_id]
        self.finish(request_id)
        return request_id

    def began_long_ago(self) -> None:
        """Let the store be older than this month."""
        self._store.set("sl:born", int((time.time() - 40 * 86_400) * 1000))
