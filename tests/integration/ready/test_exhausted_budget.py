"""What settlement is told of budgets that have no room left."""

from datetime import UTC, datetime

import pytest
from redis import Redis as SyncRedis

from domain.limits import Level
from domain.price import PriceRow
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import OverLimit

PRICE = PriceRow(1, "", "", datetime(2020, 1, 1, tzinfo=UTC), 1, 1, 1)


@pytest.mark.parametrize(("name", "code"), [("tokens_per_month", "tM"), ("cost_per_month", "cM")])
async def test_a_request_that_the_tenants_month_has_no_room_for_is_noted(
    ready: ReadySet, item: MakeItem, store: SyncRedis, name: str, code: str
) -> None:
    one = item("r1", tenant_id=7, prices=(PRICE,), limits=world.limits(**{name: 10}))

    assert isinstance(await world.admit(ready, one), OverLimit)

    (key,) = store.keys("sl:exhausted:*")
    assert store.smembers(key) == {f"7:{code}".encode()}
    assert store.ttl(key) > 31 * 86_400


async def test_other_refusals_are_not(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    of_key = world.limits(Level.KEY, tokens_per_month=10)
    for number, limits in enumerate((world.limits(requests_per_day=1, tokens_per_minute=10), of_key)):
        assert isinstance(await world.admit(ready, item(f"r{number}", limits=limits)), OverLimit)

    assert store.keys("sl:exhausted:*") == []
