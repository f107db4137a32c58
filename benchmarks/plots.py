"""Plots as SVG elements for the page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.answer import OURS
from benchmarks.measured import Spread, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.answer import Figure as Cell
    from benchmarks.answer import Plot

_BAR_INCHES = 0.2


def draw(plot: Plot) -> str:
    """Draw lines."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, points in plot.lines.items():
        across, up = zip(*points, strict=True)
        axes.plot(across, up, label=name, marker="." if len(points) < 30 else "", linewidth=2)  # noqa: PLR2004
    if plot.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return _svg(figure)


def bars(cells: Sequence[Cell]) -> str:
    """Draw the first metric of a table: medians, with lines from the least to the largest."""
    metric = cells[0].metric
    shown = [each for each in cells if each.metric == metric][::-1]
    spreads = [Spread.of(each.values) for each in shown]
    figure = Figure(figsize=(9, 1 + _BAR_INCHES * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        range(len(shown)),
        [each.median for each in spreads],
        color=["#0a7f5a" if each.who.startswith(OURS) else "#9aa5b1" for each in shown],
        xerr=(
            [each.median - each.low for each in spreads],
            [each.high - each.median for each in spreads],
        ),
    )
    names = [f"{each.case}: {each.who}" if each.case else each.who for each in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_xlabel(metric)
    axes.margins(y=0.01)
    return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "columnar-kafka"}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date")))
    text = buffer.getvalue()
    return text[text.index("<svg") :]
