import pytest

from workers.engines.port import Job
from workers.engines.vllm_resume import delivered_ids


def job(*ids: int, tokens: int) -> Job:
    return Job("id", "chat", b"{}", stream=True, delivered_tokens=tokens, delivered_ids=ids)


def test_ids_of_all_delivered_tokens_are_used() -> None:
    assert delivered_ids(job(0, 5, 9, tokens=3), vocabulary=10) == (0, 5, 9)


@pytest.mark.parametrize(("ids", "tokens"), [((1, 2), 3), ((1, 10), 2), ((-1, 1), 2), ((), 2)])
def test_ids_that_cannot_be_the_models_are_not_used(ids: tuple[int, ...], tokens: int) -> None:
    assert delivered_ids(job(*ids, tokens=tokens), vocabulary=10) == ()
