"""Plain messages that land as rows of the table, among segments."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    Dies,
    DirectoryLake,
    IcebergLake,
    audit,
    letters,
    place_at,
)
from segments import segment

from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.lake.aside.decoding import BLOCK, PlainDecoder, block_name
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.runs import WaitingRuns
from columnar_kafka.lake.landing.stage import Stager, land, stage
from columnar_kafka.lake.model import Count, SourceMessage, SourcePartition
from columnar_kafka.lake.plan import Layout, Mode, Planner, message_nbytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from columnar_kafka.lake.model import CommitResult

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "part", "type": "string", "default": "a"},
    ],
}
DECODING = Decoding("json", SCHEMA)
TIME = 1_700_000_000_123
KINDS = [DirectoryLake, DeltaLake, IcebergLake]


@pytest.fixture(params=KINDS, ids=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def plain(offset: int, *, partition: int = 0, **row: Any) -> SourceMessage:
    """Return a JSON message; its n is the offset unless it is given."""
    value = json.dumps({"n": offset, **row}).encode()
    return SourceMessage(
        topic="t",
        partition=partition,
        offset=offset,
        headers=[("h", b"1"), ("h", None)] if offset % 2 else None,
        value=value,
        key=b"k%d" % offset,
        timestamp=TIME + offset,
    )


def sent(offset: int, *, rows: int = 2) -> SourceMessage:
    """Return a segment as a producer with the same schema makes it; its n are 1000 and more."""
    schema = pa.schema(list(PlainDecoder(DECODING).schema)[:-1])
    table = pa.table(
        {"n": [1000 * offset + row for row in range(rows)], "part": ["a"] * rows}, schema
    )
    return segment(table, offset=offset, number=offset, members=METADATA_MEMBERS)


def put(
    table: Any, messages: Iterable[SourceMessage], layout: Layout | None = None, **rules: Any
) -> CommitResult:
    chosen = Rules(**{"plain": "decode", "decoding": DECODING, **rules})
    return land(messages, table=table, generations=GENERATIONS, layout=layout, rules=chosen)


def numbers(lake: Any) -> list[int]:
    return sorted(lake.read()["n"].to_pylist())


MIXED = [plain(0), plain(1), sent(2), plain(3), sent(4), sent(5), plain(6)]
ALL = [0, 1, 3, 6, 2000, 2001, 4000, 4001, 5000, 5001]


# --- what lands -----------------------------------------------------------------------------------


def test_plain_messages_land_among_segments_in_one_file(lake: Any) -> None:
    result = put(lake.table(), MIXED)
    assert (result.landed, result.decoded, len(result.files)) == (Count(7, 10), 4, 1)
    assert str(result).startswith("10 records in 3 segments and 4 plain messages (")
    assert numbers(lake) == ALL
    fence = lake.table().fences()[FENCE]
    assert (fence.first, fence.next, fence.segment) == (0, 7, block_name(FENCE, 0))


def test_rows_stand_in_the_order_of_offsets_a_row_group_for_each_run(
    directory: DirectoryLake,
) -> None:
    put(directory.table(), MIXED)
    [file] = directory.root.glob("t/*.parquet")
    assert pq.read_table(file)["n"].to_pylist() == [0, 1, 2000, 2001, 3, 4000, 4001, 5000, 5001, 6]
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert groups == [2, 2, 1, 4, 1]


def test_a_row_has_its_messages_key_time_headers_and_identity(directory: DirectoryLake) -> None:
    put(directory.table(), [plain(BLOCK - 1), plain(BLOCK)])
    first, second = directory.read()["_kafka"].to_pylist()
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert (second["key"], second["headers"]) == (b"k%d" % BLOCK, None)
    assert second["timestamp"].timestamp() == (TIME + BLOCK) / 1000
    ids = [(row["segment"], row["row"]) for row in (first, second)]
    assert ids == [(block_name(FENCE, 0), BLOCK - 1), (block_name(FENCE, 1), 0)]


def test_an_identity_has_at_most_40_characters_and_is_a_generations() -> None:
    longest = block_name(FENCE, ((1 << 63) - 1) // BLOCK)
    assert len(longest) == 40
    assert block_name(FENCE, 0) != block_name("kafka:cluster:other:0", 0)


def test_a_run_is_bounded_and_goes_on_in_the_same_file(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("columnar_kafka.lake.plan._RUN_ROWS", 3)
    put(directory.table(), map(plain, range(7)), Layout(file_row_groups=2, small_bytes=0))
    files = sorted(directory.root.glob("t/*.parquet"))
    assert [pq.read_metadata(file).num_row_groups for file in files] == [2, 1]
    assert [pq.read_metadata(file).num_rows for file in files] == [6, 1]


def test_a_run_ends_with_its_bytes_and_with_the_file(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(plain(0).value)
    bare = [replace(plain(n), key=None, headers=None) for n in range(5)]
    monkeypatch.setattr("columnar_kafka.lake.plan._RUN_BYTES", 2 * size)
    put(directory.table(), bare, Layout(file_bytes=4 * size))
    files = sorted(directory.root.glob("t/*.parquet"))
    assert [pq.read_metadata(file).num_row_groups for file in files] == [2, 1]


@pytest.mark.parametrize(
    "more", [{"key": b"k" * 99}, {"headers": {"name": "v" * 95}}], ids=["key", "headers"]
)
def test_keys_and_headers_count_against_a_run_but_not_against_a_file(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    messages = [replace(plain(n), **{"key": None, "headers": None, **more}) for n in range(4)]
    nbytes = len(messages[0].value)
    assert message_nbytes(messages[0]) == nbytes + 99
    monkeypatch.setattr("columnar_kafka.lake.plan._RUN_BYTES", 2 * (nbytes + 99))
    put(directory.table(), messages, Layout(file_bytes=4 * nbytes))
    [file] = directory.root.glob("t/*.parquet")
    assert pq.read_metadata(file).num_row_groups == 2


def test_all_that_a_message_takes_in_memory_counts_while_it_waits() -> None:
    source = SourcePartition(GENERATIONS["t"], "t", 0)
    waiting = WaitingRuns()
    planner = Planner(fences={}, generations=GENERATIONS)
    for offset in range(64):
        message = replace(plain(offset), key=bytes(1 << 19), headers=[("h", bytes(1 << 19))])
        placement = planner.place(message, PlainDecoder(DECODING).header(FENCE, offset))
        assert placement is not None
        assert waiting.too_large() is None
        waiting.add(placement, message)
    assert waiting.too_large() == source


def test_when_much_is_waiting_the_largest_run_is_written(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("columnar_kafka.lake.landing.runs._MOST_BYTES", 2000)
    put(directory.table(), [plain(0), plain(0, partition=1), *map(plain, range(1, 5))])
    files = sorted(directory.root.glob("t/*.parquet"))
    assert [pq.read_metadata(file).num_row_groups for file in files] == [2, 1]
    assert numbers(directory) == [0, 0, 1, 2, 3, 4]


def test_verbatim_segments_keep_their_files_and_runs_have_files_of_their_own(lake: Any) -> None:
    result = put(lake.table(), MIXED, Layout(mode=Mode.VERBATIM))
    assert (len(result.files), result.decoded) == (6, 4)
    assert numbers(lake) == ALL
    report = audit(lake, MIXED, decoding=DECODING)
    assert (report.findings, report.messages, report.decoded) == ([], 3, 4)


def test_the_same_messages_make_files_of_one_digest_whatever_their_runs(
    directory: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a task that runs again is recognised."""
    table = directory.table()

    def staged() -> Any:
        planner = Planner(fences={}, generations=GENERATIONS)
        rules = Rules(plain="decode", decoding=DECODING)
        return stage(MIXED, table=table, planner=planner, rules=rules)

    one = staged()
    monkeypatch.setattr("columnar_kafka.lake.landing.runs._MOST_BYTES", 1)
    other = staged()
    assert [file.digest for file in one.files] == [file.digest for file in other.files]
    result = table.commit([one, other])
    assert (result.landed, result.decoded, result.repeated) == (Count(7, 10), 4, Count(7, 10))
    assert numbers(directory) == ALL


def test_what_has_landed_and_what_comes_twice_lands_once(lake: Any) -> None:
    put(lake.table(), MIXED[:4])
    result = put(lake.table(), [*MIXED[2:], MIXED[-1]])
    assert (result.landed_before, result.repeated) == (Count(2, 3), Count(1, 1))
    assert numbers(lake) == ALL


def test_a_message_that_comes_twice_with_another_value_is_refused(
    directory: DirectoryLake,
) -> None:
    with pytest.raises(LakeError, match=r"t\[0\]@0 came twice, with different bytes"):
        put(directory.table(), [plain(0), plain(1), plain(0, n=5)])


def test_an_attempt_that_is_given_up_leaves_no_file(directory: DirectoryLake) -> None:
    planner = Planner(fences={}, generations=GENERATIONS)
    rules = Rules(plain="decode", decoding=DECODING)
    stager = Stager(table=directory.table(), planner=planner, rules=rules)
    for message in MIXED:
        stager.add(message)
    stager.discard()
    assert list(directory.root.rglob("*.segment")) == []


def test_after_a_kill_before_the_commit_rows_land_once(lake: Any) -> None:
    put(lake.table(), MIXED[:3])
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), MIXED[3:])
    put(lake.table(), MIXED[3:])
    assert numbers(lake) == ALL


# --- tables that differ ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_a_run_is_split_for_the_partitions_of_a_table(tmp_path: Path, kind: Any) -> None:
    """Whatever is to become of segments that straddle: a message has one row."""
    lake = kind(tmp_path / "lake")
    messages = [plain(n, part="ab"[n % 2]) for n in range(4)]
    result = put(lake.table(partition_by=["part"]), messages, straddle="stop")
    assert (result.landed, result.decoded, len(result.files)) == (Count(4, 4), 4, 2)
    assert sorted(zip(*(lake.read()[name].to_pylist() for name in ("n", "part")), strict=True)) == [
        (0, "a"),
        (1, "b"),
        (2, "a"),
        (3, "b"),
    ]
    report = audit(lake, messages, decoding=DECODING)
    assert (report.findings, report.decoded) == ([], 4)


def test_a_value_that_cannot_be_a_partitions_takes_no_neighbour_along(tmp_path: Path) -> None:
    lake, place = DeltaLake(tmp_path / "lake"), place_at(tmp_path / "dead")
    messages = [plain(n, part="" if n == 2 else "a") for n in range(5)]
    result = put(lake.table(partition_by=["part"]), messages, dead_letters=place)
    assert (result.landed, result.decoded, result.dead_letters) == (Count(4, 4), 4, 1)
    assert numbers(lake) == [0, 1, 3, 4]
    [row] = letters(place)
    assert row["reason"].startswith("plain message at t[0]@2: ")


def test_narrow_rows_are_cast_to_a_wide_delta_table(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), [plain(0)])
    narrow = {**SCHEMA, "fields": [{"name": "n", "type": "int"}, SCHEMA["fields"][1]]}
    put(lake.table(), [plain(1)], decoding=Decoding("json", narrow))
    assert numbers(lake) == [0, 1]
    report = audit(lake, [plain(0), plain(1)], decoding=DECODING)
    assert (report.findings, report.decoded) == ([], 2)


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_a_grown_schema_adds_its_column(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path / "lake")
    put(lake.table(), [plain(0)])
    more = {"name": "more", "type": ["null", "string"], "default": None}
    grown = Decoding("json", {**SCHEMA, "fields": [*SCHEMA["fields"], more]})
    put(lake.table(), [plain(1, more="x"), plain(2)], decoding=grown)
    rows = lake.read()
    pairs = sorted(zip(rows["n"].to_pylist(), rows["more"].to_pylist(), strict=True))
    assert pairs == [(0, None), (1, "x"), (2, None)]


def test_a_schema_that_does_not_fit_the_table_refuses_each_message(tmp_path: Path) -> None:
    lake, place = DeltaLake(tmp_path / "lake"), place_at(tmp_path / "dead")
    put(lake.table(), [sent(0)])
    other = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "string"}]}
    rules = {"decoding": Decoding("json", other), "dead_letters": place}
    result = put(lake.table(), [plain(1, n="x"), plain(2, n="y"), sent(3)], **rules)
    assert (result.landed.messages, result.decoded, result.dead_letters) == (1, 0, 2)
    assert [letter["reason"].partition(":")[0] for letter in letters(place)] == [
        "plain message at t[0]@1",
        "plain message at t[0]@2",
    ]


# --- what cannot be decoded -----------------------------------------------------------------------


BAD = [replace(plain(1), value=b"{"), plain(2, n="x"), replace(plain(4), value=None)]


def test_a_message_that_cannot_be_decoded_stops_the_landing_and_is_named(
    directory: DirectoryLake,
) -> None:
    with pytest.raises(LakeError, match=r"at t\[0\]@2: field 'n' is str 'x'; its schema wants int"):
        put(directory.table(), [plain(0), BAD[1], BAD[2]])
    assert [path for path in directory.root.rglob("*") if path.is_file()] == []


def test_bad_messages_are_dead_letters_and_their_neighbours_land(lake: Any, tmp_path: Path) -> None:
    place = place_at(tmp_path / "dead")
    messages = [plain(0), *BAD[:2], plain(3), BAD[2], plain(5)]
    result = put(lake.table(), messages, dead_letters=place)
    assert (result.landed, result.decoded, result.dead_letters) == (Count(3, 3), 3, 3)
    assert numbers(lake) == [0, 3, 5]
    assert [letter["offset"] for letter in letters(place)] == [1, 2, 4]
    assert "tombstone" in letters(place)[2]["reason"]
    assert lake.table().fences()[FENCE].next == 6
    letters_of = place.taken({})[FENCE]
    report = audit(lake, messages, letters=letters_of, decoding=DECODING)
    assert (report.findings, report.decoded, report.dead_letters) == ([], 3, 3)


def test_a_run_of_bad_messages_only_moves_the_fence(
    directory: DirectoryLake, tmp_path: Path
) -> None:
    place = place_at(tmp_path / "dead")
    result = put(directory.table(), BAD[:2], dead_letters=place)
    assert (result.landed, result.dead_letters, result.files) == (Count(), 2, ())
    assert directory.table().fences()[FENCE].next == 3


def test_a_verdict_of_an_unfinished_attempt_stands(
    directory: DirectoryLake, tmp_path: Path
) -> None:
    place = place_at(tmp_path / "dead")
    put(directory.table(), [plain(0)])
    with pytest.raises(KeyboardInterrupt):
        put(Dies(directory.table(), KeyboardInterrupt()), BAD[:2], dead_letters=place)
    lenient = {**SCHEMA, "fields": [{"name": "n", "type": "string"}, SCHEMA["fields"][1]]}
    result = put(
        directory.table(),
        [BAD[1], plain(3, n="y")],
        dead_letters=place,
        decoding=Decoding("json", lenient),
    )
    assert (result.decoded, result.dead_letters) == (1, 0)


def test_messages_that_start_again_lower_have_a_file_of_their_own(
    directory: DirectoryLake, tmp_path: Path
) -> None:
    """Though the first of them was set aside before."""
    place = place_at(tmp_path / "dead")
    with pytest.raises(KeyboardInterrupt):
        put(Dies(directory.table(), KeyboardInterrupt()), [BAD[0]], dead_letters=place)
    put(directory.table(), [plain(5), BAD[0], plain(2)], dead_letters=place)
    fence = directory.table().fences()[FENCE]
    assert (fence.first, fence.next, numbers(directory)) == (2, 6, [2, 5])
    assert len(list(directory.root.glob("t/*.parquet"))) == 2


@pytest.mark.parametrize("again", [1, 2])
def test_letters_are_replayed_as_rows_and_proven(lake: Any, tmp_path: Path, again: int) -> None:
    """Also those that went on to a second place."""
    place = place_at(tmp_path / "dead")
    messages = [sent(0), plain(1), plain(2), sent(3), plain(4), sent(5), plain(6)]
    rules = {"plain": "dead-letter", "decoding": None, "dead_letters": place}
    put(lake.table(), messages, **rules)
    if again > 1:
        rest = place_at(tmp_path / "rest")
        replay(place, lake.table(), rules=Rules(plain="dead-letter", dead_letters=rest))
        place = rest
    chosen = Rules(plain="decode", decoding=DECODING)
    assert replay(place, lake.table(), rules=chosen).decoded == 4
    assert replay(place, lake.table(), rules=chosen).decoded == 0
    assert numbers(lake) == [0, 1, 1, 2, 4, 6, 3000, 3001, 5000, 5001]
    report = audit(lake, messages, decoding=DECODING)
    assert (report.findings, report.messages, report.decoded) == ([], 3, 4)
    unknown = audit(lake, messages)
    assert (unknown.findings, unknown.messages, unknown.plain) == ([], 3, 4)


# --- the audit ------------------------------------------------------------------------------------


def findings(report: Any) -> list[tuple[Any, ...]]:
    return [(finding.kind, finding.first, finding.last) for finding in report.findings]


def test_without_a_format_rows_of_plain_messages_are_passed_over(lake: Any) -> None:
    put(lake.table(), MIXED)
    report = audit(lake, MIXED)
    assert (report.findings, report.messages, report.plain, report.decoded) == ([], 3, 4, 0)
    late = audit(lake, MIXED[3:], low=3)
    assert (late.findings, late.messages, late.plain) == ([], 2, 2)


def test_with_a_format_every_row_is_proven_once(lake: Any) -> None:
    put(lake.table(), MIXED[:3])
    put(lake.table(), MIXED[3:])
    report = audit(lake, MIXED, decoding=DECODING)
    assert (report.findings, report.messages, report.rows, report.decoded) == ([], 3, 6, 4)
    late = audit(lake, MIXED[4:], low=4, decoding=DECODING)
    assert (late.findings, late.messages, late.decoded) == ([], 2, 1)


def test_a_message_that_is_not_there_is_missing(lake: Any) -> None:
    put(lake.table(), [plain(0), plain(2), sent(3)])
    put(lake.table(), [plain(5)])
    there = [plain(0), plain(2), sent(3), plain(5)]
    within = audit(lake, [*there[:1], plain(1), *there[1:]], decoding=DECODING)
    between = audit(lake, [*there[:3], plain(4), *there[3:]], decoding=DECODING)
    assert (findings(within), findings(between)) == ([("missing", 1, 1)], [("missing", 4, 4)])
    assert (within.messages, within.decoded, between.decoded) == (1, 3, 3)


def test_messages_that_are_there_part_those_that_are_missing(lake: Any) -> None:
    put(lake.table(), [plain(0), sent(3)])
    put(lake.table(), [plain(6), plain(9)])
    messages = [*map(plain, range(3)), sent(3), *map(plain, range(4, 10))]
    report = audit(lake, messages, decoding=DECODING)
    missing = (1, 2), (4, 5), (7, 8)
    assert findings(report) == [("missing", *span) for span in missing]


def test_a_row_of_no_committed_message_is_found(directory: DirectoryLake) -> None:
    put(directory.table(), map(plain, range(4)))
    report = audit(directory, [plain(0), plain(1), plain(3)], decoding=DECODING)
    assert findings(report) == [("not committed", 0, 3)]
    assert f"1 rows of segment {block_name(FENCE, 0)}" in report.findings[0].reason


def test_another_value_is_found_by_its_offset(lake: Any) -> None:
    put(lake.table(), map(plain, range(4)))
    messages = [plain(0), plain(1), plain(2, n=5), plain(3)]
    [(kind, first, _)] = findings(audit(lake, messages, decoding=DECODING))
    assert (kind, first) == ("different", 2)


def optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def grown(*, more: bool) -> Decoding:
    """Return a decoding whose schema, with `more`, has a nullable field on top and in a record."""
    members = [optional("a", "int"), *([optional("b", "int")] if more else [])]
    inner = {"type": "record", "name": "inner", "fields": members}
    fields = [{"name": "n", "type": "long"}, optional("s", inner)]
    if more:
        fields.append(optional("x", "string"))
    return Decoding("json", {"type": "record", "name": "r", "fields": fields})


def test_rows_from_before_the_schema_grew_lack_what_is_null(lake: Any) -> None:
    old = [plain(0), plain(1, s={"a": 1})]
    put(lake.table(), old, decoding=grown(more=False))
    new = [plain(2, s={"a": 2, "b": 3}, x="y"), plain(3)]
    put(lake.table(), new, decoding=grown(more=True))
    report = audit(lake, [*old, *new], decoding=grown(more=True))
    assert (report.findings, report.decoded) == ([], 4)


@pytest.mark.parametrize("value", [{"x": "y"}, {"s": {"a": 1, "b": 2}}], ids=["column", "member"])
def test_a_value_that_a_file_has_no_column_for_is_found(lake: Any, value: dict[str, Any]) -> None:
    """It is from before the schema grew, or so it seems."""
    put(lake.table(), [plain(0), plain(1, s={"a": 1})], decoding=grown(more=False))
    messages = [plain(0), plain(1, **{"s": {"a": 1}, **value})]
    [(kind, first, _)] = findings(audit(lake, messages, decoding=grown(more=True)))
    assert (kind, first) == ("different", 1)


def test_in_a_table_with_partitions_too(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    messages = [plain(n, part="ab"[n % 2]) for n in range(6)]
    put(lake.table(partition_by=["part"]), [*messages[:2], *messages[3:]])
    changed = [*messages[:4], plain(4, n=9), messages[5]]
    report = audit(lake, changed, decoding=DECODING)
    assert (findings(report), report.decoded) == ([("missing", 2, 2), ("different", 4, 4)], 4)
    aborted = audit(lake, [*messages[:2], *messages[3:5]], decoding=DECODING)
    assert ([kind for kind, *_ in findings(aborted)], aborted.decoded) == (["not committed"], 4)


def test_a_file_that_is_there_twice_is_found(directory: DirectoryLake) -> None:
    put(directory.table(), MIXED)
    [file] = directory.root.glob("t/*.parquet")
    shutil.copy(file, file.with_name("copy.parquet"))
    report = audit(directory, MIXED, decoding=DECODING)
    kinds = {kind for kind, *_ in findings(report)}
    offsets = [n for _, one, last in findings(report) for n in range(one, last + 1)]
    assert (kinds, offsets) == ({"twice"}, list(range(7)))


def test_merged_files_are_proven(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    for message in MIXED:
        put(lake.table(), [message])
    assert lake.table().compact(1 << 20).files == 1
    report = audit(lake, MIXED, decoding=DECODING)
    assert (report.findings, report.messages, report.decoded) == ([], 3, 4)
    unknown = audit(lake, MIXED)
    assert (unknown.findings, unknown.messages, unknown.plain) == ([], 3, 4)


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("xml", SCHEMA), "format of plain messages is 'xml': it must be avro or json"),
        (("json", SCHEMA, 5), "a schema id is for plain messages in Avro"),
        (("avro", pa.schema([("n", pa.int64())])), "need the Avro schema that wrote them"),
        (("avro", SCHEMA, 1 << 32), "it must have 32 bits"),
        (("json", "{"), "the schema of plain messages: the Avro schema is not JSON"),
        (("json", 5), "the schema of plain messages: a schema must be"),
        (("json", pa.schema([("_kafka", pa.int64())])), "field '_kafka' is reserved"),
        (
            ("json", pa.schema([("m", pa.map_(pa.int64(), pa.int64()))])),
            "field 'm' is a map with keys of type int64",
        ),
    ],
)
def test_what_cannot_be_decoded_is_refused_at_once(arguments: Sequence[Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Decoding(*arguments)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"plain": "decode"}, "plain is decode: it needs the plain messages' format and schema"),
        ({"decoding": DECODING}, "plain is stop: only decode takes the plain messages' format and"),
    ],
)
def test_decoding_needs_a_format_and_a_schema_and_nothing_else_takes_them(
    rules: Any, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Rules(**rules)


def test_a_decoding_and_rules_can_be_sent_to_executors() -> None:
    rules = Rules(plain="decode", decoding=DECODING)
    assert pickle.loads(pickle.dumps(rules)) == rules
