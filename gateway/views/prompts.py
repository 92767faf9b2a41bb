"""/v1/prompts: stored prompts of the caller's tenant."""

import msgspec
from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request

from gateway.body import read_body
from gateway.connection import beneath
from gateway.openapi_prompts import (
    prompt_create_schema,
    prompt_delete_schema,
    prompt_list_schema,
    prompt_schema,
    prompt_version_schema,
    prompt_versions_schema,
)
from gateway.prompts.keeper import PromptKeeper
from gateway.prompts.version import PromptText
from gateway.runtime import runtime
from gateway.schema.prompt_use import MAX_VERSION
from gateway.schema.prompts import (
    Prompt,
    PromptDeleted,
    PromptLine,
    PromptList,
    VersionLine,
    VersionList,
    parse_new_prompt,
    parse_new_version,
)
from gateway.scopes import INFERENCE
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response
from gateway.views.query import number, only
from tenants.prompts import ListedPrompt, ListedVersion

MAX_LISTED, LISTED = 100, 20


class PromptsView(DataView):
    """Who may ask models may keep the prompts for it."""

    scope = INFERENCE

    @property
    def keeper(self) -> PromptKeeper:
        """Makes, changes, lists and deletes."""
        return runtime().prompts.keeper


class Prompts(PromptsView):
    """All of a tenant's stored prompts."""

    @prompt_list_schema
    async def get(self, request: Request) -> HttpResponse:
        """List your stored prompts, the latest first, without what they say."""
        query = only(request.query_params, "after", "limit")
        limit = number("limit", query.get("limit", str(LISTED)), MAX_LISTED)
        found = await self.keeper.listed(principal_of(request).tenant_id, query.get("after"), limit + 1)
        lines = [_line(one) for one in found[:limit]]
        first, last = (lines[0].id, lines[-1].id) if lines else (None, None)
        return json_response(PromptList("list", lines, first, last, len(found) > limit))

    @prompt_create_schema
    async def post(self, request: Request) -> HttpResponse:
        """Store a prompt. ``{{name}}`` in a message's text stands for a variable."""
        new = parse_new_prompt(await _body(request))
        return json_response(_shown(await self.keeper.create(principal_of(request).tenant_id, new)), 201)


class OnePrompt(PromptsView):
    """One stored prompt."""

    @prompt_schema
    async def get(self, request: Request, prompt: str) -> HttpResponse:
        """Read a stored prompt: its latest version, or the one that you name."""
        query = only(request.query_params, "version")
        version = number("version", query["version"], MAX_VERSION) if "version" in query else None
        found = await runtime().prompts.finder.find(principal_of(request).tenant_id, prompt, version)
        return json_response(_shown(found))

    @prompt_version_schema
    async def post(self, request: Request, prompt: str) -> HttpResponse:
        """Store the next version of a prompt. Earlier ones stay."""
        new = parse_new_version(await _body(request))
        return json_response(_shown(await self.keeper.add_version(principal_of(request).tenant_id, prompt, new)), 201)

    @prompt_delete_schema
    async def delete(self, request: Request, prompt: str) -> HttpResponse:
        """Delete a stored prompt with all its versions, for good."""
        await self.keeper.delete(principal_of(request).tenant_id, prompt)
        return json_response(PromptDeleted(prompt, "prompt.deleted", True))


class PromptVersions(PromptsView):
    """The versions of one stored prompt."""

    @prompt_versions_schema
    async def get(self, request: Request, prompt: str) -> HttpResponse:
        """List all versions of a stored prompt, the latest first, without what they say."""
        only(request.query_params)
        found = await self.keeper.versions(principal_of(request).tenant_id, prompt)
        return json_response(VersionList("list", [_version_line(prompt, one) for one in found]))


async def _body(request: Request) -> bytes:
    inner = beneath(request)
    return await read_body(inner.receive, inner.scope["headers"], settings.SLUICE.max_body_bytes)


def _shown(prompt: PromptText) -> Prompt:
    return Prompt(
        id=prompt.public_id,
        object="prompt",
        name=prompt.name,
        version=prompt.number,
        messages=msgspec.json.decode(prompt.messages),
        variables=prompt.variables,
        created_at=prompt.made_at,
        version_created_at=prompt.version_made_at,
    )


def _line(one: ListedPrompt) -> PromptLine:
    return PromptLine(one.public_id, "prompt", one.name, one.latest, one.variables, int(one.made_at.timestamp()))


def _version_line(public_id: str, one: ListedVersion) -> VersionLine:
    return VersionLine(public_id, "prompt.version", one.number, one.variables, int(one.made_at.timestamp()))
