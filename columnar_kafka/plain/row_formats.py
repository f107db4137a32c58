"""The formats in which plain messages can be rows of a table, by their names.

Few decode: what a format needs is imported when its rows are opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from columnar_kafka.plain.lenient import Lenient
    from columnar_kafka.plain.rows import PlainRows

__all__ = ["ROW_FORMATS", "WITH_IDS", "RowFormat", "registered_rows"]


class RowFormat(NamedTuple):
    """A format: the module and class of its rows, and what its options may be.

    `lenient` are those of rows that may differ from the schema, if there are any. With
    `takes_arrow` its schema may be a `pyarrow.Schema`; else it is the Avro schema that wrote the
    values. With `has_ids` values may begin with Confluent's five bytes, which name a schema by its
    id in a registry.
    """

    module: str
    kind: str
    title: str
    takes_arrow: bool = False
    has_ids: bool = False
    lenient: tuple[str, str] | None = None

    def open(
        self, schema: Any, schema_id: int | None = None, lenient: Lenient | None = None
    ) -> PlainRows:
        """Return the rows of values with this schema.

        Args:
            schema: see `takes_arrow`.
            schema_id: the registry's id of the schema, if the values begin with one.
            lenient: what becomes of values that differ from it; None if each is refused.

        Raises:
            SchemaError: a field cannot be used; says which and why.
            TypeError: it is no schema.
        """
        rows: PlainRows
        if lenient is not None and self.lenient is not None:
            rows = _class(*self.lenient)(schema, lenient)
        else:
            rows = _class(self.module, self.kind)(schema, schema_id)
        return rows


def registered_rows(registry: Any) -> PlainRows:
    """Return the rows of values whose schemas a registry has: a client, or its settings.

    Raises:
        ConfigError: settings are not allowed, or the extra ``registry`` is not installed.
    """
    rows: PlainRows = _class("columnar_kafka.plain.registered_rows", "registered_rows")(registry)
    return rows


def _class(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


ROW_FORMATS: Final = {
    "avro": RowFormat("columnar_kafka.plain.avro_rows", "AvroRows", "Avro", has_ids=True),
    "json": RowFormat(
        "columnar_kafka.plain.json_rows",
        "JsonRows",
        "JSON",
        takes_arrow=True,
        lenient=("columnar_kafka.plain.lenient_rows", "LenientRows"),
    ),
}
WITH_IDS: Final = " or ".join(
    row_format.title for row_format in ROW_FORMATS.values() if row_format.has_ids
)
