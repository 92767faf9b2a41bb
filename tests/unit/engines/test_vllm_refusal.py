import pytest
from pydantic import BaseModel, ValidationError, field_validator

from workers.engines.port import RequestFailed, RequestRejected
from workers.engines.vllm_refusal import refusal_of, refusal_of_body, words_of


class OwnError(ValueError):
    """As vLLM's validation error: its text ends with parameter and value, its first argument does not."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter

    def __str__(self) -> str:
        return f"{self.args[0]} (parameter={self.parameter})"


class Body(BaseModel):
    inner: list[int] = []
    top_p: float = 1.0

    @field_validator("top_p")
    @classmethod
    def bounded(cls, value: float) -> float:
        if value > 1:
            raise OwnError("top_p must be at most 1", "top_p")
        return value


def refused(**fields: object) -> RequestRejected:
    with pytest.raises(ValidationError) as error:
        Body.model_validate(fields)
    return refusal_of_body(error.value)


def test_a_wrong_body_is_refused_with_the_place() -> None:
    assert refused(inner=[1, "x"]).error["param"] == "inner[1]"


def test_a_validators_own_words_are_told() -> None:
    refusal = refused(top_p=7)

    assert refusal.error["message"] == "top_p must be at most 1"
    assert refusal.error["param"] == "top_p"


@pytest.mark.parametrize("param", ["input_tokens", "input_text", "max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(("chat", "field"), [(True, "messages"), (False, "prompt")])
def test_too_much_for_the_context_is_told_as_openai_tells_it(param: str, chat: bool, field: str) -> None:
    refusal = refusal_of(400, "too long", param, chat=chat)

    assert isinstance(refusal, RequestRejected)
    assert (refusal.error["code"], refusal.error["param"]) == ("context_length_exceeded", field)


@pytest.mark.parametrize(("code", "status"), [(400, 400), (404, 404), (422, 422), (501, 400)])
def test_other_refusals_keep_their_words(code: int, status: int) -> None:
    refusal = refusal_of(code, "no", "seed", chat=True)

    assert isinstance(refusal, RequestRejected)
    assert (refusal.status, refusal.error["message"], refusal.error["param"]) == (status, "no", "seed")


@pytest.mark.parametrize("code", [500, 503])
def test_a_fault_of_the_server_may_be_tried_again(code: int) -> None:
    assert isinstance(refusal_of(code, "oops", None, chat=True), RequestFailed)


def test_words_without_vllms_tail() -> None:
    wrapped = RuntimeError()
    wrapped.__cause__ = KeyError("x")

    assert words_of(OwnError("too much", "n")) == "too much"
    assert words_of(RuntimeError("plain")) == "plain"
    assert words_of(wrapped) == "KeyError: 'x'"
