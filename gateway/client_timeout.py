"""How long a client waits, as the official clients tell it beside the body."""

from collections.abc import Iterable

READ_TIMEOUT_HEADER = b"x-stainless-read-timeout"


def read_timeout_s(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Seconds of silence after which the client gives up; None if it does not say, or nothing that makes sense.

    It bounds a whole answer; a stream's lines, keep-alive comments too, start it again.
    """
    values = [value for name, value in headers if name == READ_TIMEOUT_HEADER]
    try:
        seconds = float(values[0]) if len(values) == 1 else 0.0
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
