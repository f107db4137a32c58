"""The line of a commit."""

from __future__ import annotations

import logging
import sys
from subprocess import run
from typing import TYPE_CHECKING

from columnar_kafka.lake.model import CommitResult, Count
from spark_sink.reading.planning import OffsetRange
from spark_sink.reporting import commit_line, log_line

if TYPE_CHECKING:
    import pytest

RESULT = CommitResult(files=("a", "b"), landed=Count(4, 4000), nbytes=3_140_000)


def test_a_line_says_what_has_landed_and_how_much_has_not() -> None:
    assert commit_line(RESULT, ()) == "4000 records in 4 segments (3.1 MB) landed in 2 files"
    ranges = [
        OffsetRange("t", partition, start, end, "cluster", "id", latest=20)
        for partition, start, end in ((0, 0, 5), (0, 5, 10), (1, 0, 19), (1, 0, 10))
    ]
    assert commit_line(RESULT, ranges).endswith("; behind by 11 messages, about 11000 records")


def test_what_did_not_land_again_is_said_where_there_is_any() -> None:
    before = CommitResult(landed_before=Count(1, 10), repeated=Count(2, 20))
    assert commit_line(before, ()) == (
        "0 records in 0 segments (0.0 MB) landed in 0 files; 10 records had landed before; "
        "20 records came twice"
    )


def test_a_process_without_a_handler_writes_to_stderr(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_line("batch 1: one")
    assert caplog.messages == ["batch 1: one"]
    calls = "log_line('batch 1: one'); log_line('batch 2: two')"
    code = f"from spark_sink.reporting import log_line; {calls}"
    completed = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line[17:] for line in completed.stderr.splitlines()] == [
        " INFO spark_sink: batch 1: one",
        " INFO spark_sink: batch 2: two",
    ]
