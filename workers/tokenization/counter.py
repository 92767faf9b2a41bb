"""Counts the tokens of prompts by a published rule: what was counted before is looked up, the rest encoded."""

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from tokenizers import Tokenizer

from domain.simulation.prompt import BYTES_PER_TOKEN, chat_prompt, count_tokens
from workers.tokenization.conversation import Chat, text_of
from workers.tokenization.memory import Memory
from workers.tokenization.rule import Tokenization
from workers.tokenization.template import CannotRender, ChatTemplate

# One text a call: the library's own threads would only cost, and warn after a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PIECE_CHARACTERS = 16 * 1024
"""Longer texts are counted in pieces, so that nobody waits for the whole of a long one, and equal parts are known."""

LOOK_BACK = 512
CUT_TOKENS = 4
"""A cut inside a word may part what would have been one token; this is more than it was ever seen to add."""

MEMORY_PIECES = 8192

_SEAM = re.compile(r"(?<=\w) (?=\w)")
_PROBES = ("", "a word", " two  spaces ", "\nlines\n\n", "水闸 and ümlauts 123")


@dataclass(slots=True)
class Count:
    """The count of one prompt under way.

    Attributes:
        tokens: counted so far.
        cuts: how often its text was cut where a token may have been.
        open: pieces that are still to be encoded, each with its name in the memory.
    """

    tokens: int = 0
    cuts: int = 0
    open: deque[tuple[str, bytes]] = field(default_factory=deque)

    @property
    def open_characters(self) -> int:
        """Characters that are still to be encoded."""
        return sum(len(text) for text, _ in self.open)

    @property
    def at_least(self) -> int:
        """Tokens that the prompt has whatever the cuts have added."""
        return max(0, self.tokens - CUT_TOKENS * self.cuts)

    def give_up(self) -> None:
        """Guess what is open: the prompt has more tokens than any engine of its model takes."""
        self.tokens += self.open_characters // BYTES_PER_TOKEN
        self.open.clear()


class Counter(Protocol):
    """Counts one model's prompts; safe from several threads."""

    def chat(self, chat: Chat, salt: bytes) -> Count:
        """Begin to count a chat.

        Raises:
            CannotRender: the model does not take it.
        """

    def text(self, text: str, salt: bytes, *, special: bool) -> Count:
        """Begin to count a text, with the tokenizer's own special tokens if ``special``."""

    def encode_piece(self, count: Count) -> None:
        """Encode the next of ``count.open``."""


class TokenizerCounter:
    """Counts with the model's own tokenizer and chat template. Making one takes tenths of a second."""

    def __init__(self, rule: Tokenization) -> None:
        self._tokenizer = Tokenizer.from_buffer(rule.tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self._template = ChatTemplate(rule) if rule.template else None
        self._spare = rule.spare_tokens
        self._marks = _marks(self._tokenizer)
        self._memory = Memory(MEMORY_PIECES)

    def chat(self, chat: Chat, salt: bytes) -> Count:
        """See :class:`Counter`."""
        if self._template is None:
            raise CannotRender("this model has no chat template")
        count = self.text(self._template.render(chat), salt, special=chat.special)
        count.tokens += self._spare
        return count

    def text(self, text: str, salt: bytes, *, special: bool) -> Count:
        """See :class:`Counter`."""
        count = Count(self._special if special else 0)
        # Special tokens stand alone, so what lies between two of them is counted, and known again, by itself.
        parts = self._marks.split(text) if self._marks else [text]
        count.tokens += len(parts) - 1
        for part in filter(None, parts):
            for piece, torn in _pieces(part):
                count.cuts += torn
                key = Memory.key(piece, salt)
                known = self._memory.find(key)
                if known is None:
                    count.open.append((piece, key))
                else:
                    count.tokens += known
        return count

    def encode_piece(self, count: Count) -> None:
        """See :class:`Counter`."""
        text, key = count.open.popleft()
        tokens = self._encode(text)
        self._memory.keep(key, tokens)
        count.tokens += tokens

    def _encode(self, text: str) -> int:
        # Of the ways to encode this one lets other threads run, and finds no offsets.
        return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


class BytesCounter:
    """Counts as the simulated model does."""

    def chat(self, chat: Chat, salt: bytes) -> Count:
        """See :class:`Counter`."""
        turns = ((message["role"], text_of(message), _calls(message.get("tool_calls"))) for message in chat.messages)
        return Count(count_tokens(len(chat_prompt(turns, msgspec.json.encode(chat.tools) if chat.tools else b""))))

    def text(self, text: str, salt: bytes, *, special: bool) -> Count:
        """See :class:`Counter`."""
        return Count(count_tokens(len(text.encode())))

    def encode_piece(self, count: Count) -> None:
        """See :class:`Counter`: nothing stays open here."""


def make_counter(rule: Tokenization) -> Counter:
    """The counter of a rule."""
    return TokenizerCounter(rule) if rule.tokenizer else BytesCounter()


def _calls(calls: list[dict[str, dict[str, str]]] | None) -> list[str]:
    return [call["function"][name] for call in calls or () for name in ("name", "arguments")]


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Parts of ``text`` of at most ``PIECE_CHARACTERS``, and whether each had to end where a token may have been."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        end = start + PIECE_CHARACTERS
        seams = [seam.start() for seam in _SEAM.finditer(text, end - LOOK_BACK, end)]
        stop = seams[-1] if seams else end
        yield text[start:stop], not seams
        start = stop
    yield text[start:], False


def _marks(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """A pattern of the special tokens at which a text may be parted; None where parting changes the count.

    It does in tokenizers that treat the beginning of a text in a way of its own.
    """
    known = tokenizer.get_added_tokens_decoder().values()
    plain = [
        token.content for token in known if not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    ]
    if not plain:
        return None

    def tokens(text: str) -> int:
        return len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])

    mark = plain[0]
    for before in _PROBES:
        for after in _PROBES:
            if tokens(before + mark + after) != tokens(before) + 1 + tokens(after):
                return None
    return re.compile("|".join(re.escape(content) for content in sorted(plain, key=len, reverse=True)))
