"""What headers and plan say of kept answers."""

import pytest

from gateway.caching_policy import may_keep, read_wishes
from gateway.errors import ApiError
from gateway.schema import parse_chat
from gateway.schema.wishes import NO_WISHES, Wishes
from tenants.snapshot import Caching

GREEDY = b'{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":0}'
SAMPLED = b'{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":1}'


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([], NO_WISHES),
        ([("cache-control", "no-cache")], Wishes(reads=False)),
        ([("cache-control", "No-Cache , foo=bar")], Wishes(reads=False)),
        ([("cache-control", "no-store")], Wishes(reads=False, stores=False)),
        ([("cache-control", "max-age=5")], Wishes(max_age_s=5)),
        ([("cache-control", 'max-age="5"')], Wishes(max_age_s=5)),
        ([("cache-control", "max-age=-5")], Wishes(max_age_s=0)),
        ([("cache-control", "max-age")], Wishes(max_age_s=0)),
        ([("cache-control", "only-if-cached, max-age=7")], Wishes(only_kept=True, max_age_s=7)),
        ([("cache-control", "no-transform"), ("cache-control", "no-cache")], Wishes(reads=False)),
        ([("cache-control", "\xff")], NO_WISHES),
        ([("x-sluice-cache", "on")], Wishes(sampled_too=True)),
        ([("x-sluice-cache", " On ")], Wishes(sampled_too=True)),
        ([("x-sluice-cache", "refresh")], Wishes(reads=False, sampled_too=True)),
        ([("x-sluice-cache", "off")], Wishes(reads=False, stores=False)),
        (
            [("x-sluice-cache", "on"), ("cache-control", "no-store")],
            Wishes(reads=False, stores=False, sampled_too=True),
        ),
        ([("x-cache", "off"), ("pragma", "no-cache")], NO_WISHES),
    ],
)
def test_headers_are_read_as_http_means_them(headers: list[tuple[str, str]], wanted: Wishes) -> None:
    assert read_wishes([(name.encode(), value.encode("latin-1")) for name, value in headers]) == wanted


@pytest.mark.parametrize("values", [["yes"], [""], ["on", "on"], ["on,off"], ["\xff"]])
def test_a_malformed_header_is_refused(values: list[str]) -> None:
    with pytest.raises(ApiError) as caught:
        read_wishes([(b"x-sluice-cache", value.encode("latin-1")) for value in values])
    assert caught.value.status == 400
    assert "on, off and refresh" in caught.value.message


@pytest.mark.parametrize(
    ("mode", "body", "wishes", "wanted"),
    [
        ("off", GREEDY, NO_WISHES, False),
        ("off", GREEDY, Wishes(sampled_too=True), False),
        ("deterministic", GREEDY, NO_WISHES, True),
        ("deterministic", SAMPLED, NO_WISHES, False),
        ("deterministic", SAMPLED, Wishes(sampled_too=True), True),
        ("all", SAMPLED, NO_WISHES, True),
        ("all", GREEDY, Wishes(reads=False, stores=False), False),
        ("all", GREEDY, Wishes(reads=False), True),
    ],
)
def test_the_plan_decides_and_requests_widen_or_narrow(mode: str, body: bytes, wishes: Wishes, wanted: bool) -> None:
    request = parse_chat(body).request
    assert request is not None
    assert may_keep(Caching(mode), request, wishes) is wanted
