import json

import pytest

from domain.outcome import Outcome
from gateway.errors import OUTCOMES, TABLE, ApiError, Refusal, key_refused, mask_key, outcome_error, refuse, rejected

KEY = "sk-abcdefghijklmnopqrstuvwxyz0123"


def test_the_body_is_openais_error_object() -> None:
    error = ApiError(400, "wrong", param="n", code="c")

    assert json.loads(error.body()) == {
        "error": {"message": "wrong", "type": "invalid_request_error", "param": "n", "code": "c"}
    }


@pytest.mark.parametrize("why", Refusal)
def test_every_refusal_has_a_row_with_a_sentence(why: Refusal) -> None:
    error = refuse(why)

    assert error.status in range(400, 600)
    assert error.message.endswith(".")
    assert json.loads(error.body())["error"]["reason"] == why.value


@pytest.mark.parametrize("why", [why for why, entry in TABLE.items() if entry.status in (429, 503)])
def test_every_429_and_503_says_when_to_come_back(why: Refusal) -> None:
    headers = refuse(why).headers

    assert int(headers["retry-after"]) >= 1
    assert int(headers["retry-after-ms"]) >= 1


@pytest.mark.parametrize(("wait_ms", "seconds"), [(0, "1"), (1, "1"), (1000, "1"), (1001, "2"), (7000, "7")])
def test_retry_after_is_whole_seconds_and_never_too_early(wait_ms: int, seconds: str) -> None:
    assert refuse(Refusal.QUEUE_FULL, retry_after_ms=wait_ms).headers["retry-after"] == seconds


def test_every_outcome_but_success_is_an_error() -> None:
    assert set(OUTCOMES) == set(Outcome) - {Outcome.COMPLETED}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.EXPIRED, 429),
        (Outcome.FAILED, 502),
        (Outcome.TIMEOUT, 504),
        (Outcome.REJECTED, 400),
        (Outcome.CANCELLED, 499),
    ],
)
def test_an_outcome_has_one_status(outcome: Outcome, status: int) -> None:
    assert outcome_error(outcome).status == status


def test_an_engines_refusal_keeps_its_words_but_is_never_a_5xx() -> None:
    error = rejected(500, {"message": "too long", "param": "messages", "code": 400})

    assert (error.status, error.message, error.param) == (400, "too long", "messages")


@pytest.mark.parametrize(
    ("reason", "status"), [("unknown", 401), ("revoked", 401), ("expired", 401), ("disabled", 403)]
)
def test_a_refused_key_is_not_echoed(reason: str, status: int) -> None:
    error = key_refused(reason, KEY)

    assert error.status == status
    assert KEY not in error.message
    assert KEY[3:-4] not in error.body().decode()


@pytest.mark.parametrize(("key", "shown"), [(KEY, "sk-***0123"), ("short", "***"), ("é\r\n" + "x" * 20, "???***xxxx")])
def test_a_key_is_masked(key: str, shown: str) -> None:
    assert mask_key(key) == shown
