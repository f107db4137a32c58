"""Avro datums → columns of which the same bytes can be made again: bytes in, bytes out.

A datum fits if it is as fastavro writes it. Bytes that another writer has put otherwise (several
blocks, or blocks with their sizes; numbers in more bytes than they need; of a union the second of
two types that have the value) would come back in another form, and are misfits.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from columnar_kafka import native
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.errors import RowError, SchemaError, SegmentError
from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.avro_values import AvroValues
from columnar_kafka.schema.avro_encoding import avro_types, forms
from columnar_kafka.schema.unions import without_unions
from columnar_kafka.segment.avro_layout import AvroLayout, header_of, id_of

if TYPE_CHECKING:
    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core
    from columnar_kafka.schema import RecordSchema

__all__ = ["AvroColumns", "ReversibleAvro"]

_HEADER_BYTES: Final = len(header_of(0))
_VALUE_BYTES: Final = 40


class _Header(Protocol):
    """What stands in front of every datum of a topic, once the first has settled it."""

    @property
    def settled(self) -> bytes | None:
        """What it is; None: nothing has settled it."""
        ...

    def settle(self, header: bytes) -> bytes:
        """Have it be this, unless it is settled; return what it is."""
        ...


class _FirstHeader:
    """`_Header` in Python."""

    def __init__(self) -> None:
        self._said: dict[None, bytes] = {}

    @property
    def settled(self) -> bytes | None:
        return self._said.get(None)

    def settle(self, header: bytes) -> bytes:
        return self._said.setdefault(None, header)


class AvroColumns:
    """The columns of Avro datums: those of a schema."""

    def __init__(self, records: RecordSchema, schema: Any, schema_id: int | None = None) -> None:
        """Describe them; `schema` is what the user has given, and `records` what it says.

        `schema_id` is its id in a registry: behind another one no datum is of this schema.

        Raises:
            SchemaError: it is no Avro schema.
        """
        if not isinstance(schema, str | Mapping | list):
            raise SchemaError(
                f"a {type(schema).__name__} that is no Avro schema does not say how values are "
                "written in Avro: pass the serializer's schema, or value_format='rows'"
            )
        self.records = records
        self.schema_id = schema_id
        self.avro = Avro(schema)
        self.forms = dict(forms(records.arrow, self.avro.fields))
        self.types = avro_types(records.arrow, self.forms)
        self.header: _Header = native.core.AvroHeader() if native.enabled else _FirstHeader()

    def read_natively(self, rows: core.RowFormat) -> None:
        """Have the native core read datums into its columns."""
        native.core.read_avro(rows, self.types, self.header)  # type: ignore[arg-type]

    def reader(self, _: Any) -> ReversibleAvro:
        """Return what reads datums in Python."""
        return ReversibleAvro(self)


class ReversibleAvro:
    """How Avro datums become rows of columns. For any thread."""

    value_format: Final = "avro"
    has_rest: Final = False
    is_inferred = False

    def __init__(self, columns: AvroColumns) -> None:
        self.schema = columns.records
        self._columns = columns
        self._rows = RowColumns(self.schema)
        self._datums = RowColumns(_of_members(self.schema))
        self._write = AvroValues(self.schema.arrow, columns.types, b"", sys.maxsize)
        self.take = self._rows.take
        self.row = self._rows.row

    def taken(self, value: bytes) -> tuple[RowValues, int]:
        """Return the row of a value as `RowColumns.take` does, and the bytes that it may hold.

        The first that fits behind Confluent's five bytes, or without them, settles that for all.

        Raises:
            RowError: it is no datum of the schema behind them, or would come back otherwise.
        """
        header = self._columns.header.settled
        if header is not None:
            return self._behind(header, value)
        fitting: dict[bytes, tuple[RowValues, int]] = {}
        for header in self._headers(value):
            try:
                fitting[header] = self._behind(header, value)
            except RowError as error:
                misfit = error
        if not fitting:
            raise misfit
        if len(fitting) > 1:  # a wrong guess would be columns of nonsense
            raise RowError("with and without Confluent's five bytes it is an Avro value of this "
                           "schema; the next values will tell")  # fmt: skip
        [(header, taken)] = fitting.items()
        settled = self._columns.header.settle(header)  # or another thread has
        return taken if settled == header else self._behind(settled, value)

    def _headers(self, value: bytes) -> tuple[bytes, ...]:
        """Return what may stand before the first datum."""
        number = self._columns.schema_id
        if value[:1] != b"\0" or len(value) < _HEADER_BYTES:
            return (b"",)
        if number is None:
            return (b"", value[:_HEADER_BYTES])
        return (header_of(number),) if value.startswith(header_of(number)) else (b"",)

    def _behind(self, header: bytes, value: bytes) -> tuple[RowValues, int]:
        if not value.startswith(header):
            begins = value[:_HEADER_BYTES]
            raise RowError(f"it begins with {begins!r}, and the values before it with {header!r}")
        datum = value[len(header) :]
        try:
            row = self._columns.avro.read_one(datum)
        except ValueError as error:
            raise RowError(f"not an Avro value of this schema{self._id}: {error}") from error
        values, nbytes = self._datums.take(row)
        try:
            is_same = self._write(row) == datum
        except SegmentError:
            is_same = False
        if not is_same:
            raise RowError("its writer has encoded it otherwise than fastavro, and so its bytes "
                           "would not come back")  # fmt: skip
        return values, nbytes + _VALUE_BYTES * len(values)

    @property
    def _id(self) -> str:
        number = self._columns.schema_id
        return "" if number is None else f", {number} in the registry"

    def is_like(self, columns: Any) -> bool:
        """Say whether these columns, of equal types, have equal Avro schemas."""
        own = self._columns
        return (
            isinstance(columns, AvroColumns)
            and columns.avro.schema == own.avro.schema
            and columns.schema_id == own.schema_id
        )

    def footer(self, *, says_null: bool) -> dict[str, bytes]:
        """Return the key-value pair of a file's footer."""
        header = self._columns.header.settled
        number = None if header is None else id_of(header)
        return AvroLayout(number, self._columns.forms).footer()


def _of_members(schema: RecordSchema) -> RecordSchema:
    """Return a schema for what `Avro.read_one` makes: a union is a record of members."""
    columns, defaults = without_unions(schema.arrow)
    return replace(schema, arrow=columns, defaults={**schema.defaults, **defaults})
