"""Stored prompts that a process keeps itself."""

import msgspec

from caching.prompt_rows import Head
from gateway.prompts.first_level import FirstLevel
from gateway.prompts.version import PromptText


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def text(name: str, number: int = 1, tenant_id: int = 1) -> PromptText:
    return PromptText(name, tenant_id, "", number, msgspec.Raw(b"[" + b" " * 9_000 + b"]"), [], 0, 0)


def put(
    local: FirstLevel, name: str, number: int = 1, *, latest: int = 1, at_s: float = 100.0, tenant_id: int = 1
) -> None:
    local.put(name, Head(tenant_id, latest), text(name, number), at_s)


def test_what_was_not_used_for_longest_goes_first() -> None:
    local = FirstLevel(Clock(), 40_000)
    for name in "abc":
        put(local, name)
    local.get("a")
    put(local, "d")

    assert [name for name in "abcd" if local.get(name)] == ["a", "c", "d"]
    assert local.bytes <= 40_000


def test_what_is_pinned_stays_within_half_of_the_room() -> None:
    local = FirstLevel(Clock(), 60_000)
    names = [f"prompt_{letter}" for letter in "abcdefgh"]
    local.pin(frozenset([b"prompt_a", b"prompt_b", b"\x00" * 16]))
    for name in names:
        put(local, name)
    assert local.get("prompt_a")
    assert local.get("prompt_b")
    assert not local.get("prompt_c")

    local.pin(frozenset(name.encode() for name in names))
    for name in names * 2:
        put(local, name)
    assert local.bytes <= 60_000
    local.pin(frozenset())
    for name in names[2:]:
        put(local, name)
    assert not local.get("prompt_a")


def test_another_latest_version_replaces_all_that_was_held() -> None:
    local = FirstLevel(Clock())
    put(local, "a")
    put(local, "a", 2, latest=2)
    held = local.get("a")

    assert held is not None
    assert held.text(None) == text("a", 2)
    assert held.text(1) is None


def test_what_was_asked_for_earlier_does_not_replace_what_is_newer() -> None:
    local = FirstLevel(Clock())
    put(local, "a", 2, latest=2, at_s=100.0)
    put(local, "a", 1, latest=1, at_s=99.0)
    held = local.get("a")

    assert held is not None
    assert held.head.latest == 2


def test_it_is_believed_for_a_second_from_when_it_was_asked_for() -> None:
    clock = Clock()
    local = FirstLevel(clock)
    put(local, "a", at_s=99.5)
    held = local.get("a")

    assert held is not None
    assert local.is_fresh(held)
    clock.now_s = 100.5
    assert not local.is_fresh(held)


def test_a_tenant_is_forgotten_whole() -> None:
    local = FirstLevel(Clock())
    put(local, "a")
    put(local, "b", tenant_id=2)
    local.drop_tenant(1)

    assert local.get("a") is None
    assert local.get("b") is not None
    local.drop_tenant(2)
    assert (len(local), local.bytes) == (0, 0)
