"""The arithmetic behind docs/benchmarks.md: no wrong median, no lost record goes unnoticed."""

from __future__ import annotations

import ast
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import questions, worker_site
from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, ChildError, Clock, Cost, tree_cpu
from benchmarks.measured import (
    Claim,
    Digest,
    Spread,
    UnequalError,
    compare_tables,
    number,
    ratios,
)
from benchmarks.segment_parts import parts
from benchmarks.where import Sample, parsed
from columnar_kafka import native

if TYPE_CHECKING:
    from collections.abc import Iterable

SENT = [
    ({"id": 1, "name": "a"}, b"key", [("trace", b"x")], 5),
    ({"id": 2, "name": None}, None, [], 6),
]


def test_a_spread_is_the_median_and_the_extremes() -> None:
    assert Spread.of([3.0, 1.0, 10.0, 2.0]) == Spread(median=2.5, low=1.0, high=10.0)


def test_a_spread_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rounds were measured"):
        Spread.of([])


def test_ratios_are_computed_within_one_round() -> None:
    """Medians of ratios: 2, 3 and 0.5, where the ratio of the medians would be 1."""
    factors = ratios([2.0, 30.0, 5.0], [1.0, 10.0, 10.0])
    assert factors == (2.0, 3.0, 0.5)
    assert Claim("what", factors).spread.median == 2.0


def test_ratios_need_as_many_rounds_of_both() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("claim", "is_met", "is_lost"),
    [
        (Claim("at its target", (4.0, 4.0, 1.0), at_least=4), True, False),
        (Claim("below it", (3.9,), at_least=4), False, False),
        (Claim("below the competitor", (0.9,), at_least=4), False, True),
        (Claim("below it in its own unit", (0.9,), at_least=1, unit="GB/s"), False, False),
        (Claim("no target", (1.1,)), True, False),
        (Claim("no target, and lost", (0.9,)), True, True),
        (Claim("a limit", (60.0,), at_most=60, unit="µs"), True, False),
        (Claim("over a limit", (61.0,), at_most=60, unit="µs"), False, False),
        (Claim("under a range", (0.8,), at_least=0.9, at_most=1.1), False, False),
    ],
    ids=lambda argument: argument.what if isinstance(argument, Claim) else "",
)
def test_a_claim_is_met_or_missed_by_its_median(claim: Claim, is_met: bool, is_lost: bool) -> None:
    assert (claim.met, claim.lost) == (is_met, is_lost)


def test_what_is_furthest_from_its_target_comes_first() -> None:
    claims = [
        Claim("half", (2.0,), at_least=4),
        Claim("a third", (90.0,), at_most=30, unit="ms"),
        Claim("met", (8.0,), at_least=4),
    ]
    ordered = sorted(claims, key=lambda claim: claim.margin)
    assert [claim.what for claim in ordered] == ["a third", "half", "met"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (99.99, "100"),
        (12_345.6, "12,346"),
        (3.0, "3"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_costs_are_per_record_and_compared_round_by_round() -> None:
    answer = Answer()
    costs = {
        "ours": [Cost(1.0, 0.5, 2.0), Cost(2.0, 0.5, 2.0)],
        "orjson": [Cost(4.0, 3.0, 6.0), Cost(6.0, 3.0, 8.0)],
    }
    answer.add_costs("narrow", costs, 1_000_000)
    answer.compare("narrow", "orjson", at_least=3)
    answer.compare("narrow", "orjson", WALL)
    assert answer.values("narrow", "orjson", CPU) == (4.0, 6.0)
    assert [claim.values for claim in answer.claims] == [(4.0, 3.0), (3.0, 4.0)]
    assert Answer.from_json(answer.to_json()) == answer


def difference(read: Iterable[object]) -> str:
    """Return how records differ from those sent, or nothing."""
    try:
        Digest(SENT).compare(Digest(read), "t")
    except UnequalError as error:
        return str(error)
    return ""


def test_equal_records_in_another_order_are_equal() -> None:
    assert difference(reversed(SENT)) == ""


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (SENT[:1], "t: 2 records sent, 1 read"),
        ([*SENT, SENT[0]], "t: 2 records sent, 3 read"),
        ([SENT[0], SENT[0]], "t: the records read differ from those sent"),
        ([SENT[0], (SENT[1][0], b"", *SENT[1][2:])], "t: the records read differ from those sent"),
        ([SENT[0], ({"id": 2}, *SENT[1][1:])], "t: the records read differ from those sent"),
    ],
    ids=["one missing", "one twice", "one for another", "another key", "a field missing"],
)
def test_unequal_records_are_an_error(read: list[object], text: str) -> None:
    assert difference(read) == text


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (
            "python 7/7 90005.745852: 158044 _PyDict_New (/usr/lib/libpython3.11.so.1.0)",
            Sample("the calling thread", "libpython3", 90005.745852),
        ),
        (
            "rdk:broker1 7/9 1.5:  ffff81 [unknown] ([kernel.kallsyms])",
            Sample("rdk:broker1", "kernel", 1.5),
        ),
        (
            "python 7/8 1.5: b03e4 _core::parquet::read::Numbers<N>::page (/a b/_core.abi.so)",
            Sample("python", "core: parquet::read", 1.5),
        ),
        ("python 7/8 1.5: 1 ZSTD_compress (/_core.abi.so)", Sample("python", "zstd", 1.5)),
        ("python 7/8 1.5: 1 crc32 (/_core.abi.so)", Sample("python", "core: libraries", 1.5)),
        ("# a comment", None),
    ],
)
def test_a_sample_says_which_thread_was_where(line: str, sample: Sample | None) -> None:
    assert parsed(line) == sample


def test_the_parts_of_a_segment_are_its_bytes() -> None:
    table, file = pa.table({"number": [1, 2, 3], "text": ["a", "b", "a"]}), io.BytesIO()
    pq.write_table(table, file, compression="none", write_page_checksum=True)
    sizes = parts(file.getvalue())
    metadata = pq.read_metadata(file)
    columns = [metadata.row_group(0).column(number) for number in range(2)]
    assert sum(sizes.values()) == len(file.getvalue())
    assert sizes["magic and length"] == 12
    footer = [size for part, size in sizes.items() if part.startswith("footer: ")]
    assert sum(footer) == metadata.serialized_size
    assert sizes["pages"] + sizes["page headers"] == sum(
        column.total_compressed_size for column in columns
    )
    assert sizes["footer: column paths"] == len(b"\x18\6number") + len(b"\x18\4text")


def test_an_end_of_file_in_a_measured_process_is_told() -> None:
    """It is no sign that the parent has gone."""
    child = Child(pickle.Unpickler, io.BytesIO())
    try:
        with pytest.raises(ChildError, match="EOFError: Ran out of input"):
            child.call("load")
    finally:
        child.close()


DAEMON = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not (pid := os.fork()):
    sum(range(5_000_000))
    os._exit(0)
while True:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        break
    time.sleep(0.01)
print(os.times().children_user > 0)
"""


@pytest.mark.parametrize(("name", "is_counted"), [("pyspark.daemon", True), ("other", False)])
def test_the_cpu_of_workers_that_have_ended_is_not_lost(name: str, is_counted: bool) -> None:
    """Spark's daemon ignores the end of its workers, and so this one does."""
    completed = subprocess.run(
        [sys.executable, "-c", DAEMON, name],
        env={**os.environ, "PYTHONPATH": str(Path(worker_site.__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout == f"{is_counted}\n"


ROWS = pa.table({"id": [1, 2, 2], "name": ["a", None, "b"]})


def test_equal_tables_in_another_order_and_with_more_columns_are_equal() -> None:
    read = ROWS.take([2, 0, 1]).append_column("more", pa.array([1, 2, 3]))
    compare_tables(ROWS, read.set_column(0, "id", read["id"].cast(pa.int32())), "t")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([0, 1], "t: 3 records sent, 2 read"),
        ([0, 1, 2, 2], "t: 3 records sent, 4 read"),
        ([0, 2, 2], "t: the records read differ from those sent"),
    ],
    ids=["one missing", "one twice", "one for another"],
)
def test_unequal_tables_are_an_error(rows: list[int], text: str) -> None:
    with pytest.raises(UnequalError, match=text):
        compare_tables(ROWS, ROWS.take(rows), "t")


def test_tables_whose_rows_are_there_more_or_less_often_differ() -> None:
    with pytest.raises(UnequalError, match="t: the records read differ from those sent"):
        compare_tables(ROWS.take([0, 0, 1]), ROWS.take([0, 1, 1]), "t")


QUESTIONS = sorted(
    path for path in Path(questions.__file__).parent.glob("*.py") if path.stem != "__init__"
)


def test_every_question_is_asked() -> None:
    assert sorted(questions.NAMES) == [question.stem for question in QUESTIONS]


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_a_question_has_what_the_report_needs(path: Path) -> None:
    """It is not imported: that takes Spark."""
    defined: dict[str, object] = {}
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            defined[statement.targets[0].id] = getattr(statement.value, "value", None)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "answer":
            defined["answer"] = [argument.arg for argument in statement.args.args]
    assert defined["answer"] == ["bench"]
    assert isinstance(defined["IS_LONG"], bool)
    for name in ("TITLE", "ABOUT"):
        assert isinstance(defined[name], str)


def test_a_measured_process_does_not_import_what_other_questions_need() -> None:
    code = "import sys, benchmarks.questions.small; print('pyspark' in sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout == "False\n"


class _Environment:
    """What a child knows; lives in one."""

    def native_is_on(self) -> bool:
        return native.enabled


def test_a_measured_process_has_its_environment() -> None:
    child = Child(_Environment, environment={"COLUMNAR_KAFKA_NATIVE": "0"})
    try:
        assert child.call("native_is_on") is False
    finally:
        child.close()


def test_the_cpu_of_a_tree_has_that_of_processes_that_run_and_that_have_ended() -> None:
    """Half of it at least: ticks are coarse, and the sum takes many."""
    code = "input(); sum(range(30_000_000)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        clock, before = Clock(tree_cpu), psutil.Process(process.pid).cpu_times().user
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        worked = psutil.Process(process.pid).cpu_times().user - before
        assert clock.stop().cpu >= worked / 2 > 0
        process.stdin.write(b"\n")
    assert clock.stop().cpu >= worked / 2
