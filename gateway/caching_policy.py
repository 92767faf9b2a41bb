"""Whether a request may get a kept answer, and whether its own may be kept: its plan's word, and its headers'."""

import re
from collections.abc import Iterable

from gateway.canonical import Request, is_deterministic
from gateway.errors import Refusal, refuse
from gateway.schema.wishes import NO_WISHES, Wishes
from tenants.snapshot import Caching

CACHE_CONTROL = b"cache-control"
SLUICE_CACHE = b"x-sluice-cache"

_SECONDS = re.compile(r'"?([0-9]{1,10})"?')


def read_wishes(headers: Iterable[tuple[bytes, bytes]]) -> Wishes:
    """Read ``Cache-Control`` as HTTP means it, and ``x-sluice-cache``; of both the stricter word counts.

    Raises:
        ApiError: 400, ``x-sluice-cache`` is repeated or says something else than on, off or refresh.
    """
    control, own = [], []
    for name, value in headers:
        if name == CACHE_CONTROL:
            control.append(value)
        elif name == SLUICE_CACHE:
            own.append(value)
    if not control and not own:
        return NO_WISHES
    word = _read_own(own)
    asked = _directives(control)
    no_store = "no-store" in asked or word == "off"
    return Wishes(
        reads=not (no_store or "no-cache" in asked or word == "refresh"),
        stores=not no_store,
        only_kept="only-if-cached" in asked,
        max_age_s=_max_age_s(asked),
        sampled_too=word in ("on", "refresh"),
    )


def may_keep(caching: Caching, request: Request, wishes: Wishes) -> bool:
    """Whether the answer to a request may be kept, or taken from those kept, before its wishes are looked at."""
    if caching.mode == "off" or not (wishes.reads or wishes.stores):
        return False
    return caching.mode == "all" or wishes.sampled_too or is_deterministic(request)


def _read_own(values: list[bytes]) -> str:
    if not values:
        return ""
    word = values[0].strip().lower()
    if len(values) > 1 or word not in (b"on", b"off", b"refresh"):
        raise refuse(
            Refusal.INVALID_HEADER, "The header 'x-sluice-cache' must be one of on, off and refresh. Send it once."
        )
    return word.decode()


def _directives(values: list[bytes]) -> dict[str, str]:
    """Names in lower case and what they are given; unknown ones mean nothing, as HTTP has it."""
    parts = (part.strip().partition("=") for value in values for part in value.decode("latin-1").split(","))
    return {name.strip().lower(): given.strip() for name, _, given in parts}


def _max_age_s(asked: dict[str, str]) -> int | None:
    """What cannot be read allows no age at all."""
    if "max-age" not in asked:
        return None
    found = _SECONDS.fullmatch(asked["max-age"])
    return int(found[1]) if found else 0
