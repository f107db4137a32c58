"""Segments to records and tables by the native core, which reads what our own producers write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.native_format import (
    NotNativeError,
    chosen_columns,
    layout,
    native_columns,
)
from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema
from columnar_kafka.segment.avro_layout import AvroLayout, said_of
from columnar_kafka.segment.json_layout import JSON_KEY, JsonLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from columnar_kafka.config import ReadOptions
    from columnar_kafka.native._core import (
        AvroSchema,
        File,
        FileSchema,
        JsonSchema,
        RecordMaker,
        RecordReader,
        RowGroup,
        TableSchema,
    )
    from columnar_kafka.segment.headers import SegmentHeader

__all__ = ["Form", "KnownFile", "NativeDecoder", "record_maker"]

Form = Literal["rows", "named rows", "json", "avro"]
"""What the values of records are: rows, those of a union with the names of their records, or the
bytes of JSON objects or of Avro datums."""

_CACHE_BYTES: Final = 64 << 20
_EXPANDED: Final = 20
"""What a schema takes in Arrow, in the core and as chosen columns, for each byte of its message.

Arrow writes the message anew: in a forged file a thousand fields may share the bytes of one.
"""
_TABLES: Final = 100
_FORMS: Final = 16


class _Table(NamedTuple):
    """Some columns of a schema: as the core reads them, and as Arrow has them."""

    core: TableSchema
    arrow: pa.Schema


class _Known:
    """A schema that Arrow has read before; `schema` is None where the core lacks a type."""

    def __init__(self, fingerprint: str, arrow: pa.Schema, schema: FileSchema | None) -> None:
        self.fingerprint = fingerprint
        self.arrow = arrow
        self.schema = schema
        self._tables: dict[tuple[str, ...] | None, _Table | None] = {}
        self._forms: dict[tuple[Form, frozenset[Any]], JsonSchema | AvroSchema | None] = {}

    def table(self, names: Sequence[str] | None) -> _Table | None:
        """Return some columns or all; None if the core cannot read them as columns."""
        key = None if names is None else tuple(names)
        if key not in self._tables:
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            self._tables[key] = self._make_table(key)
        return self._tables[key]

    def form(self, form: Form, said: Mapping[bytes, bytes]) -> Any:
        """Return how records become bytes, of which a footer says this; None: the core cannot.

        Raises:
            SegmentError: what it says is malformed, or records cannot have that form.
        """
        key = form, frozenset(said.items())
        if key not in self._forms:
            made = self._make_json(said) if form == "json" else self._make_avro(said)
            if len(self._forms) >= _FORMS:
                self._forms.clear()
            self._forms[key] = made
        return self._forms[key]

    def _make_json(self, said: Mapping[bytes, bytes]) -> JsonSchema | None:
        layout = JsonLayout.parse(said.get(JSON_KEY), self.arrow)
        assert self.schema is not None
        try:
            return native.core.JsonSchema(self.schema, *layout[:4], dict(layout.times))
        except native.core.PanicError:
            return None

    def _make_avro(self, said: Mapping[bytes, bytes]) -> AvroSchema | None:
        layout = AvroLayout.parse(said)
        types = layout.described(self.arrow)
        assert self.schema is not None
        try:
            return native.core.AvroSchema(self.schema, types, layout.header)
        except native.core.PanicError:
            return None

    def _make_table(self, names: Collection[str] | None) -> _Table | None:
        chosen = chosen_columns(self.arrow, names)
        if self.schema is None or chosen is None:
            return None
        columns = [(number, members, layout(field.type)) for number, members, field in chosen]
        arrow = pa.schema([column.field for column in chosen], metadata=self.arrow.metadata)
        try:
            return _Table(native.core.TableSchema(self.schema, columns), arrow)
        except native.core.PanicError:
            return None


class KnownFile:
    """A file of a schema that Arrow has read before. For any thread."""

    def __init__(
        self, file: File, known: _Known, options: ReadOptions, said: Mapping[bytes, bytes]
    ) -> None:
        self._file = file
        self._known = known
        self._options = options
        self.said = said
        """What the footer says of the values of records."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._known.arrow

    def records(self, start: int, form: Form) -> RecordReader | None:
        """Return the records from row `start` on; None if Arrow has to read them.

        Raises:
            SegmentError: what the footer says is malformed, or records cannot have that form.
        """
        assert self._known.schema is not None
        limits = self._options.max_values, self._options.max_decoded_bytes
        if form in ("rows", "named rows"):
            return self._file.read(self._known.schema, start, *limits, form == "named rows")
        schema = self._known.form(form, self.said)
        if schema is None:
            return None
        read = self._file.read_json if form == "json" else self._file.read_avro
        return read(schema, start, *limits)

    def table(self, columns: Sequence[str] | None) -> pa.Table | None:
        """Return all rows, in one chunk, as `SegmentFile.read`; None if Arrow has to read them."""
        if (table := self._known.table(columns)) is None:
            return None

        def imported(address: int) -> pa.RecordBatch:
            return pa.RecordBatch._import_from_c(address, table.arrow)  # noqa: SLF001 - the public way copies the schema too

        options = self._options
        batch = self._file.table(
            table.core, imported, options.max_values, options.max_decoded_bytes
        )
        return None if batch is None else pa.Table.from_batches([batch])

    def append_to(self, rows: RowGroup, max_bytes: int) -> bool:
        """Append all rows to others of the same columns; return whether that was done.

        If not, none was: Arrow has to judge the file, or it takes more than `max_bytes` decoded.
        """
        assert self._known.schema is not None
        options = self._options
        nbytes = min(max_bytes, options.max_decoded_bytes)
        return rows.append(self._file, self._known.schema, options.max_values, nbytes)

    def check(self) -> bool:
        """Return whether each value could be read; if not, Arrow has to judge the file."""
        assert self._known.schema is not None
        options = self._options
        return self._file.check(self._known.schema, options.max_values, options.max_decoded_bytes)


class NativeDecoder:
    """Reads without Arrow, once Arrow has read the schema of a segment like them.

    It refuses no segment. One that is damaged, exceeds a limit or is merely unusual is left to
    Arrow. For any thread.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.known: dict[bytes, _Known] = {}  # by what the footer says of the schema
        self._known_bytes = 0

    def open(
        self, header: SegmentHeader, crc32: int, value: Any, *, schema: Callable[[], pa.Schema]
    ) -> KnownFile | None:
        """Open a file whose columns the core reads, and compare it with its headers.

        That checks all that Arrow's decoder checks when it opens a file. The result is None if
        Arrow has to read it.

        Args:
            header: what the message's headers say.
            crc32: the value's checksum, as the headers say.
            value: the segment's bytes.
            schema: opens the file with Arrow, checks it, and returns its columns. What it raises is
                raised here.
        """
        options = self._options
        data = value if type(value) is bytes else bytes(value)
        file = native.core.File.open(data, crc32, options.max_footer_bytes)
        if file is None or file.rows != header.rows or header.rows > options.max_rows:
            return None
        metadata = dict(file.metadata)
        try:
            header.check_footer(metadata)
        except SegmentError:
            return None
        key = file.key
        if (known := self.known.get(key)) is None:
            arrow = schema()
            known = _Known(header.schema, arrow, _read_schema(file, arrow))
            self._remember(key, known)
        if known.schema is None or known.fingerprint != header.schema:
            return None
        return KnownFile(file, known, options, said_of(metadata))

    def _remember(self, key: bytes, known: _Known) -> None:
        nbytes = len(key) + _EXPANDED * known.arrow.serialize().size
        if key in self.known or nbytes > _CACHE_BYTES:
            return
        if self._known_bytes + nbytes > _CACHE_BYTES:
            self.known, self._known_bytes = {}, 0
        self.known[key] = known
        self._known_bytes += nbytes


def _read_schema(file: File, arrow: pa.Schema) -> FileSchema | None:
    """Return how the core reads a file's columns; None if it does not."""
    try:
        return file.schema(native_columns(arrow)) if _is_storable(arrow) else None
    except NotNativeError:
        return None


def _is_storable(schema: pa.Schema) -> bool:
    """Return whether a producer takes these columns: Arrow may refuse to decode others."""
    try:
        RecordSchema.parse(pa.schema([field for field in schema if field.name != KAFKA_COLUMN]))
    except SchemaError:
        return False
    return True


def record_maker(message: type) -> RecordMaker | None:
    """Return what makes messages of a class, whose slots it sets; None if the core is off."""
    return native.core.RecordMaker(message) if native.enabled else None
