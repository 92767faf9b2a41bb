"""One reconciliation at a time."""

import secrets
import time

from redis import Redis

LOCK, LOCK_MS = "sl:reconcile", 120_000
_PAUSE_S = 0.1


class Busy(Exception):
    """Another reconciliation is under way."""


class Lock:
    """Held while it is renewed; whoever dies with it leaves it for two minutes at most.

    Args:
        store: the store of the ready sets.
        wait_s: how long to wait for another one's end.

    Raises:
        Busy: another one is under way; on ``renew``, it was lost because two minutes passed in between.
    """

    def __init__(self, store: Redis, wait_s: float) -> None:
        self._store, self._wait_s = store, wait_s
        self._token = secrets.token_hex(8).encode()

    def __enter__(self) -> "Lock":
        end = time.monotonic() + self._wait_s
        while not self._store.set(LOCK, self._token, nx=True, px=LOCK_MS):
            if time.monotonic() >= end:
                raise Busy("Another reconciliation is under way. Wait until it has ended.")
            time.sleep(_PAUSE_S)
        return self

    def renew(self) -> None:
        """Hold it for two more minutes."""
        if self._store.get(LOCK) != self._token:
            raise Busy("Another reconciliation began, because this one took too long. Run it again.")
        self._store.pexpire(LOCK, LOCK_MS)

    def __exit__(self, *_: object) -> None:
        if self._store.get(LOCK) == self._token:
            self._store.delete(LOCK)
