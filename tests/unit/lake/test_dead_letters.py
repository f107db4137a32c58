"""Messages that do not land: they go to another place, once, and the rest lands."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    Dies,
    DirectoryLake,
    IcebergLake,
    letters,
    place_at,
    rows,
)
from pyiceberg.catalog import load_catalog
from segments import numbered, numbers, segment, segments

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.aside.message_rows import PLAIN_MESSAGES
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.formats import open_dead_letters, open_table
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.stage import Stager, land
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    MayHaveLandedError,
    NotLandedError,
    ReadRange,
    SourceMessage,
    SourcePartition,
)
from columnar_kafka.lake.plan import Planner
from columnar_kafka.lake.tables.delta.table import DeltaLakeTable
from columnar_kafka.lake.tables.directory.table import ParquetDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from columnar_kafka.lake.aside.dead_letters import DeadLetters
    from columnar_kafka.lake.model import CommitResult

KINDS = [DirectoryLake, DeltaLake, IcebergLake]


@pytest.fixture(params=KINDS, ids=["parquet", "delta", "iceberg"])
def every_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


@pytest.fixture
def place(tmp_path: Path) -> DeadLetters:
    return place_at(tmp_path / "dead")


def plain(offset: int, value: bytes | None = b"plain") -> SourceMessage:
    return SourceMessage(
        topic="t",
        partition=0,
        offset=offset,
        headers=[("a", b"1"), ("a", None)],
        value=value,
        key=b"k",
        timestamp=1_700_000_000_123,
    )


def broken(offset: int) -> SourceMessage:
    """A segment whose bytes are not those of its checksum."""
    message = numbered(offset)
    return replace(message, value=message.value[:-1] + b"?", timestamp=None)


def short(offset: int) -> SourceMessage:
    """A segment whose page is cut short, with the right checksums."""
    written = hostile.sent(pa.table({"n": [1, 2, 3]}), compression="none", use_dictionary=False)
    of = hostile.changed(written, lambda file: file.chunks[0][0][0].fill(bytes(5)))
    return SourceMessage(
        topic="t", partition=0, offset=offset, headers=of.headers(), value=of.value
    )


def put(table: Any, messages: Iterable[SourceMessage], **rules: Any) -> CommitResult:
    return land(messages, table=table, generations=GENERATIONS, rules=Rules(**rules))


def offsets(place: DeadLetters) -> list[int]:
    return [row["offset"] for row in letters(place)]


# --- where messages go ----------------------------------------------------------------------------


def test_what_cannot_land_is_a_dead_letter_and_the_rest_lands(
    every_lake: Any, place: DeadLetters
) -> None:
    messages = [numbered(0), broken(1), plain(2), numbered(3), short(4)]
    result = put(every_lake.table(), messages, dead_letters=place, plain="dead-letter")
    assert (result.landed.messages, result.dead_letters, result.skipped) == (2, 3, 0)
    assert rows(every_lake) == numbers([0, 3])
    assert offsets(place) == [1, 2, 4]
    assert every_lake.table().fences()[FENCE].next == 5
    put(every_lake.table(), segments([5]))
    assert rows(every_lake) == numbers([0, 3, 5])


def test_a_dead_letter_says_why_and_has_all_bytes(lake: DirectoryLake, place: DeadLetters) -> None:
    put(
        lake.table(), [broken(0), plain(1), plain(2, None)], dead_letters=place, plain="dead-letter"
    )
    first, second, third = letters(place)
    assert first["reason"].endswith("the bytes are damaged")
    assert first["value"] == broken(0).value
    assert [(header["key"], header["value"]) for header in first["headers"]] == numbered(0).headers
    assert (first["key"], first["timestamp"]) == (None, None)
    assert second["reason"].startswith("t[0]@1 is a plain message")
    assert [(header["key"], header["value"]) for header in second["headers"]] == [
        ("a", b"1"),
        ("a", None),
    ]
    assert (second["topic"], second["partition"], second["key"]) == ("t", 0, b"k")
    assert second["timestamp"].timestamp() == 1_700_000_000.123
    assert third["value"] is None


def test_without_a_place_it_stops(lake: DirectoryLake) -> None:
    for bad, text in ((broken(1), "the bytes are damaged"), (plain(1), r"see table\.plain")):
        with pytest.raises(LakeError, match=text):
            put(lake.table(), [numbered(0), bad])
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["lake", "lake/dead", ".", "other/../lake", "link/dead"])
def test_a_place_below_the_table_or_above_it_is_refused(tmp_path: Path, name: str) -> None:
    for folder in "other", "lake":
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    letters, plain_table = place_at(tmp_path / name), ParquetDirectory(tmp_path / name)
    messages = [numbered(0), broken(1), plain(2)]
    for kind in ParquetDirectory, DeltaLakeTable:
        for rules in {"dead_letters": letters}, {"plain": "table", "plain_table": plain_table}:
            with pytest.raises(ConfigError, match="need directories apart"):
                put(kind(tmp_path / "lake"), messages, **rules)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_dead_letters_and_plain_messages_have_a_place_each(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    with pytest.raises(
        ConfigError, match=r"the dead letters at .* and the table of plain messages"
    ):
        put(lake.table(), [], dead_letters=place, plain="table", plain_table=place.table)


def test_the_places_of_an_object_store_are_compared_by_their_urls() -> None:
    storage = {"aws_region": "eu-central-1"}
    table = open_table("delta", "s3a://bucket/lake/", storage=storage)
    for url, is_apart in (("s3://bucket/lake/dead", False), ("s3://bucket/lakes", True)):
        rules = Rules(dead_letters=open_dead_letters(url, storage=storage))
        with nullcontext() if is_apart else pytest.raises(ConfigError, match="directories apart"):
            rules.check_apart(table)


def test_a_schema_that_does_not_fit_is_a_dead_letter(tmp_path: Path) -> None:
    for kind in DeltaLake, IcebergLake:
        lake = kind(tmp_path / kind.__name__)
        put(lake.table(), segments([0]))
        other = segment(pa.table({"n": ["text"]}), offset=1, number=1)
        place = place_at(tmp_path / f"dead letters of {kind.__name__}")
        result = put(lake.table(), [other, numbered(2)], dead_letters=place)
        assert (result.landed.messages, result.dead_letters) == (1, 1)
        assert rows(lake) == numbers([0, 2])


def test_plain_messages_are_skipped_and_counted(every_lake: Any) -> None:
    result = put(every_lake.table(), [plain(0), numbered(1), plain(2)], plain="skip")
    assert (result.landed.messages, result.skipped) == (1, 2)
    assert every_lake.table().fences()[FENCE].next == 3


@pytest.mark.parametrize("kind", KINDS)
def test_plain_messages_land_in_a_table_of_their_own(tmp_path: Path, kind: Any) -> None:
    lake, other = kind(tmp_path / "lake"), kind(tmp_path / "plain")
    rules = {"plain": "table", "plain_table": other.table()}
    result = put(lake.table(), [plain(0), numbered(1), plain(2)], **rules)
    assert (result.landed.messages, result.plain_messages) == (1, 2)
    assert rows(lake) == numbers([1])
    table = other.read()
    assert table.column_names == PLAIN_MESSAGES.names
    assert sorted(table["offset"].to_pylist()) == [0, 2]
    assert table["value"].to_pylist() == [b"plain", b"plain"]
    [file] = [path for path in other.data_files() if "_columnar" not in path]
    metadata = pq.read_metadata(file, filesystem=other.filesystem())
    times = metadata.row_group(0).column(PLAIN_MESSAGES.get_field_index("timestamp"))
    assert times.is_stats_set is (kind is not IcebergLake)  # Spark would take them for others


def test_a_fence_moves_past_what_was_set_aside_though_nothing_lands(every_lake: Any) -> None:
    put(every_lake.table(), segments([0]))
    result = put(every_lake.table(), [plain(1), plain(2)], plain="skip")
    assert (result.files, result.skipped) == ((), 2)
    fence = every_lake.table().fences()[FENCE]
    assert (fence.next, fence.segment) == (3, UNKNOWN_SEGMENT)
    again = put(every_lake.table(), [plain(2), numbered(3)], plain="skip")
    assert (again.skipped, again.landed_before.messages, again.landed.messages) == (0, 1, 1)


def test_a_partition_with_nothing_but_plain_messages_has_a_fence_if_there_is_a_table(
    every_lake: Any,
) -> None:
    """A directory begins with any commit; other tables need columns, which segments bring."""
    other = [replace(plain(offset), partition=1) for offset in range(2)]
    put(every_lake.table(), other, plain="skip")
    begins = isinstance(every_lake, DirectoryLake)
    assert [fence.next for fence in every_lake.table().fences().values()] == ([2] if begins else [])
    put(every_lake.table(), [numbered(0), *other], plain="skip")
    fences = every_lake.table().fences()
    assert {name[-1]: (fence.first, fence.next) for name, fence in fences.items()} == {
        "0": (0, 1),
        "1": (0, 2),
    }
    # The directory asks for the last file of what has landed before: here there is none.
    assert put(every_lake.table(), [*other, numbered(1)], plain="skip").landed.messages == 1


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_in_a_table_that_was_made_before_the_fence_moves_though_nothing_has_landed_yet(
    tmp_path: Path, kind: Any
) -> None:
    lake = kind(tmp_path / "lake")
    file = pq.ParquetFile(pa.BufferReader(numbered(0).value))
    schema = pa.schema([field.with_nullable(nullable=True) for field in file.schema_arrow])
    if kind is DeltaLake:
        DeltaTable.create(str(lake.root), schema)
    else:
        with closing(load_catalog(**lake.catalog)) as catalog:
            catalog.create_namespace("lake")
            catalog.create_table(lake.name, schema)
    result = put(lake.table(), [plain(0), plain(1)], plain="skip")
    assert (result.files, result.skipped) == ((), 2)
    fence = lake.table().fences()[FENCE]
    assert (fence.first, fence.next, fence.segment) == (0, 2, UNKNOWN_SEGMENT)
    again = put(lake.table(), [plain(0), plain(1), numbered(2)], plain="skip")
    assert (again.skipped, again.landed_before.messages, again.landed.messages) == (0, 2, 1)
    assert rows(lake) == numbers([2])


def test_a_segment_that_was_set_aside_last_may_come_again(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    messages = [numbered(0), short(1)]
    put(lake.table(), messages, dead_letters=place)
    again = put(lake.table(), messages, dead_letters=place)
    assert (again.landed_before.messages, again.dead_letters) == (2, 0)
    assert offsets(place) == [1]


def test_a_message_that_comes_twice_is_one_letter(lake: DirectoryLake, place: DeadLetters) -> None:
    put(lake.table(), [plain(0), plain(1), plain(0)], dead_letters=place, plain="dead-letter")
    assert offsets(place) == [0, 1]


def test_many_letters_take_several_files(
    lake: DirectoryLake, place: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("columnar_kafka.lake.aside.message_rows._FILE_BYTES", 1000)
    put(lake.table(), map(plain, range(5)), dead_letters=place, plain="dead-letter")
    assert offsets(place) == list(range(5))
    assert len(list(place.table.root.glob("t/*.parquet"))) == 3


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"plain": "drop"}, "plain is 'drop': it must be stop or skip or dead-letter or table"),
        ({"plain": "dead-letter"}, "plain is dead-letter: it needs a place for dead letters"),
        ({"straddle": "drop"}, "straddle is 'drop': it must be split or stop or dead-letter"),
        ({"straddle": "dead-letter"}, "straddle is dead-letter: it needs a place for dead letters"),
        ({"plain": "table"}, "must be set together"),
        ({"plain_table": 1}, "must be set together"),
    ],
)
def test_rules_that_contradict_each_other_are_refused(rules: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Rules(**rules)


# --- once, whatever happens in between ------------------------------------------------------------


def test_after_a_kill_between_the_commits_no_letter_is_lost_or_there_twice(
    every_lake: Any, place: DeadLetters
) -> None:
    messages = [numbered(0), plain(1), numbered(2), broken(3), plain(4)]
    rules = {"dead_letters": place, "plain": "dead-letter"}
    put(every_lake.table(), messages[:1])
    with pytest.raises(KeyboardInterrupt):
        put(Dies(every_lake.table(), KeyboardInterrupt()), messages[1:4], **rules)
    assert offsets(place) == [1, 3]
    result = put(every_lake.table(), messages[1:], **rules)
    assert (result.landed.messages, result.dead_letters) == (1, 1)
    assert offsets(place) == [1, 3, 4]
    assert rows(every_lake) == numbers([0, 2])
    assert every_lake.table().fences()[FENCE].next == 5


def test_plain_messages_too_are_in_their_table_once(tmp_path: Path, lake: DirectoryLake) -> None:
    other = DirectoryLake(tmp_path / "plain")
    rules = {"plain": "table", "plain_table": other.table()}
    put(lake.table(), segments([0]))
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), [plain(1), numbered(2)], **rules)
    put(lake.table(), [plain(1), numbered(2), plain(3)], **rules)
    assert sorted(other.read()["offset"].to_pylist()) == [1, 3]
    assert rows(lake) == numbers([0, 2])


def test_the_first_verdict_stands(lake: DirectoryLake, place: DeadLetters) -> None:
    """Else a message would be in both places, or in none."""
    put(lake.table(), segments([0]))
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), [short(1)], dead_letters=place)
    trusting = {"verify": "headers", "dead_letters": place}
    put(lake.table(), [short(1), numbered(2)], **trusting)
    assert rows(lake) == numbers([0, 2])
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), [short(3), broken(4)], **trusting)
    with pytest.raises(
        LakeError,
        match=r"set aside messages up to offset 4\. Run once with that attempt's settings; or",
    ):
        put(lake.table(), [short(3), broken(4)], dead_letters=place)
    put(lake.table(), [short(3), broken(4)], **trusting)
    assert offsets(place) == [1, 4]


def test_what_a_restore_removed_goes_to_another_place_if_it_is_refused_now(
    tmp_path: Path, place: DeadLetters
) -> None:
    """The first place has a later letter; the other one gets that, too."""
    lake, messages = DeltaLake(tmp_path / "lake"), [numbered(0), short(1), broken(2), numbered(3)]
    put(lake.table(), messages[:1])
    put(lake.table(), messages, dead_letters=place, verify="headers")
    lake.load().restore(1)
    with pytest.raises(LakeError, match=r"or was undone by a restore, .* name another place"):
        put(lake.table(reland=True), messages, dead_letters=place)
    other = place_at(tmp_path / "other")
    put(lake.table(reland=True), messages, dead_letters=other)
    assert (rows(lake), offsets(other)) == (numbers([0, 3]), [1, 2])


def test_messages_that_start_again_lower_have_a_file_of_their_own_though_the_first_was_set_aside(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), [broken(0)], dead_letters=place)
    put(lake.table(), [numbered(5), broken(0), numbered(1)], dead_letters=place)
    fence = lake.table().fences()[FENCE]
    assert (fence.first, fence.next, rows(lake)) == (1, 6, numbers([1, 5]))
    assert len(list(lake.root.glob("t/*.parquet"))) == 2


def test_a_commit_that_did_not_land_leaves_no_staged_file(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    error = NotLandedError("another was faster")
    with pytest.raises(NotLandedError):
        put(Dies(lake.table(), error), [numbered(0), broken(1)], dead_letters=place)
    assert list(lake.root.glob("_columnar/staged/*")) == []
    assert list(place.table.root.glob("_columnar/staged/*")) == []
    assert offsets(place) == [1]


def test_if_the_letters_may_have_landed_the_tables_files_are_removed(
    lake: DirectoryLake, place: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> None:
        raise MayHaveLandedError("no answer")

    monkeypatch.setattr(place.table, "commit", fails)
    with pytest.raises(MayHaveLandedError):
        put(lake.table(), [numbered(0), broken(1)], dead_letters=place)
    assert list(lake.root.glob("_columnar/staged/*")) == []
    assert len(list(place.table.root.glob("_columnar/staged/*"))) == 1


def test_two_that_set_the_same_message_aside_make_one_letter(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    source = SourcePartition(GENERATIONS["t"], "t", 0)
    table, rules = lake.table(), Rules(dead_letters=place)

    def staged() -> Any:
        planner = Planner(fences=table.fences(), generations=GENERATIONS)
        stager = Stager(table=table, planner=planner, rules=rules)
        for message in (numbered(0), broken(1)):
            stager.add(message)
        return stager.finish([ReadRange(source, 0, 2)])

    one, other = staged(), staged()
    place.commit([one])
    with pytest.raises(NotLandedError, match="another process has set messages aside meanwhile"):
        place.commit([other])
    assert offsets(place) == [1]


def test_a_stager_that_is_given_up_leaves_no_letter(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    planner = Planner(fences={}, generations=GENERATIONS)
    stager = Stager(table=lake.table(), planner=planner, rules=Rules(dead_letters=place))
    stager.add(broken(0))
    stager.finish()
    stager.discard()
    assert list(place.table.root.glob("_columnar/staged/*")) == []


# --- replay ---------------------------------------------------------------------------------------


def test_a_replay_lands_what_lands_now_and_lands_it_once(
    every_lake: Any, place: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = every_lake.table()
    put(table, [numbered(0), broken(1), numbered(2)], dead_letters=place)
    before = table.fences()[FENCE]

    def readable(_: Any, start: int) -> list[SourceMessage]:
        """As if this release could read it."""
        return [numbered(1)] if start <= 1 else []

    monkeypatch.setattr(place, "messages", readable)
    assert replay(place, table).landed.messages == 1
    assert replay(place, table).landed.messages == 0
    assert rows(every_lake) == numbers(range(3))
    assert table.fences()[FENCE] == before
    put(table, segments([3]))
    assert rows(every_lake) == numbers(range(4))


def test_what_still_cannot_land_stops_a_replay_or_goes_to_the_next_place(
    tmp_path: Path, lake: DirectoryLake, place: DeadLetters
) -> None:
    table = lake.table()
    put(
        table, [numbered(0), short(1), broken(2), plain(3)], dead_letters=place, plain="dead-letter"
    )
    with pytest.raises(LakeError, match=r"segment at t\[0\]@1"):
        replay(place, table)
    next_place = place_at(tmp_path / "next")
    rules = Rules(dead_letters=next_place, verify="headers", plain="skip")
    result = replay(place, table, rules=rules)
    assert (result.landed.messages, result.dead_letters, result.skipped) == (1, 1, 1)
    assert offsets(next_place) == [2]
    assert replay(place, table, rules=rules) == type(result)()
    last = place_at(tmp_path / "last")
    assert replay(next_place, table, rules=Rules(dead_letters=last)).dead_letters == 1
    assert offsets(last) == [2]


def test_a_replay_needs_another_place_for_the_rest(lake: DirectoryLake, place: DeadLetters) -> None:
    with pytest.raises(
        ConfigError, match=r"the replayed dead letters at .* and the dead letters at"
    ):
        replay(place, lake.table(), rules=Rules(dead_letters=place_at(place.table.root)))


def test_a_place_is_for_one_source(tmp_path: Path, lake: DirectoryLake, place: DeadLetters) -> None:
    put(lake.table(), [numbered(0), broken(1)], dead_letters=place)
    next_place = place_at(tmp_path / "next")
    replay(place, lake.table(), rules=Rules(dead_letters=next_place))
    with pytest.raises(LakeError, match="already has dead letters of another source"):
        put(lake.table(), [broken(2)], dead_letters=next_place)


def test_a_replay_that_is_killed_goes_on(lake: DirectoryLake, place: DeadLetters) -> None:
    messages = [numbered(0), *map(short, range(1, 5))]
    put(lake.table(), messages, dead_letters=place)
    trusting = Rules(verify="headers")
    with pytest.raises(KeyboardInterrupt):
        replay(place, Dies(lake.table(), KeyboardInterrupt()), rules=trusting)
    result = replay(place, lake.table(), rules=trusting, roll_bytes=1)
    assert (result.landed.messages, len(result.files)) == (4, 4)
    assert replay(place, lake.table(), rules=trusting).landed.messages == 0


def test_a_topic_lands_beside_letters_that_were_replayed_before_its_first_commit(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    """The log of a file that nobody has landed would have been lost."""
    messages = [numbered(0), short(1), numbered(2)]
    with pytest.raises(KeyboardInterrupt):
        put(Dies(lake.table(), KeyboardInterrupt()), messages, dead_letters=place)
    replayed = replay(place, lake.table(), rules=Rules(verify="headers")).files
    stranger = (lake.root / replayed[0]).with_name(f"p0-{7:020}-{7:020}.parquet")
    stranger.touch()
    with pytest.raises(NotLandedError, match=f"{stranger.name} exists, but is not in the log"):
        put(lake.table(), messages, dead_letters=place)
    stranger.unlink()
    landed = put(lake.table(), messages, dead_letters=place)
    assert (landed.landed.messages, lake.table().fences()[FENCE].next) == (2, 3)
    names = sorted(f"t/{path.name}" for path in lake.root.glob("t/*"))
    assert names == sorted([*replayed, *landed.files])


def test_letters_of_several_topics_and_partitions_are_replayed(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    messages = [
        replace(short(1), topic=topic, partition=partition)
        for topic in ("t", "_u")
        for partition in range(2)
    ]
    generations = {**GENERATIONS, "_u": replace(GENERATIONS["t"], topic_id="other")}
    good = [numbered(0)]
    land(
        [*good, *messages],
        table=lake.table(),
        generations=generations,
        rules=Rules(dead_letters=place),
    )
    result = replay(place, lake.table(), rules=Rules(verify="headers"))
    assert result.landed.messages == 4
    assert len(lake.table().fences()) == 1 + 3 + 4


def test_a_place_that_does_not_exist_has_no_letters(
    lake: DirectoryLake, place: DeadLetters
) -> None:
    assert replay(place, lake.table()).landed.messages == 0


def test_the_place_is_asked_once_whose_letters_it_has(
    lake: DirectoryLake, place: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each partition: its newest entry has the fences of all."""
    asked = []
    fences = ParquetDirectory.fences
    monkeypatch.setattr(ParquetDirectory, "fences", lambda self: asked.append(self) or fences(self))
    put(lake.table(), [replace(broken(5), partition=n) for n in range(9)], dead_letters=place)
    assert len([table for table in asked if table is place.table]) == 1
    assert len(offsets(place)) == 9
