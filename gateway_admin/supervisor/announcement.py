"""What a person reads once all is ready."""

import json
from dataclasses import dataclass

from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.first_request import QUESTION, FirstAnswer
from gateway_admin.supervisor.ready_file import Ready


@dataclass(frozen=True, slots=True)
class Served:
    """Names of the models; empty for none.

    Attributes:
        chats: answers chats now.
        embeds: makes embeddings now.
        embeds_later: makes embeddings in a moment.
    """

    chats: str = ""
    embeds: str = ""
    embeds_later: str = ""


def announce(console: Console, ready: Ready, served: Served, answer: FirstAnswer, times: list[str]) -> None:
    """Print the first answer, where the time went, the addresses and two examples that work when pasted."""
    speed = f"{answer.duration_s:.2f} s, {answer.completion_tokens} tokens"
    for title, lines in (
        (f"First answer ({speed})", [f"  {QUESTION}", f"  {answer.text.strip()}"]),
        ("Wall time", times),
        ("Ready", [*_addresses(ready), *_embeddings(served)]),
        ("Try it", [_curl(ready, served), ""]),
        ("In Python (pip install openai)", [_python(ready, served)]),
    ):
        console.show("\n".join(["", console.heading(title), *lines]))
    console.show("\nStop with Ctrl-C, or with `make down` from another terminal.")


def _addresses(ready: Ready) -> list[str]:
    lines = [
        f"  base URL   {ready.base_url}",
        f"  API key    {ready.api_key}",
        f"  admin      {ready.admin_url}",
        f"             user {ready.admin_user}, password {ready.admin_password} (until you change it)",
    ]
    return [*lines, f"  Flower     {ready.flower_url}"] if ready.flower_url else lines


def _embeddings(served: Served) -> list[str]:
    if not served.embeds_later:
        return []
    return [f"  embeddings {served.embeds_later} joins in the background; `embeddings-1: up` will tell"]


def _curl(ready: Ready, served: Served) -> str:
    if served.embeds:
        path, body = "embeddings", json.dumps({"model": served.embeds, "input": QUESTION})
    else:
        question = [{"role": "user", "content": QUESTION}]
        path, body = "chat/completions", json.dumps({"model": served.chats, "temperature": 0, "messages": question})
    return (
        f"curl {ready.base_url}/{path} -H 'Authorization: Bearer {ready.api_key}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def _python(ready: Ready, served: Served) -> str:
    if served.embeds:
        call = f'embeddings.create(model="{served.embeds}", input="{QUESTION}").data[0].embedding'
    else:
        question = f'model="{served.chats}", temperature=0, messages=[{{"role": "user", "content": "{QUESTION}"}}]'
        call = f"chat.completions.create({question}).choices[0].message.content"
    return "\n".join(
        (
            "from openai import OpenAI",
            f'client = OpenAI(base_url="{ready.base_url}", api_key="{ready.api_key}")',
            f"print(client.{call})",
        )
    )
