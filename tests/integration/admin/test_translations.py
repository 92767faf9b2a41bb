"""The Chinese catalogue that is shipped."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.db.models import Model, TextChoices
from django.utils import translation

from gateway_admin import batches_page, cache_page, queues_page
from gateway_admin.batches_wording import WAITS
from gateway_admin.models import Action, Kind, OperatorAction, Result, State
from tenants.models import (
    CACHE_CHOICES,
    CACHING_CHOICES,
    OUTCOME_CHOICES,
    QOS_CHOICES,
    ROLLBACK_CHOICES,
    SCOPE_CHOICES,
    SHARING_CHOICES,
    Adjustment,
    ApiKey,
    BudgetWarning,
    BulkJob,
    BulkSlice,
    HotKey,
    Plan,
    Price,
    StoredFile,
    Tenant,
    UsageRecord,
    UsageRollup,
)
from tenants.models.bulk import STATE_CHOICES, STATUS_CHOICES
from tenants.models.stored_file import PURPOSES

CHINESE = re.compile(r"[\u4e00-\u9fff]")
ENTRY = re.compile(r'^msgid "(.+)"\nmsgstr "(.+)"$', re.MULTILINE)


def entries() -> list[tuple[str, str]]:
    catalogue = settings.LOCALE_PATHS[0] / "zh_Hans" / "LC_MESSAGES" / "django.po"
    return ENTRY.findall(catalogue.read_text(encoding="utf-8"))


def test_the_compiled_catalogue_is_that_of_the_source() -> None:
    found = entries()

    assert len(found) > 150
    with translation.override("zh-hans"):
        wrong = [source for source, target in found if translation.gettext(source) != target.replace('\\"', '"')]
    assert wrong == []


@pytest.mark.parametrize(
    "model",
    [
        *(Plan, Tenant, ApiKey, Price, UsageRecord, UsageRollup, Adjustment, BudgetWarning, OperatorAction, HotKey),
        *(BulkJob, BulkSlice, StoredFile),
    ],
)
def test_every_field_has_a_chinese_name(model: type[Model]) -> None:
    shown = [field for field in model._meta.concrete_fields if field.editable and not field.primary_key]

    with translation.override("zh-hans"):
        english = [field.name for field in shown if not CHINESE.search(str(field.verbose_name))]
    assert english == []


@pytest.mark.parametrize(
    "choices",
    [
        Kind,
        State,
        Action,
        Result,
        HotKey.Kind,
        HotKey.State,
        BudgetWarning.Kind,
        BudgetWarning.Bound,
        UsageRollup.Period,
    ],
)
def test_every_choice_has_a_chinese_name(choices: type[TextChoices]) -> None:
    with translation.override("zh-hans"):
        assert [label for label in choices.labels if not CHINESE.search(str(label))] == []


@pytest.mark.parametrize(
    "choices",
    [
        *(
            QOS_CHOICES,
            OUTCOME_CHOICES,
            ROLLBACK_CHOICES,
            SCOPE_CHOICES,
            SHARING_CHOICES,
            CACHE_CHOICES,
            CACHING_CHOICES,
        ),
        *(STATUS_CHOICES, STATE_CHOICES, PURPOSES, list(WAITS.items())),
    ],
)
def test_every_value_of_a_column_has_a_chinese_name(choices: list[tuple[str, str]]) -> None:
    with translation.override("zh-hans"):
        assert [label for _value, label in choices if not CHINESE.search(str(label))] == []


@pytest.mark.parametrize("page", [queues_page, cache_page, batches_page])
def test_the_words_of_the_live_pages_are_chinese(page: Any) -> None:
    with translation.override("zh-hans"):
        words = page.page_words()
        words.pop("choices", None)  # most policies are called by the names of their papers
        texts = [text for entry in words.values() for text in (entry.values() if isinstance(entry, dict) else [entry])]
        assert [text for text in texts if not CHINESE.search(str(text))] == []
