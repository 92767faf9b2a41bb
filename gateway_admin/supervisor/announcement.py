"""What a person reads once all is ready."""

import json

from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.first_request import QUESTION, FirstAnswer
from gateway_admin.supervisor.ready_file import Ready


def announce(console: Console, ready: Ready, model: str, answer: FirstAnswer, times: list[str]) -> None:
    """Print the first answer, where the time went, the addresses and two examples that work when pasted."""
    speed = f"{answer.duration_s:.2f} s, {answer.completion_tokens} tokens"
    for title, lines in (
        (f"First answer ({speed})", [f"  {QUESTION}", f"  {answer.text.strip()}"]),
        ("Wall time", times),
        ("Ready", _addresses(ready)),
        ("Try it", [_curl(ready, model), ""]),
        ("In Python (pip install openai)", [_python(ready, model)]),
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


def _curl(ready: Ready, model: str) -> str:
    body = json.dumps({"model": model, "temperature": 0, "messages": [{"role": "user", "content": QUESTION}]})
    return (
        f"curl {ready.base_url}/chat/completions -H 'Authorization: Bearer {ready.api_key}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def _python(ready: Ready, model: str) -> str:
    question = f'model="{model}", temperature=0, messages=[{{"role": "user", "content": "{QUESTION}"}}]'
    return "\n".join(
        (
            "from openai import OpenAI",
            f'client = OpenAI(base_url="{ready.base_url}", api_key="{ready.api_key}")',
            f"print(client.chat.completions.create({question}).choices[0].message.content)",
        )
    )
