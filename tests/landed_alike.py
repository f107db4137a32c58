"""Lands plain messages by the native core, and one by one in Python, and compares."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Message
from lakes import GENERATIONS, DirectoryLake, letters, place_at
from same_tables import assert_same

from columnar_kafka import native
from columnar_kafka.ingest import Rules
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.aside.set_aside import land_staged
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import PlainMessages, StageResult
from columnar_kafka.lake.plan import Layout, Planner

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from columnar_kafka.ingest import Decoding

HEADERS: list[Any] = [None, None, [("h", b"1"), ("é", None)], []]
ROOM = 1 << 40


def assert_lands_alike(
    decoding: Decoding, values: Sequence[bytes | None], rng: random.Random
) -> None:
    """Compare rows, dead letters and files."""
    layout = Layout(file_bytes=rng.choice([1 << 20, 2000]))
    messages = messages_of(values, rng)
    together = landed(messages, decoding, layout, add_together)
    assert_landed_alike(together, landed(messages, decoding, layout, add_one_by_one))


def assert_rows_land_alike(
    decoding: Decoding, values: Sequence[bytes | None], rng: random.Random
) -> None:
    """Compare rows and dead letters: what a file's columns are depends on when they are known."""
    layout, messages = Layout(), messages_of(values, rng)
    one, other = (
        landed(messages, decoding, layout, add, read=rows_of)
        for add in (add_together, add_one_by_one)
    )
    assert one[1] == other[1]
    for table, expected in zip(one[0], other[0], strict=True):
        assert table.schema == expected.schema
        assert table.equals(expected)


def rows_of(lake: DirectoryLake) -> pl.DataFrame:
    """Return the rows of files, whose columns may differ, by their places; NaN equals itself."""
    files = lake.filesystem()
    tables = [pq.read_table(path, filesystem=files) for path in lake.data_files()]
    table = pa.concat_tables(tables, promote_options="permissive")
    kafka = table["_kafka"].combine_chunks()
    places = pa.table({name: kafka.field(name) for name in ("segment", "row")})
    order = pc.sort_indices(places, [("segment", "ascending"), ("row", "ascending")])
    frame = pl.from_arrow(table.select(sorted(table.column_names)).take(order))
    assert isinstance(frame, pl.DataFrame)
    return frame


def messages_of(values: Sequence[bytes | None], rng: random.Random) -> list[Message]:
    """Return messages with these values, and other parts at random."""
    messages, offset = [], rng.choice([0, 65_500])
    for value in values:
        offset += rng.choice([1, 1, 1, 5])
        messages.append(
            Message(
                topic="t",
                partition=0,
                offset=offset,
                key=rng.choice([None, b"", b"key"]),
                value=value,
                headers=rng.choice(HEADERS),
                timestamp=rng.choice([(0, 0), (1, 0), (1, 1_700_000_000_000), (2, 5)]),
            )
        )
    return messages


def add_together(stager: Stager, messages: list[Message]) -> None:
    at = 0
    while at < len(messages):
        core = native.core.read_messages(messages, at, Message, ROOM)
        assert core is not None
        stager.add_plain(PlainMessages("t", core))
        at += len(core)


def add_one_by_one(stager: Stager, messages: list[Message]) -> None:
    for message in messages:
        stager.add(source_message(message))


Landed = tuple[list[Any], list[tuple[int, str]], StageResult]


def landed(
    messages: list[Message],
    decoding: Decoding,
    layout: Layout,
    add: Callable[[Stager, list[Message]], None],
    read: Callable[[DirectoryLake], Any] = DirectoryLake.read,
) -> Landed:
    """Return the rows and the dead letters of messages, and what was staged."""
    with tempfile.TemporaryDirectory() as folder:
        lake, place = DirectoryLake(Path(folder, "lake")), place_at(Path(folder, "letters"))
        rules = Rules(plain="decode", decoding=decoding, dead_letters=place)
        planner = Planner(fences={}, generations=GENERATIONS, layout=layout)
        stager = Stager(table=lake.table(), planner=planner, rules=rules)
        add(stager, messages)
        staged = stager.finish()
        land_staged(lake.table(), [staged], rules)
        # fastavro's texts have the addresses of objects.
        refused = [
            (letter["offset"], re.sub("0x[0-9a-f]+", "", letter["reason"]))
            for letter in letters(place)
        ]
        return [read(lake)] if staged.files else [], refused, staged


def assert_landed_alike(one: Landed, other: Landed) -> None:
    assert one[1] == other[1]
    assert files_of(one[2]) == files_of(other[2])
    assert len(one[0]) == len(other[0])
    for table, expected in zip(one[0], other[0], strict=True):
        assert_same(table, expected)


def files_of(staged: StageResult) -> Any:
    """Return what is the same in the files of two attempts."""
    return [
        (file.first, file.last, file.messages, file.rows, file.segment, file.schema, file.digest)
        for file in staged.files
    ], sorted(staged.decoded.values())
