"""Telling a client the tier that its request was served at, which its plan may have lowered."""

from domain.qos import SERVED_TIER, QosClass


def tier_member(qos_class: QosClass) -> bytes:
    """The member of an answer object that tells the tier of a class."""
    return b'"service_tier":"%b"' % SERVED_TIER[qos_class].encode()


def with_tier(frame: bytes, member: bytes) -> bytes:
    """An engine's answer object (JSON, not empty, without that member) with ``member`` in it."""
    return b"{" + member + b"," + frame[1:]
