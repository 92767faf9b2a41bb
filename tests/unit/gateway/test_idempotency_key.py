"""Which keys are taken, what they name, and what is kept of an answer."""

from typing import Any

import pytest

from domain.config import Config
from domain.qos import QosClass
from gateway import idempotency
from gateway.errors import ApiError
from gateway.idempotency import Keeper, given_again, make_note, read_key
from gateway.schema import Ask
from tenants.snapshot import Principal
from workers.ready.item import Note
from workers.ready.verdict import Repeated

HOUR_MS = 3_600_000


def note(tenant_id: int = 1, retention_hours: int = 0, body: bytes = b"{}", ttl_s: int = 86_400, **ask: Any) -> Note:
    values: dict[str, Any] = {
        "endpoint": "chat",
        "model": "m",
        "stream": False,
        "include_usage": False,
        "service_tier": None,
        "max_tokens": None,
        "choices": 1,
        "prompt_bytes": 1,
        "idempotency_key": "k",
    }
    principal = Principal(
        tenant_id=tenant_id,
        tenant="acme",
        key_id=1,
        key_prefix="sk-",
        plan="p",
        best_class=QosClass.P1,
        weight=1.0,
        limits=(),
        allowed_models=None,
        cache_salt="0" * 32,
        scopes=frozenset(),
        allowed_addresses=(),
        retention_hours=retention_hours,
    )
    made = make_note(Config(idempotency_ttl_s=ttl_s), principal, Ask(**{**values, **ask}), body)
    assert made is not None
    return made


def test_a_request_without_the_header_has_no_key() -> None:
    assert read_key([(b"accept", b"*/*")]) is None


@pytest.mark.parametrize("key", [b"a", b"x" * 255, b"a b~!", b"8e03978e-40d5-43e8-bc93-6894a57f9324"])
def test_printable_keys_up_to_255_characters_are_taken(key: bytes) -> None:
    assert read_key([(b"idempotency-key", key)]) == key.decode()


@pytest.mark.parametrize("keys", [[b""], [b"x" * 256], [b"a\tb"], ["ключ".encode()], [b"\x7f"], [b"a", b"a"]])
def test_other_keys_are_refused_with_what_to_change(keys: list[bytes]) -> None:
    with pytest.raises(ApiError, match="Idempotency-Key") as refused:
        read_key([(b"idempotency-key", key) for key in keys])
    assert (refused.value.status, refused.value.code) == (400, "invalid_header")


def test_a_key_is_one_tenants_at_one_endpoint() -> None:
    names = {note().name, note(2).name, note(endpoint="completions").name, note(idempotency_key="other").name}
    assert len(names) == 4
    assert note().name == note(body=b"[]", stream=True).name


def test_a_note_tells_bodies_apart_and_holds_neither_key_nor_body() -> None:
    one = note(body=b'{"secret words": 1}', idempotency_key="secret key")
    assert one.body != note(body=b'{"secret words": 2}').body
    assert "secret" not in repr(one)


def test_an_answer_is_kept_for_as_long_as_plan_and_key_both_last() -> None:
    assert note().keep_ms == 0
    assert note(retention_hours=1).keep_ms == HOUR_MS
    assert note(retention_hours=100).keep_ms == 24 * HOUR_MS == note().ttl_ms


def refusal(what: str) -> ApiError:
    with pytest.raises(ApiError) as refused:
        given_again(Repeated(what, "first", b""))
    return refused.value


def test_who_repeats_while_it_runs_is_told_when_to_come_back_and_others_not_to() -> None:
    running = refusal("running")
    assert (running.status, running.code) == (409, "idempotency_in_progress")
    assert int(running.headers["retry-after"]) >= 1
    assert "x-should-retry" not in running.headers
    for what, status in (("used", 409), ("other_body", 422)):
        error = refusal(what)
        assert error.status == status
        assert error.headers["x-should-retry"] == "false"
        assert error.headers["x-sluice-original-request-id"] == "first"


class Kept:
    """Takes what a ready set would."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    async def keep_answer(self, request_id: str, answer: bytes, keep_ms: int) -> None:
        self.answers.append(answer)


@pytest.mark.parametrize(("size", "kept"), [(0, 1), (1, 0)])
async def test_an_answer_that_is_too_long_is_not_kept(size: int, kept: int) -> None:
    store: Any = Kept()
    keeper = Keeper(store, "r1", HOUR_MS)
    keeper.take(b"x" * (idempotency.MAX_ANSWER_BYTES - 1))
    keeper.take(b"y")
    keeper.take(b"z" * size)
    await keeper.keep()
    assert len(store.answers) == kept
