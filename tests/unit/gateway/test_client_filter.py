"""The filter that clients hold, packed by the gateway's code and read by the client's own file."""

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.client_filter import MAX_HASHES, pack
from domain.filter_size import PAPER, FilterSize, false_positives_with
from domain.prompt_id import RANDOM_BYTES, make_id

NOW_MS = 1_790_000_000_000


def load() -> ModuleType:
    """The file, as a program that copied it has it."""
    path = Path(__file__).parents[3] / "clients/python/sluice_filter.py"
    spec = importlib.util.spec_from_file_location("sluice_filter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sluice_filter"] = module
    spec.loader.exec_module(module)
    return module


Snapshot = load().Snapshot

SIZES = st.builds(FilterSize, st.sampled_from([2**10, 2**13]), st.integers(1, MAX_HASHES))
IDS = st.builds(make_id, st.integers(0, 2 * NOW_MS), st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES))


@given(st.sets(IDS, max_size=300), SIZES)
def test_what_exists_is_never_refused(ids: set[str], size: FilterSize) -> None:
    snapshot = Snapshot.read(pack([one.encode() for one in ids], size, 2 * NOW_MS + 1))
    assert snapshot.items == len(ids)
    assert all(snapshot.may_exist(one) for one in ids)


@given(IDS, SIZES, st.integers(0, 2 * NOW_MS))
def test_what_is_made_after_the_filter_is_never_refused_and_what_is_older_is(
    public_id: str, size: FilterSize, complete_ms: int
) -> None:
    snapshot = Snapshot.read(pack([], size, complete_ms))
    made_at_ms = int(public_id[7:17].translate(str.maketrans("abcdefghjkmnpqrstvwxyz", "abcdefghijklmnopqrstuv")), 32)
    assert snapshot.may_exist(public_id) == (made_at_ms >= complete_ms)


@given(st.text(max_size=40))
def test_what_is_no_id_is_left_to_the_gateway(text: str) -> None:
    assert Snapshot.read(pack([], PAPER, NOW_MS)).may_exist(text)


def test_a_later_look_at_an_unchanged_filter_makes_it_know_more() -> None:
    snapshot = Snapshot.read(pack([], FilterSize(2**10, 3), NOW_MS))
    absent = make_id(NOW_MS, bytes(RANDOM_BYTES))
    assert snapshot.may_exist(absent)
    assert not snapshot.later(NOW_MS + 1).may_exist(absent)
    assert snapshot.later(NOW_MS + 1).later(5).complete_ms == NOW_MS + 1


def test_unknown_ids_are_refused_as_often_as_the_formula_says() -> None:
    size, old = FilterSize(2**14, 3), NOW_MS - 1
    inside = [make_id(old, index.to_bytes(RANDOM_BYTES)) for index in range(4_000)]
    outside = [make_id(old, index.to_bytes(RANDOM_BYTES)) for index in range(4_000, 24_000)]
    snapshot = Snapshot.read(pack([one.encode() for one in inside], size, NOW_MS))
    let_through = sum(snapshot.may_exist(one) for one in outside) / len(outside)
    assert let_through == pytest.approx(false_positives_with(size, 4_000), abs=0.02)


@pytest.mark.parametrize(
    "junk",
    [b"", b"SLF1", bytes(32), pack([], PAPER, 1)[:-1], pack([], PAPER, 1) + b"x", b"SLF2" + pack([], PAPER, 1)[4:]],
    ids=["nothing", "a beginning", "zeros", "cut", "too long", "another form"],
)
def test_what_is_no_filter_is_not_read_as_one(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a filter"):
        Snapshot.read(junk)


def test_the_form_is_the_documented_one() -> None:
    packed = pack([b"prompt_1"], FilterSize(2**10, 2), 7)
    assert packed[:32] == b"SLF1" + struct.pack("<I", 1024) + b"\x02" + bytes(7) + struct.pack("<QQ", 7, 1)
    assert [index for index in range(1024) if packed[32 + index // 8] >> index % 8 & 1] == [16, 835]
