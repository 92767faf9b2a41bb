"""A real Prometheus with the shipped configuration watches a running instance and answers what the dashboards ask."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests import stack
from tests.stack import wait_until
from tools import prometheus

DEPLOY = stack.ROOT / "deploy"
PROMPT = "What stands in no log?"
WAIT_S = 90

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(300),
    pytest.mark.skipif(prometheus.program() is None and not prometheus.is_required(), reason=prometheus.MISSING),
]

# Panels that every instance has something to show on. Others need failures, kept answers, stored prompts or prices.
WITH_DATA = {
    "overview.json": (
        "Availability, last hour",
        "First token in time, P1",
        "Engines in service",
        "Alerts that fire",
        "Burn of the error budgets",
        "Requests by outcome",
        "Refused before admission",
        "Time to the first token",
        "Whole time",
        "Tokens",
        "Spread of load over workers",
        "Connections that wait for an answer",
    ),
    "heatmap.json": (
        "Share of failed requests, by tenant and latency",
        "Requests, by tenant and latency",
        "Latency over time",
        "Failed requests by tenant",
    ),
    "queues.json": (
        "Waiting until a worker claims",
        "Requests that waited longer than tolerated",
        "Waiting by tenant (p95)",
        "Items of one claim",
        "Tickets",
    ),
    "engines.json": (
        "In service",
        "Sequences that run",
        "Sequences that may run",
        "Spread of load",
        "KV-cache hit rate",
        "Sequences on each engine",
        "Load of each worker",
        "Tokens as the engines count them",
        "Time per output token",
        "Processes that answer",
    ),
    "tenants.json": (
        "Requests",
        "Failed requests",
        "Time to the first token (p95)",
        "Whole time (p99)",
        "Tokens computed",
    ),
    "protection.json": (
        "Bytes of kept answers",
        "What each policy would have hit",
        "Keys of the whitelist",
        "How prompts were counted",
    ),
    "settlement.json": ("Usage rows", "Requests that were recorded", "Recorded and stored", "Lines about requests"),
}


@dataclass(frozen=True)
class Query:
    """An expression of a panel or of a variable."""

    dashboard: str
    panel: str
    text: str
    instant: bool

    @property
    def filled(self) -> str:
        """As Grafana would send it, with everything chosen."""
        times = self.text.replace("$__rate_interval", "1m").replace("$__range", "5m")
        return re.sub(r"\$\w+", ".*", times)


def queries() -> list[Query]:
    """All that the dashboards ask of Prometheus."""
    found = []
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            targets = [target for target in panel.get("targets", ()) if "expr" in target]
            found += [Query(path.name, panel["title"], target["expr"], target["instant"]) for target in targets]
    return found


def watched(folder: Path, running: stack.Stack) -> Path:
    """The shipped configuration, made quick, with this instance in its list of targets; returns its file."""
    shutil.copytree(DEPLOY / "prometheus", folder, ignore=shutil.ignore_patterns("*.json"))
    (folder / "targets" / "instance.json").symlink_to(running.data_dir / "prometheus_targets.json")
    path = folder / "prometheus.yml"
    config = yaml.safe_load(path.read_text())
    config["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s")
    config["scrape_configs"][0]["file_sd_configs"][0]["refresh_interval"] = "1s"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def server(config: Path) -> Iterator[httpx.Client]:
    """A Prometheus with that configuration; the value is a client of its API."""
    found, port = prometheus.program(), stack.free_port()
    assert found, prometheus.MISSING
    where = (f"--storage.tsdb.path={config.parent / 'data'}", f"--web.listen-address=127.0.0.1:{port}")
    log = (config.parent / "log").open("wb")
    process = subprocess.Popen([str(found), f"--config.file={config}", *where], stdout=log, stderr=subprocess.STDOUT)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            wait_until(lambda: is_ready(client), 30, "Prometheus did not start")
            yield client
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def has_answer(client: httpx.Client, query: Query) -> bool:
    """Whether it answers with a number; it must not complain."""
    end = time.time()
    if query.instant:
        answer = client.post("/api/v1/query", data={"query": query.filled})
    else:
        times = {"start": str(end - 60), "end": str(end), "step": "5"}
        answer = client.post("/api/v1/query_range", data={"query": query.filled, **times})
    said = answer.json()
    assert said["status"] == "success", (query, said)
    assert "warnings" not in said, (query, said)
    series = said["data"]["result"]
    return any(text != "NaN" for one in series for _, text in one.get("values", [one.get("value")]))


def without_data(client: httpx.Client) -> list[Query]:
    """Those of the panels in ``WITH_DATA`` of whose queries none has an answer."""
    has_data: dict[tuple[str, str], bool] = {}
    for query in queries():
        where = (query.dashboard, query.panel)
        has_data[where] = has_answer(client, query) or has_data.get(where, False)
    wanted = [(name, title) for name, titles in WITH_DATA.items() for title in titles]
    assert set(wanted) <= has_data.keys()
    return [where for where in wanted if not has_data[where]]


def send_traffic(running: stack.Stack) -> str:
    """Requests of two kinds, and one that is refused; returns the id of one."""
    with running.client() as client:
        model = client.models.list().data[0].id
        message = {"role": "user", "content": PROMPT}
        for tier in ("priority", "default", "flex"):
            for _ in client.chat.completions.create(
                model=model, messages=[message], stream=True, service_tier=tier, max_tokens=8
            ):
                pass
        whole = client.chat.completions.with_raw_response.create(model=model, messages=[message], max_tokens=8)
    with running.http() as bare:
        assert bare.post("/chat/completions", json={"model": model}).status_code == 400
    return str(whole.headers["x-request-id"])


def test_dashboards_of_a_running_instance_show_what_it_does(pair: stack.Stack, tmp_path: Path) -> None:
    with server(watched(tmp_path / "prometheus", pair)) as client:
        end = time.monotonic() + WAIT_S
        while (missing := without_data(client)) and time.monotonic() < end:
            send_traffic(pair)
            time.sleep(1)
        assert missing == []

        groups = client.get("/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) > 70
        assert [rule for rule in rules if rule["health"] == "err"] == []
        targets = client.get("/api/v1/targets").json()["data"]["activeTargets"]
        assert {target["labels"]["job"] for target in targets} == {
            "sluice-gateway",
            "sluice-worker",
            "sluice-settlement",
        }


def test_a_line_about_each_request_stands_in_the_request_log_and_no_prompt_or_key(pair: stack.Stack) -> None:
    request_id = send_traffic(pair)
    path = pair.data_dir / "logs" / "tenant-metrics.jsonl"

    def line() -> dict[str, Any] | None:
        found = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
        return next((one for one in found if one["request_id"] == request_id), None)

    found = wait_until(line, 30, "no line about the request")
    assert (found["status_code"], found["is_error"], found["outcome"]) == (200, False, "completed")
    assert found["tenant_scope"] == f"{found['tenant_id']}/p1"
    assert found["worker_id"].startswith("worker-")
    assert found["batch_id"].startswith("b-")
    text = path.read_text()
    assert PROMPT not in text
    assert pair.api_key not in text
