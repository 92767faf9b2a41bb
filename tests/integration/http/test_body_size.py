"""Large bodies pass unchanged up to the limit; above it there is a 413, and the connection goes on."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from django.conf import settings
from http_face import KEY, Pipeline

from gateway.body import DRAIN_FACTOR
from gateway.runtime import runtime

CHAT = "/v1/chat/completions"


def body_of(size: int) -> bytes:
    """A chat body of exactly ``size`` bytes."""
    head = b'{"model":"%b","messages":[{"role":"user","content":"' % runtime().config.model_name.encode()
    tail = b'"}]}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


def limit() -> int:
    size: int = settings.SLUICE.max_body_bytes
    return size


@pytest.mark.parametrize("size", [31 * 1024, 32_768, 32_769, 33 * 1024, 1024 * 1024, 9 * 1024 * 1024])
def test_a_body_under_the_limit_passes_unchanged(client: httpx.Client, behind: Pipeline, size: int) -> None:
    body = body_of(size)

    assert client.post(CHAT, content=body).json() == {"bytes": size}
    assert behind.seen[0][2] == body


def test_the_limit_itself_passes_and_one_byte_more_does_not(client: httpx.Client, behind: Pipeline) -> None:
    assert client.post(CHAT, content=body_of(limit())).status_code == 200
    assert client.post(CHAT, content=body_of(limit() + 1)).status_code == 413


@pytest.mark.parametrize("chunked", [False, True])
def test_above_the_limit_is_413_and_the_connection_goes_on(
    client: httpx.Client, behind: Pipeline, chunked: bool
) -> None:
    body = body_of(limit() + 1)
    response = client.post(CHAT, content=_in_chunks(body) if chunked else body)
    stream = response.extensions["network_stream"].get_extra_info("client_addr")

    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"
    assert str(limit()) in response.json()["error"]["message"]
    assert behind.seen == []
    after = client.post(CHAT, content=body_of(1000))
    assert after.status_code == 200
    assert after.extensions["network_stream"].get_extra_info("client_addr") == stream


def test_chunked_bodies_under_the_limit_pass(client: httpx.Client, behind: Pipeline) -> None:
    body = body_of(200_000)

    assert client.post(CHAT, content=_in_chunks(body)).json() == {"bytes": 200_000}
    assert behind.seen[0][2] == body


def test_a_body_far_over_the_limit_is_refused_without_reading_it(base_url: str, behind: Pipeline) -> None:
    answer = exchange(base_url, f"content-length: {limit() * DRAIN_FACTOR + 1}\r\n")

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()


def test_a_client_that_asks_first_is_refused_before_it_sends(base_url: str, behind: Pipeline) -> None:
    answer = exchange(base_url, f"content-length: {limit() + 1}\r\nexpect: 100-continue\r\n")

    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("content-length: x\r\n", b"400"),
        ("content-length: 5\r\ncontent-length: 6\r\n", b"400"),
        ("content-length: -1\r\n", b"400"),
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", b"400"),
        ("x-long: " + "x" * 200_000 + "\r\n", b"431"),
        ("".join(f"x-{i}: y\r\n" for i in range(20_000)), b"431"),
        ("x-bad: a\x00b\r\n", b"400"),
    ],
)
def test_a_malformed_head_is_refused_in_json(base_url: str, behind: Pipeline, headers: str, status: bytes) -> None:
    answer = exchange(base_url, headers)

    assert answer.split(b" ")[1] == status
    assert b"application/json" in answer
    assert b'{"error":{' in answer


def exchange(base_url: str, headers: str) -> bytes:
    """Send a request head and return all that comes until the server closes or falls silent."""
    address = urlsplit(base_url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n{headers}\r\n"
        connection.sendall(head.encode("latin-1"))
        received = b""
        while b"}}" not in received:
            part = connection.recv(65536)
            if not part:
                break
            received += part
    return received


def _in_chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]
