"""Tables with partitions: what segments need no decoding, and how the others are split."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    audit,
    needs_polars,
)
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from questions import ask
from segments import segment

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.dead_letters import DeadLetters
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing import batch as batch_module
from columnar_kafka.lake.landing import stage as staging
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.stage import Stager, land
from columnar_kafka.lake.model import CompactResult, Count, SourceMessage, UnlandableError
from columnar_kafka.lake.partition import PartitionTerm, parse_terms
from columnar_kafka.lake.plan import Layout, Mode, Planner
from columnar_kafka.lake.stitching.stitch import Stitcher, StitchError
from columnar_kafka.lake.tables.base import commit_fences
from columnar_kafka.lake.tables.fence_reset import moved_fences

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from columnar_kafka.lake.model import CommitResult, StageResult

TODAY = datetime.date(2024, 1, 2)
DAY = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
DAYS = [datetime.date(2023, 12, 31), datetime.date(2024, 1, 1)]


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def delta(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


def table(n: Iterable[int], c: Iterable[str | None], **columns: Any) -> pa.Table:
    return pa.table({"n": list(n), "c": pa.array(c, pa.string()), **columns})


def messages(*tables: pa.Table, first: int = 0) -> list[SourceMessage]:
    return [segment(data, offset=first + i, number=first + i) for i, data in enumerate(tables)]


def put(
    lake: Any, *tables: pa.Table, first: int = 0, rules: Rules | None = None, **options: Any
) -> CommitResult:
    layout = {key: options.pop(key) for key in ("mode", "small_bytes") if key in options}
    batch = messages(*tables, first=first)
    place = lake.table(**options)
    return land(batch, table=place, generations=GENERATIONS, layout=Layout(**layout), rules=rules)


def staged(lake: Any, *tables: pa.Table, today: datetime.date = TODAY, **options: Any) -> Any:
    place = lake.table(**options)
    planner = Planner(fences=place.fences(), generations=GENERATIONS)
    stager = Stager(table=place, planner=planner, today=lambda: today)
    for message in messages(*tables):
        stager.add(message)
    return stager.finish()


def read(lake: Any, *names: str) -> list[tuple[Any, ...]]:
    """Return these columns of the rows, by n."""
    rows = lake.read().select(list(names)).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[0])


def read_with_polars(lake: Any, *names: str) -> list[tuple[Any, ...]]:
    frame = (
        pl.scan_delta(str(lake.root))
        if isinstance(lake, DeltaLake)
        else pl.scan_iceberg(lake.load())
    )
    return sorted(frame.select(names).collect().rows(), key=lambda row: row[0])


def data_files(lake: Any) -> list[Path]:
    return sorted(lake.root.rglob("*.parquet"))


@pytest.fixture(autouse=True)
def planner_of_iceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def test_segments_of_one_value_land_undecoded_in_a_file_for_each_value(lake: Any) -> None:
    put(
        lake,
        table([1, 2], ["DE", "DE"]),
        table([3], ["US"]),
        table([4, 5], ["DE", "DE"]),
        partition_by=["c"],
    )
    expected = [(1, "DE"), (2, "DE"), (3, "US"), (4, "DE"), (5, "DE")]
    assert read(lake, "n", "c") == read_with_polars(lake, "n", "c") == expected
    assert len(data_files(lake)) == 2
    assert lake.table().fences()[FENCE].next == 3


def test_a_segment_of_several_values_is_split_and_counted(lake: Any) -> None:
    result = put(
        lake,
        table([1, 2, 3, 4], ["DE", "US", "DE", None]),
        table([5], ["US"]),
        partition_by=["c"],
    )
    assert (result.landed, result.rewritten, len(result.files)) == (Count(2, 5), 1, 3)
    expected = [(1, "DE"), (2, "US"), (3, "DE"), (4, None), (5, "US")]
    assert read(lake, "n", "c") == read_with_polars(lake, "n", "c") == expected
    positions = [row["_kafka"]["row"] for row in lake.read().sort_by("n").to_pylist()]
    assert positions == [0, 1, 2, 3, 0]


def test_a_segment_of_several_values_can_be_refused(tmp_path: Path, lake: Any) -> None:
    """Also where there is a place for dead letters."""
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(straddle="stop", dead_letters=DeadLetters(letters.table()))
    with pytest.raises(LakeError, match=r"t\[0\]@0 has rows of 2 partitions.*table\.straddle"):
        put(lake, table([1, 2], ["DE", "US"]), partition_by=["c"], rules=rules)
    assert data_files(lake) == letters.data_files() == []


def test_a_segment_of_several_values_can_be_a_dead_letter_which_a_replay_splits(
    tmp_path: Path, lake: Any
) -> None:
    letters = DirectoryLake(tmp_path / "dead")
    place = DeadLetters(letters.table())
    sent = [table([1], ["DE"]), table([2, 3], ["DE", "US"]), table([4], ["US"])]
    rules = Rules(straddle="dead-letter", dead_letters=place)
    result = put(lake, *sent, partition_by=["c"], rules=rules)
    assert (result.landed, result.dead_letters, result.rewritten) == (Count(2, 2), 1, 0)
    assert read(lake, "n", "c") == [(1, "DE"), (4, "US")]
    assert letters.read()["offset"].to_pylist() == [1]
    replayed = replay(place, lake.table())
    assert (replayed.landed, replayed.rewritten) == (Count(1, 2), 1)
    assert read(lake, "n", "c") == [(1, "DE"), (2, "DE"), (3, "US"), (4, "US")]


def test_partitions_that_kafka_and_the_clock_know(lake: Any) -> None:
    names = ("_kafka_topic", "_kafka_partition", "_ingest_date")
    attempt = staged(lake, table([1, 2], ["a", "b"]), partition_by=names)
    assert attempt.rewritten == 0
    lake.table(partition_by=names).commit([attempt])
    expected = [(n, c, "t", 0, TODAY) for n, c in ((1, "a"), (2, "b"))]
    assert read(lake, "n", "c", *names) == expected
    assert read_with_polars(lake, "n", "c", *names) == expected


def test_a_file_per_day_of_landing(lake: Any) -> None:
    days = iter([TODAY, TODAY, TODAY + datetime.timedelta(days=1)])
    place = lake.table(partition_by=["_ingest_date"])
    planner = Planner(fences={}, generations=GENERATIONS)
    stager = Stager(table=place, planner=planner, today=lambda: next(days))
    for message in messages(*(table([n], ["x"]) for n in range(3))):
        stager.add(message)
    assert len(place.commit([stager.finish()]).files) == 2
    assert [row[1].day for row in read(lake, "n", "_ingest_date")] == [2, 2, 3]


def test_a_batch_that_was_staged_twice_lands_once(lake: Any) -> None:
    """On two days, so in other partitions."""
    data = [table([1, 2], ["DE", "US"]), table([3], ["US"])]
    by = ["c", "_ingest_date"]
    late = TODAY + datetime.timedelta(days=1)
    attempts = [staged(lake, *data, partition_by=by, today=day) for day in (TODAY, late)]
    result = lake.table(partition_by=by).commit(attempts)
    assert (result.landed, result.repeated) == (Count(2, 3), Count(2, 3))
    assert [row[0] for row in read(lake, "n")] == [1, 2, 3]
    assert len(data_files(lake)) == 2
    assert lake.table().commit(attempts[:1]).landed_before == Count(2, 3)


def test_nothing_of_a_batch_lands_if_a_part_of_it_is_gone(lake: Any) -> None:
    attempt: StageResult = staged(lake, table([1, 2], ["DE", "US"]), partition_by=["c"])
    (lake.root / attempt.files[1].path).unlink()
    with pytest.raises(LakeError, match="gone or cut short: stage the input again"):
        lake.table(partition_by=["c"]).commit([attempt])


def test_a_segment_that_cannot_be_stitched_ends_the_file_of_its_partition_alone(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [table([n], [c]) for n, c in enumerate(["DE", "US", "DE", "US", "DE"])]
    encrypted = messages(*tables)[2].value

    class Picky(Stitcher):
        def append(self, data: Any) -> None:
            if bytes(data) == encrypted:
                raise StitchError("an encrypted column")
            super().append(data)

    monkeypatch.setattr(batch_module, "Stitcher", Picky)
    put(lake, *tables, partition_by=["c"], small_bytes=0)
    assert read(lake, "n", "c") == [(0, "DE"), (1, "US"), (2, "DE"), (3, "US"), (4, "DE")]
    assert encrypted in [path.read_bytes() for path in data_files(lake)]
    assert len(data_files(lake)) == 4


def test_verbatim_segments_stay_as_they_are_unless_they_are_split(lake: Any) -> None:
    whole = table([1, 2], ["DE", "DE"])
    [message] = messages(whole)
    put(lake, whole, table([3, 4], ["DE", "US"]), partition_by=["c"], mode=Mode.VERBATIM)
    assert read(lake, "n", "c") == [(1, "DE"), (2, "DE"), (3, "DE"), (4, "US")]
    assert len(data_files(lake)) == 3
    assert any(path.read_bytes() == message.value for path in data_files(lake))


def test_many_partitions_hold_few_files_open(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MAX_OPEN", 2)
    rows = [table([n, n + 10, n + 20], ["a", "b", "c"]) for n in range(2)]
    put(lake, *rows, partition_by=["c"])
    expected = [(n + i * 10, "abc"[i]) for i in range(3) for n in range(2)]
    assert read(lake, "n", "c") == expected


def test_files_of_several_partitions_of_kafka_are_bounded_together(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MAX_OPEN", 3)
    place = lake.table(partition_by=["c"])
    create, being_written, most = place.create, set[str](), 0

    def counted(*arguments: Any) -> Any:
        nonlocal most
        writer = create(*arguments)
        finish = writer.finish

        def finished() -> int:
            being_written.remove(writer.path)
            return int(finish())

        writer.finish = finished
        being_written.add(writer.path)
        most = max(most, len(being_written))
        return writer

    place.create = counted
    batch = [
        segment(table([n, n + 10], ["a", "b"]), offset=n // 2, number=n, partition=n % 2)
        for n in range(6)
    ]
    land(batch, table=place, generations=GENERATIONS, layout=Layout())
    assert most == 3
    assert read(lake, "n", "c") == [(n + i * 10, "ab"[i]) for i in range(2) for n in range(6)]


def test_what_landed_is_proven_and_fences_can_be_moved(lake: Any) -> None:
    sent = [
        table([1, 2, 3], ["DE", "US /%=", "DE"]),
        table([4], ["US /%="]),
        table([5, 6], [None, None]),
    ]
    put(lake, *sent[:2], partition_by=["c"])
    put(lake, sent[2], first=2)
    report = audit(lake, messages(*sent))
    assert (report.findings, report.messages, report.files) == ([], 3, 3)
    [finding] = audit(lake, messages(sent[0], table([4], ["DE"]), sent[2])).findings
    assert (finding.kind, finding.first, finding.last) == ("different", 1, 1)
    commit_fences(lake.table(), lambda fences: moved_fences(fences, {("t", 0): 9}))
    assert lake.table().fences()[FENCE].next == 9
    assert len(read(lake, "n")) == 6


@pytest.mark.parametrize("names", [("c",), ("_kafka_topic", "_ingest_date")])
def test_a_partitioned_table_of_delta_can_be_merged(
    delta: DeltaLake, names: tuple[str, ...]
) -> None:
    sent = [table([1, 2], ["DE", "US"]), table([3], ["US"]), table([4], ["US"])]
    for number, data in enumerate(sent):
        put(delta, data, first=number, partition_by=names)
    expected = CompactResult(files_before=4, files=2) if names == ("c",) else None
    assert delta.table().compact(1 << 20) == (expected or CompactResult(files_before=3, files=1))
    report = audit(delta, messages(*sent))  # the first message is in a merged file and in another
    assert (report.findings, report.messages) == ([], 3)
    put(delta, table([5], ["DE"]), first=3)
    rows = [(1, "DE"), (2, "US"), (3, "US"), (4, "US"), (5, "DE")]
    assert read(delta, "n", "c") == read_with_polars(delta, "n", "c") == rows


def test_a_value_that_cannot_be_a_partitions_is_a_dead_letter(
    tmp_path: Path, delta: DeltaLake
) -> None:
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(dead_letters=DeadLetters(letters.table()))
    sent = [table([1], ["DE"]), table([2], [""]), table([3], ["DE"])]
    result = put(delta, *sent, rules=rules, partition_by=["c"])
    assert (result.landed, result.dead_letters, len(result.files)) == (Count(2, 2), 1, 1)
    assert read(delta, "n", "c") == [(1, "DE"), (3, "DE")]
    assert letters.read()["offset"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("kind", "by"),
    [(DeltaLake, "at"), *((IcebergLake, f"{by}(at)") for by in ("identity", "year", "day"))],
)
@pytest.mark.parametrize("days", [2_932_897, -719_163])  # 10000-01-01, 0000-12-31
def test_a_day_that_cannot_be_a_partitions_is_a_dead_letter(
    tmp_path: Path, kind: Any, by: str, days: int
) -> None:
    """Whether the statistics show it or the segment is decoded."""
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(dead_letters=DeadLetters(letters.table()))
    sent = [
        pa.table({"n": range(len(values)), "at": pa.array(values, pa.date32())})
        for values in ([0, 0], [days, days], [0, days], [0])
    ]
    result = put(kind(tmp_path / "lake"), *sent, rules=rules, partition_by=[by])
    assert (result.landed, result.dead_letters) == (Count(2, 3), 2)
    assert letters.read()["offset"].to_pylist() == [1, 2]
    reason = letters.read()["reason"][0].as_py()
    assert f"t[0]@1: partition column 'at': {days} cannot be a partition's: " in reason


@pytest.mark.parametrize(("kind", "least"), [(pa.int32(), -(2**31)), (pa.int64(), -(2**63))])
def test_a_number_whose_truncation_its_type_lacks_is_a_dead_letter(
    tmp_path: Path, kind: pa.DataType, least: int
) -> None:
    """In whatever partition it landed, pyiceberg would not look for it there."""
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(dead_letters=DeadLetters(letters.table()))
    lake = IcebergLake(tmp_path / "lake")
    landing = [least + 8, -least - 1, -1, None]
    sent = [pa.table({"i": pa.array([number], kind)}) for number in (least, *landing)]
    result = put(lake, *sent, rules=rules, partition_by=["truncate(10, i)"])
    assert (result.landed, result.dead_letters) == (Count(4, 4), 1)
    reason = letters.read()["reason"][0].as_py()
    assert f"t[0]@0: partition column 'i': {least} cannot be a partition's: truncate[10]" in reason
    ask(lake, pa.table({"i": pa.array(landing, kind)}))


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
@pytest.mark.parametrize("by", ["truncate(3, text)", "bucket(4, text)", "text"])
def test_texts_before_what_is_no_character_are_found_in_their_partitions(
    tmp_path: Path, by: str, last: str
) -> None:
    lake = IcebergLake(tmp_path / "lake")
    data = pa.table({"text": [f"ab{last}x", f"ab{last}", last * 20, "ab", None]})
    put(lake, data, partition_by=[by])
    ask(lake, data)


@pytest.mark.parametrize("by", ["at", "day(at)", "hour(at)", "month(at)"])
def test_a_time_that_cannot_be_a_partitions_is_a_dead_letter(tmp_path: Path, by: str) -> None:
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(dead_letters=DeadLetters(letters.table()))
    times = [0, 253_402_300_800_000_000]  # 10000-01-01
    sent = [pa.table({"at": pa.array([time], pa.timestamp("us", "UTC"))}) for time in times]
    result = put(IcebergLake(tmp_path / "lake"), *sent, rules=rules, partition_by=[by])
    assert (result.landed, result.dead_letters) == (Count(1, 1), 1)


@needs_polars
@pytest.mark.parametrize("name", ["größe", "a%b"])
def test_polars_finds_a_partition_column_of_any_name(delta: DeltaLake, name: str) -> None:
    texts = ["a~b", "x y", "é", "a=b", "a/b", None]
    sent = [
        pa.table({"n": [n], name: pa.array([text], pa.string())}) for n, text in enumerate(texts)
    ]
    put(delta, *sent, partition_by=[name])
    put(delta, *sent, first=6)
    expected = sorted([*enumerate(texts)] * 2, key=lambda row: row[0])
    assert read(delta, "n", name) == read_with_polars(delta, "n", name) == expected
    assert delta.load().optimize.compact()["numFilesRemoved"] == 12
    assert read(delta, "n", name) == read_with_polars(delta, "n", name) == expected


def test_a_text_too_long_for_the_name_of_a_folder_is_a_dead_letter(
    tmp_path: Path, delta: DeltaLake
) -> None:
    """polars reads the value from that name: no other would do."""
    letters = DirectoryLake(tmp_path / "dead")
    rules = Rules(dead_letters=DeadLetters(letters.table()))
    texts = ["x" * 253, "x" * 254, "北" * 28, "北" * 29]  # with c= 255, 256, 254, 263 bytes
    result = put(
        delta,
        *(table([n], [text]) for n, text in enumerate(texts)),
        rules=rules,
        partition_by=["c"],
    )
    assert (result.landed, result.dead_letters) == (Count(2, 2), 2)
    expected = [(0, texts[0]), (2, texts[2])]
    assert read(delta, "n", "c") == read_with_polars(delta, "n", "c") == expected
    assert "a name of more than 255 bytes" in letters.read()["reason"][0].as_py()


def test_a_table_that_changes_while_a_batch_is_written_makes_no_dead_letter(
    tmp_path: Path, lake: Any
) -> None:
    """The segments before it in the batch would be lost."""
    place = lake.table(partition_by=["c"])
    create = place.create

    def changed(source: Any, first: int, *arguments: Any) -> Any:
        if first == 1:
            raise UnlandableError("the table has changed")
        return create(source, first, *arguments)

    place.create = changed
    letters = DirectoryLake(tmp_path / "dead")
    batch = messages(table([1], ["DE"]), table([2, 3], ["DE", "US"]))
    with pytest.raises(LakeError, match="the table has changed"):
        land(
            batch,
            table=place,
            generations=GENERATIONS,
            layout=Layout(small_bytes=0),
            rules=Rules(dead_letters=DeadLetters(letters.table())),
        )
    assert data_files(lake) == letters.data_files() == []


def test_plain_messages_do_not_land_in_partitions(tmp_path: Path, delta: DeltaLake) -> None:
    plain = SourceMessage(topic="t", partition=0, offset=0, headers=None, value=b"plain")
    other = DeltaLake(tmp_path / "plain").table(partition_by=["topic"])
    rules = Rules(plain="table", plain_table=other)
    with pytest.raises(LakeError, match="cannot land in a partitioned table"):
        land([plain], table=delta.table(), generations=GENERATIONS, rules=rules)


def test_a_table_that_is_partitioned_otherwise_is_refused(lake: Any) -> None:
    put(lake, table([1], ["DE"]), partition_by=["c"])
    with pytest.raises(LakeError, match="the table is partitioned by c, not by n"):
        put(lake, table([2], ["DE"]), first=1, partition_by=["n"])
    put(lake, table([2], ["DE"]), first=1)
    assert read(lake, "n", "c") == [(1, "DE"), (2, "DE")]


def test_a_topic_that_lacks_the_column_lands_as_null(lake: Any) -> None:
    put(lake, table([1], ["DE"]), partition_by=["c"])
    put(lake, pa.table({"n": [2]}), first=1)
    assert read(lake, "n", "c") == read_with_polars(lake, "n", "c") == [(1, "DE"), (2, None)]


def test_a_partitioned_table_grows(lake: Any) -> None:
    put(lake, table([1], ["DE"]), partition_by=["c"])
    put(lake, table([2, 3], ["DE", "US"], more=["x", "y"]), first=1)
    assert read(lake, "n", "c", "more") == [(1, "DE", None), (2, "DE", "x"), (3, "US", "y")]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ([1.5], "partition column 'x': its type double is not supported"),
        ([b"a"], "partition column 'x': its type binary is not supported"),
        ([{"a": 1}], "partition column 'x': its type struct is not supported"),
    ],
)
def test_a_type_that_cannot_be_a_partition_of_delta_is_refused(
    delta: DeltaLake, column: Any, match: str
) -> None:
    with pytest.raises(LakeError, match=match):
        put(delta, pa.table({"x": column}), partition_by=["x"])
    assert not delta.root.exists()


def test_values_in_the_paths_of_delta(delta: DeltaLake) -> None:
    """As deltalake writes them, which polars reads."""
    texts = ["DE /%=", "ü", "a#b?c", "x y", "a:b", None, "null", "../..", "."]
    put(delta, table(range(len(texts)), texts), partition_by=["c"])
    expected = list(enumerate(texts))
    assert read(delta, "n", "c") == read_with_polars(delta, "n", "c") == expected
    assert sorted(path.parent.parent for path in data_files(delta)) == [delta.root] * len(texts)


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_a_text_that_delta_would_read_as_null_is_refused(delta: DeltaLake, text: str) -> None:
    with pytest.raises(
        LakeError, match=r"t\[0\]@0: partition column 'c': Delta reads '.*' as null"
    ):
        put(delta, table([1], [text]), partition_by=["c"])


def test_every_type_of_a_partition_of_delta_reads_equal(delta: DeltaLake) -> None:
    data = pa.table(
        {
            "n": [1, 2, 3],
            "flag": [True, False, None],
            "byte": pa.array([1, -2, None], pa.int8()),
            "long": [1 << 40, -(1 << 40), None],
            "day": [TODAY, datetime.date(1969, 12, 31), None],
        }
    )
    names = data.schema.names
    put(delta, data, partition_by=names[1:])
    put(delta, data.slice(0, 1), first=1)
    expected = [tuple(row.values()) for row in data.to_pylist()]
    assert read(delta, *names) == read_with_polars(delta, *names) == [expected[0], *expected]


def test_an_existing_table_of_delta_is_partitioned_as_it_is(delta: DeltaLake) -> None:
    put(delta, table([1], ["DE"]))
    schema = DeltaTable(str(delta.root)).schema()
    for path in sorted(delta.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    DeltaTable.create(str(delta.root), schema, partition_by=["c"])
    put(delta, table([1, 2], ["DE", "US"]))
    assert read(delta, "n", "c") == [(1, "DE"), (2, "US")]


def test_a_column_that_the_landing_fills_must_have_its_type(delta: DeltaLake) -> None:
    schema = pa.schema([("n", pa.int64()), ("_kafka_partition", pa.string())])
    DeltaTable.create(str(delta.root), Schema.from_arrow(schema), partition_by=["_kafka_partition"])
    with pytest.raises(LakeError, match="'_kafka_partition' must be integer in the table"):
        put(delta, pa.table({"n": [1]}))


# --- iceberg --------------------------------------------------------------------------------------


@pytest.fixture
def iceberg(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "lake")


def partitions(lake: IcebergLake) -> list[dict[str, Any]]:
    """Return what the manifests say, as pyiceberg reads them."""
    inspected = lake.load().inspect.partitions()
    return sorted((partition.as_py() for partition in inspected["partition"]), key=str)


def times(unit: str, zone: str | None, *values: datetime.datetime) -> pa.Array:
    return pa.array([value.replace(tzinfo=None) for value in values], pa.timestamp(unit)).cast(
        pa.timestamp(unit, zone)
    )


@pytest.mark.parametrize(
    ("term", "values", "unit", "zone"),
    [
        pytest.param("year(ts)", [53, 54], "ms", None, marks=needs_polars),
        ("month(ts)", [647, 648], "us", "UTC"),
        pytest.param("day(ts)", DAYS, "ms", "UTC", marks=needs_polars),
        ("hour(ts)", [473351, 473352], "us", None),
    ],
)
def test_times_are_partitioned_by_their_parts(
    iceberg: IcebergLake, term: str, values: list[Any], unit: str, zone: str | None
) -> None:
    first = datetime.datetime(2023, 12, 31, 23, 59, 59)  # noqa: DTZ001 - a column's zone counts
    second = first + datetime.timedelta(seconds=1)
    whole = pa.table({"n": [1, 2], "ts": times(unit, zone, first, first)})
    split = pa.table({"n": [3, 4], "ts": times(unit, zone, second, first)})
    result = put(iceberg, whole, split, partition_by=[term])
    assert (result.rewritten, len(result.files)) == (1, 2)
    assert [next(iter(partition.values())) for partition in partitions(iceberg)] == values
    assert [row[0] for row in read_with_polars(iceberg, "n", "ts")] == [1, 2, 3, 4]
    late = f"ts >= '{second.isoformat()}{'+00:00' if zone else ''}'"
    assert iceberg.load().scan(row_filter=late).to_arrow()["n"].to_pylist() == [3]


def test_texts_and_numbers_are_truncated(iceberg: IcebergLake) -> None:
    by = ["truncate(2, c)", "truncate(10, n)"]
    result = put(iceberg, table([1, 9], ["ab", "abc"]), table([11], ["xyz"]), partition_by=by)
    assert (result.rewritten, len(result.files)) == (0, 2)
    truncated = [tuple(partition.values()) for partition in partitions(iceberg)]
    assert truncated == [("ab", 0), ("xy", 10)]


@needs_polars
def test_every_type_of_a_partition_of_iceberg_reads_equal(iceberg: IcebergLake) -> None:
    data = pa.table(
        {
            "n": [1, 2, 3],
            "flag": [True, False, None],
            "int": pa.array([1, -2, None], pa.int16()),
            "long": [1 << 40, -(1 << 40), None],
            "day": [TODAY, datetime.date(1969, 12, 31), None],
            "time": pa.array([DAY, None, DAY], pa.timestamp("ms", "UTC")),
            "text": ["", "__HIVE_DEFAULT_PARTITION__", None],
        }
    )
    names = data.schema.names
    put(iceberg, data, partition_by=names[1:])
    put(iceberg, data.slice(0, 1), first=1)
    expected = [tuple(row.values()) for row in data.to_pylist()]
    assert read(iceberg, *names) == [expected[0], *expected]
    assert read_with_polars(iceberg, *names) == [expected[0], *expected]


def test_members_of_structs_can_be_partitions_of_iceberg(iceberg: IcebergLake) -> None:
    data = pa.table({"n": [1, 2, 3], "s": [{"a": "x"}, {"a": "y"}, None]})
    put(iceberg, data, data.slice(0, 1), partition_by=["s.a"])
    assert [row[0] for row in read(iceberg, "n")] == [1, 1, 2, 3]
    assert sorted(map(str, partitions(iceberg))) == [
        "{'s.a': 'x'}",
        "{'s.a': 'y'}",
        "{'s.a': None}",
    ]


def test_an_existing_table_of_iceberg_is_partitioned_as_it_is(iceberg: IcebergLake) -> None:
    put(iceberg, table([1], ["DE"]))
    with iceberg.opened() as opened, opened.update_spec() as spec:
        spec.add_identity("c")
    put(iceberg, table([2, 3], ["DE", "US"]), first=1)
    assert read(iceberg, "n", "c") == [(1, "DE"), (2, "DE"), (3, "US")]
    assert iceberg.load().scan(row_filter="c = 'US'").to_arrow()["n"].to_pylist() == [3]


@pytest.mark.parametrize("by", ["n", "c", "day", "time"])
def test_buckets_are_those_of_pyiceberg(iceberg: IcebergLake, by: str) -> None:
    """A segment whose least and greatest value are in one bucket may have rows of all."""
    time = datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc)
    times = [time + datetime.timedelta(days=n // 2, hours=n) for n in range(40)]
    data = pa.table(
        {
            "n": pa.array(range(40), pa.int32()),
            "c": [f"c{n % 9}" for n in range(40)],
            "day": [instant.date() for instant in times],
            "time": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )
    put(iceberg, data, partition_by=[f"bucket(4, {by})"])
    with pytest.raises(LakeError, match=r"partitioned by bucket\[4\]\(\w+\), not by \w+"):
        put(iceberg, data, first=1, partition_by=[by])
    put(iceberg, data.slice(0, 1), data.slice(1, 1), data, first=1)
    loaded = iceberg.load()
    transform = BucketTransform(4).transform(loaded.schema().find_field(by).field_type)
    rows = 0
    for task in loaded.scan().plan_files():
        landed = pq.read_table(task.file.file_path.removeprefix("file://"))
        assert {transform(value) for value in landed[by].to_pylist()} == {task.file.partition[0]}
        rows += landed.num_rows
    assert rows == 82
    assert len(partitions(iceberg)) > 2
    for value in data[by].to_pylist():
        scan = loaded.scan(
            row_filter=EqualTo(by, value.isoformat() if by in ("day", "time") else value)
        )
        same = [other for other in data[by].to_pylist() if other == value]
        assert scan.to_arrow().num_rows >= 2 * len(same)


def test_nulls_have_no_bucket(iceberg: IcebergLake) -> None:
    data = pa.table({"n": pa.array([1, None, 2], pa.int64()), "m": [1, 2, 3]})
    put(iceberg, data, data.slice(1, 1), partition_by=["bucket(8, n)"])
    scan = iceberg.load().scan(row_filter="n is null")
    assert sorted(scan.to_arrow()["m"].to_pylist()) == [2, 2]


def test_a_file_that_was_staged_for_another_partitioning_is_refused(iceberg: IcebergLake) -> None:
    put(iceberg, table([0], ["DE"]), partition_by=["c"])
    planner = Planner(fences=iceberg.table().fences(), generations=GENERATIONS)
    batch = messages(table([1], ["DE"]), first=1)
    attempt = staging.stage(batch, table=iceberg.table(), planner=planner)
    with iceberg.opened() as opened, opened.update_spec() as spec:
        spec.add_identity("n")
    with pytest.raises(LakeError, match="staged for another partitioning: stage the input again"):
        iceberg.table().commit([attempt])


@pytest.mark.parametrize(
    ("column", "transform", "match"),
    [
        ("n", VoidTransform(), "void of 'n': only identity, year, .*, bucket are supported"),
        ("f", IdentityTransform(), "identity of 'f': its type double is not supported"),
    ],
)
def test_a_partition_that_cannot_be_told_is_refused(
    iceberg: IcebergLake, column: str, transform: Any, match: str
) -> None:
    data = pa.table({"n": [1], "f": [1.5]})
    put(iceberg, data)
    with iceberg.opened() as opened, opened.update_spec() as spec:
        spec.add_field(column, transform, "part")
    with pytest.raises(LakeError, match=match):
        put(iceberg, data, first=1)
    assert len(data_files(iceberg)) == 1


@pytest.mark.parametrize(
    ("term", "match"),
    [
        ("x", "partition column 'x' does not exist"),
        ("void(n)", r"partition void\(n\): the transforms are identity, year"),
        ("truncate(n)", "the last two have a width"),
        ("bucket(n)", "the last two have a width"),
        ("year(4, n)", "the last two have a width"),
        ("day(n)", "partition day of 'n': its type int64 is not supported"),
        ("day(_ingest_date)", "readers would not see the column's value"),
    ],
)
def test_what_a_new_table_of_iceberg_cannot_be_partitioned_by(
    iceberg: IcebergLake, term: str, match: str
) -> None:
    with pytest.raises(LakeError, match=match):
        put(iceberg, pa.table({"n": [1]}), partition_by=[term])
    assert not iceberg.root.exists()


# --- what users write -----------------------------------------------------------------------------


def test_terms_of_a_partitioning() -> None:
    assert parse_terms(["c", "day(ts)", "truncate(4, a.b)"]) == (
        PartitionTerm("c"),
        PartitionTerm("ts", "day"),
        PartitionTerm("a.b", "truncate", 4),
    )


@pytest.mark.parametrize("text", ["", "day(ts", "day)", "truncate(x, c)", "a,b"])
def test_what_is_no_term_is_refused(text: str) -> None:
    with pytest.raises(LakeError, match="it must be a column, or a transform such as day"):
        parse_terms([text])


def test_delta_has_no_transforms(delta: DeltaLake) -> None:
    with pytest.raises(
        LakeError, match=r"partition day\(ts\): a Delta table is partitioned by columns"
    ):
        delta.table(partition_by=["day(ts)"])
