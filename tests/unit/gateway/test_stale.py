"""What the gateway keeps for when computing fails, and who may have it."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from caching.entry import Entry, compress
from domain.config import Config
from domain.qos import QosClass
from domain.usage import Usage
from gateway.erased import GONE, Erased
from gateway.stale import DIRECTORY, MAX_WRITES, UNCHECKED_PER_S, Stale, tag_of
from tenants.salt import salt_mark
from tenants.snapshot import Caching, PlanRow, Snapshot, TenantRow
from tenants.snapshot_rows import PackedTable

KEY = b"k" * 16
DAY_S = 86_400
CACHING = Caching("deterministic", 3600, 0, DAY_S)


@dataclass
class Tenants:
    """Stands in for the keeper of the snapshot."""

    current: Snapshot

    def change(self, **salts: str) -> None:
        """A later snapshot: tenants ``t7`` and the like with these salts, and no others."""
        rows = {int(name[1:]): TenantRow(name, 1, True, salt).pack() for name, salt in salts.items()}
        self.current = replace(
            self.current, revision=self.current.revision + 1, tenants=PackedTable(rows, TenantRow.unpack)
        )

    def plan(self, caching: Caching) -> None:
        """A later snapshot, in which their plan says something else."""
        self.current = replace(self.current, plans=_plans(caching))


def _plans(caching: Caching) -> dict[int, PlanRow]:
    return {1: PlanRow("p", QosClass.P1, 1.0, (), None, False, 0, caching)}


@pytest.fixture
def tenants() -> Tenants:
    made = Tenants(Snapshot(1, _plans(CACHING), {}, {}, {}))
    made.change(t7="a" * 32, t8="b" * 32)
    return made


@pytest.fixture
async def stale(tmp_path: Path, tenants: Tenants) -> AsyncIterator[Stale]:
    made = Stale(Config(data_dir=tmp_path), tenants)
    await made.start()
    yield made
    await made.stop()


def entry(tenant_id: int = 7, age_s: float = 0.0) -> Entry:
    stored_at_ms = int((time.time() - age_s) * 1000)
    return Entry(compress(b'{"said": "a word"}'), "m@1", tenant_id, stored_at_ms, Usage(3, 0, 2))


async def found(stale: Stale, key: bytes = KEY, max_stale_s: int = DAY_S) -> Entry | None:
    await stale.sweep()  # goes by the same thread as what is kept, so that is written now
    return await stale.find(key, max_stale_s)


async def test_what_was_kept_is_found(stale: Stale) -> None:
    kept = entry()
    await stale.keep(KEY, kept, 7, DAY_S)
    assert await found(stale) == kept
    assert await stale.find(b"x" * 16, DAY_S) is None


async def test_it_is_kept_over_a_restart(stale: Stale, tmp_path: Path, tenants: Tenants) -> None:
    await stale.keep(KEY, entry(), 7, DAY_S)
    await stale.stop()
    again = Stale(Config(data_dir=tmp_path), tenants)
    await again.start()
    assert await again.find(KEY, DAY_S) is not None
    await again.stop()


async def test_an_answer_that_is_too_old_for_the_plan_is_not_found(stale: Stale) -> None:
    await stale.keep(KEY, entry(age_s=100), 7, DAY_S)
    assert await found(stale, max_stale_s=99) is None
    assert await found(stale, max_stale_s=110) is not None


@pytest.mark.parametrize("caching", [CACHING._replace(mode="off"), CACHING._replace(max_stale_s=0)])
async def test_a_plan_that_keeps_none_leaves_nothing_on_the_disk(
    stale: Stale, tenants: Tenants, tmp_path: Path, caching: Caching
) -> None:
    tenants.plan(caching)
    await stale.keep(KEY, entry(), 7, DAY_S)
    await stale.sweep()
    assert not any(b"m@1" in file.read_bytes() for file in (tmp_path / DIRECTORY).rglob("*") if file.is_file())


async def test_what_was_kept_under_an_earlier_plan_is_not_given(stale: Stale, tenants: Tenants) -> None:
    await stale.keep(KEY, entry(), 7, DAY_S)
    assert await found(stale) is not None
    tenants.plan(CACHING._replace(max_stale_s=0))
    assert await stale.find(KEY, DAY_S) is None


async def test_erasing_a_tenant_leaves_others(stale: Stale) -> None:
    await stale.keep(KEY, entry(7), 7, DAY_S)
    await stale.keep(b"o" * 16, entry(8), 8, DAY_S)
    assert await stale.erase(7) == 1
    assert await stale.find(KEY, DAY_S) is None
    assert await stale.find(b"o" * 16, DAY_S) is not None


async def test_a_machine_that_was_down_when_a_tenant_was_erased_catches_up(
    stale: Stale, tenants: Tenants, tmp_path: Path
) -> None:
    for tenant_id in (7, 8):
        await stale.keep(bytes([tenant_id]) * 16, entry(tenant_id), tenant_id, DAY_S)
    await stale.stop()
    tenants.change(t7="c" * 32, t8="b" * 32)
    again = Stale(Config(data_dir=tmp_path), tenants)
    await again.start()
    files = [file.read_bytes() for file in (tmp_path / DIRECTORY).rglob("*") if file.is_file()]
    assert not any(bytes([7]) * 16 in file for file in files)
    assert any(bytes([8]) * 16 in file for file in files)
    await again.stop()


async def test_an_answer_of_a_tenant_with_a_new_salt_is_not_given_even_before_it_is_removed(
    stale: Stale, tenants: Tenants
) -> None:
    await stale.keep(KEY, entry(), 7, DAY_S)
    assert await found(stale) is not None
    tenants.change(t7="c" * 32)
    assert await stale.find(KEY, DAY_S) is None


async def test_too_much_to_write_is_dropped(stale: Stale, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MAX_WRITES + 20):  # nothing in here gives way, so none is written meanwhile
        await stale.keep(number.to_bytes(16), entry(), 7, DAY_S)
    assert await found(stale, (0).to_bytes(16)) is not None
    assert await found(stale, (MAX_WRITES + 19).to_bytes(16)) is None


async def test_without_room_on_the_disk_nothing_is_kept(tmp_path: Path, tenants: Tenants) -> None:
    stale = Stale(Config(data_dir=tmp_path, shadow_mib=0), tenants)
    await stale.start()
    await stale.keep(KEY, entry(), 7, DAY_S)
    assert await stale.find(KEY, DAY_S) is None
    assert await stale.erase(7) == 0
    assert not (tmp_path / DIRECTORY).exists()
    await stale.stop()


async def test_after_the_stop_nothing_is_raised(stale: Stale) -> None:
    await stale.stop()
    await stale.keep(KEY, entry(), 7, DAY_S)
    assert await stale.find(KEY, DAY_S) is None


def test_stale_answers_without_limits_are_bounded_for_each_tenant(tmp_path: Path, tenants: Tenants) -> None:
    stale = Stale(Config(data_dir=tmp_path, shadow_mib=0), tenants)
    given = [stale.may_give_unchecked(7) for _ in range(100)]
    assert UNCHECKED_PER_S <= given.count(True) < 100
    assert stale.may_give_unchecked(8)


def test_two_salts_mark_differently_and_tell_nothing_of_themselves(tenants: Tenants) -> None:
    before = tag_of(tenants.current, 7)
    tenants.change(t7="c" * 32)
    after = tag_of(tenants.current, 7)
    assert before != after
    assert "c" * 32 not in str(after)
    assert tag_of(tenants.current, 9) is None


class Forgetting:
    """Notes who was to be forgotten; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[int] = []
        self._failures = failures

    async def __call__(self, tenant_id: int) -> None:
        self.told.append(tenant_id)
        if self._failures:
            self._failures -= 1
            raise OSError("the store does not answer")


class Told:
    """Notes what others were told."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, str]] = []

    async def __call__(self, tenant_id: int, mark: str) -> None:
        self.marks.append((tenant_id, mark))


@pytest.fixture
def told() -> Told:
    return Told()


async def test_a_changed_salt_and_a_tenant_that_is_gone_are_noticed(tenants: Tenants, told: Told) -> None:
    forgetting = Forgetting()
    erased = Erased(tenants, 1000, [forgetting], told)
    await erased.look()
    assert forgetting.told == []
    tenants.change(t7="c" * 32)
    await erased.look()
    assert sorted(forgetting.told) == [7, 8]
    assert sorted(told.marks) == [(7, salt_mark("c" * 32)), (8, GONE)]
    await erased.look()
    assert len(forgetting.told) == 2


async def test_other_changes_of_a_tenant_erase_nothing(tenants: Tenants, told: Told) -> None:
    forgetting = Forgetting()
    erased = Erased(tenants, 1000, [forgetting], told)
    rows = {7: TenantRow("t7", 2, False, "a" * 32).pack(), 8: TenantRow("t8", 1, True, "b" * 32).pack()}
    tenants.current = replace(tenants.current, revision=9, tenants=PackedTable(rows, TenantRow.unpack))
    await erased.look()
    assert forgetting.told == []


async def test_what_was_under_way_is_forgotten_too(tenants: Tenants, told: Told) -> None:
    forgetting = Forgetting()
    erased = Erased(tenants, 0.05, [forgetting], told)
    tenants.change(t7="c" * 32, t8="b" * 32)
    await erased.look()
    await asyncio.sleep(0.06)
    await erased.look()
    assert forgetting.told == [7, 7]


async def test_one_that_fails_is_told_again_and_does_not_hold_up_the_others(
    tenants: Tenants, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.erased.RETRY_S", 0.0)
    failing, other = Forgetting(failures=1), Forgetting()
    erased = Erased(tenants, 1000, [failing, other], told)
    tenants.change(t7="c" * 32, t8="b" * 32)
    await erased.look()
    assert (failing.told, other.told, told.marks) == ([7], [7], [])
    await erased.look()
    assert failing.told == [7, 7]
    assert told.marks == [(7, salt_mark("c" * 32))]


async def test_a_snapshot_that_knows_nobody_yet_erases_nothing(told: Told) -> None:
    forgetting = Forgetting()
    empty: Any = Tenants(Snapshot(-1, {}, {}, {}, {}))
    erased = Erased(empty, 1000, [forgetting], told)
    empty.change(t7="a" * 32)
    await erased.look()
    assert forgetting.told == []
