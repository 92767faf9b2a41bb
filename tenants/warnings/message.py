"""What a warning says: as JSON for programs, as a mail for people."""

from typing import NamedTuple

from domain.money import decimal_text
from tenants.models import BudgetWarning

EVENTS = {BudgetWarning.Bound.SOFT.value: "budget.warning", BudgetWarning.Bound.HARD.value: "budget.used_up"}


class Mail(NamedTuple):
    """A mail without its receivers."""

    subject: str
    body: str


def payload(warning: BudgetWarning, currency: str) -> dict[str, object]:
    """The body of a webhook; the same whenever it is told again, so ``id`` says whether it was heard before.

    ``spent`` and ``limit`` are numbers of tokens, or decimals in ``currency`` as text.
    """
    return {
        "id": warning.pk,
        "event": EVENTS[warning.bound],
        "tenant": warning.tenant.slug,
        "month": f"{warning.month:%Y-%m}",
        "budget": warning.kind,
        "bound": warning.bound,
        "spent": _number(warning, warning.spent),
        "limit": _number(warning, warning.limit),
        "currency": currency,
        "at": warning.at.isoformat(),
    }


def mail(warning: BudgetWarning, currency: str) -> Mail:
    """A mail in plain English."""
    what = {"tokens": "tokens", "cost": "cost"}[warning.kind]
    month = f"{warning.month:%Y-%m}"
    spent, limit = (_text(warning, amount, currency) for amount in (warning.spent, warning.limit))
    if warning.bound == BudgetWarning.Bound.HARD:
        subject = f"Sluice: {warning.tenant.slug} has used up its {what} of {month}"
        then = "Requests that go beyond it are refused until the next month begins (UTC), or until its plan is changed."
    else:
        subject = f"Sluice: {warning.tenant.slug} has reached the warning for its {what} of {month}"
        then = "Nothing is refused yet."
    body = (
        f"Tenant: {warning.tenant.name} ({warning.tenant.slug})\n"
        f"Month: {month}\n"
        f"Used at {warning.at:%Y-%m-%d %H:%M} UTC: {spent}\n"
        f"{'Budget' if warning.bound == BudgetWarning.Bound.HARD else 'Warning from'}: {limit}\n\n"
        f"{then}\n\n"
        f"(Warning {warning.pk})\n"
    )
    return Mail(" ".join(subject.split()), body)


def _number(warning: BudgetWarning, amount: int) -> int | str:
    return decimal_text(amount) if warning.kind == BudgetWarning.Kind.COST else amount


def _text(warning: BudgetWarning, amount: int, currency: str) -> str:
    if warning.kind == BudgetWarning.Kind.COST:
        return f"{decimal_text(amount)} {currency}"
    return f"{amount:,} tokens"
