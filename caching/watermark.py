"""The memory watermark as a Prometheus server knows it."""

import math
from typing import Any

import httpx2

TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 65_536
# The fullest of all gateways: they all evict by one K, and the operator sees one watermark. What a gateway had that
# ended is not taken for what one has now.
QUERY = (
    "max(quantile_over_time(0.95, (sluice_cache_local_bytes / sluice_cache_local_max_bytes)[5m:1s])"
    " and (sluice_cache_local_max_bytes > 0))"
)


class WatermarkUnknown(Exception):
    """Prometheus could not say; the message is why, without the address."""


class PrometheusWatermark:
    """Asks one Prometheus over its HTTP API."""

    def __init__(self, url: str) -> None:
        """Ask nothing yet.

        Args:
            url: of the server, such as ``http://127.0.0.1:9090``; a user and a password in it are used.
        """
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)

    async def read(self) -> float:
        """95th percentile of used / max of the first level over the last five minutes, 0 to 1.

        Raises:
            WatermarkUnknown: it does not answer within two seconds, or has no figures.
        """
        try:
            answer = await self._client.get(self._url, params={"query": QUERY, "timeout": f"{TIMEOUT_S:g}s"})
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise WatermarkUnknown(type(error).__name__) from error
        if answer.status_code != httpx2.codes.OK or len(answer.content) > MAX_ANSWER_BYTES:
            raise WatermarkUnknown(f"status {answer.status_code}")
        try:
            return _value(answer.json())
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise WatermarkUnknown("no figures") from error

    async def stop(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _value(answer: Any) -> float:
    share = float(answer["data"]["result"][0]["value"][1])
    if not math.isfinite(share):
        raise ValueError(share)
    return min(1.0, max(0.0, share))
