"""Writes what was measured: JSON with every run, and a table for people."""

import json
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, command: str, rows: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> None:
    """Write ``results/<name>.json`` and ``results/<name>.md``, and print the table."""
    RESULTS.mkdir(exist_ok=True)
    facts = {"command": command, "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine()}
    (RESULTS / f"{name}.json").write_text(json.dumps({**facts, "rows": rows, "runs": runs}, indent=1) + "\n")
    text = f"`{command}`, {facts['at']}, {facts['machine']}\n\n{table(rows)}\n"
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_text(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return f"{len(Path('/proc/cpuinfo').read_text().split('processor')) - 1} cores, {model}"


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
