"""Texts with variables: ``{{name}}`` stands for a value. There is nothing else to it: no conditions, no nesting."""

import re
from collections.abc import Iterable, Mapping

_VARIABLE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]{0,63})\}\}")


def variables_of(texts: Iterable[str]) -> list[str]:
    """The names that texts use, each once, in the order in which they come.

    A name is a letter or ``_`` and up to 63 letters, digits and ``_``. Other braces are braces.
    """
    return list(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in. What they contain is never looked at again, whatever it looks like.

    Raises:
        KeyError: there is no value for a name.
    """
    return _VARIABLE.sub(lambda match: values[match[1]], text)


def filled_length(text: str, lengths: Mapping[str, int]) -> int:
    """Characters, or bytes, that a text takes once values of these lengths are put in: known before it is made.

    Raises:
        KeyError: there is no length for a name.
    """
    return len(text) + sum(lengths[match[1]] - len(match[0]) for match in _VARIABLE.finditer(text))


def before_variables(text: str) -> str:
    """What comes before the first variable: the same whatever the values are."""
    found = _VARIABLE.search(text)
    return text if found is None else text[: found.start()]
