"""The demo's page: complete, self-contained, and never green when something differs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.demo.compare import Comparison
from columnar_kafka.demo.figures import Point, Results, Rival, Run, Stage
from columnar_kafka.demo.page import chart, report

if TYPE_CHECKING:
    from pathlib import Path

EQUAL = Comparison(expected=5, found=5, missing=0, unexpected=0)
DIFFERENT = Comparison(5, 4, 1, 0, ("missing 1x: key=<b'a'>",))


def runs(name: str, size: int) -> tuple[Run, ...]:
    return tuple(Run(name, 1000, 1000 * size, cpu, 2 * cpu) for cpu in (0.001, 0.003, 0.008))


@pytest.fixture
def results() -> Results:
    names = {"Parquet segments": 20, "Avro rows": 30, "JSON rows": 50}
    return Results(
        broker="a broker",
        environment={"Machine": "2 cores"},
        stages=[Stage("produced", 5, 1.25, "detail"), Stage("read back", 5, 0.5, "", EQUAL)],
        rivals=[Rival(name, runs(name, size)) for name, size in names.items()],
        sweep=[
            Point(name, batch, 1000, 1000 // batch, 1000 * size + 100_000 // batch)
            for name, size in names.items()
            for batch in (10, 100, 1000)
        ],
    )


def test_a_rival_sums_its_runs_and_shows_the_median_and_the_spread() -> None:
    rival = Rival("a", runs("a", 20))
    assert (rival.rows, rival.wire_bytes, rival.bytes_per_record) == (3000, 60_000, 20)
    assert rival.cpu_seconds == pytest.approx(0.012)
    assert rival.cpu_micros == pytest.approx(3)
    assert rival.cpu_spread == pytest.approx((1, 8))
    assert rival.records_per_second == pytest.approx(3000 / 0.024)


def test_the_page_shows_every_stage_format_and_version(results: Results) -> None:
    page = report.render(results)
    for text in (
        "produced",
        "read back",
        "detail",
        "Avro rows",
        "JSON rows",
        "2 cores",
        "a broker",
    ):
        assert text in page
    assert "every comparison equal" in page
    assert "something differs" not in page


def test_a_difference_turns_the_page_red_and_is_shown_escaped(results: Results) -> None:
    results.stages.append(Stage("seen by polars", 4, 1, "", DIFFERENT))
    page = report.render(results)
    assert not results.equal
    assert "something differs" in page
    assert "every comparison equal" not in page
    assert "1 missing" in page
    assert "key=&lt;b&#39;a&#39;&gt;" in page


def test_the_page_fetches_nothing_and_runs_nothing(results: Results) -> None:
    page = report.render(results)
    assert "<script" not in page
    assert "@import" not in page
    assert not re.findall(r"(?:src|(?<!:)href)\s*=\s*[\"'](?!#)", page)
    assert not re.findall(r"url\((?!#)", page)
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not addresses
    assert set(re.findall(r"https?://[^\"'\s]*", page)) <= names


def test_the_picture_takes_all_its_colours_from_the_page(results: Results) -> None:
    picture = chart.draw(results.sweep)
    for number in (1, 2, 3):
        assert f"var(--series-{number})" in picture
    assert "#0102" not in picture
    assert picture.startswith("<svg")


def test_a_batch_that_was_cut_is_said_to_be(results: Results) -> None:
    assert "held:" not in report.render(results)
    results.sweep[-1] = replace(results.sweep[-1], batches=4)
    assert "JSON rows 250 of 1,000" in report.render(results)


def test_the_page_is_written_where_it_is_asked_for(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    report.write(results, path)
    assert path.read_text() == report.render(results)
