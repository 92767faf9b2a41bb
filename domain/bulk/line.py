"""One line of a bulk job's file: a request with a name of its client's."""

from dataclasses import dataclass
from typing import Any

import msgspec

MAX_ID_LENGTH = 512
"""Characters of a ``custom_id``: it names a request, and stands in each result."""


@dataclass(frozen=True, slots=True)
class BulkLine:
    """One request.

    Attributes:
        custom_id: the client's name for it, unique in its file.
        model: as the body names it.
        body: JSON of the endpoint, not looked at any further.
    """

    custom_id: str
    model: str
    body: bytes


class LineError(Exception):
    """A line that no request can be made of, so that its whole file is refused.

    Attributes:
        code: for programs; the message is for people, and says what to change.
        param: the field at fault, or None.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class _Line(msgspec.Struct):
    custom_id: Any = None
    method: Any = None
    url: Any = None
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Body(msgspec.Struct):
    model: Any = None
    stream: Any = None
    timeout: Any = None


_LINE = msgspec.json.Decoder(_Line)
_BODY = msgspec.json.Decoder(_Body)


def read_line(text: bytes, endpoint: str) -> BulkLine:
    """Read one line; whether its body is a good one is seen when it is sent.

    Args:
        text: the line (JSON).
        endpoint: the address that all lines of the file ask.

    Raises:
        LineError: no request can be made of it.
    """
    try:
        line = _LINE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LineError("invalid_json_line", f"This line is not a JSON object: {error}.") from None
    custom_id = _text(line.custom_id, "custom_id")
    if len(custom_id) > MAX_ID_LENGTH:
        raise LineError("invalid_custom_id", f"'custom_id' has more than {MAX_ID_LENGTH} characters.", "custom_id")
    if line.method != "POST":
        raise LineError("invalid_method", "'method' must be \"POST\".", "method")
    if line.url != endpoint:
        raise LineError("invalid_url", f"'url' must be \"{endpoint}\", the endpoint of the batch.", "url")
    body = bytes(line.body)
    try:
        asked = _BODY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LineError("invalid_body", "'body' must be a JSON object.", "body") from None
    if asked.stream:
        raise LineError("invalid_body", "A batch has no streams: leave 'stream' out.", "body.stream")
    if asked.timeout is not None:
        message = "A batch has its completion window: leave 'timeout', the time of one request, out."
        raise LineError("invalid_body", message, "body.timeout")
    return BulkLine(custom_id, _text(asked.model, "body.model"), body)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise LineError("missing_required_parameter", f"'{name}' must be a text that is not empty.", name)
    return value
