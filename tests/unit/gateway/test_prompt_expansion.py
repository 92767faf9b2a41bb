"""Chats that name a stored prompt."""

import json
from typing import Any

import msgspec
import pytest

from gateway.errors import ApiError
from gateway.prompts.expansion import expanded, named_prompt
from gateway.prompts.prefix import prefix_of
from gateway.prompts.version import PromptText
from gateway.schema import parse_chat
from gateway.schema.prompts import parse_new_prompt

ID = "prompt_" + "0" * 26
ROOM = 2**20


def stored(*messages: dict[str, Any]) -> PromptText:
    body = parse_new_prompt(json.dumps({"messages": messages}).encode())
    return PromptText(ID, 1, "", 1, msgspec.Raw(json.dumps(body.messages).encode()), body.variables, 0, 0)


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


def filled(body: bytes, prompt: PromptText, room: int = ROOM) -> dict[str, Any]:
    use = named_prompt(body)
    assert use is not None
    whole = expanded(body, use, prompt, room)
    parse_chat(whole)
    made: dict[str, Any] = json.loads(whole)
    return made


GREETING = stored({"role": "system", "content": "Be {{mood}}."}, {"role": "user", "content": "Hello {{name}}"})


def test_the_stored_messages_come_first() -> None:
    own = {"role": "user", "content": "Now {{answer}}"}
    body = chat(messages=[own], prompt={"id": ID, "variables": {"mood": "kind", "name": "Ada"}}, seed=7)

    assert filled(body, GREETING) == {
        "model": "m",
        "seed": 7,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello Ada"}, own],
    }


@pytest.mark.parametrize("own", [{}, {"messages": []}])
def test_a_chat_needs_no_messages_of_its_own(own: dict[str, Any]) -> None:
    body = chat(prompt={"id": ID, "variables": {"mood": "a", "name": "b"}}, **own)

    assert len(filled(body, GREETING)["messages"]) == 2


def test_the_rest_of_the_body_stays_as_it_is_written() -> None:
    body = b'{"model":"m","temperature":1.00,"prompt":{"id":"%b"},"seed":12345678901234567}' % ID.encode()
    use = named_prompt(body)
    assert use is not None

    whole = expanded(body, use, stored({"role": "user", "content": "Hi"}), ROOM)
    assert b'"temperature":1.00' in whole
    assert b'"seed":12345678901234567' in whole


def test_variables_count_in_every_text_part() -> None:
    parts = [{"type": "text", "text": "{{a}}"}, {"type": "text", "text": "{{b}}{{a}}"}]
    made = filled(
        chat(prompt={"id": ID, "variables": {"a": "{{b}}", "b": '"\n'}}), stored({"role": "user", "content": parts})
    )

    assert [part["text"] for part in made["messages"][0]["content"]] == ["{{b}}", '"\n{{b}}']


@pytest.mark.parametrize(
    ("variables", "named"),
    [({"mood": "a"}, "'name'"), ({"mood": "a", "name": "b", "nmae": "c"}, "'nmae'"), ({}, "'mood', 'name'")],
)
def test_names_that_do_not_fit_are_told(variables: dict[str, str], named: str) -> None:
    with pytest.raises(ApiError) as caught:
        filled(chat(prompt={"id": ID, "variables": variables}), GREETING)
    assert caught.value.status == 400
    assert caught.value.param == "prompt.variables"
    assert named in caught.value.message


def test_a_value_that_is_put_in_often_is_bounded_before_it_is() -> None:
    prompt = stored({"role": "user", "content": "{{a}}" * 10_000})

    with pytest.raises(ApiError) as caught:
        filled(chat(prompt={"id": ID, "variables": {"a": "x" * 1_000}}), prompt)
    assert caught.value.status == 413


@pytest.mark.parametrize("version", [3, "3"])
def test_a_version_may_be_a_number_or_its_text(version: int | str) -> None:
    use = named_prompt(chat(prompt={"id": ID, "version": version}))

    assert use is not None
    assert use.number == 3


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("text", "prompt"),
        ({}, "prompt.id"),
        ({"id": 1}, "prompt.id"),
        ({"id": ID, "version": 0}, "prompt.version"),
        ({"id": ID, "version": "01"}, "prompt.version"),
        ({"id": ID, "variables": {"a": 1}}, "prompt.variables"),
        ({"id": ID, "other": 1}, "prompt.other"),
    ],
)
def test_what_is_no_use_of_a_prompt_is_refused(prompt: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        named_prompt(chat(messages=[], prompt=prompt))
    assert caught.value.status == 400
    assert (caught.value.param or "").startswith(param)


def test_a_name_that_is_escaped_is_the_same_name() -> None:
    assert named_prompt(b'{"model":"m","pr\\u006fmpt":{"id":"x"}}') is not None


def test_two_prompts_in_one_body_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        named_prompt(b'{"prompt":{"id":"x"},"prompt":{"id":"y"}}')
    assert caught.value.code == "duplicate_parameter"


@pytest.mark.parametrize("body", [b'{"model":"m","messages":[{"role":"user","content":"\\"prompt\\""}]}', b"{", b"[]"])
def test_most_chats_name_none(body: bytes) -> None:
    assert named_prompt(body) is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "a\0"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a"}], "name": "a\0"}, "name"),
        ({"messages": [{"role": "user", "content": "a"}], "name": "a" * 101}, "name"),
        ({"messages": [{"role": "user", "content": "a" * 262_144}]}, "messages"),
        ({"messages": [{"role": "user", "content": "".join(f"{{{{v{n}}}}}" for n in range(65))}]}, "messages"),
        ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a"}], "other": 1}, None),
    ],
)
def test_what_is_no_prompt_is_not_stored(fields: dict[str, Any], param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        parse_new_prompt(json.dumps(fields).encode())
    assert caught.value.status == 400
    assert caught.value.param == param


def test_a_backslash_before_u0000_is_a_text_like_any_other() -> None:
    assert parse_new_prompt(b'{"messages":[{"role":"user","content":"\\\\u0000"}]}').variables == []


LONG = "rules " * 200


def test_the_prefix_is_what_comes_before_the_first_variable() -> None:
    prompt = stored(
        {"role": "system", "content": LONG},
        {"role": "user", "content": LONG + "{{text}} and more"},
        {"role": "user", "content": LONG},
    )
    found = prefix_of(prompt, "m")
    body = chat(messages=[{"role": "user", "content": "mine"}], prompt={"id": ID, "variables": {"text": "a"}})
    use = named_prompt(body)
    assert found is not None
    assert use is not None

    whole = parse_chat(expanded(body, use, prompt, ROOM))
    assert found.hashes == whole.prefix[: len(found.hashes)]
    assert len(found.hashes) // 8 == (2 * len(LONG)) // 256
    assert json.loads(found.body)["max_tokens"] == 1
    parse_chat(found.body)


@pytest.mark.parametrize("content", ["short", "{{all}}" + LONG])
def test_a_prefix_that_is_short_is_none(content: str) -> None:
    assert prefix_of(stored({"role": "user", "content": content}), "m") is None
