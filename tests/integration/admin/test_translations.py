"""The Chinese catalogue that is shipped."""

import re

import pytest
from django.conf import settings
from django.utils import translation

from tenants.models import Tenant, UsageRecord

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


@pytest.mark.parametrize("model", [Tenant, UsageRecord])
def test_every_field_has_a_chinese_name(model: type[Tenant] | type[UsageRecord]) -> None:
    shown = [field for field in model._meta.concrete_fields if field.editable and not field.primary_key]

    with translation.override("zh-hans"):
        english = [field.name for field in shown if re.fullmatch(r"[a-zA-Z ]+", str(field.verbose_name))]
    assert english == []
