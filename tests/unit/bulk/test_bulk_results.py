"""Results of a job: how they are kept, and the files that are made of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.usage import Usage
from gateway.bulk.call import Answered
from gateway.bulk.part import PartWriter, Result, read_results, read_tally
from gateway.bulk.result_line import CANCELLED, answered_line, unanswered_line, usage_of

USAGE = Usage(10, 4, 3)


def write(directory: Path, attempt: int, *results: Result, number: int = 0) -> None:
    writer = PartWriter(directory, number, attempt)
    for result in results:
        writer.write(result)
    writer.sync()
    writer.close()


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = [Result(3, True, USAGE, b'{"a":1 }'), Result(1, False, Usage(), b"{} {}")]
    write(tmp_path, 1, *results)
    assert list(read_results(tmp_path, 0)) == results


def test_slices_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path, 1, Result(1, True, USAGE, b"{}"), number=1)
    write(tmp_path, 1, Result(2, True, USAGE, b"{}"), number=11)
    assert read_tally(tmp_path, 1).numbers == {1}


def test_the_first_result_of_a_request_counts(tmp_path: Path) -> None:
    write(tmp_path, 2, Result(1, False, USAGE, b'"later"'), Result(2, True, USAGE, b"{}"))
    write(tmp_path, 10, Result(1, False, USAGE, b'"latest"'))
    write(tmp_path, 1, Result(1, True, USAGE, b'"first"'))
    tally = read_tally(tmp_path, 0)
    assert tally.counts() == {
        "completed": 2,
        "failed": 0,
        "prompt_tokens": 20,
        "cached_tokens": 8,
        "completion_tokens": 6,
    }
    assert [result.line for result in read_results(tmp_path, 0)] == [b'"first"', b'"later"', b"{}", b'"latest"']


def test_what_was_not_written_to_its_end_is_no_result(tmp_path: Path) -> None:
    whole = Result(1, True, USAGE, b"{}").pack()
    torn = Result(2, True, USAGE, b'{"long":"' + b"x" * 1000 + b'"}').pack()
    for end in range(len(torn)):
        (tmp_path / "0-1.results").write_bytes(whole + torn[:end])
        assert read_tally(tmp_path, 0).numbers == {1}


def test_an_attempt_that_had_no_results_leaves_no_file(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_never_writes_into_the_file_of_another(tmp_path: Path) -> None:
    write(tmp_path, 1, Result(1, True, USAGE, b"{}"))
    with pytest.raises(FileExistsError):
        PartWriter(tmp_path, 0, 1)


def test_an_answer_stands_in_its_line_as_it_came() -> None:
    body = b'{"id":"x","n":1.0,"usage":{"prompt_tokens":7,"completion_tokens":2}}'
    answered = Answered(200, {"x-request-id": "r"}, body)
    line = answered_line("batch_1", 3, 'my "id"\n', answered)
    assert body in line
    assert b"\n" not in line
    found = json.loads(line)
    assert (found["custom_id"], found["error"]) == ('my "id"\n', None)
    assert found["response"] == {"status_code": 200, "request_id": "r", "body": json.loads(body)}
    assert found["id"].startswith("batch_req_")


def test_a_line_is_one_line_whatever_the_answer_looks_like() -> None:
    line = answered_line("batch_1", 3, "a", Answered(200, {}, b'{\n "a":\r\n 1}'))
    assert b"\n" not in line
    assert json.loads(line)["response"]["body"] == {"a": 1}


def test_every_line_has_an_id_of_its_own_that_stays() -> None:
    ids = {json.loads(unanswered_line("batch_1", number, "a", CANCELLED))["id"] for number in range(1000)}
    assert len(ids) == 1000
    assert json.loads(answered_line("batch_1", 7, "b", Answered(200, {}, b"{}")))["id"] in ids


def test_a_request_that_was_not_run_says_why() -> None:
    found = json.loads(unanswered_line("batch_1", 3, "a", CANCELLED))
    assert (found["response"], found["error"]["code"]) == (None, "batch_cancelled")
    assert found["error"]["message"]


@pytest.mark.parametrize(
    ("status", "body", "usage"),
    [
        (200, {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}, Usage(7, 0, 2)),
        (200, {"usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}}, Usage(7, 5, 0)),
        (200, {"usage": {"prompt_tokens": 7, "prompt_tokens_details": None}}, Usage(7, 0, 0)),
        (200, {"usage": None}, Usage()),
        (200, {}, Usage()),
        (400, {"error": {"message": "no"}}, Usage()),
    ],
)
def test_what_an_answer_took_is_read_from_it(status: int, body: dict[str, Any], usage: Usage) -> None:
    assert usage_of(Answered(status, {}, json.dumps(body).encode())) == usage


def test_an_error_tells_its_reason_and_when_to_come_back() -> None:
    headers = {"retry-after-ms": "1500", "x-should-retry": "false"}
    refused = Answered(429, headers, b'{"error":{"message":"m","type":"t","param":null,"code":"c","reason":"ttl"}}')
    assert (refused.reason, refused.retry_after_s, refused.asks_not_to_retry) == ("ttl", 1.5, True)
    fine = Answered(200, {}, b'{"error":{"reason":"ttl"}}')
    assert (fine.reason, fine.retry_after_s, fine.asks_not_to_retry) == ("", 0, False)
    assert Answered(500, {}, b"not json").reason == ""
