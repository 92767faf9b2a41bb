"""The request bodies of the data plane: what is accepted, what is refused, and why."""

from gateway.schema.ask import Ask
from gateway.schema.chat import ChatRequest, parse_chat
from gateway.schema.completions import CompletionsRequest, parse_completions
from gateway.schema.embeddings import EmbeddingsRequest, parse_embeddings

__all__ = [
    "Ask",
    "ChatRequest",
    "CompletionsRequest",
    "EmbeddingsRequest",
    "parse_chat",
    "parse_completions",
    "parse_embeddings",
]
