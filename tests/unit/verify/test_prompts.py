from hypothesis import given
from hypothesis import strategies as st

from workers.engines.port import Endpoint
from workers.verify.prompts import prompts

BOTH: tuple[Endpoint, ...] = ("chat", "completions")


def test_prompts_are_always_the_same_ones_and_all_different() -> None:
    made = prompts(64, BOTH, 1000)

    assert made == prompts(64, BOTH, 1000)
    assert len({prompt.text for prompt in made}) == 64


def test_more_prompts_begin_as_fewer_do() -> None:
    assert prompts(40, BOTH, 1000)[:9] == prompts(9, BOTH, 1000)


def test_every_endpoint_gets_short_and_long_ones() -> None:
    for endpoint in BOTH:
        lengths = [len(prompt.text.split()) for prompt in prompts(32, BOTH, 4000) if prompt.endpoint == endpoint]
        assert min(lengths) < 10
        assert max(lengths) > 300


@given(st.integers(1, 60), st.integers(-10, 3000))
def test_no_prompt_is_longer_than_the_model_takes(count: int, most_tokens: int) -> None:
    # At two tokens a word, with room for the opening and the chat template.
    assert all(
        len(prompt.text.split()) <= max(0, most_tokens // 2) + 16 for prompt in prompts(count, BOTH, most_tokens)
    )
