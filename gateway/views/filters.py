"""GET /v1/filters/prompts."""

import gzip

from django.http import HttpResponse, QueryDict
from redis.exceptions import RedisError
from rest_framework.request import Request

from domain.client_filter import MAX_BITS, MAX_HASHES, MIN_BITS
from domain.filter_size import PAPER, FilterSize
from gateway.client_filter import ClientFilter
from gateway.errors import ApiError, Refusal, refuse
from gateway.openapi import filter_schema
from gateway.runtime import runtime
from gateway.scopes import INFERENCE
from gateway.views.base import DataView, principal_of

MAX_AGE_S = 60
COMPLETE = "x-sluice-filter-complete-ms"


class PromptFilter(DataView):
    """Which of the caller's prompts surely do not exist, for the caller to know itself."""

    scope = INFERENCE

    @filter_schema
    async def get(self, request: Request) -> HttpResponse:
        """Get a Bloom filter of your own stored prompts, to hold and to refresh by its ETag."""
        size = _size(request.query_params)
        here = runtime()
        try:
            now_ms = await here.filters.announce()
        except (RedisError, OSError) as error:
            raise refuse(Refusal.STORE_UNAVAILABLE, "The gateway cannot make filters at the moment.") from error
        found = await here.filters.for_clients.get(principal_of(request).tenant_id, size, now_ms)
        return _response(found, request.headers.get("if-none-match", ""), request.headers.get("accept-encoding", ""))


def _response(found: ClientFilter, known: str, accepted: str) -> HttpResponse:
    tag = f'"{found.revision}"'
    headers = {
        "etag": tag,
        # Also an old one is right: it says nothing of prompts that were made after it.
        "cache-control": f"private, max-age={MAX_AGE_S}",
        "vary": "authorization, accept-encoding",
        COMPLETE: str(found.complete_ms),
    }
    if tag in (one.strip().removeprefix("W/") for one in known.split(",")):
        response = HttpResponse(status=304, headers=headers)
        del response.headers["content-type"]
        return response
    zips = any(one.split(";")[0].strip() in ("gzip", "*") and "q=0" not in one for one in accepted.split(","))
    body = found.zipped if zips else gzip.decompress(found.zipped)
    headers |= {"content-encoding": "gzip"} if zips else {}
    return HttpResponse(body, content_type="application/octet-stream", headers=headers)


def _size(query: QueryDict) -> FilterSize:
    for name, values in query.lists():
        if name not in ("bits", "hashes"):
            message = f"Unknown parameter '{name[:100]}'. Use bits, hashes."
            raise ApiError(400, message, param=name[:100], code="unknown_parameter")
        if len(values) > 1:
            raise ApiError(400, f"'{name}' is repeated. Send it once.", param=name, code="duplicate_parameter")
    bits = _number(query, "bits", PAPER.bits, MIN_BITS, MAX_BITS)
    if bits & (bits - 1):
        raise _wrong("bits", f"'bits' must be a power of two from {MIN_BITS} to {MAX_BITS}.")
    return FilterSize(bits, _number(query, "hashes", PAPER.hashes, 1, MAX_HASHES))


def _number(query: QueryDict, name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise _wrong(name, f"'{name}' must be a whole number from {least} to {most}.")
    return int(text)


def _wrong(name: str, message: str) -> ApiError:
    return ApiError(400, message, param=name, code="invalid_value")
