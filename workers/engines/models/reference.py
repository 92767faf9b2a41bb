"""Make a model's known answers (see ``workers.engines.known_answer``)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workers.engines.known_answer import MIN_MARGIN, GreedyAnswer, Reference
from workers.engines.models.numpy_llama import NumpyLlama, log_softmax

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEXT = (
    "A lock lets a boat climb a hill. The keeper closes the lower gate behind the boat, opens a small valve, and water "
    "from the upper canal fills the chamber until both sides stand at the same height. Then the upper gate swings open "
    "and the boat goes on its way. Nothing is pumped, and nothing is wasted but one chamber of water for each passage. "
    "On a busy day several boats share the chamber, so that the same water lifts all of them at once. The keeper "
    "decides who goes first, writes each passage into a book, and never lets one captain block the canal for the rest."
)

CHAT_PROMPTS = ("What is the capital of France?", "Name three colours of the rainbow.")
TEXT_PROMPTS = ("Water flows downhill because",)
GREEDY_TOKENS = 24

MAX_WEIGHTS_BYTES = 4 * 2**30
"""Larger models get no reference: NumPy would take minutes and as much memory again."""


def make_reference(directory: Path) -> Reference:
    """Compute the known answers of the model in ``directory``, in 10 to 20 seconds for 135 million weights.

    Raises:
        UnsupportedModel: the model is not one that ``numpy_llama`` computes.
    """
    from transformers import AutoTokenizer

    model = NumpyLlama(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    text: list[int] = tokenizer.encode(TEXT)
    prompts = {prompt: _chat_prompt(tokenizer, prompt) for prompt in CHAT_PROMPTS if tokenizer.chat_template}
    prompts |= {prompt: tokenizer.encode(prompt) for prompt in TEXT_PROMPTS}
    greedy = [_greedy(model, label, tokens, tokenizer.eos_token_id) for label, tokens in prompts.items()]
    return Reference(
        made_by="workers.engines.models.numpy_llama, float32",
        text_tokens=tuple(text),
        nll=_likelihood(model, text),
        greedy=tuple(answer for answer in greedy if answer.tokens),
    )


def _chat_prompt(tokenizer: "PreTrainedTokenizerBase", prompt: str) -> list[int]:
    messages = [{"role": "user", "content": prompt}]
    rendered: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(rendered, add_special_tokens=False))


def _likelihood(model: NumpyLlama, tokens: Sequence[int]) -> tuple[float, ...]:
    model.reset()
    scores = log_softmax(model.forward(tokens))
    return tuple(float(-scores[position, token]) for position, token in enumerate(tokens[1:]))


def _greedy(model: NumpyLlama, label: str, prompt: Sequence[int], end: int | None) -> GreedyAnswer:
    """Stop at the end token, and before a choice so close that rounding could turn it."""
    model.reset()
    logits = model.forward(prompt)[-1]
    tokens: list[int] = []
    while len(tokens) < GREEDY_TOKENS:
        second, best = np.sort(log_softmax(logits))[-2:]
        if best - second < MIN_MARGIN:
            break
        tokens.append(int(logits.argmax()))
        if tokens[-1] == end:
            break
        logits = model.forward(tokens[-1:])[-1]
    return GreedyAnswer(label, tuple(prompt), tuple(tokens))
