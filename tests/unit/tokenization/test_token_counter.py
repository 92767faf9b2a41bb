"""Texts are counted as the tokenizer itself counts them, however they are parted and whatever was counted before."""

from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizer import CORPUS, MARKS, byte_level, rule, with_prefix

from workers.tokenization import counter as module
from workers.tokenization.counter import Count, TokenizerCounter, make_counter
from workers.tokenization.rule import Tokenization

COUNTER = TokenizerCounter(rule())
SALT = b"0" * 32

TEXTS = st.lists(
    st.one_of(st.sampled_from([*MARKS, "<|im", "\n", "\n\n", " ", "  ", "the water", *CORPUS]), st.text()), max_size=12
).map("".join)


def finish(counter: module.Counter, count: Count) -> int:
    while count.open:
        counter.encode_piece(count)
    return count.tokens


def whole(text: str) -> int:
    return len(byte_level().encode(text, add_special_tokens=False).ids)


@settings(deadline=None)
@given(TEXTS)
def test_a_text_has_as_many_tokens_as_the_tokenizer_makes(text: str) -> None:
    assert finish(COUNTER, COUNTER.text(text, SALT, special=False)) == whole(text)
    # and again, now that its parts are known
    known = COUNTER.text(text, SALT, special=False)
    assert (known.tokens, list(known.open)) == (whole(text), [])


def test_the_tokenizers_own_special_tokens_are_counted_if_asked_for() -> None:
    assert finish(COUNTER, COUNTER.text("the gate", SALT, special=True)) == len(byte_level().encode("the gate").ids)


@settings(max_examples=12, deadline=None)
@given(st.text(alphabet="ab 水\n.", min_size=300, max_size=2000))
def test_a_long_text_in_pieces_has_at_most_a_few_tokens_more(text: str) -> None:
    pieces = list(module._pieces(text * 40))
    assert "".join(piece for piece, _ in pieces) == text * 40
    assert all(len(piece) <= module.PIECE_CHARACTERS for piece, _ in pieces)
    count = COUNTER.text(text * 40, SALT, special=False)
    tokens = finish(COUNTER, count)
    assert count.at_least <= whole(text * 40) <= tokens + count.cuts


def test_words_are_not_torn() -> None:
    text = "the keeper opens the gate " * 4000
    count = COUNTER.text(text, SALT, special=False)
    assert len(count.open) > 5
    assert count.cuts == 0
    assert finish(COUNTER, count) == whole(text)


def test_what_one_tenant_asked_is_not_known_of_another() -> None:
    mine = COUNTER.text("a system prompt", b"1" * 32, special=False)
    finish(COUNTER, mine)
    assert not COUNTER.text("a system prompt", b"1" * 32, special=False).open
    assert COUNTER.text("a system prompt", b"2" * 32, special=False).open


def test_a_tokenizer_that_treats_the_beginning_of_a_text_specially_gets_texts_whole() -> None:
    counter = TokenizerCounter(Tokenization(with_prefix().to_str().encode()))
    text = "<s>the gate<s> opens<s>the water"
    assert finish(counter, counter.text(text, SALT, special=False)) == len(with_prefix().encode(text).ids)


def test_cutting_and_padding_that_a_tokenizer_brings_along_do_not_count() -> None:
    tokenizer = byte_level().from_str(byte_level().to_str())
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    counter = make_counter(Tokenization(tokenizer.to_str().encode()))
    text = "the keeper opens the gate and the water rises"
    assert finish(counter, counter.text(text, SALT, special=False)) == whole(text)


def test_a_count_that_is_given_up_guesses_the_rest() -> None:
    count = COUNTER.text("x" * 400_000, SALT, special=False)
    COUNTER.encode_piece(count)
    first = count.tokens
    count.give_up()
    assert count.tokens == first + (400_000 - module.PIECE_CHARACTERS) // 4
    assert not count.open
