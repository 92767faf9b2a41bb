"""The page of stored prompts."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tenants.models import StoredPrompt
from tenants.prompts import add_version, create_prompt

pytestmark = pytest.mark.django_db

SECRET = "words of a tenant's own"
PROMPT_ID = "prompt_01jz0000000000000000000000"


@pytest.fixture
def page(client: Client, admin_user: User, rows: Any, valkey: Any) -> Client:
    create_prompt(rows.tenant.pk, PROMPT_ID, "greeting", [{"role": "user", "content": SECRET}], [])
    add_version(rows.tenant.pk, PROMPT_ID, [{"role": "user", "content": f"{SECRET} {{{{name}}}}"}], ["name"])
    client.force_login(admin_user)
    return client


def test_prompts_are_listed_without_what_they_say(page: Client, rows: Any) -> None:
    text = page.get(reverse("admin:tenants_storedprompt_changelist")).content.decode()

    assert PROMPT_ID in text
    assert "greeting" in text
    assert rows.tenant.slug in text
    assert SECRET not in text


def test_a_prompt_shows_its_versions_without_what_they_say(page: Client) -> None:
    prompt = StoredPrompt.objects.get()
    text = page.get(reverse("admin:tenants_storedprompt_change", args=[prompt.pk])).content.decode()

    assert "2 · " in text
    assert "· name<" in text
    assert SECRET not in text


def test_prompts_are_searched_by_id_and_name_alone(page: Client) -> None:
    def found(words: str) -> bool:
        listed = page.get(reverse("admin:tenants_storedprompt_changelist"), {"q": words}).content.decode()
        return f">{PROMPT_ID}<" in listed

    assert found("greet")
    assert found(PROMPT_ID)
    assert not found("tenant's own")


def test_a_prompt_keeps_no_tenant_from_being_deleted(page: Client, rows: Any) -> None:
    other = type(rows.tenant).objects.create(slug="leaves", name="Leaves", plan=rows.plan)
    create_prompt(other.pk, PROMPT_ID[:-1] + "1", "", [{"role": "user", "content": "a"}], [])
    page.post(reverse("admin:tenants_tenant_delete", args=[other.pk]), {"post": "yes"})

    assert not type(rows.tenant).objects.filter(pk=other.pk).exists()
    assert StoredPrompt.objects.count() == 1
