"""Pages of very long lists."""

from typing import TYPE_CHECKING, Any

from django.core.paginator import Page, Paginator
from unfold.paginator import InfinitePaginator

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
    _Page = Page[Any]
else:
    _Paginator, _Page = Paginator, Page  # generic for the type checker only


class IdsFirst(_Paginator):
    """Finds the ids of a page first and reads their rows alone.

    The rows before a page are passed by an index, while a database would read them whole, with all that is looked up
    along for each. A first page that is not full tells how many rows there are: nothing is counted for it.
    """

    def page(self, number: int | str) -> _Page:
        """The rows of a page, in order.

        Raises:
            django.core.paginator.InvalidPage: there is no such page.
        """
        ids = self._ids(1) if str(number) == "1" else None
        if ids is not None and len(ids) < self.per_page:
            self.__dict__["count"] = len(ids)  # where the cached property keeps what it counted
        number = self.validate_number(number)
        if ids is None:
            ids = self._ids(number)
        rows = {row.pk: row for row in self._rows().filter(pk__in=ids)}
        # One that was deleted between the two is left out.
        found = [rows[pk] for pk in ids if pk in rows]
        return self._get_page(found, number, self)  # type: ignore[attr-defined,no-any-return]  # not in the stubs

    def _ids(self, number: int) -> list[Any]:
        start = (number - 1) * self.per_page
        return list(self._rows().values_list("pk", flat=True)[start : start + self.per_page])

    def _rows(self) -> Any:
        return self.object_list


class Endless(IdsFirst, InfinitePaginator):
    """The same for the operators' pages, which do not say how many rows there are."""
