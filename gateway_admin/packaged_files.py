"""Stylesheets, scripts and fonts straight out of the installed packages: nothing to collect, nothing to configure.

Whole files in plain responses, because under ASGI Django would read a file response chunk by chunk through threads,
and warns about it. The files are small and few.
"""

import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from django.contrib.staticfiles import finders
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.views.decorators.http import require_safe

_CACHED_FILES = 256
_MAX_AGE_S = 3600


class PackagedFile(NamedTuple):
    """A file as sent."""

    content: bytes
    content_type: str
    etag: str


@require_safe
def serve_packaged_file(request: HttpRequest, path: str) -> HttpResponse:
    """Send the static file ``path``.

    Raises:
        django.http.Http404: no package has it.
    """
    found = finders.find(path)
    if not isinstance(found, str) or not Path(found).is_file():
        raise Http404(path)
    file = _read(found, Path(found).stat().st_mtime_ns)
    if request.headers.get("If-None-Match") == file.etag:
        response: HttpResponse = HttpResponseNotModified()
    else:
        response = HttpResponse(file.content, content_type=file.content_type)
    response["ETag"] = file.etag
    response["Cache-Control"] = f"public, max-age={_MAX_AGE_S}"
    response["X-Content-Type-Options"] = "nosniff"
    return response


@lru_cache(_CACHED_FILES)
def _read(name: str, changed_ns: int) -> PackagedFile:
    # The time of the last change is only part of the cache's key.
    content = Path(name).read_bytes()
    content_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if content_type.startswith("text/") or content_type.endswith("javascript"):
        content_type += "; charset=utf-8"
    return PackagedFile(content, content_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
