"""One picture of the batching results: for each load, throughput and latency of each arm."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
mpl.rcParams.update({"svg.hashsalt": "sluice", "svg.fonttype": "none", "font.size": 9})
mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

import matplotlib.pyplot as plt  # noqa: E402  # after the choice of the backend

_GREY, _BLUE = "#9aa0a6", "#1a73e8"
_OURS = "Sluice"


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows of ``batching.summarise`` as a picture with a white background."""
    loads = list(dict.fromkeys(row["load"] for row in rows))
    by_load = [[row for row in rows if row["load"] == load][::-1] for load in loads]
    heights = [0.75 + 0.25 * len(of_load) for of_load in by_load]
    size, ratios = (10, sum(heights)), {"height_ratios": heights}
    figure, axes = plt.subplots(len(loads), 2, figsize=size, gridspec_kw=ratios, squeeze=False, layout="constrained")
    for load, of_load, (left, right) in zip(loads, by_load, axes, strict=True):
        _throughput(left, load, of_load)
        _latency(right, of_load)
    axes[0][0].set_title("output tokens/s", loc="right")
    axes[0][1].set_title("latency, ms (log): p50 full, p99 light", loc="right")
    figure.savefig(path, facecolor="white", metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _throughput(axes: Any, load: str, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [row["arm"] for row in rows]
    values = [row["tokens/s"] for row in rows]
    bars = axes.barh(names, values, color=[_colour(name) for name in names], height=0.65)
    axes.bar_label(bars, [_throughput_label(row) for row in rows], padding=3)
    axes.set_xlim(0, max(values) * 1.3)
    axes.set_title(load, loc="left", fontweight="bold")


def _throughput_label(row: Mapping[str, Any]) -> str:
    gain = row["times one at a time"]
    return f"{row['tokens/s']:.0f}" + (f"  (x {gain:.1f})" if gain is not None else "")


def _latency(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [row["arm"] for row in rows]
    colours = [_colour(name) for name in names]
    p50, p99 = ([row[name] for row in rows] for name in ("p50 ms", "p99 ms"))
    axes.barh(names, p99, color=colours, alpha=0.4, height=0.65)
    axes.barh(names, p50, color=colours, height=0.65)
    axes.set_xscale("log")
    axes.set_xlim(min(p50) / 3, max(p99) * 4)
    for position, (low, high) in enumerate(zip(p50, p99, strict=True)):
        axes.text(high * 1.06, position, f"{low:.0f} / {high:.0f}", va="center")


def _colour(arm: str) -> str:
    return _BLUE if arm == _OURS else _GREY
