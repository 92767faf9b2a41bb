"""The form that uploads a file, however its body is cut and whatever stands in it."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.errors import ApiError
from gateway.files.form import ANCHOR, MAX_VALUE_BYTES, SECONDS, UploadForm
from gateway.files.multipart import MAX_HEAD_BYTES
from tenants.files.disk import FileDisk

BOUNDARY = "0a1b2c"
PURPOSE = ("purpose", b"batch")


def part(head: str, data: bytes) -> bytes:
    """One part under a head of its own."""
    return b"--%b\r\n%b\r\n\r\n%b\r\n" % (BOUNDARY.encode(), head.encode(), data)


def field(name: str, value: bytes) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', value)


def file(data: bytes, filename: str = 'filename="a.jsonl"') -> bytes:
    return part(f'Content-Disposition: form-data; name="file"; {filename}\r\nContent-Type: text/plain', data)


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--%b--\r\n" % BOUNDARY.encode()


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    return FileDisk(tmp_path / "files")


@pytest.fixture
def form(disk: FileDisk) -> Iterator[UploadForm]:
    """A form whose file may have 1000 bytes."""
    made = UploadForm(BOUNDARY, disk.new_part, 1000, lambda: ApiError(413, "too large"))
    yield made
    made.discard()


def fill(form: UploadForm, body: bytes, size: int = 1 << 20) -> bytes:
    """Feed a body in pieces of ``size``, end it, and return the file's contents."""
    for start in range(0, len(body), size):
        form.feed(body[start : start + size])
    form.end()
    assert form.part is not None
    return form.part.read_bytes()


def refused(form: UploadForm, body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        fill(form, body)
    return caught.value


HARD = b"\r\n--0a1b2\r\n-0a1b2c\r\n--\r\n\r\n\x00\xff--0a1b2c\n--0a1b2c--\r\r\n-"


@pytest.mark.parametrize("size", [*range(1, 40), 1 << 20])
@pytest.mark.parametrize("data", [HARD, b"\r\n", b"\r", b"{}"])
def test_the_file_is_kept_byte_for_byte_however_the_body_is_cut(form: UploadForm, data: bytes, size: int) -> None:
    body = whole(field(*PURPOSE), file(data), field(ANCHOR, b"created_at"), field(SECONDS, b"3600"))

    assert fill(form, b"\r\n" + body + b"epilogue", size) == data
    assert (form.size, form.filename, form.lives) == (len(data), "a.jsonl", timedelta(hours=1))


def test_the_file_may_stand_before_its_purpose_and_needs_no_name(form: UploadForm) -> None:
    assert fill(form, whole(field("file", b"{}"), field(*PURPOSE))) == b"{}"
    assert (form.filename, form.lives) == ("file.jsonl", None)


def test_heads_may_be_written_otherwise(form: UploadForm) -> None:
    body = whole(field(*PURPOSE), file(b"{}"))

    assert fill(form, body.replace(b"Content-Disposition: form-data", b"CONTENT-disposition:Form-Data")) == b"{}"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('filename="a\\"b.jsonl"', 'a"b.jsonl'),
        ('filename="a%22b.jsonl"', "a%22b.jsonl"),
        ('filename="../../etc/passwd"', "passwd"),
        ('filename="C:\\Users\\me\\b.jsonl"', "b.jsonl"),
        ("filename=\"x.jsonl\"; filename*=UTF-8''%E2%82%AC%20rates.jsonl", "x.jsonl"),  # RFC 7578 forbids the second
        ('filename="Übung; x.jsonl"', "Übung; x.jsonl"),
        ("filename=bare.jsonl", "bare.jsonl"),
        ('filename=".."', "file.jsonl"),
        ('filename=""', "file.jsonl"),
        ('filename="a\x00\x1bx-evil: 1.jsonl"', "ax-evil: 1.jsonl"),
        ('filename="\u202eljson.exe"', "ljson.exe"),
        (f'filename="{"n" * 2000}"', "n" * 255),
    ],
)
def test_a_name_is_kept_for_display_only_and_harmless(form: UploadForm, written: str, shown: str) -> None:
    fill(form, whole(field(*PURPOSE), file(b"{}", written)))

    assert form.filename == shown


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([field(*PURPOSE)], "file"),
        ([], "file"),
        ([field(*PURPOSE), file(b"")], "file"),
        ([field(*PURPOSE), file(b"{}"), file(b"{}")], "file"),
        ([file(b"{}")], "purpose"),
        ([field("purpose", b"fine-tune"), file(b"{}")], "purpose"),
        ([field("purpose", b"batch_output"), file(b"{}")], "purpose"),
        ([field("purpose", b"\xff"), file(b"{}")], "purpose"),
        ([field("purpose", b"b" * (MAX_VALUE_BYTES + 1)), file(b"{}")], "purpose"),
        ([field(*PURPOSE), field(*PURPOSE), file(b"{}")], "purpose"),
        ([field("model", b"m"), file(b"{}")], "model"),
        ([field("", b"m"), file(b"{}")], ""),
        ([field(*PURPOSE), file(b"{}"), field(ANCHOR, b"created_at")], "expires_after"),
        ([field(*PURPOSE), file(b"{}"), field(SECONDS, b"3600")], "expires_after"),
        ([field(*PURPOSE), file(b"{}"), field(ANCHOR, b"now"), field(SECONDS, b"3600")], "expires_after"),
        *(
            ([field(*PURPOSE), file(b"{}"), field(ANCHOR, b"created_at"), field(SECONDS, seconds)], "expires_after")
            for seconds in (b"3599", b"2592001", b"-3600", b"3600.0", b"1e4", b"", b"0000003600999", "٣٦٠٠".encode())
        ),
    ],
)
def test_a_form_that_is_not_understood_names_the_field(form: UploadForm, parts: list[bytes], param: str) -> None:
    error = refused(form, whole(*parts))

    assert (error.status, error.param) == (400, param)


def test_the_purposes_that_there_are_are_named(form: UploadForm) -> None:
    assert "'batch'" in refused(form, whole(field("purpose", b"assistants"))).message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"no boundary anywhere" * 1000,
        whole(field(*PURPOSE), file(b"{}"))[:-6],
        whole(field(*PURPOSE), file(b"{}")).replace(b"--0a1b2c--", b"--0a1b2c-"),
        b"--0a1b2c" + b" " * 100_000,
        b"--0a1b2cc\r\n" + whole(field(*PURPOSE), file(b"{}")),
        b"--0a1b2c\r\n" + b"X-A: 1\r\n" * MAX_HEAD_BYTES,
        b"--0a1b2c\r\n\r\n" + whole(),
        whole(part("Content-Type: text/plain", b"{}")),
        whole(part('Content-Disposition: attachment; name="file"', b"{}")),
        whole(part("Content-Disposition: form-data", b"{}")),
        whole(part('Content-Disposition: form-data; name="file"\r\nContent-Disposition: form-data; name="x"', b"{}")),
        whole(
            field(*PURPOSE),
            part('Content-Disposition: form-data; name="file"\r\nContent-Transfer-Encoding: base64', b"e30="),
        ),
    ],
)
def test_a_broken_form_is_refused(form: UploadForm, body: bytes) -> None:
    error = refused(form, body)

    assert (error.status, error.code, error.param) == (400, "invalid_form", None)


@pytest.mark.parametrize("boundary", ["", "ends with a blank ", "é", "b" * 300, "a\nb"])
def test_a_boundary_that_can_be_none_is_refused(disk: FileDisk, boundary: str) -> None:
    with pytest.raises(ApiError) as caught:
        UploadForm(boundary, disk.new_part, 1000, lambda: ApiError(413, "too large"))

    assert "boundary" in caught.value.message


def test_ten_thousand_fields_end_at_the_first_that_there_is_not(form: UploadForm) -> None:
    many = whole(*(field(f"f{number}", b"1") for number in range(10_000)))

    assert refused(form, many).param == "f0"


def test_the_last_byte_that_is_allowed_passes_and_one_more_does_not(disk: FileDisk, form: UploadForm) -> None:
    assert len(fill(form, whole(field(*PURPOSE), file(b"x" * 1000)))) == 1000
    other = UploadForm(BOUNDARY, disk.new_part, 1000, lambda: ApiError(413, "too large"))
    assert refused(other, whole(field(*PURPOSE), file(b"x" * 1001))).status == 413
    other.discard()


def test_what_is_discarded_leaves_nothing(tmp_path: Path, form: UploadForm) -> None:
    form.feed(whole(file(b"x" * 100))[:-20])
    assert list((tmp_path / "files").iterdir()) == [form.part]

    form.discard()

    assert list((tmp_path / "files").iterdir()) == []
