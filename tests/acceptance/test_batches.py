"""The whole life of a batch, as the official client has it: from the file that is uploaded to those of its results."""

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.acceptance import batches
from tests.acceptance.batches import CHAT, COMPLETIONS, MODEL, SOON_S, answered, chat, chats, ids, line
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

SLOW = "tokens=20,itl=0.05"
"""A second for each answer, so that a batch of many is not over at once."""
TIERS = ("priority", "default", "flex", "auto")


@pytest.fixture(scope="module")
def keys(bulk: Stack) -> dict[str, str]:
    """One tenant for each kind of plan, and one for each test that counts."""
    return bulk.add_tenants(
        {
            "no-files": {"files_mib": 0},
            "lister": {},
            "stranger": {},
            "leaver": {},
            "five-a-day": {"requests_per_day": 5},
            "one-a-day": {"requests_per_day": 1},
        }
    )


@pytest.fixture
def client(bulk: Stack) -> Iterator[OpenAI]:
    with bulk.client() as made:
        yield made


# --- the life of one -------------------------------------------------------------------------------------------------


def test_its_answers_are_those_of_the_same_requests_one_by_one(client: OpenAI) -> None:
    lines = [
        chat(f"q-{number}", temperature=0, seed=number % 3, service_tier=TIERS[number % len(TIERS)])
        for number in range(60)
    ]
    direct = [client.chat.completions.create(**one["body"]).to_dict() for one in lines]

    made = batches.submit(client, lines, metadata={"night": "first"})
    assert (made.object, made.status, made.endpoint, made.completion_window) == ("batch", "validating", CHAT, "24h")
    assert made.metadata == {"night": "first"}
    ended = batches.finish(client, made.id)

    assert (ended.status, ended.errors, ended.error_file_id) == ("completed", None, None)
    assert (ended.metadata, ended.model, ended.input_file_id) == ({"night": "first"}, MODEL, made.input_file_id)
    assert ended.created_at <= ended.in_progress_at <= ended.finalizing_at <= ended.completed_at < ended.expires_at
    output, _ = batches.check_each_once(client, ended, lines)
    for one, answer in zip(output, direct, strict=True):
        assert (one["error"], one["response"]["status_code"]) == (None, 200)
        body: Any = one["response"]["body"]
        assert body["choices"] == answer["choices"]
        assert body["usage"] == answer["usage"]
    assert len({one["id"] for one in output}) == len(lines)


def test_its_usage_is_that_of_its_rows_which_are_background_work_whatever_its_lines_ask_for(
    bulk: Stack, client: OpenAI
) -> None:
    same = "Say the same again. " * 20
    lines = [chat(f"q-{number}", same, service_tier=TIERS[number % len(TIERS)]) for number in range(40)]
    ended = batches.run(client, lines)

    output, _ = batches.check_each_once(client, ended, lines)
    rows = batches.rows_of(bulk, ended)
    assert {one["response"]["body"]["service_tier"] for one in output} == {"flex"}
    assert Counter((outcome, qos_class) for _, outcome, qos_class, *_ in rows) == {("completed", "p2"): len(lines)}
    assert {one[0] for one in rows} == {one["response"]["request_id"] for one in output}
    told = ended.usage
    assert told.input_tokens == sum(one[3] for one in rows)
    assert told.input_tokens_details.cached_tokens == sum(one[4] for one in rows) > 0
    assert told.output_tokens == sum(one[5] for one in rows)
    assert told.total_tokens == told.input_tokens + told.output_tokens


def test_texts_are_continued(client: OpenAI) -> None:
    bodies = [{"model": MODEL, "prompt": f"Once upon {number}", "max_tokens": 4} for number in range(8)]
    direct = [client.completions.create(**body).to_dict() for body in bodies]  # type: ignore[call-overload]
    lines = [line(f"t-{number}", COMPLETIONS, body) for number, body in enumerate(bodies)]
    ended = batches.run(client, lines, COMPLETIONS)

    output, _ = batches.check_each_once(client, ended, lines)
    assert [one["response"]["body"]["choices"] for one in output] == [answer["choices"] for answer in direct]


def test_files_as_people_write_them_are_read(client: OpenAI) -> None:
    """With a byte order mark, Windows' line breaks, blank lines, and names in any script."""
    lines = [chat("一"), chat("zwei 🚢"), chat("q\n3")]
    text = "\ufeff" + "\r\n \r\n".join(json.dumps(one, ensure_ascii=False) for one in lines) + "\r\n\r\n"
    ended = batches.run(client, [text])

    batches.check_each_once(client, ended, lines)
    assert ended.status == "completed"


def test_bodies_that_are_wrong_fail_alone(client: OpenAI) -> None:
    lines = [
        chat("hot", temperature="hot"),
        chat("right"),
        chat("unknown", no_such_field=1),
        chat("too-long", "word " * 12_000),
        chat("broken", sim="error=500"),
        chat("refused", sim="error=422"),
        chat("right-too"),
    ]
    ended = batches.run(client, lines)

    assert ended.status == "completed"
    output, errors = batches.check_each_once(client, ended, lines)
    assert ids(output) == ["right", "right-too"]
    told = {one["custom_id"]: one["response"] for one in errors}
    assert {one["error"] for one in errors} == {None}, "they were run"
    assert {name: one["status_code"] for name, one in told.items()} == {
        "hot": 400,
        "unknown": 400,
        "too-long": 400,
        "broken": 502,
        "refused": 422,
    }
    for one in told.values():
        assert one["request_id"]
        assert one["body"]["error"].keys() >= {"message", "type", "param", "code"}
    assert told["hot"]["body"]["error"]["param"] == "temperature"
    assert told["too-long"]["body"]["error"]["code"] == "context_length_exceeded"


def test_what_breaks_under_engines_is_tried_three_times(bulk: Stack, client: OpenAI) -> None:
    lines = [chat("broken", sim="die_after=1"), chat("right")]
    ended = batches.run(client, lines)

    output, errors = batches.check_each_once(client, ended, lines)
    assert (ids(output), ids(errors)) == (["right"], ["broken"])
    rows = batches.rows_of(bulk, ended)
    assert Counter(outcome for _, outcome, *_ in rows) == {"completed": 1, "failed": 3}
    assert errors[0]["response"]["request_id"] in {
        request_id for request_id, outcome, *_ in rows if outcome == "failed"
    }


# --- files that are refused ------------------------------------------------------------------------------------------

BROKEN: list[tuple[str, list[Any], list[tuple[str, int | None, str | None]]]] = [
    (
        "no JSON",
        [chat("a"), "{nonsense", chat("b"), "[1]"],
        [("invalid_json_line", 2, None), ("invalid_json_line", 4, None)],
    ),
    ("a name twice", [chat("a"), chat("b"), chat("a")], [("duplicate_custom_id", 3, "custom_id")]),
    ("no name", [{**chat("a"), "custom_id": None}], [("missing_required_parameter", 1, "custom_id")]),
    ("a stream", [chat("a"), chat("b", stream=True)], [("invalid_body", 2, "body.stream")]),
    ("an unknown model", [chat("a", model="no-such")], [("model_not_found", 1, "body.model")]),
    ("another address", [chat("a"), line("b", COMPLETIONS, chat("b")["body"])], [("invalid_url", 2, "url")]),
    ("another method", [{**chat("a"), "method": "GET"}], [("invalid_method", 1, "method")]),
    ("no body", [chat("a"), "", {"custom_id": "b", "method": "POST", "url": CHAT}], [("invalid_body", 3, "body")]),
    ("nothing", ["\n\n  \n"], [("empty_file", None, "input_file_id")]),
]


@pytest.mark.parametrize(("lines", "expected"), [one[1:] for one in BROKEN], ids=[one[0] for one in BROKEN])
def test_a_file_that_is_wrong_anywhere_is_not_run_at_all(
    bulk: Stack, client: OpenAI, lines: list[Any], expected: list[Any]
) -> None:
    ended = batches.run(client, lines)

    assert (ended.status, ended.output_file_id, ended.error_file_id) == ("failed", None, None)
    assert ended.failed_at
    assert [(one.code, one.line, one.param) for one in ended.errors.data] == expected
    assert all(one.message for one in ended.errors.data)
    counts = ended.request_counts
    assert (counts.total, counts.completed, counts.failed) == (0, 0, 0)
    assert batches.rows_of(bulk, ended) == []


def test_a_file_of_more_than_fifty_thousand_requests_is_refused(bulk: Stack, client: OpenAI) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    ended = batches.run(client, (line(str(number), CHAT, body) for number in range(50_001)))

    assert ended.status == "failed"
    assert [(one.code, one.line) for one in ended.errors.data] == [("too_many_requests", None)]
    assert batches.rows_of(bulk, ended) == []


def test_no_more_errors_are_told_than_anybody_reads(client: OpenAI) -> None:
    ended = batches.run(client, ["nonsense"] * 1000)

    assert [one.line for one in ended.errors.data] == list(range(1, 101))


# --- an end before its time ------------------------------------------------------------------------------------------


def check_rest(client: OpenAI, ended: Any, lines: list[Any], code: str) -> int:
    """Each request has its answer, or is told why it has none; return how many have answers."""
    output, errors = batches.check_each_once(client, ended, lines)
    assert {one["response"]["status_code"] for one in output} <= {200}
    assert {one["response"] for one in errors} == {None}
    assert {one["error"]["code"] for one in errors} == {code}
    return len(output)


def test_a_batch_is_cancelled_while_it_runs_and_keeps_what_it_has(bulk: Stack, client: OpenAI) -> None:
    lines = chats(300, SLOW, max_tokens=40)
    made = batches.submit(client, lines)
    batches.reach(client, made.id, answered(10))
    with pytest.raises(openai.ConflictError) as caught:
        client.files.delete(made.input_file_id)
    assert caught.value.code == "file_in_use"

    cancelled = client.batches.cancel(made.id)
    assert cancelled.status == "cancelling"
    assert cancelled.cancelling_at
    ended = batches.finish(client, made.id)

    assert ended.status == "cancelled"
    assert ended.cancelled_at >= ended.cancelling_at
    assert 10 <= check_rest(client, ended, lines, "batch_cancelled") < len(lines)
    wait_until(lambda: bulk.leftovers() == {}, SOON_S, "what ran goes on")
    rows = batches.rows_of(bulk, ended)
    assert {outcome for _, outcome, *_ in rows} <= {"completed", "cancelled"}
    with pytest.raises(openai.ConflictError) as caught:
        client.batches.cancel(made.id)
    assert caught.value.code == "batch_ended"
    assert client.files.delete(made.input_file_id).deleted


def test_a_batch_that_was_not_begun_is_cancelled(client: OpenAI) -> None:
    made = batches.submit(client, chats(3, SLOW))
    client.batches.cancel(made.id)
    ended = batches.finish(client, made.id)

    assert ended.status == "cancelled"
    assert ended.request_counts.completed + ended.request_counts.failed == ended.request_counts.total


def test_a_batch_whose_window_ends_keeps_what_it_has(bulk: Stack, client: OpenAI) -> None:
    lines = chats(300, SLOW, max_tokens=40)
    made: Any = batches.submit(client, lines, completion_window="1h")
    assert made.expires_at - made.created_at == 3600
    batches.reach(client, made.id, answered(10))
    over = datetime.now(UTC) - timedelta(seconds=1)
    batches.change(
        bulk, "UPDATE tenants_bulkjob SET expires_at = ? WHERE public_id = ?", f"{over:%Y-%m-%d %H:%M:%S.%f}", made.id
    )
    ended = batches.finish(client, made.id)

    assert ended.status == "expired"
    assert ended.expired_at
    assert 10 <= check_rest(client, ended, lines, "batch_expired") < len(lines)
    wait_until(lambda: bulk.leftovers() == {}, SOON_S, "what ran goes on")


def test_a_day_that_is_used_up_holds_the_rest_and_says_so(bulk: Stack, keys: dict[str, str]) -> None:
    lines = chats(12)
    with bulk.client(api_key=keys["five-a-day"]) as client:
        made = batches.submit(client, lines)
        waits = batches.reach(client, made.id, lambda one: answered(5)(one) and one.waiting_for)
        assert (waits.status, waits.waiting_for) == ("in_progress", "requests_per_day")
        assert (waits.request_counts.completed, waits.request_counts.failed) == (5, 0)
        client.batches.cancel(made.id)
        ended = batches.finish(client, made.id)
        assert check_rest(client, ended, lines, "batch_cancelled") == 5
        assert ended.waiting_for is None


def test_requests_of_a_key_that_is_revoked_meanwhile_are_refused(bulk: Stack, keys: dict[str, str]) -> None:
    lines = chats(300, SLOW, max_tokens=40)
    with bulk.client(api_key=keys["leaver"]) as client:
        made = batches.submit(client, lines)
        batches.reach(client, made.id, answered(10))
    batches.revoke(bulk, "leaver")
    statement = f"SELECT status, completed, failed FROM tenants_bulkjob WHERE public_id = '{made.id}'"
    (row,) = wait_until(lambda: [one for one in bulk.query(statement) if one[0] == "completed"], batches.END_S)
    assert row[1] >= 10
    assert row[1] + row[2] == len(lines)
    with bulk.client(api_key=keys["leaver"]) as client, pytest.raises(openai.AuthenticationError):
        client.batches.retrieve(made.id)
    # Nobody can fetch them any more, but what was told stands in its file.
    ((error_file_id,),) = bulk.query(f"SELECT error_file_id FROM tenants_bulkjob WHERE public_id = '{made.id}'")
    text = (bulk.data_dir / "files" / error_file_id[5:7] / error_file_id).read_text()
    told = [json.loads(one)["response"] for one in text.splitlines()]
    assert len(told) == row[2] > 0
    assert {one["status_code"] for one in told} == {401}
    assert {one["body"]["error"]["code"] for one in told} == {"invalid_api_key"}


# --- whose they are --------------------------------------------------------------------------------------------------


def test_batches_are_listed_the_newest_first_page_by_page(bulk: Stack, keys: dict[str, str]) -> None:
    with bulk.client(api_key=keys["lister"]) as client:
        assert client.batches.list().data == []
        made = [batches.submit(client, [chat("q")], metadata={"number": str(number)}).id for number in range(5)]
        newest_first = made[::-1]
        page = client.batches.list(limit=2)
        assert [one.id for one in page.data] == newest_first[:2]
        assert page.has_more
        after = client.batches.list(limit=100, after=page.data[-1].id)
        assert [one.id for one in after.data] == newest_first[2:]
        assert not after.has_more
        assert [one.id for one in client.batches.list(limit=2)] == newest_first, "the client turns the pages"
        with pytest.raises(openai.NotFoundError):
            client.batches.list(after="batch_" + "0" * 24)
        for batch_id in made:
            assert batches.finish(client, batch_id).status == "completed"


def test_another_tenants_batches_and_files_are_like_none(bulk: Stack, client: OpenAI, keys: dict[str, str]) -> None:
    made = batches.submit(client, chats(20, SLOW))
    nobodys_batch, nobodys_file = "batch_" + secrets.token_hex(12), "file-" + secrets.token_hex(12)

    def told(other: OpenAI, batch_id: str, file_id: str) -> set[str]:
        bodies = set()
        for call in (
            lambda: other.batches.retrieve(batch_id),
            lambda: other.batches.cancel(batch_id),
            lambda: other.batches.list(after=batch_id),
            lambda: other.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h"),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                call()
            bodies.add(str(caught.value.body).replace(batch_id, "ID").replace(file_id, "ID"))
        return bodies

    with bulk.client(api_key=keys["stranger"]) as other:
        assert told(other, made.id, made.input_file_id) == told(other, nobodys_batch, nobodys_file)
        assert other.batches.list().data == []
    ended = batches.finish(client, made.id)
    assert ended.status == "completed", "and it went on"
    with bulk.client(api_key=keys["stranger"]) as other, pytest.raises(openai.NotFoundError):
        other.files.content(ended.output_file_id)


def test_results_are_files_but_no_file_for_a_batch(client: OpenAI) -> None:
    ended = batches.run(client, chats(2))
    found = client.files.retrieve(ended.output_file_id)
    assert (found.purpose, found.filename) == ("batch_output", f"{ended.id}_output.jsonl")
    with pytest.raises(openai.NotFoundError) as caught:
        client.batches.create(input_file_id=ended.output_file_id, endpoint=CHAT, completion_window="24h")
    assert caught.value.param == "input_file_id"


def test_results_live_as_long_as_was_asked(client: OpenAI) -> None:
    lives: Any = {"anchor": "created_at", "seconds": 7200}
    ended = batches.run(client, chats(2), output_expires_after=lives)
    found = client.files.retrieve(ended.output_file_id)
    assert found.expires_at
    assert abs(found.expires_at - found.created_at - 7200) <= 1


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"completion_window": "1 day"}, "completion_window"),
        ({"completion_window": "169h"}, "completion_window"),
        ({"endpoint": "/v1/responses"}, "endpoint"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"extra_body": {"priority": "p0"}}, ""),
    ],
)
def test_a_batch_that_cannot_be_made_is_refused_with_the_field_at_fault(
    client: OpenAI, options: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        batches.submit(client, chats(1), **options)
    assert (caught.value.param or "").partition(".")[0] == param


def test_a_plan_without_files_takes_no_batches(bulk: Stack, keys: dict[str, str]) -> None:
    with bulk.client(api_key=keys["no-files"]) as client, pytest.raises(openai.PermissionDeniedError) as caught:
        batches.submit(client, chats(1))
    assert caught.value.code == "files_not_allowed"


def test_a_tenant_has_no_more_than_a_hundred_open_and_its_waiting_ones_hold_up_nobody(
    bulk: Stack, client: OpenAI, keys: dict[str, str]
) -> None:
    with bulk.client(api_key=keys["one-a-day"]) as waiter:
        assert batches.run(waiter, chats(1)).status == "completed"  # its day is used up
        file_id = batches.upload(waiter, chats(1))
        options: Any = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
        made = [waiter.batches.create(**options).id for _ in range(100)]
        with pytest.raises(openai.RateLimitError) as caught:
            waiter.batches.create(**options)
        assert caught.value.code == "too_many_batches"
        assert batches.run(client, chats(5)).status == "completed"
        for batch_id in made:
            waiter.batches.cancel(batch_id)
        for batch_id in made:
            assert batches.finish(waiter, batch_id).status == "cancelled"
        waiter.batches.cancel(waiter.batches.create(**options).id)
