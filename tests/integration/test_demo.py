"""`columnar-kafka demo`, in a process as users run it; `tests/faults` has more of those."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from demos import RUN, starting_demos

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demos import Start


FAIL = """
from columnar_kafka.demo import consume
def fail(*args, **kwargs):
    raise RuntimeError("no way\\n\\nbut this")
consume.read_back = fail
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_demos(tmp_path) as start:
        yield start


def test_without_java_everything_is_equal_and_nothing_is_left(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "300", java=False)
    assert demo.end() == 0, demo.output
    assert "No Java" in demo.output
    assert "Every comparison was equal." in demo.output
    assert "1,300 records, equal" in demo.output  # the 1,000 that came later
    assert str(tmp_path / "demo-report.html") in demo.output
    assert "every comparison equal" in (tmp_path / "demo-report.html").read_text()
    assert demo.leaves_nothing()


def test_a_failure_is_said_and_cleaned_up(start: Start) -> None:
    demo = start("--rows", "300", java=False, code=FAIL + RUN)
    assert demo.end() == 1
    assert "The demo failed: RuntimeError: no way" in demo.output
    assert "Traceback" not in demo.output
    assert demo.leaves_nothing()
