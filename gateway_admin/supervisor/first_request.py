"""Send one real request and print what came back, as a line of JSON.

``python -m gateway_admin.supervisor.first_request BASE_URL MODEL KEY_FILE ENDPOINT``; the endpoint is "chat" or
"embeddings".
"""

import json
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

QUESTION = "What is the capital of France?"
_MAX_TOKENS = 24
_TIMEOUT_S = 300.0
_CLOSED = (401, 403)


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The answer to :data:`QUESTION`.

    Attributes:
        text: what the model said, or what its embedding looks like.
        duration_s: from the request to the end of the answer.
        completion_tokens: length of the answer.
    """

    text: str
    duration_s: float
    completion_tokens: int


def ask(base_url: str, model: str, api_key: str, endpoint: str) -> FirstAnswer:
    """Ask for a greedy chat completion, or for an embedding.

    Raises:
        OSError: the gateway cannot be reached or refuses (:class:`urllib.error.HTTPError`).
        ValueError: the body is not an answer of that endpoint.
    """
    started = time.monotonic()
    if endpoint == "embeddings":
        reply = _post(f"{base_url}/embeddings", api_key, {"model": model, "input": QUESTION})
    else:
        body = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
        reply = _post(f"{base_url}/chat/completions", api_key, {**body, "max_tokens": _MAX_TOKENS})
    try:
        text, tokens = _embedding(reply) if endpoint == "embeddings" else _completion(reply)
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"not an answer of {endpoint}: {reply}") from None
    return FirstAnswer(text, time.monotonic() - started, tokens)


def _completion(reply: Any) -> tuple[str, int]:
    return str(reply["choices"][0]["message"]["content"]), int(reply["usage"]["completion_tokens"])


def _embedding(reply: Any) -> tuple[str, int]:
    numbers = reply["data"][0]["embedding"]
    shown = ", ".join(f"{number:.4f}" for number in numbers[:3])
    return f"{len(numbers)} numbers: {shown}, …", 0


def _post(url: str, api_key: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_TIMEOUT_S) as response:
        return json.load(response)


def parse_answer(line: str) -> FirstAnswer:
    """Read what :func:`main` printed.

    Raises:
        ValueError: the line is something else.
    """
    try:
        return FirstAnswer(**json.loads(line))
    except TypeError:
        raise ValueError(f"not an answer: {line}") from None


def main(base_url: str, model: str, key_file: str, endpoint: str) -> int:
    """Ask, print, and return the exit status."""
    try:
        answer = ask(base_url, model, Path(key_file).read_text(encoding="utf-8").strip(), endpoint)
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
