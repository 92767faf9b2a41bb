"""Pages of long lists."""

from typing import Any

import pytest
from django.core.paginator import InvalidPage
from django.db import connection
from django.db.models import OuterRef, QuerySet, Subquery
from django.test.utils import CaptureQueriesContext

from tenants.admin.paging import Endless, IdsFirst
from tenants.models import Plan, Tenant


@pytest.fixture
def tenants(db: None) -> "QuerySet[Any]":
    plan = Plan.objects.create(name="gold")
    Tenant.objects.bulk_create(Tenant(slug=f"t{number}", name=f"Tenant {number % 2}", plan=plan) for number in range(7))
    names = Plan.objects.filter(pk=OuterRef("plan_id")).values("name")
    return Tenant.objects.order_by("-slug").annotate(plan_name=Subquery(names))


def slugs(page: Any) -> list[str]:
    return [tenant.slug for tenant in page.object_list]


def test_pages_are_in_order_and_whole(tenants: "QuerySet[Any]") -> None:
    pages = IdsFirst(tenants, 3)

    assert [slugs(pages.page(number)) for number in (1, 2, 3)] == [["t6", "t5", "t4"], ["t3", "t2", "t1"], ["t0"]]
    assert (pages.count, pages.num_pages) == (7, 3)
    assert pages.page("2").object_list[0].plan_name == "gold"
    with pytest.raises(InvalidPage):
        pages.page(4)


def test_what_is_looked_up_along_is_looked_up_for_the_page_alone(tenants: "QuerySet[Any]") -> None:
    with CaptureQueriesContext(
        connection,
    ) as asked:
        slugs(Endless(tenants, 3).page(2))

    first, second = (query["sql"] for query in asked)
    assert "tenants_plan" not in first
    assert "tenants_plan" in second


def test_a_first_page_that_is_not_full_is_not_counted(tenants: "QuerySet[Any]") -> None:
    pages = IdsFirst(tenants.filter(name="Tenant 1"), 5)
    with CaptureQueriesContext(connection) as asked:
        assert slugs(pages.page("1")) == ["t5", "t3", "t1"]
        assert (pages.count, pages.num_pages) == (3, 1)

    assert not any("COUNT(" in query["sql"] for query in asked)


def test_an_empty_list_has_one_empty_page(tenants: "QuerySet[Any]") -> None:
    assert slugs(IdsFirst(tenants.none(), 5).page(1)) == []
    assert not Endless(tenants.none(), 5).page(1).has_next()
