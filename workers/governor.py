"""The governor: how much work one engine may be given now, class by class.

Room is what the engine really has: sequences under the in-flight cap, less what is kept for more urgent classes; KV
cache for prompts and expected answers; and prompt tokens that are not yet computed, so that little waits inside the
engine, where nothing can overtake it.
"""

from dataclasses import dataclass, field

from domain import prefix
from domain.cap import CapSample, InFlightCap
from domain.config import Config
from domain.qos import QosClass
from domain.reserve import P0Reserve, background_seats
from workers.engines.port import Engine
from workers.ready.item import Affinity, ClaimedItem, ClassRoom, Room

PREFILL_STEPS = 2
"""Steps' worth of prompt tokens that may be under way: one is computed, one is ready when it ends."""

BALANCE_SHARE = 0.125
"""Of an engine's sequences: so much busier may a worker become for the sake of a warm cache."""

LEAVE_MS = {QosClass.P0: 0, QosClass.P1: 100, QosClass.P2: 200}
"""How long an item is left to the worker that has its prefix; P0 never waits on purpose."""


@dataclass(slots=True)
class Load:
    """What one item takes of the engine."""

    item: ClaimedItem
    begun_ms: float
    made_tokens: int = 0
    answering: bool = False


@dataclass(slots=True)
class Governor:
    """Counts what runs on one engine. Use from the engine's event loop only.

    Attributes:
        trial: request id of the suspect that runs, if any.
        rooms: what is free for each class, as the scripts take it; may be read from any thread.
    """

    config: Config
    engine: Engine
    trial: str = ""
    rooms: str = ""
    cap: InFlightCap = field(init=False)
    reserve: P0Reserve = field(init=False)
    _loads: dict[str, Load] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cap = InFlightCap(self.config.max_num_seqs, self.config.min_in_flight)
        self.reserve = P0Reserve(self.config.max_num_seqs, self.config.reserve_p0_share)
        self._update_rooms()

    def started(self, item: ClaimedItem, now_ms: float) -> None:
        """An item goes to the engine."""
        self._loads[item.request_id] = Load(item, now_ms)
        if item.on_trial:
            self.trial = item.request_id
        if item.qos_class is QosClass.P0:
            self.reserve.observe(now_ms, self.in_flight(QosClass.P0))
        self._update_rooms()

    def made(self, request_id: str, tokens: int) -> bool:
        """The engine answers: output tokens of this attempt so far. True for the first of them."""
        load = self._loads[request_id]
        first, load.answering = not load.answering, True
        load.made_tokens = tokens
        return first

    def ended(self, request_id: str) -> None:
        """An item has left the engine."""
        self._loads.pop(request_id, None)
        if self.trial == request_id:
            self.trial = ""
        self._update_rooms()

    def in_flight(self, qos_class: QosClass | None = None) -> int:
        """Sequences that run, of one class or of all."""
        loads = self._loads.values()
        return sum(load.item.sequences for load in loads if qos_class in (None, load.item.qos_class))

    def room(self, now_ms: float) -> Room:
        """What may be claimed now."""
        full = self._prefill_steps() * self.config.max_num_batched_tokens
        kv_tokens = self._free_kv_tokens()
        return Room(
            classes=self.seats(),
            idle=not self._loads,
            may_try=not self.trial,
            kv_tokens=kv_tokens,
            prefill_tokens=max(0, full - self._prefilling(now_ms)),
            max_prefill_tokens=full,
            served_prefixes=self._served_prefixes(),
        )

    def seats(self) -> tuple[ClassRoom, ...]:
        """Sequences free for each class that is served here."""
        config, used = self.config, self.in_flight()
        free = config.max_num_seqs - used
        under_cap = min(free, self.cap.cap - used)
        capped = under_cap - self.reserve.seats(self.in_flight(QosClass.P0))
        background = min(capped, under_cap - background_seats(self.cap.cap, config.reserve_p2_share))
        rooms = {
            QosClass.P0: ClassRoom(QosClass.P0, free, free, 0),
            QosClass.P1: ClassRoom(QosClass.P1, capped, capped, config.ageing_p1_ms),
            QosClass.P2: ClassRoom(QosClass.P2, background, capped, config.ageing_p2_ms),
        }
        return tuple(rooms[qos_class] for qos_class in QosClass if qos_class.value in config.worker_classes)

    def no_room(self) -> str:
        """What a worker that takes nothing has free."""
        return ",".join(f"{qos_class}=0" for qos_class in self.config.worker_classes)

    def affinity(self) -> Affinity | None:
        """How far matching prefixes may bend the order; None when it is switched off."""
        if not self.config.affinity:
            return None
        balance = max(1, int(self.config.max_num_seqs * BALANCE_SHARE))
        return Affinity(self.config.affinity_slack_tokens, balance, LEAVE_MS)

    def observe(self, now_ms: float, waiting: int) -> None:
        """Let cap and reserve follow what the engine does."""
        room = self.engine.room()
        self.reserve.observe(now_ms, self.in_flight(QosClass.P0))
        self.cap.observe(
            CapSample(
                now_ms=now_ms,
                in_flight=self.in_flight(),
                waiting=waiting,
                step_ms=room.step_ms,
                goal_ms=self._goal_ms(),
                preemptions_total=room.preemptions,
                kv_use=1 - room.free_kv_blocks / room.kv_blocks if room.kv_blocks else 0.0,
                reserved=self.reserve.seats(self.in_flight(QosClass.P0)),
            )
        )
        self._update_rooms()

    def facts(self) -> dict[str, str | int | float]:
        """What operators see of it."""
        room = self.engine.room()
        return {
            "cap": self.cap.cap,
            "cap_reason": self.cap.reason,
            "reserve_p0": self.reserve.seats(self.in_flight(QosClass.P0)),
            "free_kv_blocks": room.free_kv_blocks,
            "free_kv_tokens": room.free_kv_blocks * room.block_tokens,
            "preemptions": room.preemptions,
            "step_ms": round(room.step_ms, 1),
        }

    def _update_rooms(self) -> None:
        self.rooms = Room(self.seats()).text()

    def _goal_ms(self) -> float:
        goals = {QosClass.P0: self.config.tpot_goal_p0_ms, QosClass.P1: self.config.tpot_goal_p1_ms}
        running = {load.item.qos_class for load in self._loads.values()}
        return next((goals[one] for one in goals if one in running and goals[one]), 0.0)

    def _free_kv_tokens(self) -> int | None:
        """Free now, less what the answers under way are still expected to take."""
        room = self.engine.room()
        if not room.kv_blocks:
            return None
        growth = sum(
            max(0, load.item.need_tokens - load.item.prompt_tokens - load.made_tokens) for load in self._loads.values()
        )
        return max(0, room.free_kv_blocks * room.block_tokens - growth)

    def _prefill_steps(self) -> int:
        """One while P0 comes, since its prompt waits for those of others that are under way."""
        return 1 if self.reserve.seats(self.in_flight(QosClass.P0)) else PREFILL_STEPS

    def _prefilling(self, now_ms: float) -> int:
        """Prompt tokens under way. A whole answer shows no first token, so there the steps are reckoned."""
        step_ms = self.engine.room().step_ms
        budget = self.config.max_num_batched_tokens

        def under_way(load: Load) -> bool:
            steps = PREFILL_STEPS * (1 + load.item.prompt_tokens / budget)
            return not load.answering and (load.item.stream or now_ms - load.begun_ms < steps * step_ms)

        return sum(load.item.prompt_tokens for load in self._loads.values() if under_way(load))

    def _served_prefixes(self) -> int:
        room = self.engine.room()
        fine_tokens = prefix.FINE_BYTES // prefix.BYTES_PER_TOKEN
        return max(64, room.kv_blocks * room.block_tokens // fine_tokens)
