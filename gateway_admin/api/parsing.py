"""Bodies of requests: JSON, bounded, and nothing that cannot be stored or sent back."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from gateway_admin.api.errors import BodyTooLarge

MAX_BYTES = 1 << 20


class BoundedJSONParser(JSONParser):
    """Refuses what is too long, too deep, or holds half a surrogate pair."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Read the body.

        Raises:
            BodyTooLarge, ParseError: see above.
        """
        # One byte more than is allowed shows that there is more.
        text = stream.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise BodyTooLarge(f"The body is larger than {MAX_BYTES} bytes.")
        try:
            data = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
            json.dumps(data, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ParseError("The body is not JSON in UTF-8 that can be read.") from error
        return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON.")
