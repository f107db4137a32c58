"""The schema of a topic's records, from pyarrow or Avro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.schema import avro
from columnar_kafka.schema.arrow import normalise

if TYPE_CHECKING:
    from columnar_kafka.schema.avro import Symbols

__all__ = ["RecordSchema"]


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The user's columns, normalised to what Parquet stores, and what only Avro says of them.

    Attributes:
        arrow: the columns.
        defaults: what a field that a row leaves out is filled with.
        symbols: the symbols of each enum.
        uuids: the fields that take `uuid.UUID`: text, or 16 bytes.

    The last three go by the path of a field: names joined by dots, with ``item`` for the elements
    of a list and ``value`` for those of a map.
    """

    arrow: pa.Schema
    defaults: Mapping[str, Any] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=dict)
    uuids: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, schema: Any) -> RecordSchema:
        """Return the schema of a topic.

        Args:
            schema: a `pyarrow.Schema`; or an Avro record schema as JSON text or what that is in
                Python: a dict, or a list of one record and the enums and fixed types it uses.

        Raises:
            SchemaError: naming the field that cannot be used, and why.
            TypeError: not a schema at all.
        """
        if isinstance(schema, pa.Schema):
            return cls(normalise(schema))
        if isinstance(schema, str | Mapping | list):
            found = avro.read(schema)
            return cls(normalise(found.arrow), found.defaults, found.symbols, found.uuids)
        raise TypeError(
            "a schema is a pyarrow.Schema, or an Avro schema as a dict, a list or JSON text, "
            f"not {type(schema).__name__}"
        )
