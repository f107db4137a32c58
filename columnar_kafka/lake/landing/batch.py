"""The files of consecutive messages that land together, while they are written."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, NamedTuple

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import StagedFile
from columnar_kafka.lake.stitching.file_metadata import file_metadata
from columnar_kafka.lake.stitching.row_groups import StitchError
from columnar_kafka.lake.stitching.stitch import Stitcher
from columnar_kafka.segment.decoder import fingerprint_of
from columnar_kafka.segment.parquet.metadata import has_encrypted_columns
from columnar_kafka.segment.parquet.page_checks import footer_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from columnar_kafka.lake.landing.rewrite import SegmentPart
    from columnar_kafka.lake.model import FileWriter, PartitionValues
    from columnar_kafka.lake.plan import Placed, Placement

__all__ = ["Batch"]


class Batch:
    """Consecutive segments of one schema, in a file for each partition of the table.

    It `is_open` while more segments may be appended. A run counts as a segment; `decoded` is the
    number of plain messages.
    """

    def __init__(
        self,
        create: Callable[[Batch, Placement, PartitionValues], FileWriter],
        unstated: frozenset[int],
        *,
        stitch: bool,
    ) -> None:
        self._create = create
        self._unstated = unstated
        self._stitch = stitch
        self._messages = 0
        self.decoded = 0
        self._digest = hashlib.sha256()
        self._open: dict[PartitionValues, _OpenFile] = {}  # the longest waiting first
        self._finished: list[_Finished] = []
        self._first: Placement
        self._last: Placement

    @property
    def is_open(self) -> bool:
        """Whether more may be appended."""
        return bool(self._open)

    @property
    def number_open(self) -> int:
        """The number of files that are being written."""
        return len(self._open)

    def append(self, placed: Placed, parts: Sequence[SegmentPart]) -> bool:
        """Append a segment, or a run; return False if it needs its own batch, nothing written."""
        for part in parts:
            file = self._open.pop(part.partition, None)
            if file is not None and not file.append(placed, part):
                if not part.partition:  # a table without partitions has one file a batch
                    self._open[()] = file
                    return False
                self._finished.append(file.finish())
                file = None
            if file is None:
                writer = self._create(self, placed.first, part.partition)
                file = _OpenFile(writer, placed, part, self._unstated, stitch=self._stitch)
            if file.is_open:
                self._open[part.partition] = file
            else:
                self._finished.append(file.finish())
        if not self._messages:
            self._first = placed.first
        self._last = placed.last
        self._messages += placed.messages
        self.decoded += placed.messages if placed.first.is_plain else 0
        self._digest.update(placed.digest)
        return True

    def finish_oldest(self) -> None:
        """Make the file that waited longest durable: more segments begin another."""
        self._finished.append(self._open.pop(next(iter(self._open))).finish())

    def finish(self) -> list[StagedFile]:
        """Make all files durable."""
        files = [*self._finished, *(file.finish() for file in self._open.values())]
        batch = uuid.uuid4().hex if files[0].partition else ""
        source, header = self._first.source, self._last.header
        return [
            StagedFile(
                fence=source.fence,
                topic=source.topic,
                partition=source.partition,
                first=self._first.offset,
                last=self._last.offset,
                messages=0 if number else self._messages,
                rows=file.rows,
                nbytes=file.nbytes,
                segment=header.segment,
                schema=header.schema,
                digest=self._digest.hexdigest(),
                path=file.path,
                batch=batch,
                table_partition=file.partition or None,
                is_encrypted=file.is_encrypted,
            )
            for number, file in enumerate(files)
        ]


class _Finished(NamedTuple):
    """One durable file of a batch."""

    path: str
    rows: int
    nbytes: int
    partition: PartitionValues
    is_encrypted: bool


class _OpenFile:
    """One file being written; `is_open` while more segments may be appended."""

    def __init__(
        self,
        writer: FileWriter,
        placed: Placed,
        part: SegmentPart,
        unstated: frozenset[int],
        *,
        stitch: bool,
    ) -> None:
        self._writer = writer
        self._partition = part.partition
        self._first, self._last = placed.first, placed.last
        self._schema = self._first.header.schema
        if part.is_rewritten:
            self._schema = fingerprint_of(part.data)
        self._messages = self._rows = 0
        self._is_encrypted = False
        self._stitcher = Stitcher(writer, writer.field_ids, unstated)
        # What is encoded anew is stitched in any case: its bytes are not those that were sent.
        self.is_open = (stitch or part.is_rewritten) and self.append(placed, part)
        if not self.is_open:  # verbatim: the layout, or a segment that cannot be stitched
            writer.write(part.data)
            self._is_encrypted = has_encrypted_columns(footer_bytes(bytes(part.data)))
            self._count(placed, part)

    def append(self, placed: Placed, part: SegmentPart) -> bool:
        """Stitch a part to those before it; return False if it cannot be, nothing written."""
        try:
            self._stitcher.append(part.data)
        except StitchError:
            return False
        self._count(placed, part)
        return True

    def finish(self) -> _Finished:
        """Write the footer of a stitched file, and make the file durable."""
        if self.is_open:
            rows = self._stitcher.finish(self._metadata()).rows
            if rows != self._rows:
                raise LakeError(
                    f"{self._first.source}: {rows} rows were stitched, not {self._rows}"
                )
        nbytes = self._writer.finish()
        return _Finished(self._writer.path, self._rows, nbytes, self._partition, self._is_encrypted)

    def _count(self, placed: Placed, part: SegmentPart) -> None:
        self._last = placed.last
        self._messages += part.messages
        self._rows += part.rows

    def _metadata(self) -> dict[str, str]:
        return file_metadata(
            self._first.source,
            schema=self._schema,
            rows=self._rows,
            segments=self._messages,
            first=self._first.offset,
            last=self._last.offset,
        )
