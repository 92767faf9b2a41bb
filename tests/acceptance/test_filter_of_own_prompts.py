"""A client that holds a filter of its prompts, against the running product."""

import secrets

import httpx
import pytest

from clients.python.sluice_filter import PromptFilter
from domain.prompt_id import RANDOM_BYTES, make_id
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

LONG_AGO_MS = 1_700_000_000_000


def test_a_client_denies_made_up_ids_itself_and_never_a_prompt_that_exists(sim: Stack) -> None:
    known = PromptFilter(sim.base_url, sim.api_key)
    made_up = [make_id(LONG_AGO_MS, secrets.token_bytes(RANDOM_BYTES)) for _ in range(200)]
    assert all(known.may_exist(one) for one in made_up)
    with sim.http() as http:
        before = [store(http) for _ in range(3)]
        assert known.refresh()
        after = [store(http) for _ in range(3)]
        assert all(known.may_exist(one) for one in before + after)
        assert not any(known.may_exist(one) for one in made_up)
        assert known.refresh()
        assert not known.refresh()
        assert all(known.may_exist(one) for one in before + after)
        # The gateway's own filter says the same of what was made up, and finds what exists.
        assert all(http.get(f"/prompts/{one}").status_code == 200 for one in before + after)
        wait_until(lambda: 'sluice_filter_looks_total{filter="prompts",result="maybe"}' in metrics(http, sim), 20)
        assert all(http.get(f"/prompts/{one}").status_code == 404 for one in made_up[:5])


def store(http: httpx.Client) -> str:
    answer = http.post("/prompts", json={"messages": [{"role": "user", "content": "Hello."}]})
    assert answer.status_code == 201
    public_id: str = answer.json()["id"]
    return public_id


def metrics(http: httpx.Client, sim: Stack) -> str:
    return http.get(f"{sim.root_url}/metrics").text
