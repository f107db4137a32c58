"""`RecordSchema`: a topic's columns, and what only Avro says about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.schema.arrow import json_texts, normalise
from columnar_kafka.schema.avro import read as read_avro

if TYPE_CHECKING:
    from columnar_kafka.schema.avro import Symbols

__all__ = ["RecordSchema"]


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The user's columns, normalised to what Parquet stores, and what only Avro says about them.

    Attributes:
        arrow: the columns.
        defaults: the values for fields that a row leaves out.
        symbols: the symbols of each enum.
        uuids: the fields, of text or 16 bytes, that accept `uuid.UUID`.
        json_texts: the fields of text that hold values of any type, as JSON: `pyarrow.json_`, or
            Avro's ``{"type": "string", "logicalType": "json"}``.

    The last four are keyed by a field's path: names joined by dots, with ``item`` for the elements
    of a list and ``value`` for the values of a map.
    """

    arrow: pa.Schema
    defaults: Mapping[str, Any] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=dict)
    uuids: frozenset[str] = frozenset()
    json_texts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, schema: Any) -> RecordSchema:
        """Return the schema of a topic.

        Args:
            schema: a `pyarrow.Schema`; or an Avro record schema, as JSON text or parsed: a dict, or
                a list of one record and the enums and fixed types that it uses. One that is parsed
                already is returned.

        Raises:
            SchemaError: a field cannot be used; says which and why.
            TypeError: `schema` is neither.
        """
        if isinstance(schema, cls):
            return schema
        if isinstance(schema, pa.Schema):
            return cls(normalise(schema), json_texts=frozenset(json_texts(schema)))
        if isinstance(schema, str | Mapping | list):
            parsed = read_avro(schema)
            return cls(normalise(parsed.arrow), *parsed[1:])
        raise TypeError(
            "a schema must be a pyarrow.Schema, or an Avro schema as a dict, a list or JSON text, "
            f"not {type(schema).__name__}"
        )
