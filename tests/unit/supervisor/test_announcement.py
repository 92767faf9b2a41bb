import io
import json
import shlex

from gateway_admin.supervisor.announcement import Served, announce
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.first_request import FirstAnswer
from gateway_admin.supervisor.ready_file import Ready

CHATS = Served(chats="small")
READY = Ready("http://127.0.0.1:1/v1", "sk-1", "http://127.0.0.1:1/admin/", "admin", "pw", "http://127.0.0.1:2", 7)


def announcement(ready: Ready = READY, served: Served = CHATS) -> list[str]:
    out = io.StringIO()
    announce(Console(out), ready, served, FirstAnswer(" Paris.", 1.5, 3), ["  total  1.0 s"])
    return out.getvalue().splitlines()


def test_the_curl_line_can_be_pasted() -> None:
    line = next(line for line in announcement() if line.startswith("curl"))
    words = shlex.split(line)
    assert words[1] == "http://127.0.0.1:1/v1/chat/completions"
    assert json.loads(words[words.index("-d") + 1])["model"] == "small"


def test_the_python_example_is_three_lines_that_compile() -> None:
    lines = announcement()
    start = lines.index("from openai import OpenAI")
    assert lines[start + 3] == ""
    compile("\n".join(lines[start : start + 3]), "example", "exec")


def test_flower_is_named_only_when_it_runs() -> None:
    assert any("http://127.0.0.1:2" in line for line in announcement())
    ready = Ready("http://127.0.0.1:1/v1", "sk-1", "http://127.0.0.1:1/admin/", "admin", "pw", None, 7)
    assert not any("Flower" in line for line in announcement(ready))


def test_a_model_that_embeds_gets_examples_that_embed() -> None:
    lines = announcement(served=Served(embeds="tiny"))
    words = shlex.split(next(line for line in lines if line.startswith("curl")))
    assert words[1] == "http://127.0.0.1:1/v1/embeddings"
    assert json.loads(words[words.index("-d") + 1])["model"] == "tiny"
    start = lines.index("from openai import OpenAI")
    assert "embeddings.create" in lines[start + 2]
    compile("\n".join(lines[start : start + 3]), "example", "exec")


def test_embeddings_that_join_later_are_named() -> None:
    assert any("tiny" in line for line in announcement(served=Served(chats="small", embeds_later="tiny")))
    assert not any("embeddings" in line for line in announcement())
