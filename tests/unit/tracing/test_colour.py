"""The colour of a request."""

import uuid

import pytest

from tracing import colour

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01".encode()


def test_a_request_id_is_a_uuid4_that_starts_like_its_trace() -> None:
    made = colour.begin([])
    assert uuid.UUID(made.request_id).version == 4
    assert uuid.UUID(made.request_id).variant == uuid.RFC_4122
    assert made.request_id.replace("-", "").startswith(made.trace_id[:12])


def test_a_clients_trace_goes_on() -> None:
    made = colour.begin([(b"traceparent", PARENT)])
    assert (made.trace_id, made.parent_id) == (TRACE, "00f067aa0ba902b7")
    assert made.traceparent.startswith(f"00-{TRACE}-{made.span_id}")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"traceparent", PARENT), (b"traceparent", PARENT)],
        [(b"traceparent", b"00-" + b"0" * 32 + b"-00f067aa0ba902b7-01")],
        [(b"traceparent", b"00-" + TRACE.encode() + b"-" + b"0" * 16 + b"-01")],
        [(b"traceparent", b"\xff" * 40)],
        [(b"traceparent", PARENT + b"\r\nx: y")],
        [(b"x-request-id", b"mine")],
    ],
)
def test_what_is_not_a_trace_context_is_replaced(headers: list[tuple[bytes, bytes]]) -> None:
    made = colour.begin(headers)
    assert made.trace_id != TRACE
    assert made.parent_id == ""
    assert "mine" not in made.request_id


def test_two_requests_of_one_trace_differ() -> None:
    headers = [(b"traceparent", PARENT)]
    assert colour.begin(headers).request_id != colour.begin(headers).request_id


def test_where_an_id_changes_a_context_begins_that_is_linked_with_the_one_before() -> None:
    first = colour.begin([])
    second = first.changed("a" * 16, tenant_scope="acme/p1")
    third = second.changed("b" * 16, batch_id="b-1", model_version="1.0.0-abc")
    assert (second.linked_span_id, third.linked_span_id) == (first.span_id, "a" * 16)
    assert {one.request_id for one in (first, second, third)} == {first.request_id}
    assert (third.tenant_scope, third.batch_id, third.model_version) == ("acme/p1", "b-1", "1.0.0-abc")
