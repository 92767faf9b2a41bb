"""The journey of a request, on one screen.

authenticate -> colour -> (protect) -> admit -> ring -> relay -> settle

Before this: ``gateway/authentication.py`` found who calls, ``gateway/schema`` what is asked, ``tracing/colour.py``
gave the request its ids. After this: the item waits in the ready set (``workers/ready``) until a worker
(``workers/tasks.py``, ``workers/runner.py``) claims it; what the engine produces comes back through the runtime's
reader to the relay; the script that ends the item gives slot and tokens back and writes one settlement.
"""

import time

from gateway.admission import admit, time_allowed_s
from gateway.answer import Answer
from gateway.errors import Refusal, refuse
from gateway.idempotency import Replay
from gateway.relay import Relay
from gateway.runtime import runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing.colour import Colour
from workers.ready.verdict import Repeated


async def submit(principal: Principal, ask: Ask, body: bytes, colour: Colour) -> Answer | Replay:
    """Admit one request and return its answer, which is still to be written.

    Args:
        principal: who calls.
        ask: what is asked, validated; its model is the name under which engines serve it.
        body: the same as the client sent it (JSON); the engine gets these bytes.
        colour: the request's ids.

    Raises:
        ApiError: it is refused: limits (429), idempotency key (409, 422), no engine or no store (503).
    """
    started = time.monotonic()
    here = runtime()
    if not here.has_backend(ask.model):
        raise refuse(Refusal.NO_BACKEND)
    # The relay is open before the item is: an engine may answer before admission has returned.
    relay = here.relays[colour.request_id] = Relay(colour.request_id)
    try:
        item, admitted = await admit(here, principal, ask, body, colour)
    except BaseException:
        del here.relays[colour.request_id]
        raise
    if isinstance(admitted, Repeated):
        del here.relays[colour.request_id]
        return Replay(admitted, colour.request_id, started, stream=ask.stream)
    relay.admitted = True
    if admitted.ring or not admitted.has_room:
        here.tickets.arrived(item.model, item.qos_class, has_room=admitted.ring)
    return Answer(
        *(here, item, admitted, relay, started),
        timeout_s=time_allowed_s(ask, here.config),
        include_usage=ask.include_usage,
        tells_tier=ask.service_tier is not None,
    )
