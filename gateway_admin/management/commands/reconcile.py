"""Prove that what was counted in several places is the same: ``manage.py reconcile``."""

import json
from argparse import ArgumentTypeError
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from redis import Redis
from redis.exceptions import RedisError

from gateway_admin.supervisor.store import store_url
from tenants.models import Tenant
from workers.reconcile.difference import Report
from workers.reconcile.lock import Busy
from workers.reconcile.reconciliation import reconcile
from workers.reconcile.store_books import Behind

_DIFFERS, _COULD_NOT_RUN = 1, 2
_TIMEOUT_S = 10
_COLUMNS = ("what", "who", "where", "figure", "expected", "found", "repaired")


class Command(BaseCommand):
    """Compares usage rows, their sums, what the store has counted, and what endings told, on a live system."""

    help = (
        "Compare usage rows with their sums by hour and day, with what the store has counted against limits, and with "
        "what was told when requests ended. Exit status: 0 nothing differs, or all was repaired; 1 something differs; "
        "2 it could not run."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", type=_day, metavar="DAY", help="first day to compare, YYYY-MM-DD (this month's)")
        parser.add_argument("--tenant", metavar="NAME", help="one tenant alone, by its short name")
        parser.add_argument("--repair", action="store_true", help="put right the sums and the store; rows never change")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for another one to end (60)")

    def handle(self, *args: Any, **given: Any) -> None:
        since = given["since"] or datetime.now(UTC).replace(day=1)
        try:
            with Redis.from_url(_store_url(), socket_timeout=_TIMEOUT_S) as store:
                report = reconcile(
                    store, since, repair=given["repair"], tenant_ids=_chosen(given["tenant"]), wait_s=given["wait"]
                )
        except (Busy, Behind) as error:
            raise CommandError(str(error), returncode=_COULD_NOT_RUN) from error
        except (RedisError, DatabaseError, OSError) as error:
            text = f"The store or the database does not answer: {type(error).__name__}. Is the instance running?"
            raise CommandError(text, returncode=_COULD_NOT_RUN) from error
        self.stdout.write(_as_json(report) if given["json"] else _as_text(report))
        if report.open:
            raise SystemExit(_DIFFERS)


def _store_url() -> str:
    try:
        return store_url(settings.SLUICE)
    except (OSError, ValueError, KeyError) as error:
        text = "Nothing runs on this data directory. Set SLUICE_DATA_DIR to the instance's, or SLUICE_REDIS_URL."
        raise CommandError(text, returncode=_COULD_NOT_RUN) from error


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ArgumentTypeError("must be a day such as 2026-11-30") from None


def _chosen(slug: str | None) -> list[int] | None:
    if slug is None:
        return None
    tenant_id = Tenant.objects.filter(slug=slug).values_list("pk", flat=True).first()
    if tenant_id is None:
        raise CommandError(f"There is no tenant {slug}.", returncode=_COULD_NOT_RUN)
    return [tenant_id]


def _as_json(report: Report) -> str:
    return json.dumps(
        {
            "tenants": report.tenants,
            "waiting": report.waiting,
            "differences": [asdict(one) for one in report.differences],
            "notes": report.notes,
        },
        indent=1,
    )


def _as_text(report: Report) -> str:
    rows = [
        (*map(str, (one.check.value, one.who, one.where, one.what, one.expected, one.found)), _yes(one.repaired))
        for one in report.differences
    ]
    lines = _table([_COLUMNS, *rows]) if rows else []
    lines += [f"Note: {note}" for note in report.notes]
    waiting = f"; {report.waiting} settlements wait for their rows" if report.waiting else ""
    repaired = len(report.differences) - len(report.open)
    lines.append(f"{report.tenants} tenants: {len(report.open)} figures differ, {repaired} repaired{waiting}.")
    return "\n".join(lines)


def _yes(repaired: bool) -> str:
    return "yes" if repaired else "no"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
