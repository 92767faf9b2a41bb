"""From bytes to a checked request, and from the decoder's complaints to OpenAI's error object."""

import json
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.errors import ApiError
from gateway.schema.fields import invalid

RequestT = TypeVar("RequestT")

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_TYPE = re.compile(r"Expected `(?P<wanted>.+)`, got `(?P<got>[^`]+)`")
_VALUE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)
_LENGTH = re.compile(r"Expected `(?P<wanted>\w+)` of length (?P<bound>[<>]=?) (?P<limit>\d+)")
_BOUND = re.compile(r"Expected `(?P<wanted>\w+)` (?P<bound>[<>]=?) (?P<limit>[-0-9.e+]+)")
_PATTERN = re.compile(r"Expected `str` matching regex (?P<pattern>.+)")
_PLACE = re.compile(r"^(?P<problem>.*) - at `(?P<first>[^`]*)`(?: in `(?P<second>[^`]*)`)?$", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_WORDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_SHOWN = 100  # characters of a client's own text that an error message may repeat


def read_body(decoder: msgspec.json.Decoder[RequestT], body: bytes) -> RequestT:
    """Decode and check a body.

    Raises:
        ApiError: 400; the body is not JSON, or not a request as the decoder's type describes it.
    """
    if not body:
        raise _not_json("it is empty.")
    try:
        request = decoder.decode(body)
        _refuse_duplicates(body)
    except msgspec.ValidationError as error:
        raise explain(str(error)) from None
    except RecursionError:
        raise invalid(None, "The JSON body is nested too deeply.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise _not_json(_hint(str(error), body)) from None
    return request


class _Duplicate(ValueError):
    """Two members of one object have the same name."""


def _unique(pairs: list[tuple[str, object]]) -> None:
    # The objects themselves are not wanted, only their names compared; returning None keeps the pass cheap.
    if len(pairs) > 1 and len({name for name, _ in pairs}) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Duplicate(twice)


_find_duplicates: Callable[[str], object] = json.JSONDecoder(object_pairs_hook=_unique).decode


def _refuse_duplicates(body: bytes) -> None:
    """Two readers of one body may each believe another one of two equal names, so neither gets to choose."""
    try:
        _find_duplicates(body.decode())
    except _Duplicate as error:
        name = _shorten(str(error))
        raise invalid(name, f"The JSON body has '{name}' twice in one object.", "duplicate_parameter") from None


def _not_json(hint: str) -> ApiError:
    return ApiError(
        400,
        f"We could not parse the JSON body of your request: {hint} "
        "Send one JSON object in UTF-8; let a JSON library write it.",
        code="invalid_json",
    )


def _hint(problem: str, body: bytes) -> str:
    if body.startswith(b"\xef\xbb\xbf"):
        return "it starts with a byte order mark."
    if "UTF-8" in problem:
        return "it is not valid UTF-8."
    if _SURROGATE.search(body):
        return "it has half of a surrogate pair in a \\u escape, or ends too early."
    if re.search(rb"[:\[,]\s*-?(?:NaN|Infinity)", body):
        return "NaN and Infinity are not JSON numbers."
    return f"{problem[0].lower()}{problem[1:]}."


def explain(complaint: str) -> ApiError:
    """Put a decoder's complaint into OpenAI's words, with the path of the field at fault."""
    place = _PLACE.match(complaint)
    problem = place["problem"] if place else complaint
    param = _param((place["second"] or place["first"]) if place else "$")
    for pattern, tell in _TELLERS:
        match = pattern.match(problem)
        if match:
            return tell(param, match)
    return invalid(param, f"{_subject(param)}: {problem[0].lower()}{problem[1:]}.")


def _param(path: str) -> str | None:
    return path.removeprefix("$").removeprefix(".").replace("[...]", "") or None


def _subject(param: str | None) -> str:
    return f"Invalid '{param}'" if param else "Invalid body"


def _join(param: str | None, name: str) -> str:
    return f"{param}.{name}" if param else name


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _tell_unknown(param: str | None, match: re.Match[str]) -> ApiError:
    name = _shorten(match["name"])
    if param is None:
        return invalid(None, f"Unrecognized request argument supplied: {name}", None)
    return invalid(_join(param, name), f"Unknown parameter: '{_join(param, name)}'.", "unknown_parameter")


def _tell_missing(param: str | None, match: re.Match[str]) -> ApiError:
    name = _join(param, match["name"])
    return invalid(name, f"Missing required parameter: '{name}'.", "missing_required_parameter")


def _tell_type(param: str | None, match: re.Match[str]) -> ApiError:
    wanted = " or ".join(_TYPES.get(kind, kind) for kind in match["wanted"].split(" | "))
    got = _TYPES.get(match["got"], match["got"])
    about = f"Invalid type for '{param}'" if param else "Invalid body"
    return invalid(param, f"{about}: expected {wanted}, but got {got} instead.", "invalid_type")


def _tell_value(param: str | None, match: re.Match[str]) -> ApiError:
    value = _shorten(match["value"])
    if param and re.search(r"content\[\d+\]\.type$", param):
        return invalid(param, f"Content of type {value} is not supported by this model: send text.")
    return invalid(param, f"{_subject(param)}: {value} is not one of the supported values.")


def _tell_length(param: str | None, match: re.Match[str]) -> ApiError:
    wanted = "an array" if match["wanted"] == "array" else "a string" if match["wanted"] == "str" else "an object"
    empty = match["bound"] == ">=" and match["limit"] == "1"
    message = f"{_subject(param)}: expected {wanted} of length {_WORDS[match['bound']]} {match['limit']}."
    return invalid(param, message, f"empty_{match['wanted']}".replace("str", "string") if empty else "invalid_length")


def _tell_bound(param: str | None, match: re.Match[str]) -> ApiError:
    kind = "integer" if match["wanted"] == "int" else "decimal"
    code = f"{kind}_above_max_value" if match["bound"].startswith("<") else f"{kind}_below_min_value"
    wanted = _TYPES.get(match["wanted"], match["wanted"])
    message = f"{_subject(param)}: expected {wanted} that is {_WORDS[match['bound']]} {match['limit']}."
    return invalid(param, message, code)


def _tell_pattern(param: str | None, match: re.Match[str]) -> ApiError:
    message = f"{_subject(param)}: a string does not match the pattern {match['pattern']}."
    return invalid(param, message, "invalid_value")


_TELLERS: tuple[tuple[re.Pattern[str], Callable[[str | None, re.Match[str]], ApiError]], ...] = (
    (_UNKNOWN, _tell_unknown),
    (_MISSING, _tell_missing),
    (_TYPE, _tell_type),
    (_VALUE, _tell_value),
    (_LENGTH, _tell_length),
    (_BOUND, _tell_bound),
    (_PATTERN, _tell_pattern),
)
