"""The whole product on Postgres instead of SQLite."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import psycopg
import pytest

from tests import stack
from tests.acceptance import batches
from tests.integration.tenants.alert_sinks import WebSink, web_sink
from tools.postgres import PostgresMissing, cluster, is_required

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    try:
        with cluster() as url:
            yield url
    except PostgresMissing as error:
        (pytest.fail if is_required() else pytest.skip)(str(error))


@pytest.fixture(scope="module")
def web() -> Iterator[WebSink]:
    with web_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, database_url: str, web: WebSink) -> Iterator[stack.Stack]:
    data_dir: Path = tmp_path_factory.mktemp("postgres") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--no-flower", "--bulk", "2")
    environ = {"SLUICE_DATABASE_URL": database_url, "SLUICE_ALERT_WEBHOOK": web.url}
    with stack.start(data_dir, *options, environ=environ) as running:
        yield running


def test_a_request_becomes_one_row(product: stack.Stack, database_url: str) -> None:
    with product.client() as client:
        model = client.models.list().data[0].id
        asked = client.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": "What is the capital of France?"}], max_tokens=5
        )
    usage = asked.parse().usage
    assert usage is not None

    def rows() -> list[tuple[str, str, int, int]]:
        with psycopg.connect(database_url) as database:
            return database.execute(
                "SELECT tenants_tenant.slug, outcome, prompt_tokens, completion_tokens FROM tenants_usagerecord "
                "JOIN tenants_tenant ON tenants_tenant.id = tenant_id WHERE request_id = %s",
                [asked.headers["x-request-id"]],
            ).fetchall()

    assert stack.wait_until(rows, 20) == [("demo", "completed", usage.prompt_tokens, usage.completion_tokens)]
    assert not list(product.data_dir.glob("*.sqlite3*"))


def test_the_operators_pages_show_it(product: stack.Stack) -> None:
    admin = str(product.ready["admin_url"])
    with httpx.Client(base_url=admin, timeout=60, follow_redirects=True) as operator:
        form = operator.get("login/")
        answer = operator.post(
            "login/",
            data={
                "username": str(product.ready["admin_user"]),
                "password": str(product.ready["admin_password"]),
                "csrfmiddlewaretoken": next(value for name, value in form.cookies.items() if "csrf" in name),
                "next": "/admin/tenants/usagerecord/",
            },
        )
        assert answer.status_code == 200
        assert answer.url.path == "/admin/tenants/usagerecord/"
        assert "demo" in answer.text
        for page in ("", "queues/", "tenants/tenant/?q=demo", "tenants/apikey/", "tenants/plan/"):
            assert operator.get(page).status_code == 200, page


def test_a_key_that_is_made_while_it_runs_is_let_in(
    product: stack.Stack, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_DATABASE_URL", database_url)

    key = product.add_tenants({"acme": {"max_concurrent": 4}})["acme"]

    headers = {"authorization": f"Bearer {key}"}
    assert httpx.get(f"{product.base_url}/models", headers=headers, timeout=20).status_code == 200


def test_a_budget_that_ends_is_told_and_refuses(
    product: stack.Stack, database_url: str, web: WebSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_DATABASE_URL", database_url)

    def ask(client: openai.OpenAI) -> int:
        model = client.models.list().data[0].id
        answer = client.completions.create(
            model=model, prompt="One, two, three", max_tokens=8, extra_body={"ignore_eos": True}
        )
        assert answer.usage is not None
        return answer.usage.total_tokens

    with product.client() as client:
        tokens = ask(client)
    plan = {"tokens_per_month": 2 * tokens, "tokens_per_month_soft": tokens}
    key = product.add_tenants({"spender": plan})["spender"]

    def told() -> set[str]:
        heard = [json.loads(body) for _, _, body in web.heard]
        return {one["event"] for one in heard if one["tenant"] == "spender"}

    with product.client(api_key=key) as client:
        ask(client)
        stack.wait_until(lambda: told() == {"budget.warning"}, 20)
        ask(client)
        with pytest.raises(openai.RateLimitError):
            ask(client)
    stack.wait_until(lambda: told() == {"budget.warning", "budget.used_up"}, 20)


def test_a_batch_completes_and_another_one_is_cancelled(product: stack.Stack, database_url: str) -> None:
    lines = [*batches.chats(120, "tokens=4,itl=0.02"), batches.chat("wrong", temperature="hot")]
    with product.client() as client:
        ended = batches.run(client, lines, metadata={"night": "first"})
        assert (ended.status, ended.metadata) == ("completed", {"night": "first"})
        _, errors = batches.check_each_once(client, ended, lines)
        assert batches.ids(errors) == ["wrong"]
        refused = batches.run(client, [lines[0], "nonsense", lines[0]])
        assert [one.line for one in refused.errors.data] == [2, 3]

        made = batches.submit(client, batches.chats(300, "tokens=20,itl=0.05", max_tokens=40))
        batches.reach(client, made.id, batches.answered(5))
        client.batches.cancel(made.id)
        assert batches.finish(client, made.id).status == "cancelled"
        assert [one.id for one in client.batches.list()] == [made.id, refused.id, ended.id]
        assert client.files.delete(ended.output_file_id).deleted

    def rows() -> list[tuple[str, str, int, int]]:
        begins = f"{ended.trace_id[:8]}-{ended.trace_id[8:12]}-%"
        with psycopg.connect(database_url) as database:
            return database.execute(
                "SELECT outcome, qos_class, count(*), sum(completion_tokens) FROM tenants_usagerecord "
                "WHERE request_id::text LIKE %s GROUP BY outcome, qos_class",
                [begins],
            ).fetchall()

    expected = [("completed", "p2", 120, ended.usage.output_tokens)]
    stack.wait_until(lambda: rows() == expected, 20, "it was not settled")
    stack.wait_until(lambda: product.leftovers() == {}, 20)
