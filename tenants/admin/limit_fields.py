"""How the limits of plans and keys are laid out on their pages."""

from typing import Any

from django.utils.translation import gettext_lazy as _

Fieldset = tuple[Any, dict[str, Any]]


def limit_fieldsets(told: Any = "", *, soft: bool = False) -> list[Fieldset]:
    """One fieldset for each span; ``told`` stands over the first.

    Args:
        soft: with the warning lines of a month, which only plans have.
    """
    tokens = (("tokens_per_month_soft", "tokens_per_month"),) if soft else ("tokens_per_month",)
    cost = (("cost_per_month_soft", "cost_per_month"),) if soft else ("cost_per_month",)
    return [
        (
            _("Limits per minute"),
            {
                "description": told,
                "fields": (
                    ("requests_per_minute", "tokens_per_minute"),
                    ("input_tokens_per_minute", "output_tokens_per_minute"),
                ),
            },
        ),
        (
            _("Limits per day (UTC)"),
            {"fields": ("requests_per_day", ("input_tokens_per_day", "output_tokens_per_day"))},
        ),
        (_("Budget per month (UTC)"), {"fields": (*cost, *tokens)}),
        (_("Limit at once"), {"fields": ("max_concurrent",)}),
    ]
