"""The request bodies of the data plane: what is accepted, what is refused, and why."""

from gateway.schema.ask import Ask
from gateway.schema.chat import ChatRequest, parse_chat
from gateway.schema.completions import CompletionsRequest, parse_completions

__all__ = ["Ask", "ChatRequest", "CompletionsRequest", "parse_chat", "parse_completions"]
