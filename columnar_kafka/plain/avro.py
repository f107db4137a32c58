"""Avro keys and values → columns, through pyruhvro where that is installed."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from columnar_kafka.columns.layouts import filled
from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.base import check_names
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = ["Avro"]

_WHOLE: Final = "_whole"
_END: Final = b"\x0c_whole"
"""Written behind each value and read as its last field: so it is seen where a value ends."""

_REGISTRY_BYTES: Final = 5  # what Confluent's serializers put before a value


class Avro:
    """Avro datums of one schema, as `fastavro.schemaless_writer` and Confluent's serializer write.

    The columns have the types that `Producer.set_schema` makes of the schema. They are read by
    pyruhvro where it is installed (the extra ``avro``) and knows all of the types: not ``fixed``,
    ``decimal`` and unions of two types. Those fastavro reads, some twenty times slower.
    """

    def __init__(
        self, schema: str | Mapping[str, Any] | list[Any], *, schema_id: int | None = None
    ) -> None:
        """Read the schema.

        Args:
            schema: as JSON text, or what that is in Python; a record, or any other type.
            schema_id: values begin with Confluent's five bytes, and have this id of the registry:
                another one is an error, as its schema may be another.

        Raises:
            SchemaError: it cannot be used; says which field and why.
        """
        loaded = _loaded(schema)
        # A record of one field is encoded as that field is.
        fields = [{"name": "value", "type": loaded}]
        outer = {"type": "record", "name": "_outer", "fields": fields}
        self.name = str(loaded["name"]) if isinstance(loaded, dict) and "name" in loaded else ""
        self._type: pa.DataType = RecordSchema.parse(outer).arrow.field("value").type
        check_names(self._type)
        self._prefix = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
        self._parsed = fastavro.parse_schema(_rewritten(outer, {}, {"uuid"}))
        ends = [*fields, {"name": _WHOLE, "type": "string"}]
        self._read = _pyruhvro() if _is_fast(loaded) else None
        self._ending = json.dumps(_rewritten({**outer, "fields": ends}, _SAME, _LOGICAL))

    def __repr__(self) -> str:
        return f"<Avro {self.name or self._type}>"

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        if self._prefix:
            values = [self._without_prefix(value) for value in values]
        if self._read is None:
            return pa.array(list(map(self._slowly, values)), self._type)
        read = self._read([value + _END for value in values], self._ending)
        if pc.any(pc.not_equal(read[_WHOLE], _WHOLE)).as_py():
            raise ValueError("is longer than its schema describes")
        value = pa.field("value", read["value"].type)
        # All of its fields are nullable, and null under a null: required ones get a value there.
        required = _with_nulls_of(pa.field("value", self._type), value)
        found = filled(read["value"], required).cast(self._type)
        found.validate(full=True)  # text is UTF-8: pyruhvro does not look
        return found

    def _without_prefix(self, value: bytes) -> bytes:
        if value[:_REGISTRY_BYTES] != self._prefix:
            found = value[:_REGISTRY_BYTES]
            raise ValueError(f"begins with {found!r}, not with {self._prefix!r}")
        return value[_REGISTRY_BYTES:]

    def _slowly(self, value: bytes) -> Any:
        source = io.BytesIO(value)
        try:
            found: Any = fastavro.schemaless_reader(source, self._parsed, None)
        except Exception as error:  # fastavro raises many kinds for what is no such value
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if source.tell() < len(value):
            raise ValueError("is longer than its schema describes")
        return found["value"]


def _with_nulls_of(other: pa.Field, each: pa.Field) -> pa.Field:
    """Return a field that is nullable, in itself and inside, where another of its shape is."""
    kind = each.type
    if pa.types.is_struct(kind):
        kind = pa.struct(list(map(_with_nulls_of, other.type, kind)))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _with_nulls_of(other.type.item_field, kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_nulls_of(other.type.value_field, kind.value_field))
    return pa.field(each.name, kind, other.nullable)


def _loaded(schema: Any) -> Any:
    """Return a schema as Python has it, in which a name means what it does in its own place."""
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
    except json.JSONDecodeError:
        loaded = schema  # the name of a type, as Python has it
    try:
        return json.loads(json.dumps(loaded))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"not an Avro schema: {error}") from error


def _is_fast(avro: Any) -> bool:
    """Say whether pyruhvro reads all of a schema, when it is given the types below its types."""
    if isinstance(avro, list):
        branches = [each for each in avro if each != "null"]
        return len(branches) < 2 and all(map(_is_fast, branches))  # noqa: PLR2004 - no union
    if isinstance(avro, dict):
        inner = [avro[key] for key in ("type", "items", "values") if key in avro]
        is_record = avro["type"] in ("record", "error")  # what others have there means nothing
        fields = [each["type"] for each in avro["fields"]] if is_record else []
        return avro.get("logicalType") != "decimal" and all(map(_is_fast, [*inner, *fields]))
    return bool(avro != "fixed")


# Types that are encoded alike. pyruhvro panics where it meets one that it does not know.
_SAME: Final = {"bytes": "string"}
_LOGICAL: Final = frozenset(
    {
        *("uuid", "date", "time-millis", "time-micros"),
        *(f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp")
          for unit in ("millis", "micros", "nanos")),
    }
)  # fmt: skip


def _rewritten(avro: Any, types: Mapping[str, str], logical: Collection[str]) -> Any:
    """Return a schema with other types in place of some, and without some logical types."""
    if isinstance(avro, list):
        return [_rewritten(each, types, logical) for each in avro]
    if isinstance(avro, dict):
        return {
            key: _rewritten(each, types, logical) if key in _INNER else each
            for key, each in avro.items()
            if key != "logicalType" or (isinstance(each, str) and each not in logical)
        }
    return types.get(avro, avro)


_INNER: Final = ("type", "items", "values", "fields")


@cache
def _pyruhvro() -> Callable[[list[bytes], str], pa.RecordBatch] | None:
    """Return what reads Avro fast, where the extra is installed."""
    try:
        import pyruhvro  # noqa: PLC0415 - an extra, imported where it is used
    except ImportError:
        return None
    found: Callable[[list[bytes], str], pa.RecordBatch] = pyruhvro.deserialize_array
    return found
