"""From where a client calls: the other end of the connection, or what a trusted proxy says of it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from gateway.connection import Headers

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_FORWARDED_FOR = b"x-forwarded-for"
_CACHED_LISTS = 4096


def client_address(scope: Mapping[str, Any], trusted: Sequence[Network]) -> Address | None:
    """Return from where the request of an ASGI ``scope`` comes; None if that cannot be said, as behind a Unix socket.

    ``X-Forwarded-For`` counts only if the peer is trusted, and only as far as trusted proxies wrote it: each appends
    whom it was called by, so the right-most entry that is no trusted proxy is the client. What stands left of it is
    the client's own word.
    """
    peer = scope.get("client")
    address = _parse(peer[0]) if peer else None
    if address is None or not within(address, trusted):
        return address
    for entry in reversed(_forwarded(scope["headers"])):
        address = _parse(entry)
        if address is None or not within(address, trusted):
            return address
    return address


def within(address: Address, networks: Iterable[Network]) -> bool:
    """Whether the address lies in one of the networks."""
    return any(address in network for network in networks)


@lru_cache(_CACHED_LISTS)
def parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Read addresses and networks such as ``203.0.113.0/24``; a text that is neither allows nobody."""
    return tuple(network for text in texts if (network := _network(text)) is not None)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def _forwarded(headers: Headers) -> list[str]:
    """All entries in the order in which they were appended; a repeated header goes on with the list."""
    values = [value.decode("latin-1") for name, value in headers if name == _FORWARDED_FOR]
    return ",".join(values).split(",") if values else []


def _parse(text: str) -> Address | None:
    """Read an address, also as ``address:port`` or ``[address]:port``; IPv4 written as IPv6 is IPv4."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
