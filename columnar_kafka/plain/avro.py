"""Avro keys and values → columns; with pyruhvro if it is installed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.layouts import fill_hidden_nulls
from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.base import check_column_names
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.avro import record_of_list
from columnar_kafka.schema.avro_encoding import described
from columnar_kafka.schema.avro_members import with_members
from columnar_kafka.schema.avro_names import INNER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from columnar_kafka.schema.avro_encoding import AvroType

__all__ = ["Avro"]

_Reader = Callable[[list[bytes], str], pa.RecordBatch]

_WHOLE: Final = "_whole"
_END: Final = b"\x0c_whole"
"""Appended to each value and read as its last field, which shows where the value ended."""

_REGISTRY_BYTES: Final = 5  # Confluent's serializers put them before a value


class Avro:
    """Avro datums of one schema, as `fastavro.schemaless_writer` and Confluent's serializer write.

    The columns have the types that `Producer.set_schema` gives the schema. pyruhvro reads them if
    it is installed (the extra ``avro``) and the schema has no ``fixed``, no ``decimal`` and no
    union of two types. Otherwise fastavro does, some twenty times slower.
    """

    def __init__(
        self, schema: str | Mapping[str, Any] | list[Any], *, schema_id: int | None = None
    ) -> None:
        """Read the schema.

        Args:
            schema: a record or any other type, as JSON text or parsed. A list of one record and
                the types that it uses is that record, as in `Producer.set_schema`; any other list
                is a union.
            schema_id: the registry's id of the schema, if values begin with Confluent's five bytes.
                A value with another id is an error, because its schema may differ.

        Raises:
            SchemaError: a field cannot be used; says which and why.
        """
        import fastavro  # noqa: PLC0415 - few have Avro schemas, and all would wait for it

        loaded = _loaded(schema)
        # A record of one field is encoded as that field is.
        fields = [{"name": "value", "type": loaded}]
        outer = {"type": "record", "name": "_outer", "fields": fields}
        self.schema = loaded
        """The schema, parsed."""
        self.name = str(loaded["name"]) if isinstance(loaded, dict) and "name" in loaded else ""
        self._type = _arrow_type(outer)
        check_column_names(self._type)
        self.prefix = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
        # Logical types stay numbers: Python's own dates and times end with the year 9999.
        numbers = _rewritten(outer, {}, _LOGICAL)
        members = with_members(fastavro.parse_schema(outer, _write_hint=False))
        self._parsed = _choosing(fastavro.parse_schema(_rewritten(members, {}, _LOGICAL)))
        ends = [*fields, {"name": _WHOLE, "type": "string"}]
        self._read = _pyruhvro() if _is_fast(loaded) else None
        self._numbers = self._type if self._read is None else _arrow_type(numbers)
        self._outer = outer
        self._ending = json.dumps(_rewritten({**outer, "fields": ends}, _SAME, _LOGICAL))

    def __repr__(self) -> str:
        return f"<Avro {self.name or self._type}>"

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        if self.prefix:
            values = [self._without_prefix(value) for value in values]
        if self._read is None:
            array = pa.array(list(map(self.read_one, values)), self._type)
        else:
            array = self._quickly(self._read, values)
        array.validate(full=True)  # neither checks times of day, pyruhvro no UTF-8 either
        return array

    @property
    def fields(self) -> list[AvroType]:
        """The types of the columns, for the native core: of a record, or a union of records."""
        import fastavro  # noqa: PLC0415 - as above

        expanded: Any = fastavro.parse_schema(self._outer, expand=True, _write_hint=False)
        name, fields = described(expanded["fields"][0]["type"])
        assert name in ("record", "union")
        return list(fields)

    def _quickly(self, read_all: _Reader, values: Sequence[bytes]) -> pa.Array:
        read = read_all([value + _END for value in values], self._ending)
        if pc.any(pc.not_equal(read[_WHOLE], _WHOLE)).as_py():
            raise ValueError("is longer than its schema describes")
        value = pa.field("value", read["value"].type)
        # pyruhvro makes all fields nullable, and null under a null: fill the required ones.
        required = _with_nulls_of(pa.field("value", self._type), value)
        return fill_hidden_nulls(read["value"], required).cast(self._numbers).cast(self._type)

    def _without_prefix(self, value: bytes) -> bytes:
        if value[:_REGISTRY_BYTES] != self.prefix:
            prefix = value[:_REGISTRY_BYTES]
            raise ValueError(f"begins with {prefix!r}, not with {self.prefix!r}")
        return value[_REGISTRY_BYTES:]

    def read_one(self, value: bytes) -> Any:
        """Return one value with fastavro, without a prefix; times and dates are numbers.

        A union is a dict of the member that its branch has, unless it is one column.

        Raises:
            ValueError: it is no value of the schema.
        """
        import fastavro  # noqa: PLC0415 - as above

        def read() -> tuple[Any, int]:
            source = io.BytesIO(value)
            return fastavro.schemaless_reader(source, self._parsed, None), source.tell()

        try:
            record, end = read()
        except Exception as error:  # fastavro raises many kinds for a wrong value
            raise_if_once(error, read)
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if end < len(value):
            raise ValueError("is longer than its schema describes")
        return record["value"]


def _arrow_type(outer: Any) -> pa.DataType:
    return RecordSchema.parse(outer).arrow.field("value").type


def _with_nulls_of(other: pa.Field, field: pa.Field) -> pa.Field:
    """Return a field that is nullable, at each depth, where another field of its shape is."""
    arrow = field.type
    if pa.types.is_struct(arrow):
        arrow = pa.struct(list(map(_with_nulls_of, other.type, arrow)))
    elif pa.types.is_map(arrow):
        arrow = pa.map_(arrow.key_field, _with_nulls_of(other.type.item_field, arrow.item_field))
    elif pa.types.is_list(arrow):
        arrow = pa.list_(_with_nulls_of(other.type.value_field, arrow.value_field))
    return pa.field(field.name, arrow, other.nullable)


def _loaded(schema: Any) -> Any:
    """Return a parsed schema, copied so that no part is shared between two places."""
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
    except json.JSONDecodeError:
        loaded = schema  # the bare name of a type
    try:
        copied = json.loads(json.dumps(loaded))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"not an Avro schema: {error}") from error
    return record_of_list(copied)


def _is_fast(avro: Any) -> bool:
    """Say whether pyruhvro can read a schema once its types are replaced by those of `_SAME`."""
    if isinstance(avro, list):
        # It makes no column of the only branch of a union either.
        return len(avro) == 2 and "null" in avro and all(map(_is_fast, avro))  # noqa: PLR2004
    if isinstance(avro, dict):
        inner = [avro[key] for key in ("type", "items", "values") if key in avro]
        is_record = avro["type"] in ("record", "error")  # other types may have any "fields"
        fields = [field["type"] for field in avro["fields"]] if is_record else []
        return avro.get("logicalType") != "decimal" and all(map(_is_fast, [*inner, *fields]))
    return bool(avro != "fixed")


# Types that are encoded alike. pyruhvro panics if it meets one that it does not know, and cuts off
# an int's bits above 32: a cast does not.
_SAME: Final = {"bytes": "string", "int": "long"}
_LOGICAL: Final = frozenset(
    {
        *("uuid", "date", "time-millis", "time-micros"),
        *(f"{name}-{unit}" for name in ("timestamp", "local-timestamp")
          for unit in ("millis", "micros", "nanos")),
    }
)  # fmt: skip


def _rewritten(avro: Any, types: Mapping[str, str], logical: Collection[str]) -> Any:
    """Return a schema with its types replaced by those in `types`, and without `logical` types."""
    if isinstance(avro, list):
        return [_rewritten(item, types, logical) for item in avro]
    if isinstance(avro, dict):
        return {
            key: _rewritten(value, types, logical) if key in INNER else value
            for key, value in avro.items()
            if key != "logicalType" or (isinstance(value, str) and value not in logical)
        }
    return types.get(avro, avro)


class _Choices(list[Any]):
    """The branches of a union, or the symbols of an enum: no index counts from the end.

    fastavro takes a negative one so, which no writer sends: it adds the length, and asks for that
    at no other time.
    """

    def __len__(self) -> int:
        raise IndexError("a union or an enum with a negative index")

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if index >= 0 else len(self)


def _choosing(parsed: Any) -> Any:
    """Return a schema as fastavro has parsed it, with such lists."""
    if isinstance(parsed, list):
        return _Choices(map(_choosing, parsed))
    if isinstance(parsed, dict):
        return {key: _choosing(value) for key, value in parsed.items()}
    return parsed


@cache
def _pyruhvro() -> _Reader | None:
    """Return pyruhvro's reader; None if the extra is not installed."""
    try:
        import pyruhvro  # noqa: PLC0415 - an extra, imported where it is used
    except ImportError:
        return None
    read: _Reader = pyruhvro.deserialize_array
    return read
