"""What all serializers share: no unknown fields, finite numbers, exact money, months."""

import math
from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

from django.db.models import Model
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from domain.money import decimal_text

_Row = TypeVar("_Row", bound=Model)

_NANO_DIGITS = 9


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that do not exist: a limit whose name is misspelt would not hold.

    Fields that are read only may be sent back unchanged or not; they are passed over.
    """

    def to_internal_value(self, data: Any) -> Any:
        """Look for unknown names first."""
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                raise serializers.ValidationError({name: ["There is no such field."] for name in unknown})
        return super().to_internal_value(data)


class StrictModelSerializer(StrictSerializer, serializers.ModelSerializer[_Row]):
    """The same for a model."""

    def build_standard_field(self, field_name: str, model_field: Any) -> tuple[type, dict[str, Any]]:
        """Take the number field that refuses "nan"."""
        field_class, kwargs = super().build_standard_field(field_name, model_field)
        return (FiniteFloatField if field_class is serializers.FloatField else field_class), kwargs


class FiniteFloatField(serializers.FloatField):
    """A number, and neither infinite nor "nan", which would pass every bound."""

    def to_internal_value(self, data: Any) -> float:
        """Read it."""
        number = super().to_internal_value(data)
        if not math.isfinite(number):
            self.fail("invalid")
        return number


@extend_schema_field({"type": "string", "format": "decimal", "examples": ["12.50"]})
class NanoField(serializers.Field[int, Any, str, Any]):
    """Billionths in the program, an exact decimal outside."""

    default_error_messages = {"invalid": "A number with at most nine decimals is needed, up to nine digits before."}

    def to_internal_value(self, data: Any) -> int:
        """Read a decimal of at most nine digits before and after the point."""
        number = serializers.DecimalField(max_digits=18, decimal_places=_NANO_DIGITS).run_validation(data)
        return int(number.scaleb(_NANO_DIGITS))

    def to_representation(self, value: int) -> str:
        """Write it exactly."""
        return decimal_text(value)


@extend_schema_field({"type": "string", "pattern": r"^[0-9]{4}-(0[1-9]|1[0-2])$", "examples": ["2026-11"]})
class MonthField(serializers.Field[date, Any, str, Any]):
    """A month in UTC, ``2026-11``; in the program its first day."""

    default_error_messages = {"invalid": "A month is written like 2026-11."}

    def to_internal_value(self, data: Any) -> date:
        """Read it."""
        month = parse_month(data)
        if month is None:
            self.fail("invalid")
        return month

    def to_representation(self, value: date) -> str:
        """Write it."""
        return f"{value:%Y-%m}"


def parse_month(text: Any) -> date | None:
    """Read ``2026-11`` as the first day of that month; None if it is not one from 2000 to 2999."""
    if not (isinstance(text, str) and len(text) == 7 and text.isascii() and text[0] == "2" and text[4] == "-"):
        return None
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        return None
