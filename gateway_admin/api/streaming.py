"""Long answers: pulled chunk by chunk, by whichever kind of server asks."""

from collections.abc import AsyncIterator, Callable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from rest_framework.request import Request


class Chunks:
    """An iterator of bytes that tells once when it is over, also when nobody read to its end or from its beginning."""

    def __init__(self, parts: Iterator[bytes], when_over: Callable[[], None]) -> None:
        self._parts, self._when_over = parts, when_over
        self._is_over = False

    def __iter__(self) -> Iterator[bytes]:
        """Itself."""
        return self

    def __next__(self) -> bytes:
        """The next part."""
        return next(self._parts)

    def __del__(self) -> None:
        """Be over too if the client left while the answer was still being made: then nobody closes it."""
        self.close()

    def close(self) -> None:
        """Be over (called by Django when the answer is sent or given up)."""
        if not self._is_over:
            self._is_over = True
            self._when_over()


class AsyncChunks:
    """The same for an event loop: each part is made on the request's own thread, where its database connection is."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.close = chunks.close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Part by part."""
        while part := await sync_to_async(self._next)():
            yield part

    def _next(self) -> bytes:
        return next(self._chunks, b"")


def stream(request: Request, chunks: Chunks, content_type: str, name: str) -> StreamingHttpResponse:
    """Answer with a file called ``name``."""
    is_async = isinstance(request._request, ASGIRequest)
    content = AsyncChunks(chunks) if is_async else chunks
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(content, content_type=content_type, headers=headers)
