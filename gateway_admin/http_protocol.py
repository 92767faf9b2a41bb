"""uvicorn's HTTP protocol with a bound on what may come before a request's body."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.errors import ApiError

MAX_HEAD_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0

_PHRASES = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too long or too slow; the stock one waits for ever."""

    _in_head = True
    _all_head = True  # whether all bytes of the last read belong to a head that is not complete
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the parent has it
        """Give the first head its time."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see whether a head is still not complete."""
        self._all_head = self._in_head
        super().data_received(data)
        if self._all_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes. Send less.")
            elif self._head_timer is None:
                self._start_timer()

    def on_headers_complete(self) -> None:
        """Hand the request on."""
        self._in_head, self._all_head, self._head_bytes = False, False, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is a head again."""
        super().on_message_complete()
        self._in_head = True

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, f"{msg} Send well-formed HTTP/1.1.")

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._too_slow)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._head_bytes:
            self._refuse(408, "The request took too long to arrive.")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer below ASGI, since there is no whole request to make a scope of, and close."""
        body = ApiError(status, message, code="invalid_http").body()
        head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, _PHRASES[status], len(body)) + body)
        self.transport.close()
