"""Batches as the official client makes them, what came of them, and the hands that tests need in the database."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import openai
from openai import OpenAI
from openai.types import Batch

from tests.stack import ROOT, Stack, wait_until

MODEL = "smollm2-135m-instruct"
CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
COMPLETIONS: Literal["/v1/completions"] = "/v1/completions"
EMBEDDINGS: Literal["/v1/embeddings"] = "/v1/embeddings"
ENDED = {"completed", "failed", "expired", "cancelled"}
END_S = 120.0
SOON_S = 20.0

Line = dict[str, Any]


def chat(custom_id: str, text: str = "", sim: str = "", **body: Any) -> Line:
    """A line that asks a question of its own, which the simulator answers as ``sim`` says."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": text or f"What is {custom_id}?"}]}
    return line(custom_id, CHAT, asked | {"max_tokens": 6} | ({"metadata": {"sim": sim}} if sim else {}) | body)


def chats(count: int, sim: str = "", **body: Any) -> list[Line]:
    """So many lines, ``q-0`` and on."""
    return [chat(f"q-{number}", sim=sim, **body) for number in range(count)]


def line(custom_id: str, url: str, body: dict[str, Any]) -> Line:
    """A line of a batch's file."""
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def upload(client: OpenAI, lines: Iterable[Line | str]) -> str:
    """Upload lines, those that are text as they stand; return the file's id."""
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines)
    return client.files.create(file=("requests.jsonl", text.encode()), purpose="batch").id


def submit(client: OpenAI, lines: Iterable[Line | str], endpoint: Any = CHAT, **options: Any) -> Batch:
    """Upload lines and make a batch of them."""
    file_id = upload(client, lines)
    return client.batches.create(input_file_id=file_id, endpoint=endpoint, **{"completion_window": "24h", **options})


def reach(client: OpenAI, batch_id: str, until: Callable[[Any], Any], timeout_s: float = END_S) -> Any:
    """Ask how a batch stands until it stands so, also while the front door is away; return it as it stands then."""
    last: Any = None

    def look() -> Any:
        nonlocal last
        try:
            last = client.batches.retrieve(batch_id)
        except (openai.APIConnectionError, openai.InternalServerError):
            return None
        return last if until(last) else None

    try:
        return wait_until(look, timeout_s)
    except AssertionError:
        raise AssertionError(f"the batch stands otherwise: {last}") from None


def finish(client: OpenAI, batch_id: str, timeout_s: float = END_S) -> Any:
    """Wait until a batch has ended; return it."""
    return reach(client, batch_id, lambda one: one.status in ENDED, timeout_s)


def run(client: OpenAI, lines: Iterable[Line | str], endpoint: Any = CHAT, **options: Any) -> Any:
    """Make a batch and wait for its end."""
    return finish(client, submit(client, lines, endpoint, **options).id)


def answered(count: int) -> Callable[[Any], bool]:
    """Whether a batch has so many results."""
    return lambda one: one.request_counts.completed + one.request_counts.failed >= count


def content(client: OpenAI, file_id: str | None) -> list[Any]:
    """The lines of a file; none of no file."""
    return [json.loads(text) for text in client.files.content(file_id).text.splitlines()] if file_id else []


def results(client: OpenAI, batch: Batch) -> tuple[list[Any], list[Any]]:
    """The lines of a batch's output and of its errors."""
    return content(client, batch.output_file_id), content(client, batch.error_file_id)


def ids(lines: Iterable[Any]) -> list[str]:
    """Their clients' names."""
    return [str(one["custom_id"]) for one in lines]


def check_each_once(client: OpenAI, batch: Batch, lines: Sequence[Line]) -> tuple[list[Any], list[Any]]:
    """Every request has one result, in the order of the requests, and the counts say so; return the results."""
    output, errors = results(client, batch)
    place = {name: number for number, name in enumerate(ids(lines))}
    assert sorted(ids([*output, *errors]), key=place.__getitem__) == ids(lines)
    for some in (output, errors):
        assert ids(some) == sorted(ids(some), key=place.__getitem__)
    counts = batch.request_counts
    assert counts is not None
    assert (counts.total, counts.completed, counts.failed) == (len(lines), len(output), len(errors))
    return output, errors


# --- in the database -------------------------------------------------------------------------------------------------


def rows_of(stack: Stack, batch: Batch) -> list[tuple[Any, ...]]:
    """Request id, outcome, class, prompt, cached and answer tokens of a batch's usage rows, once all are settled."""
    trace_id = batch.trace_id  # type: ignore[attr-defined]  # Sluice's own field
    # Its requests' ids begin as their trace does.
    begins = f"{trace_id[:8]}-{trace_id[8:12]}-"
    columns = "request_id, outcome, qos_class, prompt_tokens, cached_tokens, completion_tokens"
    wait_until(lambda: stack.leftovers() == {} and stack.store().xlen("sl:settle") == 0, SOON_S)
    return stack.query(f"SELECT {columns} FROM tenants_usagerecord WHERE request_id LIKE '{begins}%'")


def change(stack: Stack, statement: str, *values: Any) -> None:
    """Change the database behind the product's back."""
    database = sqlite3.connect(stack.data_dir / "sluice.sqlite3", timeout=20)
    try:
        with database:
            changed = database.execute(statement, values).rowcount
        assert changed, statement
    finally:
        database.close()


def manage(stack: Stack, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Run a command of ``manage.py`` on the instance; return what it prints."""
    command = [sys.executable, "manage.py", *arguments]
    env = {**os.environ, "SLUICE_DATA_DIR": str(stack.data_dir), **(environ or {})}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_books(stack: Stack) -> None:
    """Nothing is left of any request, and what was counted in several places is the same."""
    wait_until(lambda: stack.leftovers() == {} and stack.store().xlen("sl:settle") == 0, SOON_S, "something was left")
    report = json.loads(manage(stack, "reconcile", "--json"))
    assert (report["differences"], report["waiting"]) == ([], 0)


_REVOKE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_admin.settings"
import django
django.setup()
from django.utils import timezone
from tenants.models import ApiKey
for key in ApiKey.objects.filter(tenant__slug=sys.argv[1]):
    key.revoked_at = timezone.now()
    key.save()
"""


def revoke(stack: Stack, tenant: str) -> None:
    """Revoke all keys of a tenant, as an operator does."""
    environ = {**os.environ, "SLUICE_DATA_DIR": str(stack.data_dir)}
    command = [sys.executable, "-c", _REVOKE, tenant]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, timeout=120)
