"""The pages "Traces" and "Why slow"."""

import json
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from domain.trace.record import Record
from domain.trace.spans import REQUEST
from domain.trace.step import Step
from tests.unit.trace.making import BEGIN_US, RUN, STREAM
from tracing.clock import now_us
from tracing.store.step_packing import pack_steps
from tracing.store.steps import StepsMessage, store_steps
from tracing.store.writing import store

pytestmark = pytest.mark.django_db


def made(number: int, begin_us: int = BEGIN_US, **fields: object) -> Record:
    trace_id = f"{number:08x}cafe" + "0" * 20
    moved = begin_us - BEGIN_US
    times = {name: getattr(STREAM, name) + moved for name in Record.__dataclass_fields__ if name.endswith("_us")}
    run = replace(
        RUN, **{name: getattr(RUN, name) + moved for name in RUN.__dataclass_fields__ if name.endswith("_us")}
    )
    request_id = f"{trace_id[:8]}-{trace_id[8:12]}-4000-8000-{number:012x}"
    record = replace(STREAM, request_id=request_id, trace_id=trace_id, runs=(run,), **times)  # type: ignore[arg-type]
    return replace(record, timeline=((record.heard_us, 1), (record.ended_us, 11)), **fields)  # type: ignore[arg-type]


def page(client: Client, name: str, *args: str, **query: object) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_before_anything_is_stored_the_page_says_how_to_send_something(admin_client: Client) -> None:
    assert "make up" in page(admin_client, "traces")
    assert "Nothing matches" in page(admin_client, "traces", q="0000")


def test_a_whole_id_leads_to_its_page_and_a_beginning_to_a_list(admin_client: Client) -> None:
    record = made(1)
    store([("slow", record), ("", made(2))])
    answer = admin_client.get(reverse("traces"), {"q": record.request_id.upper()})
    assert (answer.status_code, answer["location"]) == (302, reverse("trace", args=[record.request_id]))
    assert record.request_id in page(admin_client, "traces", q=record.trace_id[:9])
    assert made(2).request_id not in page(admin_client, "traces", q=record.trace_id[:9])


def test_a_request_whose_moments_are_kept_shows_its_waterfall_and_its_batch(admin_client: Client) -> None:
    store([("slow", made(1, parent_id="f" * 16)), ("", made(2))])
    text = page(admin_client, "trace", made(1).request_id)
    for shown in (
        "Prefill",
        "Celery message",
        "50.0",
        "b-1",
        made(2).request_id,
        "f" * 16,
        "polyline",
        "kv_hit_percent",
    ):
        assert shown in text, shown


def test_the_steps_of_the_engine_are_drawn_under_the_request(admin_client: Client) -> None:
    record = made(1)
    steps = [Step(BEGIN_US + 1_000 * at, 10_000, running=4, model_us=6_000) for at in range(8, 160, 10)]
    message = StepsMessage("w1", steps[0].ended_us, steps[-1].ended_us, pack_steps(steps, []))
    store_steps({"one": message})
    store([("slow", record)])
    text = page(admin_client, "trace", record.request_id)
    assert "Steps of the engine meanwhile" in text
    assert "60 % of it inside the model" in text


def test_a_request_without_moments_shows_its_stages_and_says_why(admin_client: Client) -> None:
    store([("", made(1))])
    text = page(admin_client, "trace", made(1).request_id)
    assert "neither slow, failed, retried nor sampled" in text
    assert "Prefill" in text


def test_a_request_that_shared_a_run_leads_to_that_run(admin_client: Client) -> None:
    leader = made(1)
    store([("slow", leader), ("slow", made(2, runs=(), cache="coalesced", leader_id=leader.request_id))])
    assert reverse("trace", args=[leader.request_id]) in page(admin_client, "trace", made(2).request_id)


def test_a_request_that_is_not_kept_is_not_found(admin_client: Client) -> None:
    assert admin_client.get(reverse("trace", args=["nobody"])).status_code == 404
    assert admin_client.get(reverse("trace-json", args=["nobody"])).status_code == 404


def test_the_same_is_there_for_programs(admin_client: Client) -> None:
    store([("slow", made(1)), ("", made(2))])
    whole = json.loads(page(admin_client, "trace-json", made(1).request_id))
    row = json.loads(page(admin_client, "trace-json", made(2).request_id))
    assert whole["spans"][0]["name"] == REQUEST
    assert whole["stages_ms"]["prefill"] == row["stages_ms"]["prefill"] == 50.0
    assert (row["spans"], row["record"]) == ([], None)


def test_a_time_that_cannot_be_read_is_told_and_nothing_is_searched(admin_client: Client) -> None:
    text = page(admin_client, "traces", since="yesterday")
    assert "Write the time like 2026-11-29 14:03" in text


def test_what_a_client_wrote_is_shown_as_text(admin_client: Client) -> None:
    assert "<script>alert" not in page(admin_client, "traces", q="<script>alert(1)</script>")


def test_the_slow_place_is_named_and_leads_to_the_slow_requests(admin_client: Client) -> None:
    now = now_us() - 1_000_000
    slow = [made(100 + number, now, answered_us=now + 500_000, ended_us=now + 600_000) for number in range(5)]
    store([("", made(number, now)) for number in range(60)] + [("slow", record) for record in slow])
    text = page(admin_client, "why-slow")
    assert "Gateway to client" in text
    assert "network" in text
    assert "first_ms=499.5" in text


def test_a_selection_without_streams_says_what_to_do(admin_client: Client) -> None:
    store([("", made(1, now_us() - 1_000_000, stream=False))])
    assert "only streams have a first token" in page(admin_client, "why-slow")
    assert "Decode" in page(admin_client, "why-slow", measure="duration")


def test_two_periods_are_compared_stage_by_stage(admin_client: Client) -> None:
    now, minute = now_us(), 60_000_000
    before = [made(number, now - 7 * minute) for number in range(20)]
    after = [
        made(50 + number, begin := now - minute, answered_us=begin + 160_000, ended_us=begin + 170_000)
        for number in range(20)
    ]
    store([("", record) for record in (*before, *after)])
    text = page(admin_client, "why-slow", period="5", against="before")
    assert "+100.0" in text
    assert "nothing to compare" in page(admin_client, "why-slow", period="5", against="version", other_version="none")


def test_who_may_not_see_requests_sees_none(client: Client) -> None:
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    for name in ("traces", "why-slow"):
        assert client.get(reverse(name)).status_code == 403
