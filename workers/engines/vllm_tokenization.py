"""vLLM's tokenizer and chat template as data."""

from typing import Any

from workers.tokenization.rule import ContentFormat, Tokenization


def read_rule(tokenizer: Any, template: str, tool_template: str, content_format: ContentFormat) -> Tokenization | None:
    """The rule of a Hugging Face tokenizer; None for one that is not of the ``tokenizers`` library."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        return None
    names = {name: text for name, text in tokenizer.special_tokens_map.items() if isinstance(text, str)}
    return Tokenization(
        fast.to_str().encode(), template, "" if tool_template == template else tool_template, names, content_format
    )
