"""Pictures of results: one look, and the same bytes for the same figures."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.rcParams.update({"svg.hashsalt": "sluice", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})

GREY, BLUE, RED = "#9aa0a6", "#1a73e8", "#c5221f"


def save(figure: Figure, path: Path) -> None:
    """Write an SVG with a white background."""
    figure.savefig(path, facecolor="white", metadata={"Date": None})
