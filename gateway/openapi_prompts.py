"""The published schema of stored prompts."""

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from gateway.errors import Refusal
from gateway.openapi import AUTH, asked, described, errors, example, ref
from gateway.schema.prompts import NewPrompt, NewVersion, Prompt, PromptDeleted, PromptList, VersionList

_PROMPT_ERRORS = (
    *AUTH,
    Refusal.SCOPE_MISSING,
    Refusal.PROMPT_NOT_FOUND,
    Refusal.UNKNOWN_PROMPTS,
    Refusal.PROMPTS_UNAVAILABLE,
)
_TEMPLATE = {"messages": [{"role": "user", "content": "Translate into {{language}}: {{text}}"}]}

prompt_list_schema = described(
    operation_id="listPrompts",
    tags=["prompts"],
    parameters=[
        asked("after", "The id of a prompt: begin with the one after it."),
        OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(ref(PromptList), "Your stored prompts."),
        **errors(Refusal.INVALID_BODY, *_PROMPT_ERRORS),
    },
)

prompt_create_schema = described(
    operation_id="createPrompt",
    tags=["prompts"],
    request={"application/json": ref(NewPrompt)},
    examples=[example("Two variables", {"name": "translation", **_TEMPLATE})],
    responses={
        (201, "application/json"): OpenApiResponse(ref(Prompt), "The stored prompt."),
        **errors(
            *(Refusal.INVALID_BODY, Refusal.TOO_MANY_PROMPTS, *AUTH, Refusal.SCOPE_MISSING),
            *(Refusal.BODY_TOO_LARGE, Refusal.PROMPTS_UNAVAILABLE),
        ),
    },
)

prompt_schema = described(
    operation_id="retrievePrompt",
    tags=["prompts"],
    parameters=[OpenApiParameter("version", {"type": "integer", "minimum": 1}, description="Left out: the latest.")],
    responses={
        (200, "application/json"): OpenApiResponse(ref(Prompt), "The stored prompt."),
        **errors(Refusal.INVALID_BODY, *_PROMPT_ERRORS),
    },
)

prompt_version_schema = described(
    operation_id="createPromptVersion",
    tags=["prompts"],
    request={"application/json": ref(NewVersion)},
    examples=[example("Next version", _TEMPLATE)],
    responses={
        (201, "application/json"): OpenApiResponse(ref(Prompt), "The prompt with its new version."),
        **errors(Refusal.INVALID_BODY, Refusal.TOO_MANY_PROMPTS, *_PROMPT_ERRORS, Refusal.BODY_TOO_LARGE),
    },
)

prompt_versions_schema = described(
    operation_id="listPromptVersions",
    tags=["prompts"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(VersionList), "Its versions."),
        **errors(*_PROMPT_ERRORS),
    },
)

prompt_delete_schema = described(
    operation_id="deletePrompt",
    tags=["prompts"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(PromptDeleted), "It is gone."),
        **errors(*_PROMPT_ERRORS),
    },
)
