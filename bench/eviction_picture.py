"""One picture of the eviction results: for each trace and size, what each way of evicting hit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.picture import BLUE, GREY, RED, save


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the rows of ``eviction.summarise``."""
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    sizes = list(dict.fromkeys(row["cache"] for row in rows))
    figure = Figure(figsize=(10, 2.3 * len(traces)), layout="constrained")
    axes = figure.subplots(len(traces), len(sizes), squeeze=False)
    for row in rows:
        axis = axes[traces.index(row["trace"])][sizes.index(row["cache"])]
        _cell(axis, row)
    save(figure, path)


def _cell(axis: Any, row: Mapping[str, Any]) -> None:
    arms = [name for name in row if name not in ("trace", "cache") and "/" not in name][::-1]
    values = [float(row[name]) for name in arms]
    bars = axis.barh(arms, values, color=[{"ghost": BLUE, "w11": RED}.get(name, GREY) for name in arms], height=0.7)
    axis.bar_label(bars, [row[name] for name in arms], padding=2, fontsize=7)
    axis.set_xlim(0, max(values) * 1.2)
    axis.tick_params(axis="y", labelsize=7)
    axis.set_title(f"{row['trace']}, {row['cache']} of the keys: hits, %", fontsize=8, loc="left")
