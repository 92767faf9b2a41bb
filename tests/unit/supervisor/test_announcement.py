import io
import json
import shlex

from gateway_admin.supervisor.announcement import announce
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.first_request import FirstAnswer
from gateway_admin.supervisor.ready_file import Ready

READY = Ready("http://127.0.0.1:1/v1", "sk-1", "http://127.0.0.1:1/admin/", "admin", "pw", "http://127.0.0.1:2", 7)


def announcement(ready: Ready = READY) -> list[str]:
    out = io.StringIO()
    announce(Console(out), ready, "small", FirstAnswer(" Paris.", 1.5, 3), ["  total  1.0 s"])
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
