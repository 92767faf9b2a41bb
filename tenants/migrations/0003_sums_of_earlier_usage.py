"""Sums of what was recorded before sums were kept, and an index to find a key's."""

from typing import Any

from django.db import migrations, models
from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncDay, TruncHour

_FAILED = ["failed", "timeout", "expired", "gateway_lost"]
_GROUP = ("tenant_id", "key_id", "model", "qos_class")
_BATCH = 1_000


def sum_up_earlier_usage(apps: Any, schema_editor: Any) -> None:
    """Make the sums of all rows, by hour and by day."""
    database = schema_editor.connection.alias
    record, rollup = apps.get_model("tenants", "UsageRecord"), apps.get_model("tenants", "UsageRollup")
    if rollup.objects.using(database).exists():
        return  # whoever wrote them wrote them with their rows
    for period, trunc in (("h", TruncHour), ("d", TruncDay)):
        sums = (
            record.objects.using(database)
            .order_by()
            .values(*_GROUP, starts_at=trunc("admitted_at"))
            .annotate(
                requests=Count("id"),
                completed=Count("id", filter=Q(outcome="completed")),
                failed=Count("id", filter=Q(outcome__in=_FAILED)),
                prompt_tokens=Sum("prompt_tokens"),
                cached_tokens=Sum("cached_tokens"),
                completion_tokens=Sum("completion_tokens"),
                cost_nano=Sum("cost_nano"),
            )
        )
        rollup.objects.using(database).bulk_create((rollup(period=period, **one) for one in sums), batch_size=_BATCH)


class Migration(migrations.Migration):

    dependencies = [("tenants", "0002_billing")]

    operations = [
        migrations.AddIndex(
            model_name="usagerollup",
            index=models.Index(fields=["key", "period", "starts_at"], name="rollup_key_period_starts"),
        ),
        migrations.RunPython(sum_up_earlier_usage, migrations.RunPython.noop),
    ]
