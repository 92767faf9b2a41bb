"""/v1/files over HTTP: what a tenant uploads, finds, reads and deletes, and what becomes of those who do harm."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import http_face
import httpx
import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone
from openai import APIStatusError, NotFoundError, OpenAI

from gateway import database
from gateway.files import files as files_module
from gateway.files.files import MAX_UPLOADS, MAX_UPLOADS_EACH, Files
from gateway.files.upload import FORM_BYTES
from gateway.runtime import runtime
from tenants.files import rows
from tenants.files.disk import FileDisk
from tenants.models import BulkJob, Plan, StoredFile, Tenant

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024
NOBODYS = "file-" + "0" * 24
FORM_TYPE = "multipart/form-data; boundary=B"


@pytest.fixture
def files_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the server's files lie; one may have 2 MiB."""
    root = tmp_path / "files"
    files = Files(replace(settings.SLUICE, files_dir=str(root), max_file_mib=2))
    monkeypatch.setattr(runtime(), "files", files)
    yield root
    eventually(lambda: not list(root.glob("*.part")))
    files.close()


@pytest.fixture
def tenants(db: None) -> None:
    """Two tenants with room for 3 MiB each."""
    plan = Plan.objects.create(name="gold", files_mib=3)
    for pk, slug in enumerate(("acme", "narrow"), start=1):
        Tenant.objects.create(pk=pk, slug=slug, name=slug, plan=plan)


@pytest.fixture
def asked(files_dir: Path, tenants: None, client: httpx.Client) -> httpx.Client:
    """A client of the first tenant."""
    return client


@pytest.fixture
def other(asked: httpx.Client, base_url: str) -> Iterator[httpx.Client]:
    """A client of the second tenant."""
    headers = {"authorization": f"Bearer {http_face.NARROW_KEY}"}
    with httpx.Client(base_url=base_url, headers=headers, timeout=30) as made:
        yield made


def send(client: httpx.Client, data: bytes = b"{}\n", name: str = "a.jsonl", **fields: str) -> httpx.Response:
    return client.post("/v1/files", files={"file": (name, data)}, data={"purpose": "batch", **fields})


def stored(client: httpx.Client, data: bytes = b"{}\n", name: str = "a.jsonl") -> str:
    answer = send(client, data, name)
    assert answer.status_code == 200, answer.text
    file_id: str = answer.json()["id"]
    return file_id


def on_disk(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what happens behind the answer."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def error_of(answer: httpx.Response) -> dict[str, Any]:
    inside: dict[str, Any] = answer.json()["error"]
    return inside


# --- what it is for ---------------------------------------------------------------------------------------------------


def test_the_openai_client_uploads_finds_reads_and_deletes(asked: httpx.Client, base_url: str) -> None:
    data = b'{"custom_id": "1"}\n' * 1000
    with OpenAI(base_url=f"{base_url}/v1", api_key=http_face.KEY, max_retries=0) as client:
        made = client.files.create(
            file=("in.jsonl", data), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
        )
        assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(data), "in.jsonl", "batch")
        assert made.expires_at == made.created_at + 3600
        assert client.files.wait_for_processing(made.id).status == "processed"
        assert client.files.retrieve(made.id) == made
        more = [client.files.create(file=data, purpose="batch").id for _ in range(2)]
        assert [one.id for one in client.files.list(limit=1)] == [*reversed(more), made.id]
        assert client.files.content(made.id).read() == data
        gone = client.files.delete(made.id)
        assert (gone.id, gone.object, gone.deleted) == (made.id, "file", True)
        with pytest.raises(NotFoundError):
            client.files.retrieve(made.id)
        with pytest.raises(APIStatusError, match="'purpose' must be 'batch'"):
            client.files.create(file=data, purpose="fine-tune")


def test_binary_contents_come_back_byte_for_byte(asked: httpx.Client, files_dir: Path) -> None:
    data = os.urandom(2 * MIB - 1) + b"\n"
    file_id = stored(asked, data)

    answer = asked.get(f"/v1/files/{file_id}/content")

    assert answer.content == data
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="a.jsonl"'
    assert {"x-request-id", "traceresponse", "openai-processing-ms"} <= set(answer.headers)
    assert on_disk(files_dir) == [file_id]


def test_a_file_is_told_as_openai_tells_it(asked: httpx.Client) -> None:
    told = send(asked, b"{}\n").json()

    assert told.pop("id").startswith("file-")
    assert told.pop("expires_at") - told.pop("created_at") == settings.SLUICE.files_days * 86_400
    assert told == {
        "object": "file",
        "bytes": 3,
        "filename": "a.jsonl",
        "purpose": "batch",
        "status": "processed",
        "status_details": None,
    }


def test_lists_go_page_by_page_in_both_orders(asked: httpx.Client) -> None:
    ids = [stored(asked) for _ in range(5)]

    for order, wanted in (("asc", ids), ("desc", ids[::-1])):
        first = asked.get("/v1/files", params={"order": order, "limit": 2}).json()
        second = asked.get("/v1/files", params={"order": order, "limit": 3, "after": first["last_id"]}).json()
        assert [one["id"] for one in first["data"]] == wanted[:2]
        assert (first["object"], first["first_id"], first["last_id"], first["has_more"]) == ("list", *wanted[:2], True)
        assert [one["id"] for one in second["data"]] == wanted[2:]
        assert second["has_more"] is False
    assert [one["id"] for one in asked.get("/v1/files").json()["data"]] == ids[::-1]
    assert len(asked.get("/v1/files?limit=10000&purpose=batch").json()["data"]) == 5
    assert asked.get("/v1/files?purpose=batch_output").json() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


def test_no_more_than_a_page_is_given_however_many_are_asked_for(
    asked: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.views.files.MAX_LISTED", 2)
    for _ in range(3):
        stored(asked)

    page = asked.get("/v1/files?limit=10000").json()

    assert (len(page["data"]), page["has_more"]) == (2, True)


def test_an_expired_file_is_gone(asked: httpx.Client) -> None:
    file_id = stored(asked)
    StoredFile.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert asked.get(f"/v1/files/{file_id}").status_code == 404
    assert asked.get(f"/v1/files/{file_id}/content").status_code == 404
    assert asked.get("/v1/files").json()["data"] == []


def test_a_file_that_a_batch_reads_stays(asked: httpx.Client, files_dir: Path) -> None:
    file_id = stored(asked)
    BulkJob.objects.create(
        tenant_id=1, public_id="batch_" + "1" * 24, input_file_id=file_id, expires_at=datetime(2100, 1, 1, tzinfo=UTC)
    )

    answer = asked.delete(f"/v1/files/{file_id}")

    assert (answer.status_code, error_of(answer)["code"]) == (409, "file_in_use")
    assert "batch_" + "1" * 24 in error_of(answer)["message"]
    assert on_disk(files_dir) == [file_id]


def test_a_deleted_file_leaves_nothing_on_the_disk(asked: httpx.Client, files_dir: Path) -> None:
    file_id = stored(asked)

    assert asked.delete(f"/v1/files/{file_id}").json() == {"id": file_id, "object": "file", "deleted": True}
    assert on_disk(files_dir) == []
    assert asked.delete(f"/v1/files/{file_id}").status_code == 404


# --- whose it is ------------------------------------------------------------------------------------------------------

EVERY_METHOD = [("GET", ""), ("DELETE", ""), ("GET", "/content")]


@pytest.mark.parametrize(("method", "tail"), EVERY_METHOD)
def test_another_tenants_file_is_like_one_that_does_not_exist(
    asked: httpx.Client, other: httpx.Client, method: str, tail: str
) -> None:
    file_id = stored(asked)

    theirs = other.request(method, f"/v1/files/{file_id}{tail}")
    nobodys = other.request(method, f"/v1/files/{NOBODYS}{tail}")

    assert (theirs.status_code, error_of(theirs)["code"]) == (404, "file_not_found")
    assert theirs.text.replace(file_id, NOBODYS) == nobodys.text
    assert asked.get(f"/v1/files/{file_id}/content").content == b"{}\n"


def test_lists_are_the_tenants_own(asked: httpx.Client, other: httpx.Client) -> None:
    file_id = stored(asked)

    assert other.get("/v1/files").json()["data"] == []
    answer = other.get("/v1/files", params={"after": file_id})
    assert (answer.status_code, error_of(answer)["code"]) == (404, "file_not_found")


@pytest.mark.parametrize(
    "file_id", ["x", "file-1", "file-" + "A" * 24, "..", "%2e%2e", "file-%00", "file-" + "1" * 5000]
)
@pytest.mark.parametrize(("method", "tail"), EVERY_METHOD)
def test_an_id_of_another_form_is_404_without_asking_the_database(
    asked: httpx.Client, base_url: str, monkeypatch: pytest.MonkeyPatch, file_id: str, method: str, tail: str
) -> None:
    monkeypatch.setattr(database.Database, "ask", None)

    answer = asked.request(
        method, httpx.URL(f"{base_url}/v1/files/").copy_with(raw_path=f"/v1/files/{file_id}{tail}".encode())
    )

    assert answer.status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("/v1/files", f"/v1/files/{NOBODYS}", f"/v1/files/{NOBODYS}/content")),
        ("POST", "/v1/files"),
        ("DELETE", f"/v1/files/{NOBODYS}"),
    ],
)
@pytest.mark.parametrize(("key", "status"), [(http_face.READING_KEY, 403), ("", 401)])
def test_it_takes_a_key_that_may_ask_models(asked: httpx.Client, method: str, path: str, key: str, status: int) -> None:
    headers = {"authorization": f"Bearer {key}" if key else ""}

    assert asked.request(method, path, headers=headers).status_code == status


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=\u0663", "limit"),
        ("limit=1&limit=2", "limit"),
        ("order=newest", "order"),
        ("purpose=fine-tune", "purpose"),
        ("before=x", "before"),
    ],
)
def test_a_query_that_is_not_understood_is_refused(asked: httpx.Client, query: str, param: str) -> None:
    answer = asked.get(f"/v1/files?{query}")

    assert (answer.status_code, error_of(answer)["param"]) == (400, param)


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{}", {"content-type": "application/json"}, 415),
        (b"{}", {}, 415),
        (b"a=1", {"content-type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {"content-type": "multipart/form-data"}, 400),
        (b"{}", {"content-type": FORM_TYPE}, 400),
        (b"", {"content-type": FORM_TYPE}, 400),
        (b"--B" * 100_000, {"content-type": FORM_TYPE}, 400),
        (b"--B\r\n" + b"x" * MIB, {"content-type": FORM_TYPE}, 400),
        (b"--B\r\n" * 100_000, {"content-type": FORM_TYPE}, 400),
        (
            b"".join(b'--B\r\nContent-Disposition: form-data; name="f%d"\r\n\r\n1\r\n' % i for i in range(10_000)),
            {"content-type": FORM_TYPE},
            400,
        ),
    ],
)
def test_what_is_no_form_is_refused_and_the_connection_goes_on(
    asked: httpx.Client, files_dir: Path, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = asked.post("/v1/files", content=content, headers=headers)
    address = answer.extensions["network_stream"].get_extra_info("client_addr")

    assert answer.status_code == status, answer.text
    after = asked.get("/v1/files")
    assert after.json()["data"] == []
    assert after.extensions["network_stream"].get_extra_info("client_addr") == address
    assert on_disk(files_dir) == []


@pytest.mark.parametrize(
    ("files", "data", "param"),
    [
        ([], {"purpose": "batch", "x": "1"}, "x"),
        ([("file", ("a", b"{}"))], {}, "purpose"),
        ([("file", ("a", b"{}"))], {"purpose": "fine-tune"}, "purpose"),
        ([("file", ("a", b"{}"))], {"purpose": ["batch", "batch"]}, "purpose"),
        ([("file", ("a", b""))], {"purpose": "batch"}, "file"),
        ([("file", ("a", b"{}")), ("file", ("b", b"{}"))], {"purpose": "batch"}, "file"),
        ([("upload", ("a", b"{}"))], {"purpose": "batch"}, "upload"),
        ([("file", ("a", b"{}"))], {"purpose": "batch", "expires_after[seconds]": "3600"}, "expires_after"),
    ],
)
def test_a_form_that_is_not_understood_names_the_field_and_leaves_nothing(
    asked: httpx.Client, files_dir: Path, files: Any, data: dict[str, Any], param: str
) -> None:
    answer = asked.post("/v1/files", files=files or {"x": (None, b"1")}, data=data)

    assert (answer.status_code, error_of(answer)["param"]) == (400, param)
    assert on_disk(files_dir) == []
    assert not StoredFile.objects.exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('a"b\r\nx-evil: 1.jsonl', "a%22b%0D%0Ax-evil: 1.jsonl"),
        ("../../../etc/passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("..", "file.jsonl"),
        ("übung €.jsonl", "übung €.jsonl"),
        ("<script>alert(1)</script>", "script>"),
        ("n" * 1000, "n" * 255),
    ],
)
def test_a_name_does_no_harm(asked: httpx.Client, files_dir: Path, name: str, shown: str) -> None:
    file_id = stored(asked, name=name)

    assert asked.get(f"/v1/files/{file_id}").json()["filename"] == shown
    answer = asked.get(f"/v1/files/{file_id}/content")
    assert answer.content == b"{}\n"
    assert answer.headers["content-disposition"].startswith("attachment; filename")
    assert "x-evil" not in answer.headers
    assert on_disk(files_dir) == [file_id]


def test_a_name_with_quotes_and_control_characters_in_its_head_does_no_harm(asked: httpx.Client) -> None:
    name = 'filename="a\\"\x00\x0bx-evil: 1;.jsonl"'
    body = (
        b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--B\r\nContent-Disposition: form-data; name="file"; %b\r\n\r\n{}\r\n--B--\r\n' % name.encode()
    )
    told = asked.post("/v1/files", content=body, headers={"content-type": FORM_TYPE}).json()

    assert told["filename"] == 'a"x-evil: 1;.jsonl'
    shown = asked.get(f"/v1/files/{told['id']}/content").headers["content-disposition"]
    assert shown == 'attachment; filename="a\\"x-evil: 1;.jsonl"'


def test_the_largest_file_passes_and_one_byte_more_does_not(asked: httpx.Client, files_dir: Path) -> None:
    assert send(asked, b"x" * (2 * MIB + 1)).status_code == 413
    assert on_disk(files_dir) == []

    assert send(asked, b"x" * (2 * MIB)).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_above_the_limit_is_413_with_the_limit_and_the_connection_goes_on(asked: httpx.Client, chunked: bool) -> None:
    body = b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + b"x" * (2 * MIB + 2 * FORM_BYTES)
    answer = asked.post(
        "/v1/files",
        content=_in_chunks(body) if chunked else body,
        headers={"content-type": FORM_TYPE},
    )
    address = answer.extensions["network_stream"].get_extra_info("client_addr")

    assert (answer.status_code, error_of(answer)["code"]) == (413, "request_too_large")
    assert "2 MiB" in error_of(answer)["message"]
    after = asked.get("/v1/files")
    assert after.extensions["network_stream"].get_extra_info("client_addr") == address


def test_chunked_uploads_are_kept(asked: httpx.Client) -> None:
    data = os.urandom(300_000)
    body = (
        b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + data + b"\r\n--B--\r\n"
    )
    told = asked.post("/v1/files", content=_in_chunks(body), headers={"content-type": FORM_TYPE}).json()

    assert asked.get(f"/v1/files/{told['id']}/content").content == data


def _in_chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


# --- room -------------------------------------------------------------------------------------------------------------


def test_a_plan_without_files_takes_none(asked: httpx.Client) -> None:
    Plan.objects.update(files_mib=0)

    answer = send(asked)

    assert (answer.status_code, error_of(answer)["code"]) == (403, "files_not_allowed")


def test_a_file_that_does_not_fit_is_refused_with_what_is_left(asked: httpx.Client, files_dir: Path) -> None:
    Plan.objects.update(files_mib=1)
    kept = stored(asked, b"x" * (MIB // 2))

    more = send(asked, b"x" * (MIB // 2 + 1))
    assert (more.status_code, error_of(more)["code"]) == (400, "too_much_stored")
    assert "0.5 MiB" in error_of(more)["message"]
    stored(asked, b"x" * (MIB // 2))
    full = send(asked, b"x")
    assert (full.status_code, error_of(full)["code"]) == (400, "too_much_stored")
    assert "1 MiB of 1 MiB" in error_of(full)["message"]
    asked.delete(f"/v1/files/{kept}")
    assert send(asked, b"x").status_code == 200
    assert len(on_disk(files_dir)) == 2


def test_uploads_at_once_share_the_last_room(asked: httpx.Client, base_url: str, files_dir: Path) -> None:
    Plan.objects.update(files_mib=1)

    def upload(_: int) -> int:
        with httpx.Client(base_url=base_url, headers=asked.headers, timeout=60) as own:
            return send(own, b"x" * (MIB * 3 // 10)).status_code

    with ThreadPoolExecutor(MAX_UPLOADS_EACH) as threads:
        statuses = sorted(threads.map(upload, range(MAX_UPLOADS_EACH)))

    assert statuses == [200, 200, 200, 400]
    assert len(on_disk(files_dir)) == StoredFile.objects.count() == 3


def test_a_row_that_does_not_fit_any_more_leaves_no_contents(
    asked: httpx.Client, files_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise rows.TooMuchStored(3 * MIB, 3 * MIB)

    monkeypatch.setattr(rows, "add_file", full)

    assert error_of(send(asked))["code"] == "too_much_stored"
    assert on_disk(files_dir) == []


# --- what breaks ------------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_in_the_middle_leaves_nothing(asked: httpx.Client, base_url: str, files_dir: Path) -> None:
    with _started(base_url, "content-length: 2000000\r\n", b"x" * 600_000):
        eventually(lambda: bool(on_disk(files_dir)))

    eventually(lambda: not on_disk(files_dir))
    assert send(asked).status_code == 200


def test_uploads_under_way_are_bounded(
    asked: httpx.Client, base_url: str, files_dir: Path, other: httpx.Client
) -> None:
    open_ones = [_started(base_url, "content-length: 2000000\r\n", b"x" * 600_000) for _ in range(MAX_UPLOADS_EACH)]
    try:
        eventually(lambda: len(on_disk(files_dir)) == MAX_UPLOADS_EACH)
        answer = send(asked)
        assert (answer.status_code, error_of(answer)["reason"]) == (503, "files_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert send(other).status_code == 200
    finally:
        for one in open_ones:
            one.close()
    eventually(lambda: len(on_disk(files_dir)) == 1)
    assert send(asked).status_code == 200


def test_all_uploads_together_are_bounded(
    asked: httpx.Client, other: httpx.Client, base_url: str, files_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_UPLOADS > MAX_UPLOADS_EACH
    monkeypatch.setattr(files_module, "MAX_UPLOADS", 1)

    with _started(base_url, "content-length: 2000000\r\n", b"x" * 600_000):
        eventually(lambda: len(on_disk(files_dir)) == 1)
        assert send(other).status_code == 503


def test_a_client_that_asks_first_is_told_to_send(asked: httpx.Client, base_url: str) -> None:
    with _started(base_url, "content-length: 200\r\nexpect: 100-continue\r\n", b"") as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")


def test_a_client_that_asks_first_and_may_not_is_refused_before_it_sends(asked: httpx.Client, base_url: str) -> None:
    Plan.objects.update(files_mib=0)

    with _started(base_url, "content-length: 200\r\nexpect: 100-continue\r\n", b"") as connection:
        answer = connection.recv(10_000)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" in answer


def test_without_the_database_nothing_is_kept(
    asked: httpx.Client, files_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("no route")

    monkeypatch.setattr(rows, "add_file", away)

    answer = send(asked)

    assert (answer.status_code, error_of(answer)["reason"]) == (503, "files_unavailable")
    assert on_disk(files_dir) == []


def test_a_row_that_comes_too_late_is_taken_back(
    asked: httpx.Client, files_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, add_file = threading.Event(), rows.add_file

    def slow(*facts: Any) -> StoredFile:
        go_on.wait(30)
        return add_file(*facts)

    monkeypatch.setattr(rows, "add_file", slow)
    monkeypatch.setattr(database, "PATIENCE_S", 0.3)

    answer = send(asked)
    assert answer.status_code == 503
    assert len(on_disk(files_dir)) == 1
    go_on.set()

    eventually(lambda: not on_disk(files_dir))
    assert not StoredFile.objects.exists()


@pytest.mark.parametrize("method", ["new_part", "keep"])
def test_a_full_disk_is_503_and_leaves_nothing(
    asked: httpx.Client, files_dir: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileDisk, method, full)

    answer = send(asked)

    assert (answer.status_code, error_of(answer)["reason"]) == (503, "files_unavailable")
    assert on_disk(files_dir) == []


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_a_file_without_its_contents_is_503(
    asked: httpx.Client, files_dir: Path, harm: Callable[[Path], object]
) -> None:
    file_id = stored(asked)
    harm(FileDisk(files_dir).path(file_id))

    answer = asked.get(f"/v1/files/{file_id}/content")

    assert (answer.status_code, error_of(answer)["reason"]) == (503, "files_unavailable")
    assert asked.delete(f"/v1/files/{file_id}").status_code == 200


def test_a_client_that_leaves_a_download_leaves_no_file_open(asked: httpx.Client, files_dir: Path) -> None:
    file_id = stored(asked, os.urandom(2 * MIB))

    with asked.stream("GET", f"/v1/files/{file_id}/content") as answer:
        assert len(next(answer.iter_raw(1000))) == 1000

    eventually(lambda: not _held_open(files_dir))
    assert asked.get(f"/v1/files/{file_id}").status_code == 200


def _held_open(root: Path) -> list[str]:
    """Files below ``root`` that this process, which is the server's too, has open."""
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if link.is_symlink()]
    return [target for target in targets if target.startswith(str(root))]


def _started(base_url: str, headers: str, data: bytes) -> socket.socket:
    """An upload whose file has begun, and no more."""
    address = urlsplit(base_url)
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    head = (
        f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {http_face.KEY}\r\ncontent-type: {FORM_TYPE}\r\n"
    )
    form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + data if data else b""
    connection.sendall(f"{head}{headers}\r\n".encode() + form)
    return connection
