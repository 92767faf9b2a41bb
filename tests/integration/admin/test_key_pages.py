"""Making, rotating and revoking keys as an operator does it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from auditlog.models import LogEntry as AuditEntry
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tenants.keys import key_digest
from tenants.models import ApiKey
from tenants.snapshot import KeyRefused, load_snapshot

SCOPES = ["inference", "usage"]
KEY = re.compile(r"sk-sluice-\w{8}-\w{40}")


def make(client: Client, rows: Any) -> str:
    asked = {"tenant": rows.tenant.pk, "name": "new", "scopes": SCOPES}
    answer = client.post(reverse("admin:tenants_apikey_add"), asked)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    (shown,) = set(KEY.findall(answer.text))
    return str(shown)


def everything_stored() -> str:
    entries = [str(entry.__dict__) for log in (LogEntry, AuditEntry) for entry in log.objects.all()]
    sessions = [str(session.get_decoded()) for session in Session.objects.all()]
    keys = [str(key) for key in ApiKey.objects.values()]
    return "\n".join(entries + sessions + keys)


def test_a_new_key_works(admin_client: Client, rows: Any) -> None:
    shown = make(admin_client, rows)

    assert load_snapshot().find(shown, timezone.now()).tenant == "acme"


def test_a_new_key_is_shown_once_and_stored_nowhere(admin_client: Client, rows: Any) -> None:
    shown = make(admin_client, rows)
    key = ApiKey.objects.get(digest=key_digest(shown).hex())

    for page in ("change", "history", "rotate", "revoke"):
        answer = admin_client.get(reverse(f"admin:tenants_apikey_{page}", args=[key.pk]), follow=True)
        assert answer.status_code == 200
        assert not KEY.search(answer.text)
    for page in ("admin:tenants_apikey_changelist", "admin:index"):
        assert not KEY.search(admin_client.get(reverse(page)).text)
    assert shown.rsplit("-", 1)[1] not in everything_stored()


def test_history_names_no_digest(admin_client: Client, rows: Any) -> None:
    shown = make(admin_client, rows)
    key = ApiKey.objects.get(digest=key_digest(shown).hex())
    admin_client.post(reverse("admin:tenants_apikey_rotate", args=[key.pk]), {"grace_s": 3600})
    digests = ApiKey.objects.values_list("digest", flat=True)

    history = admin_client.get(reverse("admin:tenants_apikey_history", args=[key.pk]), follow=True).text
    entries = "\n".join(str(entry.__dict__) for log in (LogEntry, AuditEntry) for entry in log.objects.all())
    assert not any(digest in history or digest in entries for digest in digests)


def test_editing_a_key_leaves_it_as_it_is(admin_client: Client, rows: Any) -> None:
    change = reverse("admin:tenants_apikey_change", args=[rows.key.pk])

    assert admin_client.post(change, {"name": "renamed", "scopes": SCOPES}).status_code == 302

    key = ApiKey.objects.get()
    assert (key.name, key.digest) == ("renamed", rows.key.digest)


@pytest.mark.parametrize("grace_s", [0, 3600])
def test_a_rotated_key_goes_on_for_its_grace(grace_s: int, admin_client: Client, rows: Any) -> None:
    answer = admin_client.post(reverse("admin:tenants_apikey_rotate", args=[rows.key.pk]), {"grace_s": grace_s})
    (new,) = set(KEY.findall(answer.text))
    snapshot = load_snapshot()
    now = timezone.now()

    assert snapshot.find(new, now).tenant == "acme"
    with pytest.raises(KeyRefused, match="revoked"):
        snapshot.find(rows.plaintext, now + timedelta(seconds=grace_s))
    if grace_s:
        assert snapshot.find(rows.plaintext, now).tenant == "acme"


def test_a_grace_that_is_not_offered_is_refused(admin_client: Client, rows: Any) -> None:
    answer = admin_client.post(reverse("admin:tenants_apikey_rotate", args=[rows.key.pk]), {"grace_s": 99})

    assert answer.status_code == 200
    assert ApiKey.objects.count() == 1


def test_a_key_is_revoked_after_asking(admin_client: Client, rows: Any) -> None:
    revoke = reverse("admin:tenants_apikey_revoke", args=[rows.key.pk])

    admin_client.get(revoke)
    assert load_snapshot().find(rows.plaintext, timezone.now()).tenant == "acme"

    admin_client.post(revoke)
    with pytest.raises(KeyRefused, match="revoked"):
        load_snapshot().find(rows.plaintext, timezone.now())


def test_selected_keys_are_revoked_after_asking(admin_client: Client, rows: Any) -> None:
    make(admin_client, rows)
    data = {"action": "revoke_selected", "_selected_action": list(ApiKey.objects.values_list("pk", flat=True))}
    keys = reverse("admin:tenants_apikey_changelist")

    answer = admin_client.post(keys, data)
    assert "Revoke these 2 keys?" in answer.text
    assert ApiKey.objects.filter(revoked_at=None).count() == 2

    admin_client.post(keys, {**data, "confirmed": "yes"})
    assert ApiKey.objects.filter(revoked_at=None).count() == 0


@pytest.mark.parametrize("page", ["rotate", "revoke"])
def test_a_key_that_does_not_exist_is_not_found(page: str, admin_client: Client) -> None:
    assert admin_client.get(reverse(f"admin:tenants_apikey_{page}", args=[987])).status_code == 404


@pytest.mark.parametrize("page", ["rotate", "revoke"])
def test_an_operator_without_permission_ends_no_key(
    page: str, client: Client, rows: Any, django_user_model: Any
) -> None:
    client.force_login(django_user_model.objects.create_user("viewer", is_staff=True))

    assert client.post(reverse(f"admin:tenants_apikey_{page}", args=[rows.key.pk])).status_code == 403
    assert ApiKey.objects.get().revoked_at is None
