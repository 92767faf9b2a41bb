"""GET /v1/filters/prompts, and the client's own file against it."""

import gzip
import time
from collections.abc import Callable

import httpx
import pytest
from http_face import KEY, NARROW_KEY, READING_KEY, Face
from redis import Redis

from caching.filters.replica import STRADDLE_MS
from clients.python.sluice_filter import COMPLETE, PromptFilter, Snapshot
from domain.prompt_id import make_id
from gateway.filters import Filters
from gateway.runtime import runtime
from tenants.models import Plan, StoredPrompt, Tenant

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/v1/filters/prompts"
Store = Callable[..., str]


@pytest.fixture(autouse=True)
def filters(store: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    here = runtime()
    monkeypatch.setattr(here, "filters", Filters(here.ready.redis, here.database, here.config), raising=False)


@pytest.fixture
def stored() -> Store:
    """Stores prompts that were made long ago, of one of two tenants; returns the id."""
    plan = Plan.objects.create(name="gold")
    for number, slug in enumerate(("acme", "bolt"), 1):
        Tenant.objects.create(pk=number, slug=slug, name=slug, plan=plan)

    def store_one(number: int, tenant_id: int = 1) -> str:
        public_id = make_id(int(time.time() * 1000) - 2 * STRADDLE_MS, number.to_bytes(10))
        StoredPrompt.objects.create(tenant_id=tenant_id, public_id=public_id)
        return public_id

    return store_one


def test_it_has_all_of_the_callers_prompts_and_nobody_elses(client: httpx.Client, stored: Store) -> None:
    own, others = [stored(number) for number in range(50)], [stored(number, 2) for number in range(50, 100)]
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["cache-control"].startswith("private")
    assert int(answer.headers["content-length"]) < 10_000 < len(answer.content) == 32 + 2**20
    snapshot = Snapshot.read(answer.content)
    assert all(snapshot.may_exist(one) for one in own)
    assert not any(snapshot.may_exist(one) for one in others)
    assert snapshot.items == 50
    assert snapshot.complete_ms == int(answer.headers[COMPLETE]) < time.time() * 1000 - STRADDLE_MS + 60_000


def test_it_is_sent_again_only_when_it_has_changed(client: httpx.Client, stored: Store) -> None:
    first = stored(1)
    tag = client.get(PATH).headers["etag"]
    same = client.get(PATH, headers={"if-none-match": f'"other", W/{tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert int(same.headers[COMPLETE]) > 0
    stored(2)
    more = client.get(PATH, headers={"if-none-match": tag})
    StoredPrompt.objects.filter(public_id=first).delete()
    less = client.get(PATH, headers={"if-none-match": more.headers["etag"]})
    assert [more.status_code, less.status_code, len({tag, more.headers["etag"], less.headers["etag"]})] == [200, 200, 3]
    assert not Snapshot.read(less.content).may_exist(first)


def test_other_sizes_are_other_filters(client: httpx.Client, stored: Store) -> None:
    one = stored(1)
    usual, small = client.get(PATH), client.get(PATH, params={"bits": 2**10, "hashes": 8})
    assert len(small.content) == 32 + 2**7
    assert usual.headers["etag"] != small.headers["etag"]
    assert Snapshot.read(small.content).may_exist(one)


def test_who_does_not_unzip_gets_it_plain(client: httpx.Client, stored: Store) -> None:
    stored(1)
    zipped = client.get(PATH).content
    plain = client.get(PATH, headers={"accept-encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == zipped != gzip.compress(zipped)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("bits=1000", "bits"),
        ("bits=16777216", "bits"),
        ("bits=512", "bits"),
        ("bits=-1024", "bits"),
        ("bits=١٠٢٤", "bits"),
        ("hashes=0", "hashes"),
        ("hashes=17", "hashes"),
        ("hashes=x", "hashes"),
        ("hashes=3&hashes=3", "hashes"),
        ("size=3", "size"),
    ],
)
def test_sizes_beyond_the_bounds_are_refused(client: httpx.Client, query: str, field: str) -> None:
    answer = client.get(f"{PATH}?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


def test_it_needs_a_key_that_may_ask_models(base_url: str, client: httpx.Client) -> None:
    assert httpx.get(base_url + PATH).status_code == 401
    refused = client.get(PATH, headers={"authorization": f"Bearer {READING_KEY}"})
    assert (refused.status_code, refused.json()["error"]["reason"]) == (403, "scope_missing")


def test_without_the_store_there_is_none(client: httpx.Client, stored: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> int:
        raise ConnectionError

    monkeypatch.setattr(runtime().filters, "announce", away)
    assert client.get(PATH).status_code == 503


def test_the_clients_file_follows_and_never_refuses_what_exists(
    client: httpx.Client, base_url: str, stored: Store
) -> None:
    known, of_another = PromptFilter(f"{base_url}/v1", KEY), PromptFilter(f"{base_url}/v1", NARROW_KEY)
    first = stored(1)
    absent = make_id(int(time.time() * 1000) - 2 * STRADDLE_MS, (99).to_bytes(10))
    assert known.may_exist(absent), "nothing is known before the first refresh"
    assert (known.refresh(), of_another.refresh()) == (True, True)
    assert (known.may_exist(first), known.may_exist(absent), of_another.may_exist(first)) == (True, False, False)
    assert not known.refresh()
    assert (known.may_exist(first), known.may_exist(absent)) == (True, False)
    second = stored(2)
    assert known.refresh()
    assert (known.may_exist(second), known.may_exist(first)) == (True, True)
    just_made = make_id(int(time.time() * 1000), (7).to_bytes(10))
    assert known.may_exist(just_made)


def test_what_is_kept_of_one_tenant_is_dropped_with_it(client: httpx.Client, face: Face, stored: Store) -> None:
    kept = runtime().filters.for_clients
    stored(1)
    client.get(PATH, headers={"authorization": f"Bearer {NARROW_KEY}"})
    client.get(PATH)
    client.get(PATH, params={"bits": 2**10})
    face.run(kept.forget(1))
    assert [tenant_id for tenant_id, _ in kept._kept] == [2]
    assert kept._kept_bytes == sum(len(one.zipped) for one in kept._kept.values())
