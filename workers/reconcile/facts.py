"""What the store must have counted, by the database and by what waits to be written to it."""

from datetime import UTC, datetime, timedelta

from domain.limits import Level
from tenants import reconcile as database
from tenants.models import Adjustment
from tenants.reconcile import Billed
from tenants.spent import Spent, adjusted_by, spent_by
from tenants.usage import UsageRow
from workers.reconcile.account import Account
from workers.reconcile.store_books import Books

_JUST_ADJUSTED = timedelta(seconds=10)
"""An adjustment is counted in the store a moment after it was written."""


class Facts:
    """What the database knows, with what waits to be written to it, of all that had ended when the store was read.

    Make and use it inside :func:`tenants.one_moment.one_moment`, after the store was read.
    """

    def __init__(self, books: Books) -> None:
        self.books = books
        unwritten = {row.request_id: row for row in (*books.set_aside, *books.waiting)}
        written = database.recorded(unwritten.keys())
        self._unwritten = [
            row for row in unwritten.values() if row.request_id not in written or written[row.request_id] >= books.at
        ]
        self._just_adjusted = set(
            Adjustment.objects.filter(made_at__gte=books.at - _JUST_ADJUSTED).values_list("tenant_id", flat=True)
        )
        self._spent: dict[tuple[Level, str], dict[int, Spent]] = {}
        self._adjusted: dict[str, dict[int, tuple[int, int]]] = {}

    def knows_all(self, account: Account) -> bool:
        """The store was there when this day or month of a tenant began, so it must know all of it."""
        born = self.books.born_ms
        return account.level is Level.TENANT and born is not None and born <= account.start.timestamp() * 1000

    def spent(self, account: Account, since_ms: int | None) -> dict[str, int] | None:
        """The figures that the store must have; None while nobody can say, because an adjustment is under way.

        Args:
            account: whose, and when.
            since_ms: the store counts from this moment on, and has not been told yet what was before; None if it has.
        """
        total = _add(self._until(account, self.books.at), self._waiting(account, since_ms))
        if since_ms is not None:
            since = datetime.fromtimestamp(since_ms // 1000, UTC).replace(microsecond=since_ms % 1000 * 1000)
            total = _add(total, self._until(account, since), -1)
        figures = dict(zip(("r", "i", "o", "c"), total, strict=True))
        if account.level is Level.TENANT and account.is_month:
            if account.owner in self._just_adjusted:
                return None
            cost_nano, tokens = self._adjustments(account) if since_ms is None else (0, 0)
            figures["c"] += cost_nano
            figures["a"] = tokens
        return figures

    def billed(self, start: datetime, end: datetime) -> dict[str, Billed]:
        """What finished in [``start``, ``end``) and before the store was read, by model."""
        found = database.billed(start, min(end, self.books.at))
        for row in self._unwritten:
            if start <= row.finished_at < end:
                one = (1, row.prompt_tokens, row.cached_tokens, row.completion_tokens)
                found[row.model] = Billed(*map(sum, zip(found.get(row.model, Billed()), one, strict=True)))
        return found

    def _until(self, account: Account, moment: datetime) -> Spent:
        # All owners of the batch at once, unless each has a moment of its own.
        if moment != self.books.at:
            return spent_by(account.level, (account.owner,), account.start, account.end, moment).get(
                account.owner, Spent()
            )
        of_period = self._spent.get((account.level, account.period))
        if of_period is None:
            owners = self._owners(account)
            of_period = spent_by(account.level, owners, account.start, account.end, moment)
            self._spent[account.level, account.period] = of_period
        return of_period.get(account.owner, Spent())

    def _owners(self, like: Account) -> set[int]:
        return {
            account.owner
            for books in self.books.tenants.values()
            for account in books.spent
            if (account.level, account.period) == (like.level, like.period)
        }

    def _waiting(self, account: Account, since_ms: int | None) -> Spent:
        total = Spent()
        for row in self._unwritten:
            owner = row.tenant_id if account.level is Level.TENANT else row.key_id
            counted = since_ms is None or row.finished_at.timestamp() * 1000 >= since_ms
            if owner == account.owner and account.start <= row.admitted_at < account.end and counted:
                total = _add(total, _spent_by_row(row))
        return total

    def _adjustments(self, account: Account) -> tuple[int, int]:
        of_month = self._adjusted.get(account.period)
        if of_month is None:
            of_month = adjusted_by(self.books.tenants.keys(), account.start.date())
            self._adjusted[account.period] = of_month
        return of_month.get(account.owner, (0, 0))


def _spent_by_row(row: UsageRow) -> Spent:
    return Spent(1, row.prompt_tokens, row.completion_tokens, row.cost_nano)


def _add(one: Spent, other: Spent, times: int = 1) -> Spent:
    return Spent(*(mine + times * its for mine, its in zip(one, other, strict=True)))
