"""What operators ban, pin and release is so in every gateway; what is asked for often is found by itself."""

from collections.abc import Iterator

import pytest

from tests.acceptance.test_response_cache import ask, chat, compute, question, runs_of, word
from tests.acceptance.test_secrets_stay_secret import Operator
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

FOLLOWS_S = 30.0
KEY = "x-sluice-cache-key"


@pytest.fixture
def operator(keeping: Stack) -> Iterator[Operator]:
    person = Operator(keeping)
    yield person
    person.close()


def test_a_banned_answer_is_given_by_no_gateway_until_it_is_released(keeping: Stack, operator: Operator) -> None:
    body = chat(question())
    first = compute(keeping, body)
    assert ask(keeping, body).headers[KEY] == first.headers[KEY]
    assert ask(keeping, chat(question())).headers[KEY] != first.headers[KEY]

    asked = {"kind": "answer", "key": first.headers[KEY], "state": "banned", "note": "an outdated price"}
    banned = operator.api("POST", "hot-keys", asked)
    # One listening socket feeds both gateways: enough fresh connections reach each of them.
    wait_until(lambda: {word(ask(keeping, body)) for _ in range(8)} == {None}, FOLLOWS_S, "the ban holds somewhere")
    again = ask(keeping, body)
    assert runs_of(keeping, again) == 1
    assert KEY not in again.headers

    operator.api("POST", f"hot-keys/{banned['id']}/release", {})
    wait_until(lambda: {word(ask(keeping, body)) for _ in range(8)} == {"hit"}, FOLLOWS_S, "the release is not seen")


def test_what_is_asked_for_often_is_listed_with_its_tenant(keeping: Stack, operator: Operator) -> None:
    body = chat(question())
    key = [ask(keeping, body) for _ in range(8)][-1].headers[KEY]

    (row,) = wait_until(
        lambda: operator.api("GET", f"hot-keys?search={key}")["results"], FOLLOWS_S, "the key was not found by counting"
    )

    assert (row["kind"], row["state"], row["tenant"], row["model"]) == ("answer", "auto", "demo", body["model"])
    assert row["rate_per_minute"] > 0
