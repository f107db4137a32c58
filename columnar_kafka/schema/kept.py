"""A schema as a table keeps it: Avro's JSON, in which a field may have any name and any type."""

from __future__ import annotations

import json

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.arrow import normalise
from columnar_kafka.schema.avro import read
from columnar_kafka.schema.record_schema import RecordSchema
from columnar_kafka.schema.to_avro import to_avro

__all__ = ["from_kept", "to_kept"]


def to_kept(schema: RecordSchema) -> str:
    """Return the text of a schema; its enums, UUIDs and defaults other than null are left out."""
    return json.dumps(to_avro(schema, any_type=True), separators=(",", ":"), ensure_ascii=False)


def from_kept(text: str) -> RecordSchema:
    """Return the schema of a text.

    Raises:
        SchemaError: it is not one that `to_kept` has written, or that of a newer release.
    """
    try:
        parsed = read(json.loads(text), is_kept=True)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        raise SchemaError(f"the schema that is kept cannot be read: {error!r}") from error
    return RecordSchema(normalise(parsed.arrow), *parsed[1:])
