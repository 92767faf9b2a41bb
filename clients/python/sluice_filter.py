"""Know which of your stored prompts surely do not exist, without asking Sluice for each.

One file, the standard library only: copy it into your program.

    known = PromptFilter("https://sluice.example/v1", api_key)
    known.refresh()                        # now, and every few minutes
    if known.may_exist(prompt_id):         # False: it surely does not exist
        ...

The filter holds your tenant's own prompts. It never denies a prompt that exists: whatever was made after the
filter, whatever it cannot read, and everything while there is no filter, "may exist". A prompt that was deleted
may go on to "exist" until the next refresh, and about one unknown id in forty does when the filter is full.
"""

import gzip
import struct
import urllib.error
import urllib.request
from hashlib import blake2b

BITS, HASHES = 2**23, 3
COMPLETE = "x-sluice-filter-complete-ms"

_HEAD = struct.Struct("<4sIB7xQQ")
_DIGITS = {digit: value for value, digit in enumerate("0123456789abcdefghjkmnpqrstvwxyz")}


class PromptFilter:
    """A filter of one tenant's stored prompts. One thread may refresh it while others ask.

    Args:
        base_url: of the API, ending in /v1.
        api_key: a key of the tenant.
        bits: size of the filter, a power of two; 2**23 is 1 MB.
        hashes: bits that each prompt sets.
        timeout_s: how long a refresh waits for the gateway.
    """

    def __init__(
        self, base_url: str, api_key: str, *, bits: int = BITS, hashes: int = HASHES, timeout_s: float = 30.0
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/filters/prompts?bits={bits}&hashes={hashes}"
        self._key, self._timeout_s = api_key, timeout_s
        self._tag = ""
        self._known: Snapshot | None = None

    def refresh(self) -> bool:
        """Get the filter, or see that it has not changed; True if it has.

        Raises:
            OSError: no answer, or an error (``urllib.error.HTTPError``); the filter stays as it was.
            ValueError: the answer is no filter.
        """
        headers = {"authorization": f"Bearer {self._key}", "accept-encoding": "gzip"}
        if self._tag:
            headers["if-none-match"] = self._tag
        request = urllib.request.Request(self._url, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                body, told = answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            if error.code != 304 or self._known is None:
                raise
            self._known = self._known.later(int(error.headers.get(COMPLETE, 0)))
            return False
        if told.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self._known = Snapshot.read(body).later(int(told.get(COMPLETE, 0)))
        self._tag = told.get("etag", "")
        return True

    def may_exist(self, prompt_id: str) -> bool:
        """False if there surely is no such prompt of yours."""
        known = self._known
        return known is None or known.may_exist(prompt_id)


class Snapshot:
    """A filter as it was at one time; never altered.

    Attributes:
        complete_ms: every prompt that was made before (ms of the epoch) and exists is in it.
        items: prompts in it.
    """

    def __init__(self, bits: bytes, size: int, hashes: int, complete_ms: int, items: int) -> None:
        self._bits, self._size, self._hashes = bits, size, hashes
        self.complete_ms, self.items = complete_ms, items

    @classmethod
    def read(cls, packed: bytes) -> "Snapshot":
        """Read the gateway's form, see docs/reference/filter-format.md.

        Raises:
            ValueError: it is something else.
        """
        if len(packed) < _HEAD.size:
            raise ValueError("not a filter")
        magic, size, hashes, complete_ms, items = _HEAD.unpack_from(packed)
        bits = packed[_HEAD.size :]
        if magic != b"SLF1" or not hashes or not size or len(bits) * 8 != size:
            raise ValueError("not a filter")
        return cls(bits, size, hashes, complete_ms, items)

    def later(self, complete_ms: int) -> "Snapshot":
        """The same, seen to be complete up to a later time."""
        return Snapshot(self._bits, self._size, self._hashes, max(complete_ms, self.complete_ms), self.items)

    def may_exist(self, prompt_id: str) -> bool:
        """False if there surely was no such prompt."""
        made_at_ms = _made_at_ms(prompt_id)
        if made_at_ms is None or made_at_ms >= self.complete_ms:
            return True
        digest = blake2b(prompt_id.encode(), digest_size=16, person=b"sluice filter 1").digest()
        first, step = struct.unpack("<QQ", digest)
        for index in range(self._hashes):
            position = (first + index * (step | 1)) % 2**64 % self._size
            if not self._bits[position >> 3] >> (position & 7) & 1:
                return False
        return True


def _made_at_ms(prompt_id: str) -> "int | None":
    """When a prompt was made: the ten digits after ``prompt_``, in Crockford's base 32."""
    digits = prompt_id[7:17]
    if not prompt_id.startswith("prompt_") or len(digits) < 10 or any(digit not in _DIGITS for digit in digits):
        return None
    value = 0
    for digit in digits:
        value = value * 32 + _DIGITS[digit]
    return value
