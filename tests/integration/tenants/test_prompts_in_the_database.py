"""Stored prompts in the database."""

import threading

import pytest
from django.db import connections

from domain.prompt_id import RANDOM_BYTES, make_id
from tenants import prompts
from tenants.models import Plan, PromptVersion, StoredPrompt, Tenant

TEXT = [{"role": "user", "content": "Hello {{name}}"}]


def make_tenant(slug: str) -> int:
    plan, _ = Plan.objects.get_or_create(name="gold")
    return Tenant.objects.create(slug=slug, name=slug, plan=plan).pk


def an_id(number: int) -> str:
    return make_id(1_790_000_000_000 + number, number.to_bytes(RANDOM_BYTES))


@pytest.fixture
def acme(db: None) -> int:
    return make_tenant("acme")


@pytest.fixture
def other(db: None) -> int:
    return make_tenant("other")


def test_what_is_written_is_read(acme: int) -> None:
    made = prompts.create_prompt(acme, an_id(1), "greeting", TEXT, ["name"])

    assert prompts.read_version(an_id(1), None) == made
    assert (made.tenant_id, made.latest, made.number, made.messages, made.variables) == (acme, 1, 1, TEXT, ["name"])
    assert prompts.read_version(an_id(2), None) is None


def test_versions_are_numbered_and_stay(acme: int) -> None:
    prompts.create_prompt(acme, an_id(1), "", TEXT, ["name"])
    later = [{"role": "user", "content": "Bye"}]
    second = prompts.add_version(acme, an_id(1), later, [])

    assert second is not None
    assert (second.number, second.latest) == (2, 2)
    first, latest, none = (prompts.read_version(an_id(1), number) for number in (1, None, 9))
    assert first is not None
    assert (first.number, first.latest, first.messages) == (1, 2, TEXT)
    assert latest == second
    assert none is not None
    assert none.number == 2
    assert [one.number for one in prompts.list_versions(acme, an_id(1))] == [2, 1]


def test_a_tenant_changes_only_its_own(acme: int, other: int) -> None:
    prompts.create_prompt(acme, an_id(1), "", TEXT, ["name"])

    assert prompts.add_version(other, an_id(1), TEXT, []) is None
    assert prompts.list_versions(other, an_id(1)) == []
    assert not prompts.delete_prompt(other, an_id(1))
    assert prompts.list_prompts(other, None, 10) == []
    assert prompts.list_prompts(other, an_id(1), 10) is None
    assert prompts.read_version(an_id(1), None) is not None


def test_a_deleted_prompt_is_gone_with_its_versions(acme: int) -> None:
    prompts.create_prompt(acme, an_id(1), "", TEXT, ["name"])
    prompts.add_version(acme, an_id(1), TEXT, ["name"])

    assert prompts.delete_prompt(acme, an_id(1))
    assert not prompts.delete_prompt(acme, an_id(1))
    assert PromptVersion.objects.count() == 0


def test_all_of_a_tenant_are_erased(acme: int, other: int) -> None:
    for number in (1, 2):
        prompts.create_prompt(acme, an_id(number), "", TEXT, ["name"])
    prompts.create_prompt(other, an_id(3), "", TEXT, ["name"])

    assert sorted(prompts.erase_prompts(acme)) == [an_id(1), an_id(2)]
    assert [prompt.public_id for prompt in StoredPrompt.objects.all()] == [an_id(3)]


def test_a_long_list_comes_in_pages_without_gaps(acme: int) -> None:
    for number in range(7):
        prompts.create_prompt(acme, an_id(number), f"n{number}", TEXT, ["name"])
    seen: list[str] = []
    after = None
    while page := prompts.list_prompts(acme, after, 3):
        seen += [one.public_id for one in page]
        after = seen[-1]

    assert seen == [an_id(number) for number in reversed(range(7))]


def test_a_list_shows_the_latest_version(acme: int) -> None:
    prompts.create_prompt(acme, an_id(1), "greeting", TEXT, ["name"])
    prompts.add_version(acme, an_id(1), [{"role": "user", "content": "{{a}}"}], ["a"])

    (line,) = prompts.list_prompts(acme, None, 10) or []
    assert (line.name, line.latest, line.variables) == ("greeting", 2, ["a"])


def test_there_is_a_bound_of_each(acme: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MAX_PROMPTS", 2)
    monkeypatch.setattr(prompts, "MAX_VERSIONS", 2)
    for number in (1, 2):
        prompts.create_prompt(acme, an_id(number), "", TEXT, [])
    with pytest.raises(prompts.TooManyPrompts):
        prompts.create_prompt(acme, an_id(3), "", TEXT, [])
    prompts.add_version(acme, an_id(1), TEXT, [])
    with pytest.raises(prompts.TooManyVersions):
        prompts.add_version(acme, an_id(1), TEXT, [])


@pytest.mark.django_db(transaction=True)
def test_versions_that_come_at_once_get_numbers_of_their_own() -> None:
    tenant_id = make_tenant("acme")
    prompts.create_prompt(tenant_id, an_id(0), "", TEXT, [])
    numbers: list[int] = []

    def add() -> None:
        try:
            for _ in range(3):
                made = prompts.add_version(tenant_id, an_id(0), TEXT, [])
                assert made is not None
                numbers.append(made.number)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert sorted(numbers) == list(range(2, 11))
