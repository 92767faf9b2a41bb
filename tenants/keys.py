"""API keys: ``sk-sluice-<prefix>-<secret>``; only the prefix and a digest are ever stored."""

import hashlib
import secrets
import string
from dataclasses import dataclass, field

LEAD = "sk-sluice-"
PREFIX_LENGTH = 8
SECRET_LENGTH = 40

_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key at the one moment when its text is known; the text stays out of ``repr`` and so out of logs."""

    plaintext: str = field(repr=False)
    prefix: str
    digest: str


def make_key() -> NewKey:
    """Draw a new key: 238 bits of secret, so a plain digest cannot be searched."""
    return describe_key(f"{LEAD}{_draw(PREFIX_LENGTH)}-{_draw(SECRET_LENGTH)}")


def describe_key(plaintext: str) -> NewKey:
    """Take a given key apart.

    Raises:
        ValueError: it does not have the form of a key.
    """
    prefix, _, secret = plaintext.removeprefix(LEAD).partition("-")
    well_formed = plaintext.startswith(LEAD) and len(prefix) == PREFIX_LENGTH and len(secret) == SECRET_LENGTH
    if not (well_formed and set(prefix + secret) <= set(_ALPHABET)):
        raise ValueError(f"A key is {LEAD}, {PREFIX_LENGTH} characters, a dash and {SECRET_LENGTH} characters.")
    return NewKey(plaintext, prefix, key_digest(plaintext).hex())


def key_digest(api_key: str) -> bytes:
    """Return the 32 bytes under which a key is looked up."""
    return hashlib.sha256(api_key.encode("utf-8", "surrogatepass")).digest()


def _draw(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
