"""Delta's schemas as their JSON: from Arrow's, and whether files of one fit a table of another.

deltalake's own conversion changes types in silence (unsigned integers become signed ones), so only
types that every reader of Delta finds in a Parquet file as they were written are converted.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import Schema

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.arrow_types import is_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "JsonObject",
    "as_arrow",
    "check_fits",
    "delta_schema",
    "grown",
    "has_types_of",
    "refuse_features",
    "widened",
    "with_nullable_columns",
]

JsonObject = dict[str, Any]
"""What Delta's log says of a schema or of one of its fields."""

_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
_WIDER: Final = (("byte", "short", "integer", "long"), ("float", "double"))
"""Types by width: one holds every value of those before it."""
_BAD_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")  # Delta's own rule
_DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_CASE: Final = "Delta column names must differ in more than case"
_UNITS: Final = ("ms", "us")

_FEATURES: Final = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
    }
)
"""The features of a table under which an append is a plain append, unless its properties or columns
use one; see `_USED`."""

_USED: Final = re.compile(
    r"delta\.(invariants|generationExpression|identity\..*|columnMapping\..*)|CURRENT_DEFAULT"
)
"""Metadata of columns that a writer must act on."""


def delta_schema(schema: pa.Schema) -> JsonObject:
    """Return an Arrow schema as Delta has it.

    Raises:
        LakeError: a column has a type or name that Delta does not have; the message names it.
    """
    return _struct(schema, "")


def _struct(fields: Iterable[pa.Field], path: str) -> JsonObject:
    columns: list[JsonObject] = []
    names: set[str] = set()
    for field in fields:
        place = f"{path}.{field.name}" if path else field.name
        if _BAD_NAME.search(field.name) or not field.name:
            raise LakeError(
                f"column {place!r}: Delta column names must not be empty, nor contain a space, a "
                "tab, a newline or any of , ; { } ( ) ="
            )
        if field.name.lower() in names:
            raise LakeError(f"column {place!r}: {_CASE}")
        names.add(field.name.lower())
        columns.append(
            {
                "name": field.name,
                "type": _type(field.type, place),
                "nullable": field.nullable,
                "metadata": {},
            }
        )
    return {"type": "struct", "fields": columns}


def _type(arrow: pa.DataType, path: str) -> str | JsonObject:
    if pa.types.is_struct(arrow):
        return _struct(list(arrow), path)
    if is_list(arrow):
        item = arrow.value_field
        return {
            "type": "array",
            "elementType": _type(item.type, f"{path}[]"),
            "containsNull": item.nullable,
        }
    if pa.types.is_map(arrow):
        return {
            "type": "map",
            "keyType": _type(arrow.key_type, f"{path}.key"),
            "valueType": _type(arrow.item_type, f"{path}.value"),
            "valueContainsNull": arrow.item_field.nullable,
        }
    if (name := _primitive(arrow)) is None:
        raise LakeError(f"column {path!r}: Delta has no type for {arrow}")
    return name


def _primitive(arrow: pa.DataType) -> str | None:
    if pa.types.is_timestamp(arrow):
        if arrow.unit not in _UNITS:
            return None
        return "timestamp_ntz" if arrow.tz is None else "timestamp"
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})" if arrow.scale >= 0 else None
    return _NAMES.get(arrow)


def as_arrow(schema: JsonObject) -> pa.Schema:
    """Return a table's schema as Arrow has it."""
    return pa.schema(Schema.from_json(json.dumps(schema)).to_arrow())


def with_nullable_columns(schema: JsonObject) -> JsonObject:
    """Return a schema in which everything may be null, so that later schemas may relax theirs."""
    changed = {"nullable": True, "containsNull": True, "valueContainsNull": True}
    return {
        key: changed[key] if key in changed else _each_nullable(value)
        for key, value in schema.items()
    }


def _each_nullable(value: Any) -> Any:
    if isinstance(value, dict):
        return with_nullable_columns(value)
    return (
        [with_nullable_columns(element) for element in value] if isinstance(value, list) else value
    )


def grown(table: JsonObject, file: JsonObject) -> JsonObject:
    """Return a table's schema with the columns that files have and it lacks, which may be null.

    They come last, in structs too. Whether the files fit is not checked.

    Raises:
        LakeError: the names of two columns differ in upper case only.
    """
    columns = {field["name"]: field for field in table["fields"]}
    for field in file["fields"]:
        name = field["name"]
        if name in columns:
            columns[name] = {**columns[name], "type": _grown(columns[name], field)}
        elif existing := next((other for other in columns if other.lower() == name.lower()), ""):
            raise LakeError(f"column {name!r}: the table has {existing!r}, and {_CASE}")
        else:
            columns[name] = with_nullable_columns(field)
    return {**table, "fields": list(columns.values())}


def _grown(table: JsonObject, file: JsonObject, key: str = "type") -> Any:
    """Return the type under a key of the table's schema with what the files' has more."""
    old, new = table[key], file[key]
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return old
    if old["type"] == "struct":
        return grown(old, new)
    inner = "elementType" if old["type"] == "array" else "valueType"
    return {**old, inner: _grown(old, new, inner)}


def widened(fields: Iterable[pa.Field], table: JsonObject) -> list[pa.Field]:
    """Return columns with the types that a table has for them, where those are wider."""
    columns = {field["name"]: field["type"] for field in table["fields"]}
    return [
        field.with_type(_widened(field.type, columns[field.name]))
        if field.name in columns
        else field
        for field in fields
    ]


def _widened(arrow: pa.DataType, table: Any) -> pa.DataType:
    if isinstance(table, str):
        return _wider(arrow, table)
    if pa.types.is_struct(arrow) and table["type"] == "struct":
        return pa.struct(widened(arrow, table))
    if table["type"] == "array" and is_list(arrow):
        item = arrow.value_field
        item = item.with_type(_widened(item.type, table["elementType"]))
        return pa.list_(item) if pa.types.is_list(arrow) else pa.large_list(item)
    if table["type"] == "map" and pa.types.is_map(arrow):
        key, value = arrow.key_field, arrow.item_field
        return pa.map_(
            key.with_type(_widened(key.type, table["keyType"])),
            value.with_type(_widened(value.type, table["valueType"])),
        )
    return arrow


def _wider(arrow: pa.DataType, table: str) -> pa.DataType:
    """Return the Arrow type of a table's column, if it is a wider one; else the same type."""
    name = _primitive(arrow)
    for names in _WIDER:
        if name in names and table in names and names.index(table) > names.index(name):
            return next(key for key, primitive in _NAMES.items() if primitive == table)
    if (
        pa.types.is_decimal128(arrow)
        and (match := _DECIMAL.fullmatch(table))
        and (int(match[2]) == arrow.scale and int(match[1]) > arrow.precision)
    ):
        return pa.decimal128(int(match[1]), arrow.scale)
    return arrow


def check_fits(file: Any, table: Any, path: str = "") -> None:
    """Check that files of one schema can be read as a table of another.

    Raises:
        LakeError: they cannot, or would put null where the table has none; it names the column.
    """
    if isinstance(file, str) or isinstance(table, str) or file["type"] != table["type"]:
        if file != table:
            raise LakeError(f"column {path!r}: {_name(file)} in Kafka, {_name(table)} in the table")
        return
    if file["type"] == "struct":
        _check_struct(file, table, f"{path}." if path else "")
    elif file["type"] == "array":
        _check_null(file["containsNull"], table["containsNull"], f"{path}[]")
        check_fits(file["elementType"], table["elementType"], f"{path}[]")
    else:
        _check_null(file["valueContainsNull"], table["valueContainsNull"], f"{path}.value")
        check_fits(file["keyType"], table["keyType"], f"{path}.key")
        check_fits(file["valueType"], table["valueType"], f"{path}.value")


def _check_struct(file: JsonObject, table: JsonObject, prefix: str) -> None:
    columns = {field["name"]: field for field in table["fields"]}
    for field in file["fields"]:
        path = f"{prefix}{field['name']}"
        if (column := columns.pop(field["name"], None)) is None:
            raise LakeError(
                f"column {path!r} is not in the table. Add it as {_name(field['type'])}, or have "
                "it added with table.growth=allow"
            )
        _check_null(field["nullable"], column["nullable"], path)
        check_fits(field["type"], column["type"], path)
    for name, column in columns.items():
        if not column["nullable"]:
            raise LakeError(
                f"column {prefix + name!r} is missing in Kafka, but is NOT NULL in the table"
            )


def _check_null(file: bool, table: bool, path: str) -> None:
    if file and not table:
        raise LakeError(f"column {path!r} may be null in Kafka, but is NOT NULL in the table")


def has_types_of(table: JsonObject, schema: pa.Schema) -> bool:
    """Return whether the columns that a file shares with a table have its types, or narrower ones.

    Files of other programs may have others, which readers cast.
    """
    try:
        file = with_nullable_columns(delta_schema(pa.schema(widened(schema, table))))
        check_fits(file, with_nullable_columns(grown(table, file)))
    except LakeError:
        return False
    return True


def _name(delta: Any) -> str:
    return delta if isinstance(delta, str) else str(delta["type"])


def refuse_features(
    features: Iterable[str], configuration: Mapping[str, str], schema: JsonObject
) -> None:
    """Refuse a table of which a plain append of files would be written wrong, or is not allowed.

    Raises:
        LakeError: naming what the table has.
    """
    refused = sorted(set(features) - _FEATURES)
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        refused.append("columnMapping")
    refused += [key for key in configuration if key.startswith("delta.constraints.")]
    refused += [
        key
        for key in ("delta.enableRowTracking", "delta.enableInCommitTimestamps")
        if configuration.get(key, "").lower() == "true"
    ]
    refused += [f"{key} of column {name!r}" for name, key in _used(schema, "")]
    if refused:
        raise LakeError(
            f"files cannot be added to a Delta table with {', '.join(refused)}: land in a table "
            "without them, and copy the rows from there"
        )


def _used(delta: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each column's metadata that a writer must act on."""
    if isinstance(delta, str):
        return
    for field in delta.get("fields", ()):
        name = f"{path}{field['name']}"
        yield from ((name, key) for key in field["metadata"] if _USED.fullmatch(key))
        yield from _used(field["type"], f"{name}.")
    for key in ("elementType", "keyType", "valueType"):
        yield from _used(delta.get(key, ""), path)
