"""The page: everything of one run in one HTML file, with nothing to fetch and nothing to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jinja2

from columnar_kafka.demo.page import chart

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.demo.figures import Results


def render(results: Results) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("columnar_kafka.demo.page", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "megabytes": megabytes}
    return environment.get_template("report.html.j2").render(
        results=results,
        chart=chart.draw(results.sweep) if results.sweep else "",
        short=any(point.reached_rows < 0.9 * point.batch_rows for point in results.sweep),
    )


def write(results: Results, path: Path) -> None:
    """Write the page; an existing file is replaced. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(results), encoding="utf-8")


def count(number: float) -> str:
    """A whole number as people read it."""
    return f"{number:,.0f}"


def megabytes(number: float) -> str:
    """A size in MB (10^6 bytes)."""
    return f"{number / 1e6:,.2f}"
