"""Ask a server on this machine how it is."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

_TIMEOUT_S = 1.0
# A proxy that the environment names is for other machines.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Readiness:
    """What ``/readyz`` says.

    Attributes:
        is_ready: the status was 200.
        reasons: why not, one line each.
    """

    is_ready: bool
    reasons: tuple[str, ...]


def answers_ok(url: str) -> bool:
    """Whether ``url`` answers 200 within a second."""
    return _get(url)[0] == 200


def read_readiness(root_url: str) -> Readiness:
    """Ask ``/readyz``; an unreachable gateway is a reason too."""
    status, body = _get(f"{root_url}/readyz")
    if not status:
        return Readiness(False, ("the gateway does not answer yet",))
    return Readiness(status == 200, _reasons(body))


def engine_serves(root_url: str, name: str) -> bool:
    """Whether the engine of the worker process ``name`` takes work, as ``/readyz`` tells."""
    try:
        engines = json.loads(_get(f"{root_url}/readyz")[1])["engines"]
        # A worker's id is its name and a part that is new with each start.
        return any(worker.rsplit("-", 1)[0] == name and state == "ready" for worker, state in engines.items())
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _get(url: str) -> tuple[int, bytes]:
    try:
        with _opener.open(url, timeout=_TIMEOUT_S) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except (OSError, http.client.HTTPException):
        return 0, b""


def _reasons(body: bytes) -> tuple[str, ...]:
    try:
        reasons = json.loads(body)["reasons"]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else ()
