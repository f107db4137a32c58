"""The picture: bytes a record against rows a batch, as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from columnar_kafka.demo.figures import Point

# Stand-ins that no other colour has; each becomes the page's own, light or dark.
_INK: Final = "#010203"
_LINE: Final = "#010204"
_SERIES: Final = ("#010205", "#010206", "#010207")
_COLOURS: Final = {
    _INK: "var(--muted)",
    _LINE: "var(--line)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES, start=1)},
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "columnar-kafka",
    "font.size": 12,
}
_TICKS: Final = (10, 20, 50, 100, 200, 500, 1_000, 2_000)


def draw(points: Sequence[Point]) -> str:
    """An `<svg>` element with one line for each format; no fonts or files from elsewhere."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 4.6), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        _frame(axes, points)
        names = dict.fromkeys(point.format for point in points)
        for colour, name in zip(_SERIES, names, strict=True):
            _line(axes, [point for point in points if point.format == name], colour)
        return _svg(figure)


def _frame(axes: Axes, points: Sequence[Point]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.patch.set_alpha(0)
    axes.spines[:].set_visible(False)
    axes.grid(visible=True, axis="y", color=_LINE, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelcolor=_INK)
    sizes = sorted({point.batch_rows for point in points})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlim(sizes[0] * 0.8, sizes[-1] * 9)  # room for the names at the lines' ends
    low, high = _range([point.bytes_per_record for point in points])
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in _TICKS if low <= tick <= high])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("rows in a segment, or in a row batch", color=_INK)
    axes.set_ylabel("bytes on the wire for one record", color=_INK)


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values) * 0.75, max(values) * 1.25


def _line(axes: Axes, points: Sequence[Point], colour: str) -> None:
    sizes = [point.batch_rows for point in points]
    values = [point.bytes_per_record for point in points]
    ours = colour == _SERIES[0]
    axes.plot(sizes, values, color=colour, linewidth=2.6 if ours else 1.8, marker="o", markersize=5)
    axes.annotate(
        f"{points[-1].format.split(',')[0]}  {values[-1]:.1f}",
        (sizes[-1], values[-1]),
        xytext=(10, 0),
        textcoords="offset points",
        verticalalignment="center",
        color=colour,
        fontweight="bold" if ours else "normal",
    )


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", text)
    text = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", text, count=1)
    for stand_in, colour in _COLOURS.items():
        text = text.replace(stand_in, colour)
    return text
