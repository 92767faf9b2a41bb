"""The benchmarks' client tells what came, when, and how it ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bench.client import NO_CONNECTION, UNFINISHED, Call, HttpClient, Outcome, closed_loop, open_loop

CALL = Call(b"{}", "sk-1")
BOUND_S = 20.0

_CHAT_EVENTS = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    b": still here\n\n",
    b'data: {"choices":[{"delta":{"content":"Two"}}]}\n\ndata: {"choices":[{"delta":{"content":" words"}}]}\n',
    b"\n",
)
_USAGE_EVENT = b'data: {"choices":[],"usage":{"completion_tokens":5}}\n\n'
_DONE = b"data: [DONE]\n\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every request with ``answer``; counts the connections."""

    def __init__(self) -> None:
        self.answer: Answer = unary(200, b"{}")
        self.connections = 0
        self.heads: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(len(CALL.body))
                await self.answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def unary(status: int, body: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    return answer


def streamed(*parts: bytes, hang: bool = False, broken: bool = False) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for part in parts:
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        if hang:
            await asyncio.sleep(BOUND_S)
        if broken:
            raise ConnectionResetError
        writer.write(b"0\r\n\r\n")

    return answer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield server
    listening.close()


async def send_one(server: Server, duration_s: float = BOUND_S) -> Outcome:
    async with HttpClient(server.url) as client:
        (outcome,) = await closed_loop(client.send, [[CALL]], duration_s)
    return outcome


async def test_a_whole_answer_counts_the_tokens_of_its_usage(server: Server) -> None:
    server.answer = unary(200, b'{"usage":{"completion_tokens":3}}')

    outcome = await send_one(server)

    assert (outcome.is_ok, outcome.tokens, outcome.ttft_s) == (True, 3, None)
    assert b"POST /v1/chat/completions HTTP/1.1\r\n" in server.heads[0]
    assert b"Authorization: Bearer sk-1\r\n" in server.heads[0]


async def test_a_stream_begins_with_its_first_text_and_counts_its_pieces(server: Server) -> None:
    server.answer = streamed(*_CHAT_EVENTS, _DONE)

    outcome = await send_one(server)

    assert (outcome.is_ok, outcome.tokens) == (True, 2)
    assert outcome.ttft_s is not None
    assert 0 < outcome.ttft_s <= outcome.latency_s


async def test_usage_of_a_stream_is_more_exact_than_its_pieces(server: Server) -> None:
    server.answer = streamed(*_CHAT_EVENTS, _USAGE_EVENT, _DONE)

    assert (await send_one(server)).tokens == 5


async def test_a_refusal_tells_its_code(server: Server) -> None:
    server.answer = unary(429, b'{"error":{"message":"full","type":"rate_limit_error","code":"queue_full"}}')

    outcome = await send_one(server)

    assert (outcome.status, outcome.error_code, outcome.is_ok) == (429, "queue_full", False)


async def test_an_error_inside_a_stream_is_no_success(server: Server) -> None:
    server.answer = streamed(*_CHAT_EVENTS, b'data: {"error":{"code":null,"type":"server_error"}}\n\n')

    outcome = await send_one(server)

    assert (outcome.status, outcome.error_code, outcome.is_ok) == (200, "server_error", False)


async def test_what_the_end_of_the_run_cuts_off_keeps_what_came(server: Server) -> None:
    server.answer = streamed(*_CHAT_EVENTS, hang=True)

    outcome = await send_one(server, duration_s=0.5)

    assert (outcome.error_code, outcome.tokens, outcome.is_ok) == (UNFINISHED, 2, False)


async def test_a_broken_connection_is_told_and_the_next_call_gets_a_new_one(server: Server) -> None:
    answers = iter([streamed(*_CHAT_EVENTS, broken=True), unary(200, b"{}")])

    async def answer(writer: asyncio.StreamWriter) -> None:
        await next(answers)(writer)

    server.answer = answer
    async with HttpClient(server.url) as client:
        outcomes = await closed_loop(client.send, [[CALL] * 2], BOUND_S)

    assert [outcome.error_code for outcome in outcomes] == [NO_CONNECTION, ""]
    assert server.connections == 2


async def test_connections_are_reused(server: Server) -> None:
    async with HttpClient(server.url) as client:
        outcomes = await closed_loop(client.send, [[CALL] * 5], BOUND_S)

    assert [outcome.status for outcome in outcomes] == [200] * 5
    assert server.connections == 1


async def test_clients_of_a_closed_loop_share_an_iterator() -> None:
    calls = iter([CALL] * 7)

    async def send(call: Call, due_s: float, end_s: float) -> Outcome:
        await asyncio.sleep(0)
        return Outcome(200, None, 0.0, 0, "", due_s)

    assert len(await closed_loop(send, [calls] * 3, BOUND_S)) == 7


async def test_an_open_loop_sends_what_is_due_though_nothing_comes_back() -> None:
    async def send(call: Call, due_s: float, end_s: float) -> Outcome:
        await asyncio.sleep(max(0.0, end_s - asyncio.get_running_loop().time()))
        return Outcome(0, None, end_s - due_s, 0, UNFINISHED, due_s)

    calls = [Call(b"{}", "k", at_s) for at_s in (0.0, 0.05, 0.1, 0.3)]
    outcomes = sorted(await open_loop(send, calls, 0.2), key=lambda outcome: outcome.started_s)

    assert [round(outcome.started_s, 3) for outcome in outcomes] == [0.0, 0.05, 0.1]
    assert [round(outcome.latency_s, 3) for outcome in outcomes] == [0.2, 0.15, 0.1]


async def test_an_open_loop_holds_no_more_calls_than_it_may() -> None:
    async def send(call: Call, due_s: float, end_s: float) -> Outcome:
        await asyncio.sleep(max(0.0, end_s - asyncio.get_running_loop().time()))
        return Outcome(200, None, 0.0, 0, "", due_s)

    outcomes = await open_loop(send, [CALL] * 5, 0.2, max_in_flight=2)

    assert sorted(outcome.error_code for outcome in outcomes) == ["", "", *["client_full"] * 3]
