"""What the two tenants of the attack send."""

import json
import random
from itertools import islice

from bench.attack_load import HOT_TEXTS, KINDS, attack_calls, in_another_form, made_up, normal_calls, zipf
from domain.prompt_id import is_well_formed, made_at_ms
from gateway.canonical import canonical_body
from gateway.schema import parse_chat

BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 16, "temperature": 0}


def form_of(body: bytes) -> bytes | None:
    request = parse_chat(body).request
    assert request is not None
    return canonical_body(request, "m")


def test_another_form_of_a_request_is_the_same_request() -> None:
    chance = random.Random(1)
    written = {in_another_form(BODY, chance) for _ in range(50)}
    assert len(written) > 10
    assert {form_of(one) for one in written} == {form_of(json.dumps(BODY).encode())}


def test_made_up_ids_are_of_the_kind_that_is_said() -> None:
    chance = random.Random(1)
    assert sum(share for _, share in KINDS) == 1
    assert not any(is_well_formed(made_up("no id", chance)) for _ in range(50))
    old, new = made_up("old", chance), made_up("new", chance)
    assert is_well_formed(old)
    assert is_well_formed(new)
    assert made_at_ms(old) < made_at_ms(new)


def test_few_texts_make_most_of_what_comes_again() -> None:
    chance = random.Random(1)
    drawn = [zipf(chance, HOT_TEXTS) for _ in range(10_000)]
    assert set(drawn) <= set(range(HOT_TEXTS))
    assert sum(number < HOT_TEXTS // 10 for number in drawn) > 5_000


def test_calls_are_in_the_order_in_which_they_are_due() -> None:
    normal = [call.at_s for call in normal_calls("k", ["p"], 50, 5, 1)]
    attack = [call.at_s for _, call in islice(attack_calls("k", 100, 5, 1), 400)]
    assert normal == sorted(normal)
    assert attack == sorted(attack)
    assert len(attack) == 400
