"""The longest answer to a request that names none, so that what is set aside for it is all that it can take.

Only where a limit counts tokens or cost: everybody else gets what the model's context has room for, as anywhere.
"""

from collections.abc import Iterable

from domain.limits import KINDS, Amount, Limit

_BY_ANSWER = (Amount.TOKENS, Amount.OUTPUT)


def counts_answers(limits: Iterable[Limit]) -> bool:
    """Whether any limit depends on how long answers are."""
    return any(KINDS[limit.name].amount in {*_BY_ANSWER, Amount.COST} for limit in limits)


def longest_answer(limits: Iterable[Limit], context_tokens: int, prompt_tokens: int, choices: int) -> int:
    """Tokens that each of ``choices`` answers may have, at least 1: what the context leaves, and no limit forbids.

    A limit smaller than the context would else refuse every request that does not say ``max_tokens``.
    """
    least = context_tokens - prompt_tokens
    for limit in limits:
        amount = KINDS[limit.name].amount
        if amount in _BY_ANSWER:
            least = min(least, (limit.cap - (prompt_tokens if amount is Amount.TOKENS else 0)) // choices)
    return max(1, least)


def with_longest_answer(body: bytes, tokens: int) -> bytes:
    """A chat's body (a JSON object that is not empty) that tells the engine so; the last of equal names counts."""
    return body.rstrip()[:-1] + b',"max_completion_tokens":%d}' % tokens
