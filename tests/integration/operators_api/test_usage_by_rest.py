"""Usage records, their sums and files: all of them say the same."""

import csv
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO, StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from pyarrow import parquet

from domain.money import decimal_text
from gateway_admin.api import usage_export
from gateway_admin.automation_token import make_token
from gateway_admin.roles import Role
from tenants.models import ApiKey, Tenant, UsageRecord
from tenants.provision import create_key
from tenants.usage import record_usage
from tests.integration.operators_api.conftest import Caller, Rows, make_user, usage_row

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def many(rows: Rows) -> Rows:
    """Two tenants, two models, two classes, three days, rows without price, ends that are no success."""
    other = Tenant.objects.create(slug="other", name="Other", plan=rows.plan)
    theirs, _text = create_key(other, "notebook")
    more = [
        usage_row(other, theirs, 100 + n, rows.price if n % 3 else None, qos_class="p2" if n % 2 else "p1", model="m2")
        for n in range(30)
    ]
    day = timedelta(days=1)
    more += [
        usage_row(rows.tenant, rows.key, 200, rows.price, outcome="failed", status=502, error_code="=1+1"),
        usage_row(rows.tenant, rows.key, 201, rows.price, model_version="2.0.0+def"),
        usage_row(
            *(rows.tenant, rows.key, 202, rows.price),
            admitted_at=datetime(2026, 11, 30, 23, 59, 59, 999999, tzinfo=UTC),
            finished_at=datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC),
        ),
        usage_row(
            *(rows.tenant, rows.key, 203, rows.price),
            admitted_at=datetime(2026, 12, 1, tzinfo=UTC),
            finished_at=datetime(2026, 12, 1, tzinfo=UTC) + day,
        ),
    ]
    record_usage(more)
    rows.usage += more
    return rows


def all_pages(call: Caller, path: str, **query: str) -> list[dict[str, Any]]:
    found = []
    while True:
        page = call.get(path, **query)
        found += page["results"]
        if not page["next"]:
            return found
        query["cursor"] = page["next"].split("cursor=")[1].split("&")[0].replace("%3D", "=")


def test_cursors_lead_through_every_record_once_the_latest_first(viewer: Caller, many: Rows) -> None:
    same = many.usage[0].finished_at  # so that the cursor must tell records of one moment apart
    UsageRecord.objects.filter(model="m2").update(finished_at=same)

    found = all_pages(viewer, "usage/records", page_size="4")

    assert Counter(row["request_id"] for row in found) == Counter(row.request_id for row in many.usage)
    assert [row["finished_at"] for row in found] == sorted((row["finished_at"] for row in found), reverse=True)


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ({"tenant": "other"}, lambda row: row.model == "m2"),
        ({"model": "m2", "qos_class": "p2"}, lambda row: row.qos_class == "p2"),
        ({"model_version": "2.0.0+def"}, lambda row: row.model_version == "2.0.0+def"),
        ({"outcome": "failed"}, lambda row: row.outcome == "failed"),
        (
            {"start": "2026-11-03T12:44:00Z", "end": "2026-12-01T00:00:00Z"},
            lambda row: (
                datetime(2026, 11, 3, 12, 44, tzinfo=UTC) <= row.admitted_at < datetime(2026, 12, 1, tzinfo=UTC)
            ),
        ),
        ({"start": "2026-11-30T23:00:00", "tenant": "acme"}, lambda row: row.request_id[-3:] in ("202", "203")),
        ({"request_id": "3f1c0000-0000-4000-8000-000000000003"}, lambda row: row.request_id.endswith("-000000000003")),
    ],
)
def test_records_files_and_filters_agree(query: dict[str, str], chosen: Any, admin: Caller, many: Rows) -> None:
    wanted = {row.request_id for row in many.usage if chosen(row)}
    assert wanted
    assert {row["request_id"] for row in all_pages(admin, "usage/records", **query)} == wanted
    assert {row["request_id"] for row in as_csv(admin, **query)} == wanted


def test_records_are_found_by_key_and_by_id(viewer: Caller, many: Rows) -> None:
    theirs = ApiKey.objects.get(name="notebook")
    assert len(all_pages(viewer, "usage/records", key=str(theirs.pk))) == 30
    one = viewer.get(f"usage/records/{many.usage[0].request_id}")
    assert (one["tenant"], one["key_prefix"], one["cost"]) == (
        "acme",
        many.key.prefix,
        decimal_text(many.usage[0].cost_nano),
    )


def test_records_of_a_tenant_that_is_gone_stay(viewer: Caller, many: Rows) -> None:
    row = usage_row(many.tenant, many.key, 999, None, tenant_id=987, key_id=654)
    record_usage([row])
    one = viewer.get(f"usage/records/{row.request_id}")
    assert (one["tenant_id"], one["tenant"], one["key_prefix"]) == (987, None, None)
    groups = viewer.get("usage/aggregate", start="2026-11-01T00:00:00Z", group_by="tenant")["results"]
    assert {group["tenant"] for group in groups} == {"acme", "other", None}


def content(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    return b"".join(response.streaming_content)


def as_csv(call: Caller, **query: str) -> list[dict[str, str]]:
    text = content(call("GET", "usage/export", format="csv", **query)).decode()
    return list(csv.DictReader(StringIO(text)))


def test_a_csv_file_equals_the_records(admin: Caller, many: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_export, "_ROWS_AT_ONCE", 7)  # several batches

    found = {row["request_id"]: row for row in as_csv(admin)}

    records = {row["request_id"]: row for row in all_pages(admin, "usage/records")}
    assert found.keys() == records.keys()
    for request_id, record in records.items():
        written = found[request_id]
        assert written.pop("error_code") == record.pop("error_code").replace("=1+1", "'=1+1")  # no formula
        as_text = {name: "" if value is None else value for name, value in record.items()}
        as_text["stream"] = str(as_text["stream"]).lower()
        assert written == {name: str(value) for name, value in as_text.items()}


def test_a_parquet_file_equals_the_records(admin: Caller, many: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_export, "_ROWS_AT_ONCE", 7)
    file = parquet.ParquetFile(BytesIO(content(admin("GET", "usage/export", format="parquet"))))

    assert file.num_row_groups > 1
    found = {row["request_id"]: row for row in file.read().to_pylist()}
    assert found.keys() == {row.request_id for row in many.usage}
    for row in many.usage:
        written = found[row.request_id]
        assert written["cost"] == Decimal(row.cost_nano) / 10**9
        assert isinstance(written["cost"], Decimal)
        for name in ("prompt_tokens", "outcome", "error_code", "stream", "admitted_at", "claimed_at", "finished_at"):
            assert written[name] == getattr(row, name), name
        assert written["tenant"] == ("other" if row.model == "m2" else "acme")


def test_files_can_be_asked_for_by_accept(admin: Caller, many: Rows) -> None:
    response = admin("GET", "usage/export", headers={"Accept": "application/vnd.apache.parquet"})
    assert response["Content-Type"] == "application/vnd.apache.parquet"
    assert ".parquet" in response["Content-Disposition"]
    assert content(response).startswith(b"PAR1")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_are_streamed_by_the_servers_event_loop_too(form: str, many: Rows) -> None:
    _token, text = make_token(make_user("ben", Role.BILLING), "nightly", Role.BILLING, 1)

    async def fetch() -> list[bytes]:
        response = await AsyncClient().get(
            f"/api/v1/usage/export?format={form}", headers={"Authorization": f"Token {text}"}
        )
        assert response.is_async
        return [part async for part in response.streaming_content]

    whole = b"".join(async_to_sync(fetch)())

    count = parquet.ParquetFile(BytesIO(whole)).metadata.num_rows if form == "parquet" else whole.count(b"\r\n") - 1
    assert count == len(many.usage)


GROUPS = {"tenant": "tenant_id", "key": "key_id", "model": "model", "class": "qos_class"}
SUMMED = ("prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano")


@pytest.mark.parametrize("time", ["", "hour", "day", "month"])
@pytest.mark.parametrize("group", ["", "tenant", "key,class", "model,tenant", "class"])
def test_sums_equal_those_of_the_records(group: str, time: str, viewer: Caller, many: Rows) -> None:
    columns = [GROUPS[name] for name in group.split(",") if name]
    cut = {"": 0, "hour": 13, "day": 10, "month": 7}[time]
    wanted: dict[Any, Counter[str]] = {}
    for row in many.usage:
        if row.admitted_at >= DECEMBER:
            continue
        name = (row.admitted_at.isoformat()[:cut], *(getattr(row, column) for column in columns))
        sums = wanted.setdefault(name, Counter())
        sums.update({"requests": 1, "failed": int(row.outcome == "failed"), **{s: getattr(row, s) for s in SUMMED}})

    by = ",".join(part for part in (group, time) if part)
    query = {"group_by": by} if by else {}
    found = viewer.get("usage/aggregate", start="2026-11-01T00:00:00Z", end="2026-12-01T00:00:00Z", **query)

    groups = {(one.get("starts_at", "")[:cut], *(one[column] for column in columns)): one for one in found["results"]}
    totals = Counter[str]()
    for name, sums in wanted.items():
        totals.update(sums)
        if by:
            assert {key: groups[name][key] for key in SUMMED[:3]} == {key: sums[key] for key in SUMMED[:3]}
            assert groups[name]["cost"] == decimal_text(sums["cost_nano"])
    assert len(groups) == (len(wanted) if by else 0)
    assert (found["totals"]["requests"], found["totals"]["failed"]) == (totals["requests"], totals["failed"])
    assert found["totals"]["cost"] == decimal_text(totals["cost_nano"])


def test_sums_of_part_of_a_day_take_its_hours(viewer: Caller, many: Rows) -> None:
    found = viewer.get("usage/aggregate", start="2026-11-03T13:00:00Z", end="2026-12-01T00:00:00Z", group_by="day")
    wanted = [
        r
        for r in many.usage
        if datetime(2026, 11, 3, 13, tzinfo=UTC) <= r.admitted_at < datetime(2026, 12, 1, tzinfo=UTC)
    ]
    assert found["totals"]["requests"] == len(wanted) < len(many.usage)
    assert sum(group["requests"] for group in found["results"]) == len(wanted)
