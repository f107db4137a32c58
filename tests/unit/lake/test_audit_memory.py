"""What `verify` takes of memory where other programs have rewritten a table, and finds there."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import GENERATIONS, DeltaLake, audit, compared, put
from segments import ROWS, segment, segments

from columnar_kafka.lake.audit import rows_by_id
from columnar_kafka.lake.audit.rows_by_id import RowsById
from columnar_kafka.lake.landing.stage import land

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from columnar_kafka.lake.model import SourceMessage

SEGMENT_ROWS = 5000
LARGE = 1 << 30


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thirty-second of all limits, so that a small table is a large one."""
    for name in ("_LOOKED_UP", "_BATCH", "_FIRST_ROWS", "_MOST_ROWS", "_BUFFER"):
        monkeypatch.setattr(rows_by_id, name, getattr(rows_by_id, name) >> 5)


def message(offset: int) -> SourceMessage:
    """Return a segment of 0.2 MB as Arrow has it."""
    random = np.random.default_rng(offset)
    columns = {f"c{n}": random.integers(0, 1 << 40, SEGMENT_ROWS) for n in range(4)}
    return segment(pa.table(columns), offset=offset, number=offset)


def messages(count: int) -> Iterator[SourceMessage]:
    return map(message, range(count))


class Once:
    """Messages that are made when they are asked for: not even the test keeps them."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[SourceMessage]:
        return messages(self._count)


def optimize(lake: DeltaLake) -> None:
    """Merge a table's files as another program does: by Delta's own OPTIMIZE."""
    deltalake.DeltaTable(str(lake.root)).optimize.compact(target_size=LARGE)


def shuffle(lake: DeltaLake) -> None:
    """Rewrite a table with its rows in any order."""
    data = lake.read()
    order = np.random.default_rng(0).permutation(data.num_rows)
    deltalake.write_deltalake(str(lake.root), data.take(pa.array(order)), mode="overwrite")


def peak(do: Callable[[], object]) -> int:
    """Return how many bytes Arrow has allocated at most while something was done."""
    gc.collect()
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        do()
    finally:
        pa.set_memory_pool(pa.system_memory_pool())
    return int(pool.max_memory() or 0)


def verified(lake: DeltaLake, count: int) -> int:
    """Return what the verification of a table takes of memory."""
    reports: list[Any] = []
    used = peak(lambda: reports.append(compared(lake, Once(count))))
    assert reports[0].findings == []
    assert (reports[0].messages, reports[0].rows) == (count, count * SEGMENT_ROWS)
    return used


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("rewrite", [optimize, shuffle])
def test_a_table_that_was_rewritten_is_verified_in_bounded_memory(
    tmp_path: Path, rewrite: Callable[[DeltaLake], object]
) -> None:
    """Whatever its size, and the order of its rows."""
    used = {}
    for count in (40, 160):
        lake = DeltaLake(tmp_path / f"{count}")
        land(messages(count), table=lake.table(), generations=GENERATIONS)
        land([message(count)], table=lake.table(), generations=GENERATIONS)
        rewrite(lake)
        used[count] = verified(lake, count + 1)
    assert used[160] <= 1.5 * used[40]
    assert used[160] < 16 << 20  # the table has 30 MB: 2 MB are looked up at once


def rewritten(lake: DeltaLake, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    """Rewrite a table as another program."""
    data = change(lake.read())
    deltalake.write_deltalake(str(lake.root), data, mode="overwrite", **options)


def test_what_is_wrong_is_found_in_the_order_of_the_offsets(lake: DeltaLake) -> None:
    """Though many messages are looked up together, and after others."""
    put(lake.table(), range(8))

    def change(data: pa.Table) -> pa.Table:
        n = data["n"].to_pylist()
        kept = [value not in (*range(30, 33), 51) for value in n]
        changed = [value + 1000 * (value == 11) + 1000 * (value == 70) for value in n]
        return data.set_column(data.schema.get_field_index("n"), "n", [changed]).filter(kept)

    rewritten(lake, change)
    report = audit(lake, segments(range(8)))
    assert [(finding.kind, finding.first, finding.last) for finding in report.findings] == [
        ("different", 1, 1),
        ("missing", 3, 3),
        ("different", 5, 5),
        ("different", 7, 7),
    ]
    assert report.findings[2].reason == f"{ROWS - 1} rows, but the message has {ROWS}"
    assert report.messages == 4


def test_different_neighbours_are_one_range(lake: DeltaLake) -> None:
    put(lake.table(), range(5))
    rewritten(lake, lambda data: data.set_column(0, "n", [[0] * data.num_rows]))
    report = audit(lake, segments(range(5)))
    assert [(finding.kind, finding.first, finding.last) for finding in report.findings] == [
        ("different", 0, 4)
    ]


def test_a_row_group_that_cannot_be_read_spoils_no_other(lake: DeltaLake) -> None:
    for offset in range(4):
        put(lake.table(), range(offset + 1))
    lake.table().compact(LARGE)
    [path] = (lake.root / uri for uri in map(str, lake.load().file_uris()))
    # Each message in a row group of its own, and what the second one's values are in is damaged.
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema, compression="none") as writer:
        for start in range(0, table.num_rows, ROWS):
            writer.write_table(table.slice(start, ROWS))
    data = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(1).column(0)
    start = place.dictionary_page_offset or place.data_page_offset
    data[start : start + place.total_compressed_size] = b"?" * place.total_compressed_size
    path.write_bytes(data)
    report = audit(lake, segments(range(4)))
    assert [finding.kind for finding in report.findings] == ["not provable"]
    assert report.messages == 3


def test_rows_in_two_files_are_put_together(lake: DeltaLake) -> None:
    """A segment whose rows are in two files."""
    put(lake.table(), range(2))
    data = lake.read()
    one, other = data.slice(1, 3), pa.concat_tables([data.slice(0, 1), data.slice(4)])
    deltalake.write_deltalake(str(lake.root), one, mode="overwrite")
    deltalake.write_deltalake(str(lake.root), other, mode="append")
    rows = RowsById()
    table = lake.table(reland=True)
    for file in table.landed_files(table.head()):
        rows.add(file)
    tables = rows.rows({"p-0", "p-1"})
    assert {name: landed["n"].to_pylist() for name, landed in tables.items()} == {
        "p-0": [0, 1, 2],
        "p-1": [10, 11, 12],
    }
    assert audit(lake, segments(range(2))).findings == []
