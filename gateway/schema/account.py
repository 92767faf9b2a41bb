"""The shapes of what a tenant is told of itself: its limits and its usage."""

from typing import Literal

import msgspec


class LimitNow(msgspec.Struct):
    """One limit as it stands.

    ``limit``, ``used``, ``held`` and ``remaining`` are whole numbers; those of cost are decimal numbers as text.
    ``held`` is set aside for requests that wait or run; in a minute it is part of ``used``. ``resets_at`` (seconds of
    the epoch) is when all of it is there again; null for ``max_concurrent``, which comes back as requests end.
    ``known`` is false while it may be more than the gateway has counted. ``in_force``: of tenant and key this one ends
    first.
    """

    name: str
    level: Literal["tenant", "key"]
    counts: Literal["requests", "input_tokens", "output_tokens", "tokens", "cost"]
    per: Literal["minute", "day", "month", "at_once"]
    limit: int | str
    used: int | str
    held: int | str
    remaining: int | str
    resets_at: int | None
    known: bool
    in_force: bool


class QueueNow(msgspec.Struct, rename={"qos_class": "class"}):
    """One queue that the caller's requests may wait in.

    ``waiting`` counts everybody's requests; the waits (ms) are those of the last ``sample`` requests that an engine
    took, null while there are none.
    """

    model: str
    qos_class: str
    service_tier: str
    waiting: int
    sample: int
    median_wait_ms: int | None
    p95_wait_ms: int | None


class LimitsReport(msgspec.Struct):
    """What the caller may take, and how far it is used.

    ``models`` are those it may use, ``best_class`` the most urgent class; ``at`` is now, in seconds of the epoch.
    """

    object: Literal["limits"]
    at: int
    tenant: str
    plan: str
    key: str
    scopes: list[str]
    best_class: str
    service_tiers: list[str]
    models: list[str]
    currency: str
    limits: list[LimitNow]
    queues: list[QueueNow]


class KeyShown(msgspec.Struct):
    """A key as people know it; name and prefix are empty for one that was deleted."""

    id: int
    name: str
    prefix: str


class UsageBucket(msgspec.Struct, omit_defaults=True, rename={"qos_class": "class"}):
    """What requests that were admitted in one bucket used. ``cached_tokens`` are part of ``prompt_tokens``.

    ``starts_at`` is in seconds of the epoch. ``cost`` is a decimal number as text, in the report's ``currency``.
    """

    starts_at: int
    requests: int
    completed: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: str
    model: str | None = None
    key: KeyShown | None = None
    qos_class: str | None = None


class UsageTotals(msgspec.Struct):
    """All buckets together."""

    requests: int
    completed: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: str


class TokenBudget(msgspec.Struct):
    """Tokens of the month: warned from ``soft`` on, refused from ``hard`` on; null for no bound."""

    soft: int | None
    hard: int | None
    spent: int
    remaining: int | None


class CostBudget(msgspec.Struct):
    """Cost of the month, decimal numbers as text; otherwise like the tokens."""

    soft: str | None
    hard: str | None
    spent: str
    remaining: str | None


class MonthReport(msgspec.Struct):
    """The budgets of the month under way, corrections by hand included; times in seconds of the epoch."""

    starts_at: int
    resets_at: int
    tokens: TokenBudget
    cost: CostBudget


class UsageReport(msgspec.Struct):
    """What the caller's tenant used from ``start`` to before ``end``; buckets in which nothing was are left out."""

    object: Literal["usage"]
    start: int
    end: int
    bucket: Literal["hour", "day", "month"]
    group_by: list[str]
    currency: str
    data: list[UsageBucket]
    totals: UsageTotals
    budget: MonthReport
