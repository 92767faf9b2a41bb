"""The published schema of files."""

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from gateway.errors import Refusal
from gateway.files.form import ANCHOR, FILE, PURPOSE, SECONDS
from gateway.openapi import AUTH, asked, described, errors, ref
from gateway.schema.files import (
    LISTED,
    LONGEST_S,
    MAX_LIMIT,
    PURPOSES,
    SHORTEST_S,
    UPLOADED,
    FileDeleted,
    FileList,
    FileObject,
)

_TAGS = ["batches"]
_FILE_ERRORS = (
    *(Refusal.INVALID_BODY, *AUTH, Refusal.SCOPE_MISSING),
    *(Refusal.FILE_NOT_FOUND, Refusal.FILES_UNAVAILABLE),
)
_FORM = {
    "type": "object",
    "required": [FILE, PURPOSE],
    "additionalProperties": False,
    "properties": {
        FILE: {"type": "string", "format": "binary", "description": "The file, one request a line."},
        PURPOSE: {"type": "string", "enum": [UPLOADED]},
        ANCHOR: {"type": "string", "enum": ["created_at"], "description": f"Together with `{SECONDS}`."},
        SECONDS: {
            "type": "integer",
            "minimum": SHORTEST_S,
            "maximum": LONGEST_S,
            "description": "For how long the file is kept; left out: as long as the operator says.",
        },
    },
}

file_list_schema = described(
    operation_id="listFiles",
    tags=_TAGS,
    parameters=[
        asked("purpose", "Only files of this purpose.", enum=list(PURPOSES)),
        OpenApiParameter(
            "limit",
            {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": LISTED},
            description="At most 1000 are given at once.",
        ),
        asked("after", "The id of a file: begin with the one after it."),
        asked("order", "By the time of creation.", enum=["asc", "desc"], default="desc"),
    ],
    responses={(200, "application/json"): OpenApiResponse(ref(FileList), "Your files."), **errors(*_FILE_ERRORS)},
)

file_create_schema = described(
    operation_id="createFile",
    tags=_TAGS,
    request={"multipart/form-data": _FORM},
    responses={
        (200, "application/json"): OpenApiResponse(ref(FileObject), "The file."),
        **errors(
            *(Refusal.INVALID_BODY, Refusal.TOO_MUCH_STORED, *AUTH, Refusal.SCOPE_MISSING, Refusal.FILES_NOT_ALLOWED),
            *(Refusal.BODY_TOO_SLOW, Refusal.BODY_TOO_LARGE, Refusal.UNSUPPORTED_MEDIA_TYPE),
            Refusal.FILES_UNAVAILABLE,
        ),
    },
)

file_schema = described(
    operation_id="retrieveFile",
    tags=_TAGS,
    responses={(200, "application/json"): OpenApiResponse(ref(FileObject), "The file."), **errors(*_FILE_ERRORS)},
)

file_delete_schema = described(
    operation_id="deleteFile",
    tags=_TAGS,
    responses={
        (200, "application/json"): OpenApiResponse(ref(FileDeleted), "It is gone."),
        **errors(*_FILE_ERRORS, Refusal.FILE_IN_USE),
    },
)

file_content_schema = described(
    operation_id="downloadFile",
    tags=_TAGS,
    responses={
        (200, "application/octet-stream"): OpenApiResponse(
            {"type": "string", "format": "binary"}, "The contents, byte for byte."
        ),
        **errors(*_FILE_ERRORS),
    },
)
