"""Equal requests that share the run of one of them: who hears what the engine makes for it.

They hear it as if their own engine had made it: ordinary events under their own request ids, counted from 0. So their
relays and answers hardly know. Those of this process hear at once, those of others by post.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import orjson

from domain.usage import Usage
from gateway.post import Post
from gateway.relay import Relay
from gateway.resume import only_role
from workers import wire


@dataclass(slots=True)
class _Listener:
    """One that follows: under which attempt it listens, and how many frames it was sent."""

    request_id: bytes
    gateway_id: str
    attempt: int
    sent: int = 0


class Audience:
    """All that follow one request, which is computed here.

    Args:
        leader: the relay of that request.
        gateway_id: of this process.
        relays: all of this process.
        post: to other processes.
    """

    def __init__(self, leader: Relay, gateway_id: str, relays: Mapping[str, Relay], post: Post) -> None:
        self._leader, self._gateway_id, self._relays, self._post = leader, gateway_id, relays, post
        self._listeners: list[_Listener] = []

    def join(self, event: wire.Event) -> None:
        """One more follows: it hears all frames so far, and each further one."""
        listener = _Listener(event[4], event[5].decode(), event[6])
        if any(one.request_id == listener.request_id and one.attempt == listener.attempt for one in self._listeners):
            return
        leader, frames = self._leader, self._leader.frames
        for number, frame in enumerate(frames):
            ids = bytes(leader.ids) if number == len(frames) - 1 else b""
            if number == 0 or not leader.losses or not _opens_again(frame):
                self._send_frame(listener, frame, leader.usage, ids)
        self._listeners.append(listener)

    def frame(self, frame: bytes, ids: bytes, *, first: bool) -> None:
        """The engine made a piece; ``first`` if it is the answer's first one."""
        if not first and self._leader.losses and _opens_again(frame):
            return
        for listener in self._listeners:
            self._send_frame(listener, frame, self._leader.usage, ids)

    def done(self) -> None:
        """The answer is complete."""
        usage = self._leader.usage
        counts = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
        for one in self._listeners:
            event = [one.request_id, one.attempt, -1, wire.DONE, *counts, self._leader.version.encode()]
            self._give(one, partial(list, event))
        self._listeners.clear()

    def _send_frame(self, listener: _Listener, frame: bytes, usage: Usage, ids: bytes) -> None:
        head = [listener.request_id, listener.attempt, listener.sent, wire.FRAME]
        counts = usage.prompt_tokens, usage.completion_tokens
        leader, follower = self._leader.request_id.encode(), listener.request_id
        listener.sent += 1
        # The answer's id comes first in it and holds the request's.
        self._give(listener, lambda: [*head, frame.replace(leader, follower, 1), *counts, ids])

    def _give(self, listener: _Listener, letter: Callable[[], wire.Event]) -> None:
        if listener.gateway_id != self._gateway_id:
            self._post.give(listener.gateway_id, letter)
            return
        relay = self._relays.get(listener.request_id.decode())
        if relay is not None:
            relay.accept(letter())


def _opens_again(frame: bytes) -> bool:
    """Whether it only says who speaks, as every engine does that takes an answer over."""
    return only_role(frame) and orjson.loads(frame)["choices"][0].get("index", 0) == 0
