"""Segments to records by the native core, which reads what our own producers write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.native_format import native_columns
from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.config import DecodeLimits
    from columnar_kafka.native._core import File, FileSchema, RecordMaker, RecordReader
    from columnar_kafka.segment.headers import SegmentHeader

__all__ = ["NativeDecoder", "record_maker"]

_CACHE_BYTES: Final = 16 << 20


class _Known(NamedTuple):
    """A schema that Arrow has read before; `schema` is None where the core lacks a type."""

    fingerprint: str
    schema: FileSchema | None


class _KnownFile(NamedTuple):
    """A file of such a schema."""

    file: File
    schema: FileSchema


class NativeDecoder:
    """Reads records without Arrow, once Arrow has read the schema of a segment like them.

    It refuses no segment. One that is damaged, exceeds a limit or is merely unusual is left to
    Arrow. For any thread.
    """

    def __init__(self, limits: DecodeLimits) -> None:
        self._limits = limits
        self._known: dict[bytes, _Known] = {}  # by the part of the footer that tells the schema
        self._known_bytes = 0

    def read(
        self,
        header: SegmentHeader,
        crc32: int,
        value: Any,
        *,
        start: int,
        schema: Callable[[], pa.Schema],
    ) -> RecordReader | None:
        """Check a segment as Arrow's decoder would, and return its records from row `start` on.

        The result is None if Arrow has to read it. Decoding needs no GIL.

        Args:
            header: what the message's headers say.
            crc32: the value's checksum, as the headers say.
            value: the segment's bytes.
            start: the first row.
            schema: opens the file with Arrow, checks it, and returns its columns. What it raises is
                raised here.
        """
        if (known := self._known_file(header, crc32, value, schema)) is None:
            return None
        limits = self._limits
        return known.file.read(known.schema, start, limits.values, limits.decoded_bytes)

    def check(
        self,
        header: SegmentHeader,
        crc32: int,
        value: Any,
        *,
        schema: Callable[[], pa.Schema],
    ) -> bool:
        """Return whether a segment was decoded, and has passed every check that `read` makes.

        If not, Arrow has to judge it. Arguments and errors are those of `read`.
        """
        if (known := self._known_file(header, crc32, value, schema)) is None:
            return False
        limits = self._limits
        return known.file.check(known.schema, limits.values, limits.decoded_bytes)

    def _known_file(
        self, header: SegmentHeader, crc32: int, value: Any, schema: Callable[[], pa.Schema]
    ) -> _KnownFile | None:
        """Open a file whose columns the core reads, and compare it with its headers."""
        limits = self._limits
        data = value if type(value) is bytes else bytes(value)
        file = native.core.File.open(data, crc32, limits.footer_bytes)
        if file is None or file.rows != header.rows or header.rows > limits.rows:
            return None
        try:
            header.check_footer(dict(file.metadata))
        except SegmentError:
            return None
        known = self._known.get(file.key)
        if known is None:
            found = schema()
            columns = native_columns(found) if _is_storable(found) else None
            known = _Known(header.schema, None if columns is None else file.schema(columns))
            self._remember(file.key, known)
        if known.schema is None or known.fingerprint != header.schema:
            return None
        return _KnownFile(file, known.schema)

    def _remember(self, key: bytes, known: _Known) -> None:
        if self._known_bytes + len(key) > _CACHE_BYTES:
            self._known, self._known_bytes = {}, 0
        self._known[key] = known
        self._known_bytes += len(key)


def _is_storable(schema: pa.Schema) -> bool:
    """Return whether a producer takes these columns: Arrow may refuse to decode others."""
    try:
        RecordSchema.parse(pa.schema([each for each in schema if each.name != KAFKA_COLUMN]))
    except SchemaError:
        return False
    return True


def record_maker(message: type) -> RecordMaker | None:
    """Return what makes messages of a class, whose slots it sets; None if the core is off."""
    return native.core.RecordMaker(message) if native.enabled else None
