"""One entry of the settlement stream, as ``close_item`` in ``lib.lua`` writes it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from tenants.usage import UsageRow


def usage_row(fields: Mapping[bytes, bytes]) -> UsageRow:
    """Read one entry.

    Raises:
        KeyError, ValueError: it is not one.
    """

    def text(name: bytes) -> str:
        return fields[name].decode()

    def moment(name: bytes) -> datetime | None:
        return _moment(fields[name]) if fields[name] else None

    return UsageRow(
        request_id=text(b"rid"),
        tenant_id=int(fields[b"tenant_id"]),
        key_id=int(fields[b"key_id"]),
        model=text(b"model"),
        model_version=text(b"version"),
        qos_class=text(b"class"),
        endpoint=text(b"endpoint"),
        stream=fields[b"stream"] == b"1",
        outcome=text(b"outcome"),
        status=int(fields[b"status"]),
        error_code=text(b"code"),
        prompt_tokens=int(fields[b"prompt"]),
        cached_tokens=int(fields[b"cached"]),
        completion_tokens=int(fields[b"completion"]),
        cost_nano=int(fields.get(b"cost") or 0),
        price_id=int(fields.get(b"price") or 0) or None,
        retry_attempt=int(fields[b"attempt"]),
        rollback_cause=text(b"cause"),
        batch_id=text(b"batch"),
        worker_id=text(b"worker"),
        gateway_id=text(b"gateway"),
        admitted_at=_moment(fields[b"t_admit"]),
        claimed_at=moment(b"t_claim"),
        first_token_at=moment(b"t_first"),
        finished_at=_moment(fields[b"t_end"]),
        cache=fields.get(b"cache", b"").decode(),
    )


def _moment(milliseconds: bytes) -> datetime:
    seconds, rest = divmod(int(milliseconds), 1000)  # not / 1000: a float's last bit would make another microsecond
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
