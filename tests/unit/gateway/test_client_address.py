"""From where a client calls, and what it can make us believe of it."""

from ipaddress import ip_address

import pytest

from gateway.client_address import client_address, parse_networks, within

PROXIES = parse_networks(("10.0.0.0/8", "2001:db8:ffff::/48"))


def seen(peer: str | None, *forwarded: str, trusted: bool = True) -> str | None:
    scope = {
        "client": None if peer is None else (peer, 1234),
        "headers": [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded],
    }
    found = client_address(scope, PROXIES if trusted else ())
    return None if found is None else str(found)


@pytest.mark.parametrize("forwarded", [(), ("203.0.113.9",), ("127.0.0.1", "127.0.0.1"), ("\xff",), ("",)])
def test_the_peer_is_the_client_whatever_a_header_says(forwarded: tuple[str, ...]) -> None:
    assert seen("198.51.100.7", *forwarded) == "198.51.100.7"
    assert seen("10.0.0.1", *forwarded, trusted=False) == "10.0.0.1"


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (("203.0.113.9",), "203.0.113.9"),
        (("127.0.0.1, 203.0.113.9",), "203.0.113.9"),
        (("127.0.0.1, 203.0.113.9, 10.1.2.3",), "203.0.113.9"),
        (("127.0.0.1", "203.0.113.9, 10.1.2.3", "10.3.2.1"), "203.0.113.9"),
        (("203.0.113.9:51234",), "203.0.113.9"),
        (("[2001:db8::9]:443",), "2001:db8::9"),
        (("2001:db8::9, 2001:db8:ffff::1",), "2001:db8::9"),
        (("::ffff:203.0.113.9",), "203.0.113.9"),
        (("10.9.9.9, 10.1.2.3",), "10.9.9.9"),
        ((), "10.0.0.1"),
    ],
)
def test_a_trusted_proxy_tells_who_called_it(forwarded: tuple[str, ...], client: str) -> None:
    assert seen("10.0.0.1", *forwarded) == client


@pytest.mark.parametrize(
    "forwarded", ["", "unknown", "203.0.113.9,", "203.0.113.9, \xff", "_hidden", "1.2.3", "a" * 9999]
)
def test_what_a_trusted_proxy_says_unclearly_is_nobody(forwarded: str) -> None:
    assert seen("10.0.0.1", forwarded) is None


@pytest.mark.parametrize("peer", [None, "", "/run/sluice.sock"])
def test_a_unix_socket_has_no_address(peer: str | None) -> None:
    assert seen(peer, "203.0.113.9") is None


def test_ipv4_that_comes_as_ipv6_is_ipv4() -> None:
    assert seen("::ffff:198.51.100.7") == "198.51.100.7"
    assert seen("::ffff:10.0.0.1", "203.0.113.9") == "203.0.113.9"
    assert seen("fe80::1%eth0") == "fe80::1"


def test_an_entry_that_is_no_network_allows_nobody() -> None:
    networks = parse_networks(("everywhere", "", "203.0.113.9/24", " 2001:db8::1 "))
    assert [str(network) for network in networks] == ["203.0.113.0/24", "2001:db8::1/128"]
    assert within(ip_address("203.0.113.77"), networks)
    assert not within(ip_address("203.0.114.1"), networks)
    assert not within(ip_address("2001:db8::2"), networks)
