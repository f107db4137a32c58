"""One Parquet file out of several: row groups are copied undecoded, under one new footer.

The bodies of the files (pages, and whatever lies between them) are written one after another. Their
row groups' entries go into one footer, with the new positions. No value is decoded and no page is
changed, so page checksums, statistics and bloom filters stay valid.

The new footer leaves out:

- references to page indexes: an `OffsetIndex` holds absolute positions, and readers do not need it;
- `ColumnChunk.file_offset`, which the format has deprecated: it becomes 0;
- unknown fields of the footer's own four structs (file, row group, column chunk, column metadata):
  they may hold positions, and no reader may depend on them. Unknown fields of structs inside these
  (statistics, logical types, …) are copied;
- key-value metadata, which describes one input file, except `ARROW:schema`. Files with and without
  it are stitched if it says no more than their Parquet schema does.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from columnar_kafka.lake.arrow_types import zoned_columns
from columnar_kafka.lake.stitching.parquet_footer import (
    MAX_FOOTER,
    Footer,
    encode_footer,
    read_footer,
    with_field_ids,
)
from columnar_kafka.lake.stitching.row_groups import START, StitchError, without_statistics
from columnar_kafka.segment.parquet.field_ids import MAGIC
from columnar_kafka.segment.parquet.metadata import ARROW_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import TypeAlias

    BytesLike: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

__all__ = ["MAX_ROW_GROUPS", "Stitched", "Stitcher", "stitch"]

MAX_ROW_GROUPS: Final = 32_767  # RowGroup.ordinal is an i16
_MAX_ROWS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Stitched:
    """The size of a finished file: rows, bytes, row groups, and the number of input files."""

    rows: int
    nbytes: int
    row_groups: int
    files: int


class Sink(Protocol):
    """A file that is open for writing, or anything else with this method."""

    def write(self, data: Any, /) -> Any:
        """Take all of a buffer in one call, as all but raw (unbuffered) files do."""


class Stitcher:
    """Writes one Parquet file by appending the row groups of others; for one thread at a time.

    It keeps the row groups' entries for the footer, never the data. `rows` and `files` count the
    appended input.
    """

    def __init__(
        self,
        sink: Sink,
        field_ids: Mapping[tuple[str, ...], int] | None = None,
        unstated: Collection[int] = (),
    ) -> None:
        """Write to `sink`, a new empty file, which is left open.

        The schema's elements get these `field_ids`, by their paths; without it they keep theirs.
        With it the file says nothing of time zones: who reads by field ids, as Iceberg does, knows
        UTC only, and the values are instants.
        The leaf columns with the numbers in `unstated` lose their statistics.
        """
        self.rows = 0
        self.files = 0
        self._sink = sink
        self._field_ids = field_ids
        self._unstated = unstated
        self._first: Footer | None = None
        self._row_groups: list[bytes] = []
        self._row_groups_nbytes = 0
        self._written = 0
        self._closed = ""  # why no further call is allowed; empty while calls are

    @property
    def row_groups(self) -> int:
        """The number of row groups appended so far."""
        return len(self._row_groups)

    @property
    def nbytes(self) -> int:
        """The size in bytes if the file were finished now, without schema and metadata."""
        return self._written + self._row_groups_nbytes

    def append(self, data: BytesLike) -> None:
        """Append the row groups of a complete Parquet file, except those without rows.

        When this returns, the body has been passed to the sink in one call; `data` is not kept.

        Raises:
            StitchError: `data` is no Parquet file, is damaged or encrypted, differs from the first
                file in schema, column orders or writer, or would exceed a limit of one file.
                Nothing was written, and the stitcher is unchanged.
            Exception: whatever the sink's `write` raises. Any part of the body may have been
                written, so the file is lost, and every further call raises a StitchError.
        """
        self._check_usable()
        view = memoryview(data).cast("B")
        footer = read_footer(
            view, at=self._written or START, ordinal=self.row_groups, first=self._first
        )
        if self._unstated:
            footer.row_groups = [
                without_statistics(group, self._unstated) for group in footer.row_groups
            ]
        row_groups_nbytes = self._row_groups_nbytes + sum(map(len, footer.row_groups))
        self._check_limits(footer, row_groups_nbytes)
        if footer.row_groups:
            self._write(view[START : footer.body_end])
        self._row_groups += footer.row_groups
        self._row_groups_nbytes = row_groups_nbytes
        self.rows += footer.rows
        self.files += 1
        if self._first is None:
            self._first = footer
            footer.row_groups = []  # they are in self._row_groups

    def finish(self, metadata: Mapping[str, str]) -> Stitched:
        """Write the footer, with `metadata` as key-values beside `ARROW:schema`. Call it once.

        The sink is neither flushed nor closed. If no input has rows, the file is valid and empty.

        Raises:
            StitchError: no file was appended, an earlier write has failed, or the file is finished.
            ValueError: `metadata` contains `ARROW:schema`.
            LakeError: a column is not among the field ids.
            Exception: whatever the sink's `write` raises. The file is lost.
        """
        self._check_usable()
        if self._first is None:
            raise StitchError("no file was appended")
        pairs = _pairs(self._first, metadata, keep_schema=self._field_ids is None)
        if self._field_ids is not None:
            self._first.schema = with_field_ids(self._first.schema, self._field_ids)
        self._write(
            encode_footer(self._first, rows=self.rows, row_groups=self._row_groups, pairs=pairs)
        )
        self._closed = "the file is finished"
        return Stitched(self.rows, self._written, self.row_groups, self.files)

    def _check_usable(self) -> None:
        if self._closed:
            raise StitchError(self._closed)

    def _check_limits(self, footer: Footer, row_groups_nbytes: int) -> None:
        if self.row_groups + len(footer.row_groups) > MAX_ROW_GROUPS:
            raise StitchError(f"more than {MAX_ROW_GROUPS} row groups: begin another file")
        if row_groups_nbytes > MAX_FOOTER:
            raise StitchError(f"a footer of more than {MAX_FOOTER} bytes: begin another file")
        if self.rows + footer.rows > _MAX_ROWS:
            raise StitchError(f"more than {_MAX_ROWS} rows")

    def _write(self, data: memoryview | bytes) -> None:
        self._closed = "a write has failed: the file is lost"
        if not self._written:
            self._sink.write(MAGIC)
            self._written = START
        self._sink.write(data)
        self._written += len(data)
        self._closed = ""


def _pairs(
    first: Footer, metadata: Mapping[str, str], *, keep_schema: bool
) -> list[tuple[bytes, bytes]]:
    if ARROW_SCHEMA.decode() in metadata:
        raise ValueError("metadata must not contain ARROW:schema: it is taken from the files")
    own = [] if first.arrow_schema is None else [(ARROW_SCHEMA, first.arrow_schema)]
    if own and not keep_schema:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(own[0][1])))
        own = [] if zoned_columns(schema) else own  # Parquet's own schema says all but the zones
    return own + [(key.encode(), value.encode()) for key, value in metadata.items()]


def stitch(files: Iterable[BytesLike], sink: Sink, *, metadata: Mapping[str, str]) -> Stitched:
    """Write one Parquet file with the row groups of all `files`, in order; see `Stitcher`.

    Raises:
        StitchError: one of the files cannot be stitched, or there are none. The sink holds no
            complete file.
    """
    stitcher = Stitcher(sink)
    for data in files:
        stitcher.append(data)
    return stitcher.finish(metadata)
