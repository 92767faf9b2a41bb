"""A mail server and a web server that keep what they are told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class WebSink:
    """Answers each POST with the next of ``statuses``, the last one for ever; ``stall`` holds answers back."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [204])
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    stall: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.heard.append((path, headers, body))
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def web_sink() -> Iterator[WebSink]:
    sink = WebSink()
    sink.stall.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = sink.answer(self.path, headers, body)
            sink.stall.wait()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{sink.url}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        sink.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield sink
        finally:
            sink.stall.set()
            server.shutdown()
            thread.join()


@dataclass
class MailSink:
    """Takes mail from "sluice" with the password "let me in"."""

    port: int = 0
    envelopes: list[Envelope] = field(default_factory=list)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        self.envelopes.append(envelope)
        return "250 OK"

    def mails(self) -> list[tuple[list[str], EmailMessage]]:
        """Receivers and contents."""
        found = []
        for envelope in self.envelopes:
            assert isinstance(envelope.content, bytes)
            found.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=policy.default)))
        return found


@contextmanager
def mail_sink(port: int) -> Iterator[MailSink]:
    def login(*arguments: object) -> AuthResult:
        given = arguments[-1]
        assert isinstance(given, LoginPassword)
        return AuthResult(success=(given.login, given.password) == (b"sluice", b"let me in"), handled=False)

    sink = MailSink(port)
    server = Controller(
        sink,
        hostname="127.0.0.1",
        port=port,
        authenticator=login,
        auth_required=True,
        auth_require_tls=False,
    )
    server.start()
    try:
        yield sink
    finally:
        server.stop()
