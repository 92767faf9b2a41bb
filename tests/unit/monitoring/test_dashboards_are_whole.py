"""Dashboards can be found again, read without this repository, and asked without harm."""

from itertools import combinations, pairwise
from typing import Any

import pytest
import yaml
from shipped import DASHBOARDS, DEPLOY, dashboard_queries, grouping_labels, panels

# By these a query may give more lines than a person can read; so it says how many.
MANY = {"tenant"}


def test_addresses_of_dashboards_are_stable_and_unique() -> None:
    assert {name: dashboard["uid"] for name, dashboard in DASHBOARDS.items()} == {
        name: f"sluice-{name.removesuffix('.json')}" for name in DASHBOARDS
    }


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_a_dashboard_has_room_for_each_panel(dashboard: dict[str, Any]) -> None:
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


@pytest.mark.parametrize(("where", "panel"), panels(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_panel_explains_itself(where: str, panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 10
    assert panel["title"][0].isupper()
    # A heat map has the unit on its axis; a table of rows has one for each column.
    units = (panel["fieldConfig"]["defaults"].get("unit"), panel["options"].get("yAxis", {}).get("unit"))
    assert any(units) or panel["type"] == "table", where
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {"steps": []})["steps"]
    assert all(one["value"] is None or one["value"] < other["value"] for one, other in pairwise(steps))


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_a_dashboard_asks_the_source_that_is_chosen_and_uses_its_variables(dashboard: dict[str, Any]) -> None:
    first, *others = dashboard["templating"]["list"]
    assert first["type"] == "datasource"
    text = str(dashboard["panels"])
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            assert {panel["datasource"]["uid"], *(one["datasource"]["uid"] for one in panel["targets"])} == {
                "${" + first["name"] + "}"
            }
    assert all(f"${variable['name']}" in text for variable in others)


def test_chosen_sources_are_those_that_are_provisioned() -> None:
    text = (DEPLOY / "grafana" / "provisioning" / "datasources" / "sluice.yml").read_text()
    sources = {source["uid"]: source["type"] for source in yaml.safe_load(text)["datasources"]}
    for dashboard in DASHBOARDS.values():
        first = dashboard["templating"]["list"][0]
        assert sources[first["current"]["value"]] == first["query"]


@pytest.mark.parametrize("query", dashboard_queries(), ids=lambda query: query.where)
def test_a_query_says_how_much_it_asks_for(query: Any) -> None:
    is_bounded = "topk(" in query.text or ": $" in query.where  # a variable lists what there is
    assert is_bounded or not grouping_labels(query.text) & MANY


def test_queries_to_elasticsearch_say_how_much_they_ask_for() -> None:
    targets = [target for _, panel in panels() for target in panel["targets"] if "bucketAggs" in target]
    assert targets
    for target in targets:
        terms = [one for one in target["bucketAggs"] if one["type"] == "terms"]
        assert all(int(one["settings"]["size"]) <= 20 for one in terms)
        assert all(int(one["settings"]["size"]) <= 100 for one in target["metrics"] if one["type"] == "raw_data")
