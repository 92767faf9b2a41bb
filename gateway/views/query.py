"""What an address asks for behind its question mark."""

from django.http import QueryDict

from gateway.errors import ApiError
from gateway.schema.fields import invalid


def only(query: QueryDict, *names: str) -> dict[str, str]:
    """The parameters of a query that knows no others.

    Raises:
        ApiError: 400, there is another one, or one comes twice.
    """
    for name, values in query.lists():
        shown = name[:100]
        if name not in names:
            known = f"Use {', '.join(names)}." if names else "There are none here."
            raise invalid(shown, f"Unknown parameter '{shown}'. {known}", "unknown_parameter")
        if len(values) > 1:
            raise invalid(shown, f"'{shown}' is repeated. Send it once.", "duplicate_parameter")
    return {name: str(query[name]) for name in query}


def number(name: str, text: str, most: int) -> int:
    """A whole number from 1 to ``most``.

    Raises:
        ApiError: 400, it is none.
    """
    if text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= most:
        return int(text)
    raise ApiError(400, f"'{name}' must be a number from 1 to {most}.", param=name, code="invalid_value")
