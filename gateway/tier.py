"""Telling a client the tier that its request was served at, which its plan may have lowered."""

from domain.qos import SERVED_TIER, QosClass

_UNTOLD = b'"service_tier":null'


def tier_member(qos_class: QosClass) -> bytes:
    """The member of an answer object that tells the tier of a class."""
    return b'"service_tier":"%b"' % SERVED_TIER[qos_class].encode()


def with_tier(frame: bytes, member: bytes) -> bytes:
    """An answer object (JSON, compact, not empty) with ``member`` in it."""
    # Inside of a text the quotes would be escaped, so this can only be the member that an engine left open.
    if _UNTOLD in frame:
        return frame.replace(_UNTOLD, member, 1)
    return b"{" + member + b"," + frame[1:]
