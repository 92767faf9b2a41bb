"""Texts with variables."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.template import before_variables, fill, filled_length, variables_of

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
BRACED = st.text(alphabet="ab{} _1", max_size=12)
PIECES = st.lists(st.one_of(BRACED, NAMES.map(lambda name: "{{" + name + "}}")), max_size=8)
VALUES = st.one_of(st.text(max_size=8), st.just("{{a}}"), st.just("\\1"), st.just("{"))


@given(PIECES, st.data())
def test_every_variable_is_replaced_once_and_nothing_else(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    names = variables_of([text])
    values = {name: data.draw(VALUES) for name in names}

    expected, rest = "", text
    while found := re.search(r"\{\{([A-Za-z_][A-Za-z0-9_]{0,63})\}\}", rest):
        expected += rest[: found.start()] + values[found[1]]
        rest = rest[found.end() :]
    assert fill(text, values) == expected + rest


@given(PIECES, st.data())
def test_the_length_is_known_before(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    values = {name: data.draw(VALUES) for name in variables_of([text])}

    assert filled_length(text, {name: len(value) for name, value in values.items()}) == len(fill(text, values))


def test_a_value_is_never_looked_at_again() -> None:
    assert fill("{{a}}{{b}}", {"a": "{{b}}", "b": "{{a}}"}) == "{{b}}{{a}}"
    assert fill("{{{a}}}", {"a": "b"}) == "{b}"
    assert fill("{{a}}", {"a": "\\g<0> \\1"}) == "\\g<0> \\1"


def test_two_values_make_no_variable_together() -> None:
    assert fill("{{a}}{{b}}}}", {"a": "{{", "b": "c"}) == "{{c}}"


@pytest.mark.parametrize("text", ["{{ a }}", "{{1a}}", "{a}", "{{a-b}}", "{{}}", "{{a}", "{{" + "a" * 65 + "}}"])
def test_other_braces_are_text(text: str) -> None:
    assert variables_of([text]) == []
    assert fill(text, {}) == text


def test_names_come_once_and_in_order() -> None:
    assert variables_of(["{{b}} {{a}}", "{{b}}{{c}}"]) == ["b", "a", "c"]


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("{{a}}", {})


def test_what_comes_before_the_first_variable() -> None:
    assert before_variables("all {{of}} it") == "all "
    assert before_variables("all of it") == "all of it"
