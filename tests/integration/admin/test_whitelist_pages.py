"""The pages of the whitelist: what operators see, set, find, and what they are told."""

import re
from datetime import timedelta
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from gateway_admin.roles import Role
from tenants import whitelist
from tenants.models import HotKey

LIST = "admin:tenants_hotkey_changelist"
KEY = "00112233445566778899aabbccddeeff"
State = HotKey.State


@pytest.fixture
def hot(rows: Any) -> HotKey:
    """Found by counting, ten minutes ago."""
    return HotKey.objects.create(
        kind="answer",
        key=KEY,
        tenant=rows.tenant,
        model="m1",
        rate_per_minute=1234.5,
        trend=0.35,
        first_seen_at=timezone.now() - timedelta(minutes=10),
    )


@pytest.fixture
def pinned(db: None) -> HotKey:
    return HotKey.objects.create(
        kind="prompt",
        key="prompt_front",
        state=State.PINNED,
        note="front page",
        expires_at=timezone.now() + timedelta(days=5),
        changed_at=timezone.now() - timedelta(hours=3),
        changed_by_name="ada",
    )


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    user = User.objects.create_user("otto", is_staff=True)
    user.groups.add(Group.objects.get(name=Role.OPERATOR.value))
    client.force_login(user)
    return client


def do(client: Client, what: str, *rows: HotKey) -> str:
    asked = {"action": what, "_selected_action": [row.pk for row in rows]}
    return client.post(reverse(LIST), asked, follow=True).text


def asked_for(**changes: Any) -> dict[str, Any]:
    until = timezone.now() + timedelta(days=2)
    moment = {"expires_at_0": f"{until:%Y-%m-%d}", "expires_at_1": f"{until:%H:%M:%S}"}
    return {"kind": "answer", "key": KEY, "state": "pinned", "note": "front", **moment, **changes}


def test_the_list_tells_how_often_how_it_changes_and_who_set_what(
    operator: Client, hot: HotKey, pinned: HotKey
) -> None:
    text = operator.get(reverse(LIST)).text

    for told in (
        KEY,
        "1,234",
        "+35 %",
        "acme",
        "m1",
        "prompt_front",
        "front page",
        ">3\xa0hours ago<",
        ">ada<span",
        "in 4\xa0days",
    ):
        assert told in text, told
    assert "<strong>1</strong> found by counting, <strong>1</strong> pinned, <strong>0</strong> banned" in text


@pytest.mark.parametrize(
    ("rate", "trend", "minutes", "told"),
    [
        (5, 0.05, 9, "steady"),
        (5, -0.5, 9, "\u221250 %"),
        (5, 400, 9, "+999 %"),
        (5, 0, 1, "new"),
        (0, -1, 9, "not asked for"),
    ],
)
def test_a_trend_is_told_in_words(
    rate: float, trend: float, minutes: int, told: str, operator: Client, hot: HotKey
) -> None:
    first = timezone.now() - timedelta(minutes=minutes)
    HotKey.objects.update(rate_per_minute=rate, trend=trend, first_seen_at=first)

    assert f"</span> {told}</span>" in operator.get(reverse(LIST)).text


@pytest.mark.parametrize(("rate", "told"), [(5, "hot"), (0, "cold")])
def test_a_state_is_told_in_a_word(rate: float, told: str, operator: Client, hot: HotKey) -> None:
    HotKey.objects.update(rate_per_minute=rate)

    cell = re.search(r"field-state_label.*?</t[dh]>", operator.get(reverse(LIST)).text, re.DOTALL)

    assert cell is not None
    assert re.sub(r"<[^>]*>|\s", "", cell[0]).endswith(told)


def test_an_empty_list_says_what_to_do(operator: Client) -> None:
    text = operator.get(reverse(LIST)).text

    assert "No key is hot yet" in text
    assert "x-sluice-cache-key" in text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": KEY[3:9].upper()}, KEY),
        ({"q": "front"}, "prompt_front"),
        ({"q": "acm"}, KEY),
        ({"state__exact": "pinned"}, "prompt_front"),
        ({"kind__exact": "answer"}, KEY),
        ({"model": "m1"}, KEY),
    ],
)
def test_keys_are_found(query: dict[str, str], found: str, operator: Client, hot: HotKey, pinned: HotKey) -> None:
    text = operator.get(reverse(LIST), query).text

    assert [key for key in (KEY, "prompt_front") if f"<code>{key}</code>" in text] == [found]


@pytest.mark.parametrize(("what", "state"), [("pin_selected", State.PINNED), ("ban_selected", State.BANNED)])
def test_selected_keys_are_set_with_who_and_when(
    what: str, state: str, operator: Client, hot: HotKey, pinned: HotKey
) -> None:
    text = do(operator, what, hot, pinned)

    assert f"2 keys {state.lower()}." in text
    for row in HotKey.objects.all():
        assert (row.state, row.changed_by_name) == (state, "otto")
        assert row.changed_at is not None
        assert row.expires_at is not None
        assert timedelta(days=6.9) < row.expires_at - timezone.now() < timedelta(days=7.1)
        assert LogEntry.objects.get_for_object(row).filter(actor__username="otto").count() == 1


@pytest.mark.parametrize(("what", "hours"), [("expire_in_an_hour", 1), ("expire_in_a_day", 24)])
def test_ends_are_moved_and_keys_that_nobody_set_are_passed_over(
    what: str, hours: int, operator: Client, hot: HotKey, pinned: HotKey
) -> None:
    assert "The end of 1 key was moved." in do(operator, what, hot, pinned)

    hot.refresh_from_db()
    pinned.refresh_from_db()
    assert hot.expires_at is None
    assert pinned.expires_at is not None
    assert abs(pinned.expires_at - timezone.now() - timedelta(hours=hours)) < timedelta(minutes=5)


def test_keys_are_released(operator: Client, hot: HotKey, pinned: HotKey) -> None:
    assert "1 key released." in do(operator, "release_selected", pinned)
    assert "nothing changed" in do(operator, "release_selected", hot)

    pinned.refresh_from_db()
    assert (pinned.state, pinned.expires_at) == (State.AUTO, None)


def test_too_many_at_once_are_refused_whole(
    operator: Client, hot: HotKey, pinned: HotKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whitelist, "MOST_SET", 1)

    assert "Release some first" in do(operator, "ban_selected", hot, pinned)

    assert set(HotKey.objects.values_list("state", flat=True)) == {State.AUTO, State.PINNED}


def test_a_key_is_added_by_hand(operator: Client, rows: Any) -> None:
    page = reverse("admin:tenants_hotkey_add")
    assert 'value="pinned" selected' in operator.get(page).text

    answer = operator.post(page, asked_for(key=f" {KEY.upper()} "))

    assert answer.status_code == 302, answer.text
    row = HotKey.objects.get()
    assert (row.key, row.state, row.note, row.changed_by_name) == (KEY, State.PINNED, "front", "otto")


def test_adding_one_that_counting_has_found_takes_it_over(operator: Client, hot: HotKey) -> None:
    assert operator.post(reverse("admin:tenants_hotkey_add"), asked_for(state="banned")).status_code == 302

    row = HotKey.objects.get()
    assert (row.pk, row.state, row.rate_per_minute) == (hot.pk, State.BANNED, 1234.5)


@pytest.mark.parametrize(
    "change",
    [
        {"key": "short"},
        {"kind": "prompt", "key": "prompt_unknown"},
        {"state": "auto"},
        {"expires_at_0": "", "expires_at_1": ""},
        {"expires_at_0": "2020-01-01"},
        {"expires_at_0": "2199-01-01"},
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, str], operator: Client) -> None:
    answer = operator.post(reverse("admin:tenants_hotkey_add"), asked_for(**change))

    assert answer.status_code == 200
    assert not HotKey.objects.exists()


def test_the_page_of_a_key_changes_what_operators_set_and_nothing_else(operator: Client, hot: HotKey) -> None:
    page = reverse("admin:tenants_hotkey_change", args=[hot.pk])
    assert KEY in operator.get(page).text

    answer = operator.post(page, asked_for(key="f" * 32, kind="prompt", state="banned", note="why"))

    assert answer.status_code == 302, answer.text
    row = HotKey.objects.get()
    assert (row.key, row.kind, row.state, row.note, row.trend) == (KEY, "answer", State.BANNED, "why", 0.35)


def test_a_viewer_looks_and_changes_nothing(client: Client, hot: HotKey) -> None:
    user = User.objects.create_user("vera", is_staff=True)
    user.groups.add(Group.objects.get(name=Role.VIEWER.value))
    client.force_login(user)

    text = client.get(reverse(LIST)).text
    assert KEY in text
    assert "pin_selected" not in text
    do(client, "pin_selected", hot)
    assert client.post(reverse("admin:tenants_hotkey_add"), asked_for(key="1" * 32)).status_code == 403
    assert HotKey.objects.get().state == State.AUTO
