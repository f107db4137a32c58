"""Small segments become one row group with their neighbours, and their rows stay the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from columns_compared import difference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, audit, put, staged
from nesting import RandomRows
from questions import read_by
from segments import numbered, numbers, segment, segments
from support import examples

from columnar_kafka import native
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.formats import open_dead_letters
from columnar_kafka.lake.landing import small_segments
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import Count
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from columnar_kafka.lake.model import CommitResult, SourceMessage

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture(params=["core", "arrow"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the core decode and encode them, or Arrow."""
    if request.param == "arrow":
        monkeypatch.setattr(native, "enabled", False)
    elif not native.enabled:
        pytest.skip("there is no native core")


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def landed(lake: Any, messages: Iterable[SourceMessage], **layout: Any) -> CommitResult:
    return land(messages, table=lake.table(), generations=GENERATIONS, layout=Layout(**layout))


def groups(lake: DirectoryLake) -> list[list[int]]:
    """Return the rows of each row group of each file."""
    files = [pq.read_metadata(file) for file in sorted(lake.root.glob("t/*.parquet"))]
    return [[file.row_group(n).num_rows for n in range(file.num_row_groups)] for file in files]


def large(offset: int) -> SourceMessage:
    """Return a segment of more bytes than a small one has."""
    values = random.Random(offset).choices(range(1 << 60), k=10_000)
    return segment(pa.table({"n": pa.array(values, pa.int64())}), offset=offset, number=offset)


def records(schema: pa.Schema, rows: list[dict[str, Any]], of: int) -> list[SourceMessage]:
    """Return segments of so many rows with keys, times and headers, as a producer makes them."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
    config |= {"columnar.segment.rows": of, "columnar.metadata": ",".join(METADATA_MEMBERS)}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", schema)
        for n, row in enumerate(rows):
            key = None if n % 3 == 0 else b"k%d" % (n % 5)
            headers = None if n % 2 else [("h", b"%d" % n), ("h", None)]
            producer.produce("t", row, key=key, timestamp=n, headers=headers)
        assert producer.flush() == 0
    messages = kafka.messages("t")
    return [
        replace(numbered(0), offset=m.offset(), headers=m.headers(), value=m.value())
        for m in messages
    ]


def test_neighbours_are_one_row_group(directory: DirectoryLake) -> None:
    result = put(directory.table(), [4, 5, 9])
    assert groups(directory) == [[9]]
    assert directory.read()["n"].to_pylist() == numbers([4, 5, 9])
    assert (result.landed, result.rewritten) == (Count(3, 9), 0)


def test_every_table_has_the_rows_that_it_has_without_it(lake: Any, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("x", pa.float64())])
    rows = [{"n": n, "text": None if n % 7 == 0 else f"{n % 4}", "x": n / 3} for n in range(50)]
    messages = records(schema, rows, of=4)
    landed(lake, messages)
    other = type(lake)(tmp_path / "other")
    landed(other, messages, small_bytes=0)
    one, two = (table.read().sort_by("n") for table in (lake, other))
    assert one.select(two.column_names).equals(two)
    report = audit(lake, messages)
    assert (report.messages, report.rows, report.findings) == (13, 50, [])


def test_a_large_segment_keeps_its_row_group(directory: DirectoryLake) -> None:
    messages = [numbered(0), numbered(1), large(2), numbered(3), large(4), numbered(5), numbered(6)]
    landed(directory, messages)
    assert groups(directory) == [[6, 10_000, 3, 10_000, 6]]
    assert audit(directory, messages).findings == []


def test_one_without_neighbours_lands_with_the_bytes_that_came(directory: DirectoryLake) -> None:
    messages = [numbered(0), large(1)]
    landed(directory, messages)
    [file] = directory.root.glob("t/*.parquet")
    for message in messages:
        chunk = pq.read_metadata(pa.BufferReader(message.value)).row_group(0).column(0)
        start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        assert message.value[start : start + chunk.total_compressed_size] in file.read_bytes()


class NoStatistics(ParquetEncoder):
    """Encodes as the core does where messages are compressed and rows few."""

    def encode(self, batch: pa.RecordBatch, footer: Mapping[str, bytes]) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, batch.schema, store_schema=False, write_statistics=False, write_page_checksum=True
        ) as writer:
            writer.write_batch(batch)
            writer.add_key_value_metadata(dict(footer))
        return sink.getvalue()


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_one_without_statistics_does_not_cost_its_file_the_bounds(
    kind: Any, tmp_path: Path
) -> None:
    lake = kind(tmp_path / "lake")
    table = pa.table({"n": pa.array([-5, None], pa.int64())})
    few = segment(table, offset=1, number=1, encoder=NoStatistics("zstd"))
    messages = [large(0), few, large(2)]
    landed(lake, messages)
    assert audit(lake, messages).findings == []
    assert read_by(lake, "n", -5) == 1
    assert read_by(lake, "n", -6) == read_by(lake, "n", 1 << 60) == 0


@pytest.mark.parametrize("layout", [{"small_bytes": 0}, {"mode": Mode.VERBATIM}])
def test_it_can_be_turned_off(directory: DirectoryLake, layout: dict[str, Any]) -> None:
    put(directory.table(), range(3), **layout)
    assert sum(map(len, groups(directory))) == 3


def test_the_plan_says_where_a_row_group_ends(directory: DirectoryLake) -> None:
    put(directory.table(), range(9), file_bytes=7 * len(numbered(8).value) // 2)
    assert groups(directory) == [[9], [9], [9]]


def test_partitions_wait_side_by_side(directory: DirectoryLake) -> None:
    messages = [numbered(offset, partition=p) for offset in range(3) for p in range(2)]
    landed(directory, messages)
    assert groups(directory) == [[9], [9]]


def test_the_same_messages_make_the_same_files(directory: DirectoryLake) -> None:
    attempts = [staged(directory.table(), [*range(5), *range(7, 9)]) for _ in range(2)]
    one, two = ([(f.digest, f.first, f.last, f.rows, f.nbytes) for f in a.files] for a in attempts)
    assert one == two


def test_what_expands_to_much_ends_a_row_group(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_segments, "_MOST_BYTES", 3_000)
    table = pa.table({"n": [7] * 200})
    landed(directory, [segment(table, offset=n, number=n) for n in range(4)])
    assert sum(groups(directory)[0]) == 800
    assert len(groups(directory)[0]) > 1


def test_a_bad_one_is_refused_alone(directory: DirectoryLake, tmp_path: Path) -> None:
    damaged = bytearray(numbered(2).value)
    damaged[100] ^= 1
    messages = [*segments([0, 1]), replace(numbered(2), value=bytes(damaged)), *segments([3, 4])]
    rules = Rules(dead_letters=open_dead_letters(f"{tmp_path / 'dead'}"))
    result = land(messages, table=directory.table(), generations=GENERATIONS, rules=rules)
    assert (result.landed, result.dead_letters) == (Count(4, 12), 1)
    assert directory.read()["n"].to_pylist() == numbers([0, 1, 3, 4])


@pytest.mark.parametrize("bomb", hostile.BOMBS)
def test_no_table_sees_the_schema_of_a_hostile_one(
    directory: DirectoryLake, tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema may be what is hostile about it: what fits it to a table may exhaust memory."""
    table, seen = directory.table(), []
    fit = table.fit

    def noted(schema: pa.Schema) -> Any:
        seen.append(schema)
        return fit(schema)

    monkeypatch.setattr(table, "fit", noted)
    sent = hostile.BOMBS[bomb]()
    bad = replace(numbered(0), headers=sent.headers(), value=sent.value)
    rules = Rules(verify="decode", dead_letters=open_dead_letters(f"{tmp_path / 'dead'}"))
    messages = [bad, *segments([1, 2])]
    result = land(messages, table=table, generations=GENERATIONS, rules=rules)
    assert (result.landed.messages, result.dead_letters) == (2, 1)
    good = messages[1].segment().schema
    assert seen
    assert all(schema.equals(good, check_metadata=True) for schema in seen)


def test_what_cannot_be_decoded_and_may_land_lands_as_it_came(directory: DirectoryLake) -> None:
    """Nobody looks at its pages, and its neighbours share a row group."""
    broken = hostile.sent(pa.table({"n": [1, 2, 3]}), compression="none", use_dictionary=False)
    broken = hostile.changed(broken, lambda file: file.chunks[0][0][0].fill(bytes(5)))
    own = replace(numbered(2), headers=broken.headers(), value=broken.value)
    alike = [
        replace(numbered(offset), headers=plain.headers(), value=plain.value)
        for offset, plain in ((n, hostile.sent(pa.table({"n": [n]}))) for n in (0, 1, 3, 4))
    ]
    messages = [*alike[:2], own, *alike[2:]]
    rules = Rules(verify="headers")
    land(messages, table=directory.table(), generations=GENERATIONS, rules=rules)
    assert groups(directory) == [[2, 3, 2]]


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 26,
    reason="pyarrow before 26 reads no null that is a list of a fixed size",
)
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_rows_of_every_type_and_nesting(tmp_path: Path, seed: int, of: int) -> None:
    source = RandomRows(seed)
    messages = records(source.schema, source.rows, of)
    lake = DirectoryLake(tmp_path / f"{seed}-{of}")
    landed(lake, messages)
    assert len(groups(lake)[0]) == 1
    [file] = lake.root.glob("t/*.parquet")
    sent = pa.concat_tables([message.segment().to_table() for message in messages])
    actual = pq.read_table(file, page_checksum_verification=True)
    assert difference(sent, actual, lambda values: values) is None
    assert lake.table().fences()


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def test_each_partition_of_the_table_has_a_row_group(kind: Any, tmp_path: Path) -> None:
    lake = kind(tmp_path / "lake")
    tables = [["DE"], ["US"], ["DE", "US", "DE"], ["DE"], ["US"]]
    messages = [
        segment(pa.table({"n": [10 * n + i for i in range(len(c))], "c": c}), offset=n, number=n)
        for n, c in enumerate(tables)
    ]
    table = lake.table(partition_by=["c"])
    result = land(messages, table=table, generations=GENERATIONS)
    assert (result.landed, result.rewritten) == (Count(5, 7), 1)
    files = [pq.read_metadata(file) for file in lake.root.rglob("*.parquet")]
    assert [(file.num_row_groups, file.metadata[b"columnar.segments"]) for file in files] == [
        (1, b"3")
    ] * 2
    rows = lake.read().select(["n", "c"]).sort_by("n").to_pylist()
    sent = [(10 * n + i, c) for n, values in enumerate(tables) for i, c in enumerate(values)]
    assert [(row["n"], row["c"]) for row in rows] == sent
    assert audit(lake, messages).findings == []
