"""The lines of a job's file, whole and in slices."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from domain.bulk.cut import MAX_SLICES, MIN_LINES, lines_of_a_slice
from gateway.bulk.check import MAX_ERRORS, MAX_REQUESTS, Checked, check_file
from gateway.bulk.reading import read_lines

CHAT = "/v1/chat/completions"


def request(custom_id: str, model: str = "m", pad: int = 0) -> bytes:
    body = b'{"model":"%b","messages":[],"pad":"%b"}' % (model.encode(), b"x" * pad)
    return b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}' % (custom_id.encode(), CHAT.encode(), body)


def check(tmp_path: Path, content: bytes, max_line_bytes: int = 10_000) -> Checked:
    path = tmp_path / "file"
    path.write_bytes(content)
    return check_file(path, CHAT, max_line_bytes, lambda model: None if model == "m" else "no such model", lambda: None)


def test_lines_are_numbered_as_an_editor_does_and_blanks_left_out(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n   \ntwo\nthree")
    assert [(line.number, line.text) for line in read_lines(path, 100)] == [(1, b"one"), (4, b"two"), (5, b"three")]


def test_a_line_that_is_too_long_is_passed_over_and_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100 + b"\n" + b"b" * 3_000_000 + b"\n" + b"c" * 101 + b"\nd\n")
    found = [(line.number, line.is_too_long, len(line.text)) for line in read_lines(path, 100)]
    assert found == [(1, False, 100), (2, True, 0), (3, True, 0), (4, False, 1)]


@given(
    lines=st.lists(st.sampled_from([b"", b" ", b"a", b"bb\r", b"c" * 30, b"d" * 41]), max_size=300),
    ends=st.booleans(),
    mark=st.booleans(),
)
def test_slices_together_are_the_file(tmp_path_factory: object, lines: list[bytes], ends: bool, mark: bool) -> None:
    path = Path(str(tmp_path_factory.getbasetemp())) / "sliced"  # type: ignore[attr-defined]
    path.write_bytes(b"\xef\xbb\xbf" * mark + b"\n".join(lines) + b"\n" * ends)
    whole = list(read_lines(path, 40))
    each = lines_of_a_slice(max(1, len(whole)))
    parts = []
    for at in range(0, len(whole), each):
        group = whole[at : at + each]
        size = group[-1].end - group[0].offset
        parts += read_lines(path, 40, group[0].offset, size, group[0].number)
    assert parts == whole


def test_a_good_file_is_cut_into_slices_of_equal_length(tmp_path: Path) -> None:
    total = 4 * MIN_LINES * MAX_SLICES + 3
    checked = check(tmp_path, b"".join(request(str(one)) + b"\n" for one in range(total)))
    assert (checked.errors, checked.model, checked.total) == ([], "m", total)
    assert len(checked.cuts) == MAX_SLICES
    assert sum(cut.lines for cut in checked.cuts) == total
    assert checked.cuts[0].first_line == 1
    assert all(b.offset == a.offset + a.size_bytes for a, b in zip(checked.cuts, checked.cuts[1:], strict=False))


def test_a_small_file_is_one_slice(tmp_path: Path) -> None:
    checked = check(tmp_path, b"\n\n" + request("a") + b"\n\n" + request("b"))
    assert [(cut.first_line, cut.lines) for cut in checked.cuts] == [(3, 2)]


def test_what_is_wrong_is_told_by_line(tmp_path: Path) -> None:
    lines = [request("a"), b"{", request("a"), request("b", model="other"), request("c", pad=20_000), request("d")]
    checked = check(tmp_path, b"\n".join(lines))
    assert [(error["line"], error["code"]) for error in checked.errors] == [
        (2, "invalid_json_line"),
        (3, "duplicate_custom_id"),
        (4, "model_not_found"),
        (5, "request_too_large"),
    ]
    assert checked.cuts == []
    assert "line 1" in checked.errors[1]["message"]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert [error["code"] for error in check(tmp_path, b"\n \r\n").errors] == ["empty_file"]


def test_no_more_errors_are_told_than_help(tmp_path: Path) -> None:
    assert len(check(tmp_path, b"{\n" * 1000).errors) == MAX_ERRORS


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    content = b"".join(request(str(one)) + b"\n" for one in range(MAX_REQUESTS + 1))
    assert [error["code"] for error in check(tmp_path, content).errors] == ["too_many_requests"]
    assert check(tmp_path, content[: content.rindex(b'{"custom_id')]).errors == []


def test_the_character_that_databases_refuse_is_not_in_what_is_told(tmp_path: Path) -> None:
    text = check(tmp_path, request("a", model="x\\u0000y")).errors[0]["message"]
    assert "\0" not in text
