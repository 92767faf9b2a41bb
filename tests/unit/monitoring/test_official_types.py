"""Dashboards, index template, lifecycle policy and queries are what the official types of their programs say.

The JSON files become constants of those types, and TypeScript's compiler looks for what does not fit: fields that do
not exist, values that are none of an enumeration, fields that are missing.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from shipped import DASHBOARDS, DEPLOY

from tools import schemas

TYPES = schemas.folder()
NODE = schemas.node()
SOURCE = Path(__file__).with_name("schemas") / "json.ts"
# Where Grafana's package keeps options and fields of a kind of panel.
KINDS = ("stat", "timeseries", "table", "heatmap")
OPTIONS = {
    "noEmit": True,
    "strict": True,
    "skipLibCheck": True,
    "pretty": False,
    "types": [],
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
}

pytestmark = pytest.mark.skipif(TYPES is None or NODE is None, reason=schemas.MISSING)


def head() -> Iterator[str]:
    grafana, elastic = "node_modules/@grafana/schema/dist/types", "node_modules/@elastic/elasticsearch/lib/api/types"
    yield f'import type {{ Json, PanelOf, PrometheusQuery }} from "{SOURCE.with_suffix("")}";'
    yield f'import type {{ Dashboard, Panel, RowPanel }} from "{TYPES}/{grafana}/index";'
    yield f'import type * as queries from "{TYPES}/{grafana}/raw/composable/elasticsearch/dataquery/x/types.gen";'
    yield f'import type * as elastic from "{TYPES}/{elastic}";'
    for kind in KINDS:
        yield f'import type * as {kind} from "{TYPES}/{grafana}/raw/composable/{kind}/panelcfg/x/types.gen";'


def panel_type(panel: Mapping[str, Any]) -> str:
    if panel["type"] == "row":
        return "Json<RowPanel>"
    field = "{}" if panel["type"] == "stat" else f"{panel['type']}.FieldConfig"
    query = "PrometheusQuery" if panel["datasource"]["type"] == "prometheus" else "queries.ElasticsearchDataQuery"
    return f"Json<PanelOf<Panel, {panel['type']}.Options, {field}, {query}>>"


def constants(dashboards: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Types, and what is to be of them."""
    for dashboard in dashboards.values():
        yield "Json<Dashboard>", dashboard
        yield from ((panel_type(panel), panel) for panel in dashboard["panels"])
    template = json.loads((DEPLOY / "elasticsearch" / "index_template.json").read_text())
    yield "Json<elastic.IndicesPutIndexTemplateRequest>", {"name": "tenant-metrics", **template}
    policy = json.loads((DEPLOY / "elasticsearch" / "lifecycle_policy.json").read_text())
    yield "Json<elastic.IlmPutLifecycleRequest>", {"name": "tenant-metrics", **policy}
    query = json.loads((DEPLOY / "elasticsearch" / "heatmap_query.json").read_text())
    yield "Json<elastic.SearchRequest>", {"index": "tenant-metrics-*", **query}


def complaints(folder: Path, pairs: Iterator[tuple[str, Any]]) -> list[str]:
    """What the compiler says, one line each."""
    text = [f"export const c{number}: {kind} = {json.dumps(value)};" for number, (kind, value) in enumerate(pairs)]
    (folder / "check.ts").write_text("\n".join([*head(), *text]))
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": ["check.ts"]}))
    compiler = f"{TYPES}/node_modules/typescript/bin/tsc"
    found = subprocess.run([str(NODE), compiler, "--project", str(folder)], capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if line]


def test_all_files_fit_their_types(tmp_path: Path) -> None:
    assert complaints(tmp_path, constants(DASHBOARDS)) == []


def broken() -> Iterator[tuple[str, Any]]:
    """One thing wrong in each."""
    dashboard = next(iter(DASHBOARDS.values()))
    yield "Json<Dashboard>", {**dashboard, "schemaVersion": "42"}
    yield "Json<Dashboard>", {**dashboard, "graphToolTip": 1}
    panel = next(panel for panel in dashboard["panels"] if panel["type"] == "timeseries")
    options = {**panel["options"], "legend": {**panel["options"]["legend"], "placement": "under"}}
    yield panel_type(panel), {**panel, "options": options}
    yield panel_type(panel), {**panel, "targets": [{**panel["targets"][0], "format": "matrix"}]}
    custom = {**panel["fieldConfig"]["defaults"]["custom"], "drawStyle": "lines"}
    yield panel_type(panel), {**panel, "fieldConfig": {"defaults": {"custom": custom}, "overrides": []}}
    mapping = {"mappings": {"properties": {"a": {"type": "keywords"}}}}
    yield "Json<elastic.IndicesPutIndexTemplateRequest>", {"name": "a", "template": mapping}
    yield "Json<elastic.IlmPutLifecycleRequest>", {"name": "a", "policy": {"phases": {"warmer": {}}}}
    yield "Json<elastic.SearchRequest>", {"aggs": {"a": {"term": {"field": "b"}}}}


def test_what_does_not_fit_is_found(tmp_path: Path) -> None:
    pairs = list(broken())
    found = complaints(tmp_path, iter(pairs))
    first = len(list(head())) + 1
    lines = {int(line.partition("check.ts(")[2].partition(",")[0]) for line in found if "check.ts(" in line}
    assert lines == set(range(first, first + len(pairs)))
