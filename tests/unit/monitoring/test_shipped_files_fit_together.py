"""Compose files, shippers and the index template name the same files, folders, ports and fields."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from shipped import DASHBOARDS, DEPLOY, ROOT, panels
from test_request_log import RECORD, REFUSED

from domain.trace.stages import STAGES, cut
from gateway_admin.supervisor.targets import targets_path, write_targets
from tools.check_yaml import compose_problems
from tracing.request_log import NAME, line_of

TEMPLATE = json.loads((DEPLOY / "elasticsearch" / "index_template.json").read_text())
FIELDS: dict[str, Any] = TEMPLATE["template"]["mappings"]["properties"]
FILEBEAT = yaml.safe_load((DEPLOY / "filebeat" / "filebeat.yml").read_text())
LOGSTASH = (DEPLOY / "logstash" / "tenant-metrics.conf").read_text()


# --- what is in a line and what is in the index -----------------------------------------------------------------------


def test_the_index_has_a_field_for_everything_in_a_line_and_nothing_else() -> None:
    everything = {"cache": "hit"}
    for record in (RECORD, REFUSED):
        everything |= json.loads(line_of(record, cut(record)))

    assert FIELDS.keys() == everything.keys()
    assert FIELDS["stages_ms"]["properties"].keys() == set(STAGES)


@pytest.mark.parametrize(
    ("kind", "python"),
    [
        ({"keyword", "date"}, str),
        ({"boolean"}, bool),
        ({"byte", "short", "integer", "long"}, int),
        ({"double", "float"}, float),
        ({"object"}, dict),
    ],
)
def test_fields_have_the_type_of_what_is_in_a_line(kind: set[str], python: type) -> None:
    line = json.loads(line_of(RECORD, cut(RECORD)))

    assert {name for name, value in line.items() if type(value) is python} == {
        name for name in line if FIELDS[name]["type"] in kind
    }


def test_dashboards_and_the_example_ask_for_fields_of_the_index() -> None:
    asked = {
        one["field"]
        for _, panel in panels()
        for target in panel["targets"]
        for one in (*target.get("metrics", ()), *target.get("bucketAggs", ()))
        if "field" in one
    }
    asked |= set(re.findall(r'"field": "([^"]+)"', (DEPLOY / "elasticsearch" / "heatmap_query.json").read_text()))
    asked |= {
        name
        for _, panel in panels()
        for target in panel["targets"]
        for name in re.findall(r"(\w+):", target.get("query", ""))
    }
    assert asked
    assert asked <= FIELDS.keys()


def test_buckets_of_the_heat_map_are_columns_of_the_dashboards() -> None:
    for name in ("heatmap.json", "heatmap-elasticsearch.json"):
        text = json.dumps(DASHBOARDS[name])
        assert all(f'"{bucket}":' in text for bucket in ("0-100", "100-500", ">500"))


# --- shippers ---------------------------------------------------------------------------------------------------------


def test_both_shippers_read_the_file_that_is_written_and_those_before_it() -> None:
    assert [Path(path).name for path in FILEBEAT["filebeat.inputs"][0]["paths"]] == [f"{NAME}*"]
    assert f"/{NAME}*" in LOGSTASH


def test_both_shippers_write_into_an_index_of_the_template_by_day() -> None:
    index = "tenant-metrics-%{+yyyy.MM.dd}"

    assert TEMPLATE["index_patterns"] == ["tenant-metrics-*"]
    assert FILEBEAT["output.elasticsearch"]["index"] == index
    assert f'index => "{index}"' in LOGSTASH
    lifecycle = TEMPLATE["template"]["settings"]["index"]["lifecycle"]["name"]
    assert f"_ilm/policy/{lifecycle} lifecycle_policy.json" in (DEPLOY / "elasticsearch" / "setup.sh").read_text()


def test_a_request_that_is_told_twice_becomes_one_document() -> None:
    fingerprint = next(one["fingerprint"] for one in FILEBEAT["processors"] if "fingerprint" in one)

    assert fingerprint == {"fields": ["request_id"], "target_field": "@metadata._id"}
    assert 'document_id => "%{request_id}"' in LOGSTASH


def test_first_bytes_tell_files_apart() -> None:
    length = FILEBEAT["filebeat.inputs"][0]["prospector.scanner.fingerprint"]["length"]

    assert RECORD.request_id.encode() in line_of(RECORD, cut(RECORD))[:length]
    assert len(line_of(REFUSED, cut(REFUSED))) > length


def test_brackets_of_the_logstash_file_are_closed() -> None:
    plain = re.sub(r'"[^"]*"|#.*', "", LOGSTASH)
    for opening, closing in ("{}", "[]"):
        assert plain.count(opening) == plain.count(closing)
    assert re.findall(r"^(\w+) \{", plain, re.MULTILINE) == ["input", "filter", "output"]


# --- compose and Prometheus -------------------------------------------------------------------------------------------


def merged() -> dict[str, Any]:
    """Both compose files, as compose lays one over the other as far as these tests look."""
    base, more = (yaml.safe_load((ROOT / name).read_text()) for name in ("docker-compose.yml", COMPOSE))
    services = {name: dict(service) for name, service in base["services"].items()}
    for name, service in more["services"].items():
        services[name] = {**services.get(name, {}), **service}
    return {key: {**base[key], **more[key]} for key in ("volumes", "secrets")} | {"services": services}


COMPOSE = "deploy/compose.monitoring.yml"
SERVICES: dict[str, Any] = merged()["services"]


def test_the_compose_file_hangs_together_with_the_one_that_it_adds_to() -> None:
    assert compose_problems(merged()) == []
    asked = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert asked == merged()["secrets"].keys()


def test_images_are_pinned_to_a_version() -> None:
    services = yaml.safe_load((ROOT / COMPOSE).read_text())["services"].values()
    images = [service["image"] for service in services if "image" in service]
    assert images
    assert all(re.search(r":v?\d+\.\d+\.\d+", image) for image in images)


def test_what_is_mounted_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists(), source


def test_new_ports_are_open_to_this_machine_only() -> None:
    more = yaml.safe_load((ROOT / COMPOSE).read_text())["services"]
    ports = [port for service in more.values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_finds_what_is_mounted_for_it() -> None:
    grafana = SERVICES["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    provider = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "dashboards" / "sluice.yml").read_text())
    sources = (DEPLOY / "grafana" / "provisioning" / "datasources" / "sluice.yml").read_text()

    folder = provider["providers"][0]["options"]["path"]
    assert mounts["./deploy/grafana/dashboards"] == folder
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana" / "dashboards" / Path(home).relative_to(folder)).exists()
    assert set(re.findall(r"\$\{(\w+)\}", sources)) <= grafana["environment"].keys()


def test_targets_of_compose_are_the_jobs_of_an_instance(tmp_path: Path) -> None:
    targets = json.loads((DEPLOY / "prometheus" / "compose_targets.json").read_text())
    write_targets(tmp_path, {target["labels"]["instance"]: 1 for target in targets})
    of_an_instance = json.loads(targets_path(tmp_path).read_text())

    assert sorted(target["labels"]["job"] for target in targets) == [one["labels"]["job"] for one in of_an_instance]
    for host, _, port in (address.partition(":") for target in targets for address in target["targets"]):
        environ = SERVICES[host]["environment"]
        assert (environ["SLUICE_METRICS_PORT"], environ["SLUICE_METRICS_HOST"]) == (port, "0.0.0.0")


def test_the_targets_file_of_an_instance_matches_what_prometheus_looks_for() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (pattern,) = config["scrape_configs"][0]["file_sd_configs"][0]["files"]

    assert Path("targets", targets_path(Path()).name).match(pattern)
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])
    volumes = [volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]]
    assert Path("/etc/prometheus") / Path(pattern).parent / "compose.json" in map(Path, volumes)
