"""The journey of a request, on one screen.

authenticate -> colour -> protect -> count -> admit -> ring -> relay -> settle

Before this: ``gateway/authentication.py`` found who calls, ``gateway/schema`` what is asked, ``tracing/colour.py``
gave the request its ids. After this: the item waits in the ready set (``workers/ready``) until a worker
(``workers/tasks.py``, ``workers/runner.py``) claims it; what the engine produces comes back through the runtime's
reader to the relay; the script that ends the item gives slot and tokens back and writes one settlement. A kept answer
ends the journey at admission, and an equal request that runs already is joined there.
"""

import time
from dataclasses import replace

from domain.trace.spans import span_id
from domain.trace.stages import Stage
from gateway import journey
from gateway.admission import admit, class_of, time_allowed_s
from gateway.answer import Answer
from gateway.errors import ApiError, Refusal, refuse
from gateway.idempotency import Replay
from gateway.kept_answer import KeptAnswer, give_kept, give_stale
from gateway.lookup import Lookup
from gateway.protect import look_up
from gateway.relay import Relay
from gateway.runtime import Runtime, runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing.clock import now_us
from tracing.colour import Colour, current
from workers.ready.item import NewItem
from workers.ready.verdict import Admitted, Hit, Repeated


async def submit(principal: Principal, ask: Ask, body: bytes, colour: Colour) -> Answer | KeptAnswer | Replay:
    """Admit one request and return its answer, which is still to be written.

    Args:
        principal: who calls.
        ask: what is asked, validated; its model is the name under which engines serve it.
        body: the same as the client sent it (JSON); the engine gets these bytes.
        colour: the request's ids.

    Raises:
        ApiError: it is refused: limits (429), idempotency key (409, 422), no engine or no store (503), no kept answer
            where it wants nothing else (504).
    """
    started, here, notes = time.monotonic(), runtime(), journey.of(colour)
    notes.qos_class, notes.stream, notes.asked_us = class_of(ask, principal).value, ask.stream, now_us()
    scope = f"{principal.tenant}/{notes.qos_class}"
    current.set(colour.changed(span_id(colour.request_id, Stage.ADMIT.value), tenant_scope=scope))
    lookup = await look_up(here, principal, ask)
    notes.looked_up_us = now_us()
    ask = await _counted(here, principal, ask, lookup)
    notes.counted_us = now_us()
    # The relay is open before the item is: an engine may answer before admission has returned.
    relay = here.relays[colour.request_id] = Relay(colour.request_id)
    try:
        item, admitted = await _admit(here, principal, ask, body, colour, lookup)
    except BaseException as error:
        del here.relays[colour.request_id]
        stale = await give_stale(here, principal, ask, colour, lookup, error, started)
        if stale is not None:
            notes.kept("stale", stale.entry)
            return stale
        raise
    finally:
        notes.admitted_us = now_us()
    if not isinstance(admitted, Admitted):
        del here.relays[colour.request_id]
    if isinstance(admitted, Repeated):
        notes.kept("replayed")
        return Replay(admitted, colour.request_id, started, stream=ask.stream)
    if isinstance(admitted, Hit):
        kept = await give_kept(here, item, ask, lookup, admitted, started)
        notes.kept("hit", kept.entry)
        return kept
    relay.admitted, notes.relay, notes.leader_id = True, relay, admitted.follows
    if not admitted.follows and (admitted.ring or not admitted.has_room):
        here.tickets.arrived(item.model, item.qos_class, has_room=admitted.ring)
    return Answer(
        *(here, item, admitted, relay, started),
        timeout_s=time_allowed_s(ask, here.config),
        include_usage=ask.include_usage,
        tells_tier=ask.service_tier is not None,
        lookup=lookup,
        notes=notes,
    )


async def _counted(here: Runtime, principal: Principal, ask: Ask, lookup: Lookup | None) -> Ask:
    """The request with the tokens of its prompts: as they were counted before, if its answer is here."""
    if lookup is not None and lookup.held is not None:
        return replace(ask, request=None, prompt_tokens=lookup.held.usage.prompt_tokens)
    return await here.tokens.counted(ask, principal.cache_salt)


async def _admit(
    here: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour, lookup: Lookup | None
) -> tuple[NewItem, Admitted | Hit | Repeated]:
    """Admit it; while no engine is there, only to a kept answer."""
    if here.has_backend(ask.model):
        return await admit(here, principal, ask, body, colour, lookup)
    if lookup is None or not lookup.reads:
        raise refuse(Refusal.NO_BACKEND)
    try:
        return await admit(here, principal, ask, body, colour, replace(lookup, only_kept=True, shares=False))
    except ApiError as error:
        if error.reason != Refusal.NOT_KEPT or lookup.only_kept:
            raise
        raise refuse(Refusal.NO_BACKEND) from error
