"""Curves as a PNG. The one place that imports matplotlib, which the extra `plot` installs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZE_INCHES = (11.0, 4.5)
DOTS_PER_INCH = 120


@dataclass(frozen=True)
class Curves:
    """`lines`: by name, a y for each x."""

    x_label: str
    y_label: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]


def draw(path: Path, *, title: str, throughput: Curves, latency: Curves) -> None:
    """Both side by side: throughput over batch sizes that double, latency on a scale of powers."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "the plot needs matplotlib: pip install 'sgdsl[plot]'"
        raise SystemExit(message) from error
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _lines(left, throughput)
    left.set_xscale("log", base=2)
    left.set_xticks(list(throughput.xs), [f"{x:g}" for x in throughput.xs])
    left.set_ylim(bottom=0)
    _lines(right, latency)
    right.set_yscale("log")
    figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def _lines(axes: Any, curves: Curves) -> None:
    for name, ys in curves.lines.items():
        axes.plot(list(curves.xs), list(ys), marker="o", label=name)
    axes.set_xlabel(curves.x_label)
    axes.set_ylabel(curves.y_label)
    axes.grid(alpha=0.3)
    axes.legend()
