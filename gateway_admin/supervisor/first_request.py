"""Send one real request and print what came back, as a line of JSON.

``python -m gateway_admin.supervisor.first_request BASE_URL MODEL KEY_FILE``
"""

import json
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

QUESTION = "What is the capital of France?"
_MAX_TOKENS = 24
_TIMEOUT_S = 300.0
_CLOSED = (401, 403)


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The answer to :data:`QUESTION`.

    Attributes:
        text: what the model said.
        duration_s: from the request to the end of the answer.
        completion_tokens: length of the answer.
    """

    text: str
    duration_s: float
    completion_tokens: int


def ask(base_url: str, model: str, api_key: str) -> FirstAnswer:
    """Ask for a greedy chat completion.

    Raises:
        OSError: the gateway cannot be reached or refuses (:class:`urllib.error.HTTPError`).
        ValueError: the body is not a chat completion.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": _MAX_TOKENS,
    }
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base_url}/chat/completions", json.dumps(body).encode(), headers)
    started = time.monotonic()
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_TIMEOUT_S) as response:
        reply = json.load(response)
    try:
        text, tokens = reply["choices"][0]["message"]["content"], reply["usage"]["completion_tokens"]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"not a chat completion: {reply}") from None
    return FirstAnswer(str(text), time.monotonic() - started, int(tokens))


def parse_answer(line: str) -> FirstAnswer:
    """Read what :func:`main` printed.

    Raises:
        ValueError: the line is something else.
    """
    try:
        return FirstAnswer(**json.loads(line))
    except TypeError:
        raise ValueError(f"not an answer: {line}") from None


def main(base_url: str, model: str, key_file: str) -> int:
    """Ask, print, and return the exit status."""
    try:
        answer = ask(base_url, model, Path(key_file).read_text(encoding="utf-8").strip())
    except urllib.error.HTTPError as error:
        said = error.read().decode("utf-8", "replace")
        if error.code not in _CLOSED:
            sys.stdout.write(f"HTTP {error.code}: {said}\n")
            return 1
        # An operator has closed the demo tenant. The gateway serves all the same.
        answer = FirstAnswer(f"not asked: the demo tenant is refused: {said}", 0.0, 0)
    except (OSError, ValueError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(answer)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
