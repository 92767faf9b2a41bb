"""Whoever shares a run hears all of it, once and in order, under its own name; here at once, elsewhere by post."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as StoreAway

from domain.outcome import Outcome
from domain.usage import Usage
from gateway import post as post_module
from gateway.audience import Audience
from gateway.post import MESSAGE_BYTES, Post
from gateway.relay import Relay
from workers import wire

ROLE = b'{"id":"chatcmpl-leader","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'


def text(word: str) -> bytes:
    return b'{"id":"chatcmpl-leader","choices":[{"index":0,"delta":{"content":"%b"}}]}' % word.encode()


def event(*parts: object) -> wire.Event:
    return wire.unpack(wire.pack([["leader", *parts]]))[0]


def frame(sequence: int, data: bytes, attempt: int = 0) -> wire.Event:
    return event(attempt, sequence, "F", data, 7, sequence, wire.pack_ids((sequence,)))


def joined(name: str, gateway: str, attempt: int = 0) -> wire.Event:
    return event(0, -1, "J", name, gateway, attempt)


class Stage:
    """A leader on gateway g1, followers on g1 and g2, and what g2 is sent."""

    def __init__(self) -> None:
        self.leader = Relay("leader")
        self.relays = {"leader": self.leader, "here": Relay("here", follows=True)}
        self.there = Relay("there", follows=True)
        self.messages: list[list[wire.Event]] = []
        self.audience = self.leader.audience = Audience(self.leader, "g1", self.relays, Post(self.send))

    async def send(self, gateway_id: str, events: list[wire.Event]) -> None:
        assert gateway_id == "g2"
        self.messages.append(events)
        for one in wire.unpack(wire.pack(events)):
            self.there.accept(one)

    async def posted(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def join_both(self) -> None:
        self.audience.join(joined("here", "g1"))
        self.audience.join(joined("there", "g2"))


def heard(relay: Relay) -> list[bytes]:
    return [one.replace(relay.request_id.encode(), b"leader", 1) for one in relay.frames]


async def test_all_hear_what_was_made_before_and_after_they_came() -> None:
    stage = Stage()
    stage.leader.accept(frame(0, ROLE))
    stage.leader.accept(frame(1, text("a")))
    stage.leader.take()
    stage.leader.accept(frame(2, text("b")))
    stage.join_both()
    stage.leader.accept(frame(3, text("c")))
    stage.leader.accept(event(0, -1, "D", 7, 2, 3, "v1"))
    await stage.posted()
    for relay in (stage.relays["here"], stage.there):
        assert heard(relay) == [ROLE, text("a"), text("b"), text("c")]
        assert relay.end is not None
        assert relay.end.outcome is Outcome.COMPLETED
        assert relay.usage == Usage(7, 2, 3)
        assert relay.version == "v1"
        assert wire.unpack_ids(bytes(relay.ids)) == (0, 1, 2, 3)
    assert b'"id":"chatcmpl-there"' in stage.there.frames[0]


async def test_a_batch_of_frames_is_one_message_to_a_gateway() -> None:
    stage = Stage()
    stage.join_both()
    for sequence in range(50):
        stage.leader.accept(frame(sequence, text("x")))
    await stage.posted()
    assert [len(events) for events in stage.messages] == [50]


async def test_a_message_has_an_end() -> None:
    stage = Stage()
    stage.join_both()
    for sequence in range(3):
        stage.leader.accept(frame(sequence, text("x" * MESSAGE_BYTES)))
    await stage.posted()
    assert [len(events) for events in stage.messages] == [1, 1, 1]


async def test_who_joins_twice_hears_once() -> None:
    stage = Stage()
    stage.join_both()
    stage.join_both()
    stage.leader.accept(frame(0, ROLE))
    await stage.posted()
    assert len(stage.there.frames) == 1
    assert sum(map(len, stage.messages)) == 1


async def test_an_engine_that_takes_over_opens_the_answer_only_once() -> None:
    stage = Stage()
    stage.leader.accept(frame(0, ROLE))
    stage.audience.join(joined("here", "g1"))
    stage.leader.accept(event(1, -1, "L", "worker_lost"))
    stage.leader.accept(frame(0, ROLE, attempt=1))
    stage.leader.accept(frame(1, text("a"), attempt=1))
    stage.audience.join(joined("there", "g2"))
    await stage.posted()
    assert heard(stage.relays["here"]) == heard(stage.there) == [ROLE, text("a")]


async def test_an_engine_lost_before_anything_was_made_opens_the_answer_for_all() -> None:
    stage = Stage()
    stage.join_both()
    stage.leader.accept(event(1, -1, "L", "worker_lost"))
    stage.leader.accept(frame(0, ROLE, attempt=1))
    await stage.posted()
    assert heard(stage.relays["here"]) == heard(stage.there) == [ROLE]


async def test_who_listens_under_a_later_attempt_hears_nothing_of_the_first_run() -> None:
    stage = Stage()
    stage.audience.join(joined("here", "g1", attempt=0))
    stage.relays["here"].lose(1, "leader_lost")
    stage.leader.accept(frame(0, ROLE))
    assert stage.relays["here"].frames == []


async def test_what_cannot_be_sent_is_sent_again_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "RETRY_S", 0)
    sent: list[Any] = []
    failures = iter([True, True])

    async def send(gateway_id: str, events: list[wire.Event]) -> None:
        if next(failures, False):
            raise StoreAway
        sent.extend(events)

    post = Post(send)
    post.give("g2", lambda: [b"r", 0, -1, wire.DONE, 1])
    await asyncio.sleep(0)
    post.give("g2", lambda: [b"r", 0, -1, wire.DONE, 2])
    for _ in range(50):
        await asyncio.sleep(0)
    assert [one[4] for one in sent] == [1, 2]


async def test_what_waits_for_a_gateway_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_module, "MAX_WAITING", 3)
    sent: list[Any] = []

    async def send(gateway_id: str, events: list[wire.Event]) -> None:
        sent.extend(events)

    post = Post(send)
    for number in range(10):
        post.give("g2", lambda number=number: [b"r", 0, -1, wire.DONE, number])  # type: ignore[misc]
    for _ in range(20):
        await asyncio.sleep(0)
    assert [one[4] for one in sent] == [0, 1, 2]
