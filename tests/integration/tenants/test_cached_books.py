"""Kept and shared answers, from the store's books to the usage rows: the reconciliation finds no difference."""

import pytest
from redis import Redis

from tenants.models import Plan, Tenant, UsageRecord
from tenants.provision import create_key
from tests.integration.tenants.settled_requests import MODEL, Requests
from tests.integration.tenants.test_reconcile import DAILY, PRICES, figures, look, settle, today
from workers.reconcile import seen
from workers.reconcile.difference import Check
from workers.settlement.ledger import GROUP, STREAM

pytestmark = pytest.mark.django_db(transaction=True)


def test_kept_and_shared_answers_stand_in_every_book(store: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "PAUSE_S", 0.01)
    tenant = Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))
    key = create_key(tenant, "shop")[0]
    store.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    requests = Requests(store)
    requests.began_long_ago()

    def ask(answer: str) -> str:
        return requests.admit(tenant.pk, key.pk, prices=PRICES, limits=DAILY, answer=answer)

    requests.keep("known", tenant.pk)
    ask("known")
    leader, shared, left_over = ask("new"), ask("new"), ask("new")
    requests.claim()
    requests.finish(leader)
    requests.end_following(shared)
    settle(store)
    ask("known")  # has no row yet
    lost = ask("other")
    ask("other")
    requests.cancel(lost)  # its follower is lost, and lives

    rows = UsageRecord.objects.values_list("cache", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano")
    half = (9, 4, 4, 5 * 1_000 + 4 * 100 + 4 * 2_000)
    assert sorted(rows) == [("", 18, 8, 7, 10 * 1_000 + 8 * 100 + 7 * 2_000), ("coalesced", *half), ("hit", *half)]
    assert look(store).differences == []
    assert int(store.hget(f"sl:spent:t:{tenant.pk}:{today()}", "hr") or 0) == 2  # the two that still live

    requests.end_following(left_over)
    store.hincrby(f"sl:made:{today()[1:]}", f"{MODEL}|prompt_tokens", 9)  # as if a hit had been told twice
    assert figures(look(store, repair=True)) == {(Check.BILLED, f"{MODEL}|prompt_tokens", 9)}
    assert look(store).differences == []
