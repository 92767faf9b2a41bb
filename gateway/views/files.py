"""/v1/files: files of the caller's tenant."""

from django.http import HttpResponse
from rest_framework.request import Request

from gateway.connection import beneath
from gateway.files.files import Files
from gateway.files.sending import FileAnswer
from gateway.files.upload import UploadBody
from gateway.openapi_files import (
    file_content_schema,
    file_create_schema,
    file_delete_schema,
    file_list_schema,
    file_schema,
)
from gateway.runtime import runtime
from gateway.schema.fields import invalid
from gateway.schema.files import LISTED, MAX_LIMIT, MAX_LISTED, PURPOSES, FileDeleted, FileList, FileObject
from gateway.scopes import INFERENCE
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response
from gateway.views.query import number, only
from tenants.models import StoredFile


class FilesView(DataView):
    """Who may ask models may keep the files for it."""

    scope = INFERENCE

    @property
    def files(self) -> Files:
        """Receives, finds, lists and deletes."""
        return runtime().files


class AllFiles(FilesView):
    """All of a tenant's files."""

    @file_list_schema
    async def get(self, request: Request) -> HttpResponse:
        """List your files, the latest first."""
        query = only(request.query_params, "purpose", "limit", "after", "order")
        limit = min(number("limit", query.get("limit", str(LISTED)), MAX_LIMIT), MAX_LISTED)
        found = await self.files.listed(
            principal_of(request).tenant_id,
            after=query.get("after"),
            count=limit + 1,
            purpose=_one_of("purpose", query.get("purpose"), PURPOSES),
            newest_first=_one_of("order", query.get("order"), ("asc", "desc")) != "asc",
        )
        lines = [_shown(one) for one in found[:limit]]
        first, last = (lines[0].id, lines[-1].id) if lines else (None, None)
        return json_response(FileList("list", lines, first, last, len(found) > limit))

    @file_create_schema
    async def post(self, request: Request) -> HttpResponse:
        """Upload a file of requests."""
        only(request.query_params)
        return json_response(
            _shown(await self.files.receive(principal_of(request).tenant_id, UploadBody(beneath(request))))
        )


class OneFile(FilesView):
    """One file."""

    @file_schema
    async def get(self, request: Request, file: str) -> HttpResponse:
        """Read what is known of a file."""
        only(request.query_params)
        return json_response(_shown(await self.files.find(principal_of(request).tenant_id, file)))

    @file_delete_schema
    async def delete(self, request: Request, file: str) -> HttpResponse:
        """Delete a file for good."""
        only(request.query_params)
        await self.files.delete(principal_of(request).tenant_id, file)
        return json_response(FileDeleted(file, "file", True))


class FileContent(FilesView):
    """What a file holds."""

    @file_content_schema
    async def get(self, request: Request, file: str) -> FileAnswer:
        """Get a file's contents, byte for byte."""
        only(request.query_params)
        opened = await self.files.open(principal_of(request).tenant_id, file)
        return FileAnswer(opened, beneath(request).colour)


def _one_of(name: str, given: str | None, known: tuple[str, ...]) -> str | None:
    if given is not None and given not in known:
        raise invalid(name, f"'{name}' must be {' or '.join(known)}.")
    return given


def _shown(file: StoredFile) -> FileObject:
    return FileObject(
        id=file.public_id,
        object="file",
        bytes=file.size_bytes,
        created_at=int(file.created_at.timestamp()),
        expires_at=int(file.expires_at.timestamp()) if file.expires_at else None,
        filename=file.filename,
        purpose=file.purpose,
    )
