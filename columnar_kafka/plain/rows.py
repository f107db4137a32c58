"""Plain messages → the columns that a producer's segments of the same schema have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.from_rows.rows_to_columns import CHUNK_ROWS, RowColumns
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.errors import RowError
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import check_can_be_written
from columnar_kafka.segment.native_encoder import native_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.native import _core as core
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.headers import MessageHeaders

__all__ = ["PlainRows", "RowsOneByOne"]

_MEMBERS: Final = ("id", "key", "timestamp", "headers")


class PlainRows(ABC):
    """The rows of plain messages, with `schema`: the user's `columns`, and all members of `_kafka`.

    Rows are columns of the same types as `Producer.set_schema` would make, so `fingerprint` is that
    of a producer's segments. For one thread.
    """

    id_header: str | None = None
    """The header that may say a schema: a message with it is not read by its value alone."""

    def __init__(self, records: RecordSchema) -> None:
        """Decode values with the columns of `records`.

        Raises:
            SchemaError: a field cannot be used; says which and why.
        """
        self.records = records
        self.columns = records.arrow
        kafka = KafkaColumn(_MEMBERS)
        assert kafka.field is not None
        self._kafka = kafka.field
        self.schema = kafka.schema(self.columns)
        self.fingerprint = fingerprint(self.schema)
        check_can_be_written(self.schema)

    def value(self, data: bytes, _: MessageHeaders | None) -> Any:
        """Return a message's value as `decode` and `row` take it."""
        return data

    def holding(
        self, messages: Sequence[Any], fits: Callable[[PlainRows], bool]
    ) -> tuple[PlainRows, int, bool]:
        """Return rows with columns for the first messages, for how many, and if they contradict.

        They are for one message at least, and have the columns of these, and more that `fits`
        allows; those that contradict have other ones. A message has a `value` and `headers`.
        """
        return self, len(messages), False

    @abstractmethod
    def decode(self, values: Sequence[Any]) -> tuple[pa.Table, dict[int, str]]:
        """Return the user's columns of the values that are right, and what is wrong with others.

        The errors are by the index of the value; one bad value spoils no other.
        """

    @abstractmethod
    def native_format(self) -> core.PlainFormat:
        """Return how the native core decodes values. Raises NotNativeError."""

    def native(self, compression: str = "zstd") -> tuple[core.PlainFormat, core.Encoder]:
        """Return what decodes values in the native core, and encodes their rows with `_kafka`.

        Raises:
            NotNativeError: the core has nothing for them.
        """
        return self.native_format(), native_encoder(self.schema, KafkaColumn(_MEMBERS), compression)

    def row(self, value: Any) -> RowValues | None:
        """Return the row of a value as the native core takes it.

        None: it is wrong, or nothing has it in that form. `decode` tells.
        """
        return None

    def restored(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return the object of which a row was made; None if equal ones make equal rows."""
        return None

    def again(self, restored: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is restored of an object that is read once more; None if it is refused."""
        return None

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


class RowsOneByOne(PlainRows):
    """Rows of values each of which is read for itself, as `Producer.produce` takes a row."""

    def __init__(self, records: RecordSchema) -> None:
        super().__init__(records)
        self.rows = RowColumns(records)

    @abstractmethod
    def taken(self, value: bytes) -> RowValues:
        """Return the row of a value, as `RowColumns.take` returns it. Raises RowError."""

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """See `PlainRows.decode`."""
        errors: dict[int, str] = {}
        batches = []
        for first in range(0, len(values), CHUNK_ROWS):
            rows, numbers = [], []
            for number, value in enumerate(values[first : first + CHUNK_ROWS], first):
                try:
                    rows.append(self.taken(value))
                    numbers.append(number)
                except RowError as error:
                    errors[number] = error.reason
            converted = self.rows.convert(rows)
            for index, rejected in converted.rejected.items():
                errors[numbers[index]] = rejected.error.reason
            batches.append(converted.batch)
        return pa.Table.from_batches(batches, self.rows.schema), errors

    def row(self, value: bytes) -> RowValues | None:
        """See `PlainRows.row`."""
        try:
            return self.rows.builtin(self.taken(value))
        except RowError:
            return None
