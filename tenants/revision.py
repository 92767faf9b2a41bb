"""The counter that tells every gateway process that plans, tenants or keys have changed.

Each changed row carries the number of the change that wrote it, so that a reader fetches only what is new. Writers
meet on the counter's one row and hold it until they commit: numbers become visible in order, and none is skipped.
"""

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import F
from django.db.models.signals import post_delete, post_save

_ROW = 1


class SnapshotRevision(models.Model):
    """One row: how far the changes of plans, tenants and keys have come."""

    number = models.BigIntegerField(default=0)
    reload_all_at = models.BigIntegerField(default=0)
    """The last change that no row carries (a deletion): readers older than it load everything again."""

    class Meta:
        """How the admin calls it."""

        verbose_name = "snapshot revision"


def next_revision(using: str, reload_all: bool = False) -> int:
    """Count one change inside the caller's transaction and return its number.

    Args:
        using: alias of the database.
        reload_all: the change cannot be found by looking at rows, because something was deleted.
    """
    rows = SnapshotRevision.objects.using(using)
    changes: dict[str, Any] = {"number": F("number") + 1}
    if reload_all:
        changes["reload_all_at"] = F("number") + 1
    if not rows.filter(pk=_ROW).update(**changes):
        rows.get_or_create(pk=_ROW)
        rows.filter(pk=_ROW).update(**changes)
    return rows.values_list("number", flat=True).get(pk=_ROW)


class RevisedModel(models.Model):
    """A row of the snapshot: every way of writing it counts a change in the same transaction."""

    revision = models.BigIntegerField(default=0, editable=False, db_index=True)

    class Meta:
        """No table of its own."""

        abstract = True

    def save(
        self,
        *,
        force_insert: bool | tuple[models.base.ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Write the row and count the change, both or neither."""
        alias = using or self._state.db or "default"
        with transaction.atomic(using=alias):
            self.revision = next_revision(alias)
            super().save(
                force_insert=force_insert,
                force_update=force_update,
                using=alias,
                update_fields=None if update_fields is None else {*update_fields, "revision"},
            )


_Row = TypeVar("_Row", bound=RevisedModel)


class RevisedQuerySet(models.QuerySet[_Row]):
    """Bulk writes that count a change too; without this they would go unseen by the gateways."""

    def update(self, **kwargs: Any) -> int:
        """Update the rows and count one change for all of them."""
        with transaction.atomic(using=self.db):
            return super().update(**kwargs, revision=next_revision(self.db))

    def bulk_create(self, objs: Iterable[_Row], *args: Any, **kwargs: Any) -> list[_Row]:
        """Insert the rows and count one change for all of them."""
        rows = list(objs)
        with transaction.atomic(using=self.db):
            number = next_revision(self.db)
            for row in rows:
                row.revision = number
            return super().bulk_create(rows, *args, **kwargs)


RevisedManager = models.Manager.from_queryset(RevisedQuerySet)


def connect(models_watched: Collection[type[RevisedModel]]) -> None:
    """Watch deletions, cascades included, and fixtures, which bypass ``save``."""
    for model in models_watched:
        post_delete.connect(_on_delete, sender=model, dispatch_uid=f"revision-delete-{model.__name__}")
        post_save.connect(_on_save, sender=model, dispatch_uid=f"revision-save-{model.__name__}")


def _on_delete(using: str, **kwargs: Any) -> None:
    next_revision(using, reload_all=True)


def _on_save(using: str, raw: bool, **kwargs: Any) -> None:
    if raw:
        next_revision(using, reload_all=True)
