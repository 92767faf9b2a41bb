"""A client on a bare socket."""

import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.stack import Stack


class Caller:
    """A client on a bare socket, which can leave at any moment without a word."""

    def __init__(
        self, stack: Stack, body: dict[str, Any], key: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        where = urlsplit(stack.base_url)
        content = json.dumps(body).encode()
        further = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = (
            f"POST {where.path}/chat/completions HTTP/1.1\r\nhost: {where.netloc}\r\n{further}"
            f"authorization: Bearer {key or stack.api_key}\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self._socket = socket.create_connection((where.hostname, where.port), timeout=20)
        self._socket.sendall(head.encode() + content)

    def read_until(self, what: bytes) -> bytes:
        """Read up to and including the first ``what``."""
        found = b""
        while what not in found:
            part = self._socket.recv(65536)
            assert part, found
            found += part
        return found

    def leave(self) -> None:
        self._socket.close()
