"""The whitelist over REST: listed, pinned, banned, released, with who and when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.utils import timezone
from pytest_django import Settings
from redis import Redis

from gateway_admin.roles import Role
from tenants import whitelist
from tenants.models import HotKey, StoredPrompt
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user
from tests.stack import free_port

KEY = "00112233445566778899aabbccddeeff"
PROMPT = "prompt_01kbbbbbbb0123456789abcdef"


@pytest.fixture
def operator(rows: Rows, valkey: "Redis") -> Caller:
    return in_session(make_user("otto", Role.OPERATOR))


@pytest.fixture
def found(rows: Rows) -> HotKey:
    """One that counting has found."""
    return HotKey.objects.create(kind="answer", key=KEY, tenant=rows.tenant, model="m1", rate_per_minute=12.0)


def refusal(response: Any) -> dict[str, Any]:
    return dict(response.json()["error"])


def test_what_is_asked_for_most_comes_first(operator: Caller, found: HotKey) -> None:
    HotKey.objects.create(kind="answer", key="f" * 32, rate_per_minute=99.0, state="banned", note="noisy")

    listed = operator.get("hot-keys")["results"]

    assert [row["key"] for row in listed] == ["f" * 32, KEY]
    assert listed[1] | {"tenant": "acme", "model": "m1", "state": "auto", "rate_per_minute": 12.0} == listed[1]


@pytest.mark.parametrize(
    "query", [{"state": "auto"}, {"tenant": "acme"}, {"search": KEY[4:9]}, {"search": "acm"}, {"kind": "answer"}]
)
def test_keys_are_found(query: dict[str, str], operator: Caller, found: HotKey) -> None:
    HotKey.objects.create(kind="prompt", key="prompt_x", state="banned")

    assert [row["key"] for row in operator.get("hot-keys", **query)["results"]] == [KEY]


def test_a_key_is_pinned_for_a_week_by_whoever_does_it(operator: Caller) -> None:
    made = operator(
        "POST", "hot-keys", {"kind": "answer", "key": f" {KEY.upper()} ", "state": "pinned", "note": "front"}
    )

    assert made.status_code == 201, made.content
    row = HotKey.objects.get()
    assert (row.key, row.state, row.note, row.changed_by_name) == (KEY, "pinned", "front", "otto")
    assert row.expires_at is not None
    assert timedelta(days=6.9) < row.expires_at - timezone.now() < timedelta(days=7.1)
    entry = LogEntry.objects.get_for_object(row).get()
    assert entry.additional_data == {"by": "otto"}
    assert entry.changes_dict["state"] == ["None", "pinned"]


def test_one_that_counting_has_found_is_taken_over(operator: Caller, found: HotKey) -> None:
    made = operator("POST", "hot-keys", {"kind": "answer", "key": KEY, "state": "banned"})

    assert made.status_code == 201
    assert made.json()["id"] == found.pk  # type: ignore[attr-defined]
    assert HotKey.objects.get().rate_per_minute == 12.0


def test_pinning_banning_and_releasing_one(operator: Caller, found: HotKey, valkey: "Redis") -> None:
    until = (timezone.now() + timedelta(hours=1)).isoformat()
    seen = []
    for what, body in (("pin", {"expires_at": until}), ("ban", {"note": "why"}), ("release", {}), ("release", {})):
        response = operator("POST", f"hot-keys/{found.pk}/{what}", body)
        assert response.status_code == 200, response.content
        seen.append((response.json()["state"], response.json()["note"]))  # type: ignore[attr-defined]

    assert seen == [("pinned", ""), ("banned", "why"), ("auto", "why"), ("auto", "why")]
    assert HotKey.objects.get().expires_at is None
    assert LogEntry.objects.get_for_object(found).filter(action=LogEntry.Action.UPDATE).count() == 3


def test_the_store_is_told_that_the_list_has_changed(
    operator: Caller, found: HotKey, valkey: "Redis", django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        operator("POST", f"hot-keys/{found.pk}/pin", {})

    assert valkey.hget("sl:hot:list", "asked") == b"1"


def test_a_stored_prompt_is_pinned_by_its_id(operator: Caller, rows: Rows) -> None:
    asked = {"kind": "prompt", "key": PROMPT, "state": "pinned"}
    assert operator("POST", "hot-keys", asked).status_code == 400

    StoredPrompt.objects.create(tenant=rows.tenant, public_id=PROMPT)

    assert operator("POST", "hot-keys", asked).json()["tenant"] == "acme"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"key": "no key"}, "key"),
        ({"key": "0" * 31}, "key"),
        ({"state": "auto"}, "state"),
        ({"kind": "file"}, "kind"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2199-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": None}, "expires_at"),
        ({"rate_per_minute": 5}, "rate_per_minute"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field(change: dict[str, Any], field: str, operator: Caller) -> None:
    response = operator("POST", "hot-keys", {"kind": "answer", "key": KEY, "state": "pinned", **change})

    assert response.status_code == 400
    assert set(refusal(response)["fields"]) == {field}
    assert not HotKey.objects.exists()


def test_one_that_is_set_already_is_changed_at_its_own_address(operator: Caller, found: HotKey) -> None:
    operator("POST", f"hot-keys/{found.pk}/ban", {})

    response = operator("POST", "hot-keys", {"kind": "answer", "key": KEY, "state": "pinned"})

    assert (response.status_code, set(refusal(response)["fields"])) == (400, {"key"})
    assert HotKey.objects.get().state == "banned"


def test_no_more_are_set_than_there_is_room_for(
    operator: Caller, found: HotKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whitelist, "MOST_SET", 1)
    HotKey.objects.create(kind="answer", key="1" * 32, state="pinned", expires_at=whitelist.default_end())

    response = operator("POST", f"hot-keys/{found.pk}/pin", {})

    assert response.status_code == 409
    assert "Release some" in refusal(response)["message"]
    assert HotKey.objects.get(pk=found.pk).state == "auto"


def test_a_pin_stands_while_the_store_is_away(
    operator: Caller, found: HotKey, settings: Settings, django_capture_on_commit_callbacks: Any
) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port()}")

    with django_capture_on_commit_callbacks(execute=True) as told:
        assert operator("POST", f"hot-keys/{found.pk}/pin", {}).status_code == 200

    assert len(told) == 1
    assert HotKey.objects.get().state == "pinned"
