"""Entity tags: ``"<revision>-<hash of the body>"``.

The hash makes a copy stale whenever the body differs, also when it shows something from elsewhere, such as when a key
was used last. Whether a change may be made depends on the revision alone: nobody is held up because a key was used.
"""

import hashlib
import json
from typing import Any

from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from gateway_admin.api.errors import PreconditionFailed, PreconditionRequired


def etag_of(row: Any, body: Any) -> str:
    """The tag of one object as it is shown; rows that never change have no revision."""
    text = json.dumps(body, cls=JSONEncoder, sort_keys=True)
    return f'"{_revision(row)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def is_known(request: Request, etag: str) -> bool:
    """Whether the caller holds this very copy (``If-None-Match``)."""
    held = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in held or etag in [tag.removeprefix("W/") for tag in held]


def require_unchanged(request: Request, row: Any) -> None:
    """Let a change pass only if the caller has seen the row as it is.

    Raises:
        PreconditionRequired: no ``If-Match``.
        PreconditionFailed: it names an earlier state.
    """
    header = request.headers.get("If-Match", "").strip()
    if not header:
        raise PreconditionRequired
    if header != "*" and _revision(row) not in [tag.strip('"').partition("-")[0] for tag in parse_etags(header)]:
        raise PreconditionFailed


def _revision(row: Any) -> str:
    return str(getattr(row, "revision", 0))
