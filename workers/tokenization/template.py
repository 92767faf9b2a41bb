"""A model's chat template: Jinja with the names that such templates rely on, in a sandbox."""

import json
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from workers.tokenization.conversation import Chat, developers_as_system, for_template, tools_for_template
from workers.tokenization.rule import Tokenization


class CannotRender(Exception):
    """The template does not take this chat: the engine will refuse it too, in its own words."""


class ChatTemplate:
    """Renders chats as the engine does."""

    def __init__(self, rule: Tokenization) -> None:
        environment = _environment()
        self._rule = rule
        self._plain = environment.from_string(rule.template)
        self._with_tools = environment.from_string(rule.tool_template) if rule.tool_template else self._plain

    def render(self, chat: Chat) -> str:
        """The text of a chat.

        Raises:
            CannotRender: the template refuses it.
        """
        rule = self._rule
        source = (rule.tool_template if chat.tools else "") or rule.template
        messages = for_template(chat.messages, rule.content_format)
        if "'developer'" not in source and '"developer"' not in source:
            messages = developers_as_system(messages)
        tools = tools_for_template(chat.tools) if chat.tools else None
        given = {**rule.names, **chat.options, "messages": messages, "tools": tools, "documents": None}
        try:
            return (self._with_tools if chat.tools else self._plain).render(given)
        except Exception as error:  # whatever a stranger's chat does to a stranger's template
            raise CannotRender(f"{type(error).__name__}: {error}") from error


class _Generation(Extension):
    """``{% generation %}`` marks answers for training; here it is only what it encloses."""

    tags = {"generation"}  # noqa: RUF012  # Jinja's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own escapes characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> Any:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
