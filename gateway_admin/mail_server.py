"""The mail server that a URL names."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


class MailServer(NamedTuple):
    """How it is reached; ``scheme`` is one of ``domain.config.SMTP_SCHEMES``, user and password are empty for none."""

    scheme: str
    host: str
    port: int
    user: str
    password: str


def mail_server(url: str) -> MailServer:
    """Read a URL that ``domain.config`` has checked; an empty one names the machine itself."""
    parts = urlsplit(url or "smtp://localhost")
    return MailServer(
        parts.scheme,
        parts.hostname or "",
        parts.port or _PORTS[parts.scheme],
        unquote(parts.username or ""),
        unquote(parts.password or ""),
    )
