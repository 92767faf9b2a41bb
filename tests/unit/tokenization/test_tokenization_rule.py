"""What is published comes back as it was, or not at all."""

from dataclasses import replace

import pytest

from workers.tokenization.rule import NotThatRule, Tokenization, unpack

RULE = Tokenization(b'{"model": 1}', "{{ messages }}", "{{ tools }}", {"bos_token": "<s>"}, "openai", 3)


def test_a_rule_survives_the_way() -> None:
    digest, packed = RULE.pack()
    assert unpack(digest, packed) == RULE
    assert len(digest) == 32


def test_equal_rules_have_equal_names_and_others_others() -> None:
    assert RULE.pack()[0] == replace(RULE).pack()[0]
    assert RULE.pack()[0] != Tokenization().pack()[0]


def test_damaged_or_foreign_bytes_are_refused() -> None:
    digest, packed = RULE.pack()
    for wrong in (packed[:-4], b"", Tokenization().pack()[1]):
        with pytest.raises(NotThatRule):
            unpack(digest, wrong)


def test_a_rule_is_not_printed_with_all_its_words() -> None:
    assert "messages" not in repr(RULE)
