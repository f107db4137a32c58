"""JSON objects → columns and a rest of which equal objects can be made again, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from columnar_kafka.columns.native_format import NotNativeError
from columnar_kafka.plain.reversible import FirstHabits, JsonColumns, Reversible
from columnar_kafka.plain.rows import RowsOneByOne

if TYPE_CHECKING:
    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.schema import RecordSchema

__all__ = ["ReversibleRows"]


class ReversibleRows(RowsOneByOne):
    """JSON objects as rows of a schema and a rest. For one thread."""

    def __init__(self, schema: RecordSchema, rest_column: str) -> None:
        """Raises SchemaError: the schema has a column of that name, or one that cannot be used."""
        json = JsonColumns(schema, rest_column)
        super().__init__(json.records)
        self._reversible = Reversible(json, FirstHabits())

    def native_format(self) -> NoReturn:
        """See `PlainRows.native_format`."""
        raise NotNativeError("few objects are read so")

    def taken(self, value: bytes) -> RowValues:
        """See `RowsOneByOne.taken`."""
        return self._reversible.taken(value)[0]
