from typing import Any

import pytest
from bodies import completions, refused_completions


@pytest.mark.parametrize(
    ("prompt", "prompts", "prompt_bytes"),
    [("héllo", 1, 6), (["a", "bc"], 2, 3), ([1, 2, 3], 1, 12), ([[1, 2], [3]], 2, 12), ("", 1, 0)],
)
def test_every_form_of_prompt_is_counted(prompt: Any, prompts: int, prompt_bytes: int) -> None:
    ask = completions(prompt=prompt, n=2)

    assert (ask.choices, ask.prompt_bytes) == (2 * prompts, prompt_bytes)


def test_left_out_max_tokens_is_what_the_engine_makes_of_it() -> None:
    assert completions().max_tokens == 16
    assert completions(max_tokens=None).max_tokens is None
    assert completions(max_tokens=3).max_tokens == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": []}, {"prompt": None}, {"prompt": 5}, {"prompt": ["a", 1]}, {"prompt": [[1], []]},
        {"prompt": [-1]}, {"prompt": [[1, "a"]]}, {"prompt": ["a"] * 65, "n": 2},
        {"max_tokens": 0}, {"max_tokens": 0, "echo": True}, {"logprobs": 6}, {"logprobs": True},
        {"best_of": 3}, {"n": 3, "best_of": 2}, {"suffix": "x"}, {"suffix": ""}, {"echo": "yes"},
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_field(fields: dict[str, Any]) -> None:
    error = refused_completions(**fields)

    assert error.param is not None
    assert error.param.split("[")[0] in fields


@pytest.mark.parametrize(
    "fields", [{"best_of": 2, "n": 2}, {"echo": True, "logprobs": 5}, {"suffix": None}, {"user": "u", "seed": 1}]
)
def test_every_field_that_is_honoured_is_accepted(fields: dict[str, Any]) -> None:
    assert completions(**fields).endpoint == "completions"


@pytest.mark.parametrize("name", ["messages", "tools", "prompt_embeds", "priority", "top_logprobs"])
def test_fields_of_other_endpoints_are_unknown(name: str) -> None:
    assert refused_completions(**{name: []}).message == f"Unrecognized request argument supplied: {name}"
