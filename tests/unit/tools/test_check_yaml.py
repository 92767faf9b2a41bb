import pytest

from tools.check_yaml import compose_problems

GOOD = {"services": {"a": {"image": "a"}, "b": {"build": ".", "depends_on": ["a"], "volumes": ["v:/v", "./c:/c"]}}}


def test_a_compose_file_that_hangs_together_has_no_problems() -> None:
    assert compose_problems(GOOD | {"volumes": {"v": None}}) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "no services"),
        ({"services": {"a": {}}}, "neither image nor build"),
        ({"services": {"a": {"image": "a", "depends_on": {"x": {}}}}}, "waits for x"),
        (GOOD, "uses volume v"),
    ],
)
def test_what_leads_nowhere_is_named(content: object, problem: str) -> None:
    assert any(problem in found for found in compose_problems(content))
