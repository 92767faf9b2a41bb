"""Scripted faults of the simulator: what a request may ask for in ``metadata.sim``."""

from dataclasses import dataclass, fields


class UnknownFault(ValueError):
    """The script names a fault that does not exist, or gives it a value it cannot have; the message says which."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What shall happen to one request.

    Attributes:
        delay: silent seconds before the first token.
        queue: seconds that it is held before the engine computes for it, without a seat.
        tokens: length of the answer in tokens (``max_tokens`` still bounds it).
        itl: seconds between two tokens, at least.
        die_after: the request fails after so many tokens of each attempt.
        die_once_after: likewise, but only while nothing was delivered yet.
        hang_after: no token comes after so many.
        error: HTTP status: 4xx rejects the request, 5xx fails it.
        retry_after: seconds after which a rejected request may pass, as the engine then says.
        kill_engine: the engine dies after so many tokens, for everybody.
        utf8: the answer is made of characters of several bytes, cut between tokens.
        garbage: from now on the engine computes wrongly, for everybody.
        big: bytes of the answer.
    """

    delay: float = 0.0
    queue: float = 0.0
    tokens: int | None = None
    itl: float = 0.0
    die_after: int | None = None
    die_once_after: int | None = None
    hang_after: int | None = None
    error: int | None = None
    retry_after: int | None = None
    kill_engine: int | None = None
    utf8: bool = False
    garbage: bool = False
    big: int | None = None


KNOWN_FAULTS: tuple[str, ...] = tuple(field.name for field in fields(Faults))
NO_FAULTS = Faults()

_FLAGS = {"utf8", "garbage"}
_SECONDS = {"delay", "queue", "itl"}
_LIMITS: dict[str, tuple[float, float]] = {
    "delay": (0, 86_400),
    "queue": (0, 86_400),
    "itl": (0, 86_400),
    "tokens": (1, 1_000_000),
    "error": (400, 599),
    "retry_after": (1, 86_400),
    "big": (1, 100_000_000),
}
_DEFAULTS = {"kill_engine": "0"}


def parse_faults(script: str) -> Faults:
    """Read a comma separated script such as ``delay=2,tokens=100``.

    Raises:
        UnknownFault: a name or value that does not exist; the message lists the known names.
    """
    values: dict[str, float | bool] = {}
    for part in script.split(","):
        name, _, text = part.strip().partition("=")
        if not name:
            continue
        if name not in KNOWN_FAULTS:
            raise UnknownFault(f"unknown simulator fault {name[:40]!r}; known are: {', '.join(KNOWN_FAULTS)}")
        values[name] = _value(name, text.strip())
    return Faults(**values)  # type: ignore[arg-type]  # each value has been parsed to its field's type


def _value(name: str, text: str) -> float | bool:
    if name in _FLAGS:
        if text:
            raise UnknownFault(f"simulator fault {name!r} takes no value")
        return True
    low, high = _LIMITS.get(name, (0, 1_000_000))
    try:
        number = float(text or _DEFAULTS.get(name, "")) if name in _SECONDS else int(text or _DEFAULTS.get(name, ""))
    except ValueError:
        raise UnknownFault(f"simulator fault {name!r} takes a number, not {text[:40]!r}") from None
    if not low <= number <= high:
        raise UnknownFault(f"simulator fault {name!r} takes {low:g} to {high:g}")
    return number
