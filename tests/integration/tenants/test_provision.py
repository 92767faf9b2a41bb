"""What a start makes, and what it leaves as operators set it."""

from datetime import timedelta

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.utils import timezone

from tenants.keys import make_key
from tenants.models import ApiKey
from tenants.provision import create_key, ensure_admin, ensure_demo_tenant, is_spent, revoke_key

pytestmark = pytest.mark.django_db


def test_a_changed_password_stays() -> None:
    ensure_admin("admin", "as generated")
    assert authenticate(username="admin", password="as generated") is not None
    user = get_user_model().objects.get(username="admin")
    user.set_password("the operator's own")
    user.save()
    ensure_admin("admin", "as generated")
    assert authenticate(username="admin", password="as generated") is None
    assert authenticate(username="admin", password="the operator's own") is not None


def test_an_operator_who_was_locked_out_stays_so() -> None:
    ensure_admin("admin", "as generated")
    get_user_model().objects.update(is_active=False)
    ensure_admin("admin", "as generated")
    assert authenticate(username="admin", password="as generated") is None


def test_a_key_is_spent_once_it_is_revoked_or_past_its_time() -> None:
    secret = make_key().plaintext
    assert not is_spent(secret)
    tenant = ensure_demo_tenant(secret)
    assert not is_spent(secret)
    revoke_key(ApiKey.objects.get(), timezone.now())
    assert is_spent(secret)
    _, late = create_key(tenant, "late", timezone.now() - timedelta(seconds=1))
    assert is_spent(late)
