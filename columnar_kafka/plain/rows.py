"""Plain messages → the columns that a producer's segments of the same schema have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.range_checks import has_time_out_of_day
from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.base import DECODE_ERRORS
from columnar_kafka.plain.json_rows import JsonRows
from columnar_kafka.schema import RecordSchema, fingerprint
from columnar_kafka.segment.encoder import check_can_be_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["PlainRows"]

_MEMBERS: Final = ("id", "key", "timestamp", "headers")


class _Values(Protocol):
    """Decodes values, each of which is a row."""

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """Return the rows of the values that are right, and what is wrong with others, by index."""
        ...


class PlainRows:
    """The rows of plain messages, with `schema`: the user's columns, and all members of `_kafka`.

    Rows are columns of the same types as `Producer.set_schema` would make, so `fingerprint` is that
    of a producer's segments. For one thread.
    """

    def __init__(self, form: str, schema: Any, schema_id: int | None = None) -> None:
        """Decode ``avro`` or ``json``, with a schema as `Producer.set_schema` takes it.

        Args:
            form: the format.
            schema: for ``avro`` the writer's schema.
            schema_id: for ``avro``, as in `Avro`.

        Raises:
            SchemaError: a field cannot be used; says which and why.
            TypeError: it is no schema.
        """
        records = RecordSchema.parse(schema)
        kafka = KafkaColumn(_MEMBERS)
        assert kafka.field is not None
        self._kafka = kafka.field
        self.schema = kafka.schema(records.arrow)
        self.fingerprint = fingerprint(self.schema)
        self._values: _Values
        if form == "avro":
            self._values = _AvroRows(Avro(schema, schema_id=schema_id), records.arrow)
        else:
            self._values = JsonRows(records)
        check_can_be_written(self.schema)

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """Return the user's columns of the values that are right, and what is wrong with others.

        The errors are by the index of the value; one bad value spoils no other.
        """
        return self._values.decode(values)

    def with_kafka(
        self,
        table: pa.Table,
        *,
        segments: pa.Array,
        rows: Sequence[int],
        keys: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[RecordHeaders | None],
    ) -> pa.Table:
        """Return decoded rows with their `_kafka` column, of which these are the members."""
        members = [
            segments,
            pa.array(rows, pa.int32()),
            kafka_column.key_array(keys),
            kafka_column.timestamp_array(timestamps),
            kafka_column.header_array(headers),
        ]
        column = pa.StructArray.from_arrays(members, fields=list(self._kafka.type))
        return table.append_column(self._kafka, column)


class _AvroRows:
    def __init__(self, form: Avro, schema: pa.Schema) -> None:
        self._form = form
        self._schema = schema

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        errors: dict[int, str] = {}
        batches: list[pa.RecordBatch] = []
        self._decode(values, 0, batches, errors)
        return pa.Table.from_batches(batches, self._schema), errors

    def _decode(
        self,
        values: Sequence[bytes],
        first: int,
        batches: list[pa.RecordBatch],
        errors: dict[int, str],
    ) -> None:
        """Decode values together, or else each half of them."""
        try:
            array = self._form.decode(values)
            if has_time_out_of_day(array):  # no reader could read that back
                raise ValueError("a time of day is outside its 24 hours")
        except DECODE_ERRORS as error:
            if len(values) == 1:
                errors[first] = f"not a valid Avro value of this schema: {error}"
                return
            half = len(values) // 2
            self._decode(values[:half], first, batches, errors)
            self._decode(values[half:], first + half, batches, errors)
        else:
            batches.append(pa.RecordBatch.from_arrays(array.flatten(), schema=self._schema))
