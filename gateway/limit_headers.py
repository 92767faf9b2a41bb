"""What headers say of limits: what the tightest ones leave, and that a budget nears its end."""

from domain.limits import KINDS, Amount
from workers.ready.item import NewItem
from workers.ready.verdict import Admitted, Hit, Tightest


def limit_headers(tightest: Tightest) -> dict[str, str]:
    """OpenAI's ``x-ratelimit-*``, for the limit of requests and the limit of tokens that leave least."""
    headers = {}
    for kind, found in (("requests", tightest.requests), ("tokens", tightest.tokens)):
        if found is not None:
            headers[f"x-ratelimit-limit-{kind}"] = str(found.limit.cap)
            headers[f"x-ratelimit-remaining-{kind}"] = str(found.left)
            headers[f"x-ratelimit-reset-{kind}"] = f"{found.reset_ms / 1000:.12g}s"
    return headers


def answer_headers(item: NewItem, admitted: Admitted | Hit) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, as ASGI takes them."""
    headers = limit_headers(admitted.tightest)
    if _nears_its_end(item, admitted):
        headers["x-sluice-budget"] = "warning"
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _nears_its_end(item: NewItem, admitted: Admitted | Hit) -> bool:
    spent = {Amount.TOKENS: admitted.month_tokens, Amount.COST: admitted.month_cost_nano}
    return any(spent[KINDS[soft.name].amount] >= soft.cap for soft in item.soft_limits)
