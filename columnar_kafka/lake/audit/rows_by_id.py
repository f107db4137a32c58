"""Rows that only the column `_kafka` tells about, looked up by their messages' ids.

Which row group has which messages is in memory, about 0.2 KB for each. The rows stay in the files:
for many messages at a time, those row groups are read that have any of them, a batch at a time. So
the memory depends neither on the files' sizes nor on their order. The time does: a row group is
read as often as such look-ups have a message in it.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka.errors import ColumnarError, LakeError
from columnar_kafka.lake.aside.decoding import BLOCK
from columnar_kafka.lake.audit.landed_rows import (
    DIFFERS,
    SentRun,
    ids_of,
    in_order,
    row_ids,
    same_rows,
    without_views,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from columnar_kafka.lake.model import LandedFile
    from columnar_kafka.segment.segment import Segment

__all__ = ["UNREADABLE", "RowsById", "Waiting", "offsets_of"]

UNREADABLE: Final = (pa.ArrowException, ColumnarError, OSError, ValueError, KeyError)
"""What is raised by a file, or a message, that cannot be read or compared."""

_LOOKED_UP: Final = 64 << 20
"""Bytes of decoded rows to be looked up at once, about; twice that while they are put in order."""
_WAITING_BYTES: Final = 32 << 20  # of messages, as they came, that are looked up at once
_FIRST_ROWS: Final = 1 << 17  # rows, until it is known how large they are
_MOST_ROWS: Final = 1 << 20
_BATCH: Final = 16 << 20  # bytes that are decoded at once, by what the footer says of a row group
_BATCH_ROWS: Final = 1 << 16
_BUFFER: Final = 1 << 20  # of a column, which is not read whole
_ASKED: Final = 0x80


class RowsById:
    """The rows of files whose messages only the column `_kafka` names."""

    def __init__(self) -> None:
        self._groups: list[tuple[LandedFile, int]] = []  # row groups, by their files
        # The number of rows of a segment, or block, and the row groups that have some.
        self._places: dict[str, tuple[int, ...]] = {}
        self._asked: set[str] = set()
        # For each row of a block: how often files have it, and whether it was asked for.
        self._plain: dict[str, bytearray] = defaultdict(lambda: bytearray(BLOCK))
        self.at_once = _FIRST_ROWS
        """How many rows are looked up at once by who wants to take little memory."""

    def add(self, file: LandedFile) -> None:
        """Take a file. Blocks to read the ids of its rows.

        Raises:
            LakeError: it does not say which message a row came from.
            pa.ArrowException, OSError: it cannot be read.
        """
        groups = row_ids(file.open())
        if groups is None:
            raise LakeError(
                "another program wrote it, and its rows have no ids "
                "(_kafka.segment, _kafka.row): the producers' columnar.metadata did not include id"
            )
        alike: dict[tuple[int, ...], tuple[int, ...]] = {}  # most segments of a row group are
        for number, ids in enumerate(groups):
            counts = ids.segments | {name: len(rows) for name, rows in ids.plain.items()}
            for name, count in counts.items():
                before, *groups_before = self._places.get(name, (0,))
                place = before + count, *groups_before, len(self._groups)
                self._places[name] = alike.setdefault(place, place)
            self._groups.append((file, number))
            for name, rows in ids.plain.items():
                known = self._plain[name]
                for row in rows:
                    known[row] = min(known[row] + 1, _ASKED - 1)

    def has(self, segment: str) -> bool:
        """Return whether rows of a segment are in here, and take note that they were asked for."""
        self._asked.add(segment)
        return segment in self._places

    def count(self, segment: str) -> int:
        """Return how many rows of a segment are in here."""
        return self._places[segment][0]

    def counts(self, run: SentRun) -> list[int]:
        """Return how often each message of a run is in here; take note that it was asked for."""
        if run.id not in self._plain:
            return [0] * run.rows
        known = self._plain[run.id]
        counts = []
        for row in run.places():
            counts.append(known[row] & ~_ASKED)
            known[row] |= _ASKED
        return counts

    def rows(self, names: Collection[str]) -> dict[str, pa.Table]:
        """Return the rows of segments and blocks that are in here, by name and in their order.

        Takes the memory of these rows, and of a batch. Blocks to read the files.

        Raises:
            pa.ArrowException, OSError: they cannot be decoded.
        """
        wanted = pa.array(sorted(names), pa.string())
        groups = sorted({group for name in names for group in self._places[name][1:]})
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        for _, of_file in groupby(groups, key=lambda group: self._groups[group][0].path):
            group = list(of_file)
            numbers = [self._groups[index][1] for index in group]
            table = _rows_of(self._groups[group[0]][0], numbers, wanted)
            if table.num_rows:
                self.at_once = max(1, min(_MOST_ROWS, _LOOKED_UP * table.num_rows // table.nbytes))
            for name, rows in _by_id(table):
                parts[name].append(rows)
        return {
            # The columns of two files may be in another order.
            name: in_order(pa.concat_tables(part, promote_options="permissive"))
            if len(part) > 1
            else part[0]
            for name, part in parts.items()
        }

    def left(self, *, plain: bool) -> Iterator[tuple[str, str]]:
        """Yield the segments that nobody has asked for, with a file of each; or also `plain` rows.

        They are named by their block. Rows of another program may name no segment: that of the
        name "".
        """
        for name, places in sorted(self._places.items(), key=lambda item: item[0] or ""):
            path = self._groups[places[1]][0].path
            if name in self._plain:
                if plain and any(0 < count < _ASKED for count in self._plain[name]):
                    yield name, path
            elif name not in self._asked:
                yield name or "", path


class Waiting:
    """Messages whose rows are in files once, until many of them are looked up and compared."""

    def __init__(self, rows: RowsById) -> None:
        self._by_id = rows
        self._sent: list[Segment | SentRun] = []
        self._rows = self._nbytes = 0

    @property
    def first(self) -> Segment | SentRun | None:
        """The message that waits longest."""
        return self._sent[0] if self._sent else None

    def add(self, sent: Segment | SentRun) -> bool:
        """Let a message wait, or messages; return whether it is enough."""
        self._sent.append(sent)
        self._rows += sent.rows
        self._nbytes += sent.table.nbytes if isinstance(sent, SentRun) else sent.bytes.nbytes
        return self._rows >= self._by_id.at_once or self._nbytes >= _WAITING_BYTES

    def compared(self) -> Iterator[tuple[Segment | SentRun, _Verdict, list[str]]]:
        """Yield all that waits, and what is wrong with each of its messages, if anything."""
        sent, self._sent = self._sent, []
        self._rows = self._nbytes = 0
        if sent:
            yield from self._compared(sent)

    def _compared(
        self, sent: Sequence[Segment | SentRun]
    ) -> Iterator[tuple[Segment | SentRun, _Verdict, list[str]]]:
        """Compare together, or else each half: a row group that cannot be read spoils no other."""
        try:
            landed = self._by_id.rows({segment.id for segment in sent})
        except UNREADABLE as error:
            if half := len(sent) // 2:
                yield from self._compared(sent[:half])
                yield from self._compared(sent[half:])
            else:
                yield sent[0], "not provable", [str(error)] * len(offsets_of(sent[0]))
            return
        for segment in sent:
            yield segment, *_compared(segment, landed[segment.id])


_Verdict = Literal["different", "not provable"]


def _compared(sent: Segment | SentRun, landed: pa.Table) -> tuple[_Verdict, list[str]]:
    try:
        same = list(sent.among(landed)) if isinstance(sent, SentRun) else [same_rows(landed, sent)]
    except UNREADABLE as error:
        return "not provable", [str(error)] * len(offsets_of(sent))
    return "different", ["" if is_same else DIFFERS for is_same in same]


def offsets_of(sent: Segment | SentRun) -> Sequence[int]:
    """Return the offsets of a segment, or of a run's messages."""
    return sent.offsets if isinstance(sent, SentRun) else [sent.kafka_offset]


def _rows_of(file: LandedFile, groups: list[int], wanted: pa.Array) -> pa.Table:
    """Return the rows of a file's row groups that have one of these ids, in order."""
    with pq.ParquetFile(file.open(), buffer_size=_BUFFER, pre_buffer=False) as parquet:
        read = parquet.schema_arrow
        schema = pa.schema([field.with_type(without_views(field.type)) for field in read])
        tables = [schema.empty_table()]
        for number in groups:
            metadata = parquet.metadata.row_group(number)
            most = _BATCH * metadata.num_rows // max(1, metadata.total_byte_size)
            for batch in parquet.iter_batches(max(1, min(most, _BATCH_ROWS)), row_groups=[number]):
                table = pa.Table.from_batches([batch.replace_schema_metadata()]).cast(schema)
                tables.append(table.filter(pc.is_in(ids_of(table), wanted)))
    table = in_order(pa.concat_tables(tables))
    for name, value in file.partition.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def _by_id(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each id of a table that is in order."""
    runs = pc.run_end_encode(ids_of(table))
    start = 0
    for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield name, table.slice(start, end - start)
        start = end
