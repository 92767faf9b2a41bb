"""The journey of one request as its gateway process notes it, moment by moment, to become one record at its end.

It costs some reads of the clock on the way; all reckoning is left to whoever stores the record.
"""

from contextvars import ContextVar

from caching.entry import Entry
from domain.outcome import Outcome
from domain.trace.record import Record
from domain.usage import Usage
from gateway.relay import Relay
from tracing.clock import now_us
from tracing.colour import Colour

REFUSED = "refused"


class Journey:
    """What is known of one request so far; see :class:`domain.trace.record.Record` for the names.

    Attributes:
        relay: where its answer arrives, once it was admitted.
        asks: it is a request to a model, so that it is recorded.
    """

    __slots__ = (
        "admitted_us",
        "answered_us",
        "asked_us",
        "asks",
        "cache",
        "code",
        "colour",
        "counted_us",
        "endpoint",
        "leader_id",
        "looked_up_us",
        "model",
        "model_version",
        "outcome",
        "qos_class",
        "received_us",
        "relay",
        "status",
        "stream",
        "tenant",
        "usage",
    )

    def __init__(self, colour: Colour) -> None:
        self.colour = colour
        self.received_us = now_us()
        self.asked_us = self.looked_up_us = self.counted_us = self.admitted_us = self.answered_us = 0
        self.tenant = self.qos_class = self.model = self.model_version = self.endpoint = ""
        self.outcome = self.code = self.cache = self.leader_id = ""
        self.status = 0
        self.asks = self.stream = False
        self.relay: Relay | None = None
        self.usage: Usage | None = None

    def answered(self) -> None:
        """The first piece of the answer was written."""
        self.answered_us = self.answered_us or now_us()

    def written(self) -> None:
        """An answer that was there from the beginning was written whole."""
        if not self.outcome:
            self.answered()
            self.ended(Outcome.COMPLETED.value, 200)

    def ended(self, outcome: str, status: int, code: str = "") -> None:
        """How it ended; what is told last stands."""
        self.outcome, self.status, self.code = outcome, status, code

    def kept(self, word: str, entry: Entry | None = None) -> None:
        """It gets an answer that was made before: "hit", "stale" or "replayed"."""
        self.cache = word
        if entry is not None:
            self.usage, self.model_version = entry.usage, entry.version

    def record(self, gateway_id: str) -> Record:
        """All of it, to be called once."""
        colour, relay = self.colour, self.relay
        run = relay.runs[-1] if relay and relay.runs else None
        usage = self.usage or (relay.usage if relay else Usage())
        version = self.model_version or (relay.version if relay else "") or (run.model_version if run else "")
        return Record(
            request_id=colour.request_id,
            trace_id=colour.trace_id,
            span_id=colour.span_id,
            parent_id=colour.parent_id,
            tenant=self.tenant,
            qos_class=self.qos_class,
            model=self.model,
            endpoint=self.endpoint,
            stream=self.stream,
            gateway_id=gateway_id,
            outcome=self.outcome or REFUSED,
            status=self.status,
            code=self.code,
            cache=self.cache,
            model_version=version,
            leader_id=self.leader_id,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens or (run.cached_tokens if run else 0),
            completion_tokens=usage.completion_tokens,
            received_us=self.received_us,
            asked_us=self.asked_us,
            looked_up_us=self.looked_up_us,
            counted_us=self.counted_us,
            admitted_us=self.admitted_us,
            heard_us=relay.heard_us if relay else 0,
            answered_us=self.answered_us,
            ended_us=now_us(),
            runs=tuple(relay.runs) if relay else (),
            timeline=tuple(relay.timeline) if relay else (),
        )


_current: ContextVar[Journey | None] = ContextVar("journey", default=None)


def begin(colour: Colour) -> Journey:
    """Begin the journey of the request that this task serves."""
    journey = Journey(colour)
    _current.set(journey)
    return journey


def of(colour: Colour) -> Journey:
    """The journey of the request that this task serves; one that nobody reads where there is none."""
    journey = _current.get()
    return journey if journey is not None else begin(colour)
