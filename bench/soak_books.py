"""The books that the soak compares with those of its clients: usage rows, and the simulators' journal."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.stack import Stack

ROW_COLUMNS = (
    "request_id, (SELECT slug FROM tenants_tenant WHERE tenants_tenant.id = tenant_id), tenant_id, outcome, status, "
    "prompt_tokens, cached_tokens, completion_tokens, cost_nano, retry_attempt, admitted_at, price_id"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One usage row."""

    request_id: str
    tenant: str
    tenant_id: int
    outcome: str
    status: int
    prompt: int
    cached: int
    completion: int
    cost_nano: int
    retries: int
    admitted_at: str
    price_id: int | None

    @property
    def mark(self) -> str:
        """The digits that its attempt's trace id begins with."""
        return self.request_id.replace("-", "")[:12]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the simulators' journal: an attempt that ended, with the scheduler's own counts."""

    request_id: str
    how: str
    prompt: int
    cached: int
    completion: int
    generated: int

    @property
    def counts(self) -> tuple[int, int, int]:
        """What a row should say."""
        return self.prompt, self.cached, self.completion


def read_rows(stack: Stack, tenants: Iterable[str]) -> list[Row]:
    """The usage rows of these tenants."""
    wanted = set(tenants)
    return [row for row in (Row(*one) for one in stack.usage_rows(ROW_COLUMNS)) if row.tenant in wanted]


def read_journal(path: Path) -> list[Line]:
    """The attempts that ended, in that order."""
    return [Line(**json.loads(line)) for line in path.read_text().splitlines()]
