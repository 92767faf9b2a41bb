"""The files of deploy/ that these tests read, and what their queries name."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import Counter, Gauge, Histogram

from tracing import metrics, request_log

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.name: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
}
# What a target has, and what Prometheus makes itself.
TARGET_LABELS = frozenset({"job", "instance"})
PROMETHEUS_OWN = {"up": TARGET_LABELS, "ALERTS": frozenset({"alertname", "alertstate", "severity"})}


@dataclass(frozen=True)
class Family:
    """A figure as a process exports it."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]

    @property
    def samples(self) -> dict[str, frozenset[str]]:
        """Names by which queries ask for it, with their labels."""
        labels = TARGET_LABELS | set(self.labels)
        if self.kind != "histogram":
            return {self.name: labels}
        return {f"{self.name}_bucket": labels | {"le"}, f"{self.name}_sum": labels, f"{self.name}_count": labels}


@dataclass(frozen=True)
class Query:
    """An expression, and where it stands."""

    where: str
    text: str


def families() -> list[Family]:
    """All figures of the product, by name."""
    found: list[Family] = []
    for module in (metrics, request_log):
        for one in vars(module).values():
            if isinstance(one, Counter | Gauge | Histogram):
                described = one.describe()[0]
                suffix = "_total" if described.type == "counter" else ""
                name = described.name + suffix
                found.append(Family(name, described.type, described.documentation, tuple(one._labelnames)))
    return sorted(found, key=lambda family: family.name)


def rules(name: str) -> list[dict[str, Any]]:
    """The rules of a file: "recording" or "alert"."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / f"{name}_rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[tuple[str, dict[str, Any]]]:
    """All panels but rows, each with where it stands."""
    return [
        (f"{name}: {panel['title']}", panel)
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]


def dashboard_queries() -> list[Query]:
    """All expressions for Prometheus in dashboards, those of their variables too."""
    found = [
        Query(where, target["expr"]) for where, panel in panels() for target in panel["targets"] if "expr" in target
    ]
    for name, dashboard in DASHBOARDS.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query" and isinstance(variable["query"], dict):
                asked, label = label_values(variable["query"]["query"])
                found.append(Query(f"{name}: ${variable['name']}", f"group by ({label}) ({asked})"))
    return found


def rule_queries() -> list[Query]:
    """All expressions of rules."""
    return [
        Query(rule.get("record") or rule["alert"], rule["expr"])
        for kind in ("recording", "alert")
        for rule in rules(kind)
    ]


def label_values(text: str) -> tuple[str, str]:
    """What Grafana's ``label_values(selector, label)`` asks for."""
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", text)
    assert match, text
    return match[1], match[2]


# --- what an expression names -----------------------------------------------------------------------------------------

_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*(\{[^}]*\})?\s*(\()?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "group_left", "group_right", "by", "on"})
_AGGREGATES = re.compile(r"\b(?:sum|avg|min|max|count|stddev|group|topk|quantile)\s*(?:by\s*\([^)]*\)\s*)?\(")


def selectors(text: str) -> list[tuple[str, set[str]]]:
    """Names of figures in an expression, each with the labels that it is selected by."""
    plain = re.sub(r'"[^"]*"', '""', text)
    plain = re.sub(r"\[[^\]]*\]|\boffset\s+\w+", " ", _GROUPING.sub(" ", plain))
    found = []
    for name, matchers, call in _SELECTOR.findall(plain):
        if call or name in _WORDS or re.match(r"^(?:Inf|NaN)$", name):
            continue
        found.append((name, set(_MATCHER.findall(matchers))))
    return found


def grouping_labels(text: str) -> set[str]:
    """Labels that an expression groups or joins by."""
    plain = re.sub(r'"[^"]*"', '""', text)
    return {label.strip() for group in _GROUPING.findall(plain) for label in group.split(",") if label.strip()}


def known_samples() -> dict[str, frozenset[str]]:
    """Every name that a query may ask for, with its labels: figures, rules' results, Prometheus's own."""
    known = {name: labels for family in families() for name, labels in family.samples.items()} | PROMETHEUS_OWN
    for rule in rules("recording"):
        labels = frozenset(rule.get("labels", {})) | _result_labels(rule["expr"], known)
        known[rule["record"]] = known.get(rule["record"], frozenset()) | labels
    return known


def _result_labels(text: str, known: dict[str, frozenset[str]]) -> frozenset[str]:
    if _AGGREGATES.search(text):
        return frozenset(grouping_labels(text)) - {"le"}
    return frozenset().union(*(known.get(name, frozenset()) for name, _ in selectors(text)))


def reference_row(family: Family) -> str:
    """A figure's line of docs/reference/metrics.md."""
    labels = "{" + ",".join(family.labels) + "}" if family.labels else ""
    return f"| `{family.name}{labels}` | {family.kind} | {family.help} |"
