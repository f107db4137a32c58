"""The formats in which plain messages can be rows of a table, by their names.

Few decode: what a format needs is imported when its rows are opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from columnar_kafka.plain.rows import PlainRows

__all__ = ["ROW_FORMATS", "WITH_IDS", "RowFormat"]


class RowFormat(NamedTuple):
    """A format: the module and class of its rows, and what its options may be.

    With `takes_arrow` its schema may be a `pyarrow.Schema`; else it is the Avro schema that wrote
    the values. With `has_ids` values may begin with Confluent's five bytes, which name a schema by
    its id in a registry.
    """

    module: str
    kind: str
    title: str
    takes_arrow: bool = False
    has_ids: bool = False

    def open(self, schema: Any, schema_id: int | None = None) -> PlainRows:
        """Return the rows of values with this schema. Raises as `PlainRows`."""
        rows: PlainRows = getattr(import_module(self.module), self.kind)(schema, schema_id)
        return rows


ROW_FORMATS: Final = {
    "avro": RowFormat("columnar_kafka.plain.avro_rows", "AvroRows", "Avro", has_ids=True),
    "json": RowFormat("columnar_kafka.plain.json_rows", "JsonRows", "JSON", takes_arrow=True),
}
WITH_IDS: Final = " or ".join(
    row_format.title for row_format in ROW_FORMATS.values() if row_format.has_ids
)
