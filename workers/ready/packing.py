"""What the scripts take packed with msgpack. Limits and prices repeat, so they are packed once."""

from collections.abc import Sequence
from functools import lru_cache

import msgpack

from domain.limits import KINDS, Limit
from domain.price import PriceRow


@lru_cache(4096)
def pack_limits(limits: tuple[Limit, ...]) -> bytes:
    """``[[level, code, cap], ...]`` with the codes of ``domain.limits.KINDS``."""
    return _pack([[limit.level.value, KINDS[limit.name].code, limit.cap] for limit in limits])


@lru_cache(1024)
def pack_prices(rows: tuple[PriceRow, ...]) -> bytes:
    """``[[beginning of the version, id, input, cached, output], ...]``, billionths for one token, in the same order."""
    return _pack([[row.model_version, row.price_id, row.input_nano, row.cached_nano, row.output_nano] for row in rows])


def pack_texts(parts: Sequence[str | bytes | float]) -> bytes:
    """One list of texts; numbers as texts too, as the store keeps them."""
    texts = [part if isinstance(part, str | bytes) else str(part) for part in parts]
    packed: bytes = msgpack.packb(texts, use_bin_type=False)
    return packed


def _pack(rows: Sequence[Sequence[object]]) -> bytes:
    packed: bytes = msgpack.packb(rows)
    return packed
