"""What a modelled engine answers: token texts that follow from the seed and the question alone."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, shake_128
from itertools import accumulate
from math import log

_SHORTEST = 8
_LONGEST = 64
_MEAN_EXTRA = 18.0
_BIG_PIECE = 64 * 1024
_MULTIBYTE = "你好🙂é"

_STEMS = """
    water river lock gate flow level basin channel valve bridge stone harbour ship crew sail north south east west wind
    rain cloud light morning evening night summer winter spring field forest garden house road city village market
    letter number answer question reason method result measure weight length height colour sound music story book page
    word line circle square corner surface mountain valley island ocean lake
"""
_JOINTS = """
    the a of and to in is it that with for as on by from at this which can will may must has was are be not but or when
    where how then so more less most first next last each every some any many few one two three
"""
_ENDINGS = ("s", "ing", "ed", "ly", ".", ",", ";", ":")


def _vocabulary() -> tuple[str, ...]:
    joints = _JOINTS.split()
    texts = [f" {word}" for word in (*joints, *_STEMS.split(), *joints)] + [*_ENDINGS, *_ENDINGS]
    return tuple(texts[index % len(texts)] for index in range(256))


_VOCABULARY = _vocabulary()


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice, token by token.

    Attributes:
        tokens: text of each token as the model made it.
        emitted: text that may be delivered once that token is there ("" while a stop string or a character is
            still open); same length as ``tokens``.
        finish_reason: "stop" or "length".
        start: tokens that an earlier attempt has delivered already; the rest is to be produced.
    """

    tokens: Sequence[str]
    emitted: Sequence[str]
    finish_reason: str
    start: int = 0


def question_key(seed: int, prompt: bytes, request_seed: int | None, variant: str) -> bytes:
    """Digest from which an answer follows; ``variant`` tells apart choices and engines that compute wrongly."""
    return blake2b(prompt, digest_size=16, key=f"{seed}/{request_seed}/{variant}".encode()[:64]).digest()


def natural_length(key: bytes) -> int:
    """Tokens after which the model stops by itself: 8 to 64, many short and few long ones."""
    uniform = int.from_bytes(blake2b(key, digest_size=4).digest(), "big") / 2**32
    return _SHORTEST + min(_LONGEST - _SHORTEST, int(-log(1.0 - uniform) * _MEAN_EXTRA))


def words(key: bytes, count: int) -> list[str]:
    """``count`` word-like tokens; a shorter answer to the same question is a prefix of a longer one."""
    vocabulary = _VOCABULARY
    texts = [vocabulary[byte] for byte in shake_128(key).digest(count)]
    if texts:
        texts[0] = texts[0].lstrip(" ").capitalize()
    return texts


def multibyte_tokens(count: int) -> list[str]:
    """Text of ``count`` two-byte tokens of characters of two to four bytes; a character appears once it is whole."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    raw = _MULTIBYTE.encode()
    raw = raw * (2 * count // len(raw) + 1)
    texts = [decoder.decode(raw[2 * index : 2 * index + 2]) for index in range(count)]
    # The last token completes its character, whatever it takes.
    rest = raw[2 * count :]
    while decoder.getstate()[0]:
        texts[-1] += decoder.decode(rest[:1])
        rest = rest[1:]
    return texts


def big_tokens(key: bytes, size: int, most_tokens: int) -> list[str]:
    """``size`` bytes of text in tokens of 64 KiB, or larger ones if ``most_tokens`` would not hold it."""
    filler = "".join(words(key, 256))
    piece = max(_BIG_PIECE, -(-size // most_tokens))
    filler = filler * (piece // len(filler) + 1)
    return [filler[: min(piece, size - done)] for done in range(0, size, piece)]


def cut(text: str, size: int = 4) -> list[str]:
    """Tokens of ``size`` characters that make ``text``."""
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def apply_stops(answer: Answer, stops: Sequence[str], min_tokens: int, *, keep_stop: bool) -> Answer:
    """End the answer at the first stop string, and hold back at each token what might become one.

    Text of the first ``min_tokens`` tokens is not searched. ``keep_stop`` leaves the stop string in the answer.
    """
    tokens = answer.tokens
    text = "".join(tokens)
    searched_from = sum(map(len, tokens[:min_tokens]))
    starts = [(text.find(stop, searched_from), stop) for stop in stops]
    found = [(start + len(stop), stop) for start, stop in starts if start >= 0]
    spare = max(map(len, stops)) - 1
    if not found:
        return Answer(tokens, _hold_back(tokens, spare, len(text)), answer.finish_reason)
    end, stop = min(found)
    length = end if keep_stop else end - len(stop)
    count = next(index for index, total in enumerate(accumulate(map(len, tokens)), 1) if total >= end)
    return Answer(tokens[:count], _hold_back(tokens[:count], spare, length), "stop")


def _hold_back(tokens: Sequence[str], characters: int, length: int) -> list[str]:
    text = "".join(tokens)
    emitted = []
    done = 0
    for total in accumulate(map(len, tokens)):
        upto = max(done, min(total - characters, length))
        emitted.append(text[done:upto])
        done = upto
    emitted[-1] += text[done:length]
    return emitted


def resume(answer: Answer, delivered_text: str, delivered_tokens: int, *, exact: bool = False) -> Answer:
    """Go on where an earlier attempt was cut off.

    The text says where that is, or, if the count is ``exact``, the number of tokens, whose text may be longer than what
    was delivered. An engine that would have answered otherwise goes on by the number of tokens. At least one token is
    left to produce, so that the answer ends with its finish reason.
    """
    emitted = list(answer.emitted)
    last = len(emitted) - 1
    if not "".join(emitted).startswith(delivered_text):
        return Answer(answer.tokens, emitted, answer.finish_reason, min(delivered_tokens, last))
    totals = [0, *accumulate(map(len, emitted))]
    start = next(index for index, total in enumerate(totals) if total >= len(delivered_text))
    if exact and delivered_tokens >= start:
        start = delivered_tokens
    start = min(start, last)
    emitted[start] = "".join(emitted[: start + 1])[len(delivered_text) :]
    return Answer(answer.tokens, emitted, answer.finish_reason, start)
