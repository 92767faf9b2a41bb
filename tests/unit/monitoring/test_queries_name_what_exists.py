"""Rules and dashboards ask for figures that processes export, by labels that those have."""

import pytest
from shipped import (
    PROMETHEUS_OWN,
    Query,
    dashboard_queries,
    families,
    grouping_labels,
    known_samples,
    rule_queries,
    rules,
    selectors,
)

# Figures that are on no dashboard, on purpose.
LEFT_OUT: set[str] = set()
KNOWN = known_samples()
QUERIES = [*rule_queries(), *dashboard_queries()]


def test_the_reader_of_expressions_finds_names_and_labels() -> None:
    text = 'sum by (a, le) (rate(x_total{b=~"y(z)", c!=""}[5m])) / on (d) group_left (e) (w:y:z > 0) or vector(1)'

    assert selectors(text) == [("x_total", {"b", "c"}), ("w:y:z", set())]
    assert grouping_labels(text) == {"a", "le", "d", "e"}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_a_query_names_what_exists(query: Query) -> None:
    found = selectors(query.text)
    assert found or query.text.startswith("vector(")
    for name, labels in found:
        assert name in KNOWN, f"{name} is no figure"
        assert labels <= KNOWN[name], f"{name} has no {labels - KNOWN[name]}"
    have = frozenset().union(*(KNOWN[name] for name, _ in found))
    assert grouping_labels(query.text) <= have


def test_no_recorded_figure_is_recorded_in_vain() -> None:
    asked = {name for query in QUERIES for name, _ in selectors(query.text)}
    # Those by model and by tenant are there for people who write queries of their own.
    own = {rule["record"] for rule in rules("recording")} - asked
    assert all(name.startswith(("model_", "tenant_", "qos_class:", "reason:")) for name in own)


def test_every_figure_is_on_a_dashboard() -> None:
    asked = {name for query in [*dashboard_queries(), *_behind_dashboards()] for name, _ in selectors(query.text)}
    assert {family.name for family in families() if not asked & family.samples.keys()} == LEFT_OUT


def _behind_dashboards() -> list[Query]:
    """Rules whose results dashboards show."""
    shown = {name for query in dashboard_queries() for name, _ in selectors(query.text)} - PROMETHEUS_OWN.keys()
    return [Query(rule["record"], rule["expr"]) for rule in rules("recording") if rule["record"] in shown]
