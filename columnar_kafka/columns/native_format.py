"""A schema as the native core reads it."""

from __future__ import annotations

import datetime
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.decoded_size import MOST_DECODED, written_sizes
from columnar_kafka.columns.range_checks import DECIMAL_DIGITS, has_distinct_keys
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import branch_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from columnar_kafka.native._core import ArrayLayout, Described, RowFormat
    from columnar_kafka.schema import RecordSchema

__all__ = ["NotNativeError", "chosen_columns", "layout", "native_columns", "row_format"]

_LEAVES: Final = {
    pa.bool_(): "bool",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.date32(): "date32",
}

_OFFSETS: Final = {pa.string(): 32, pa.binary(): 32, pa.large_string(): 64, pa.large_binary(): 64}


class NotNativeError(Exception):
    """The native core has nothing for this, and why. It is Python's then, with the same results."""


def row_format(schema: RecordSchema) -> RowFormat:
    """Return the native core's columns.

    Raises:
        NotNativeError: it is off, or does not know what they need.
    """
    if not native.enabled:
        raise NotNativeError(native.reason or "it is off")
    columns = native_columns(schema.arrow, schema.symbols)
    sizes = [size for field in schema.arrow for size in written_sizes(field.type)]
    return native.core.RowFormat(columns, sizes, MOST_DECODED)


def native_columns(
    schema: pa.Schema, symbols: Mapping[str, Collection[str]] | None = None
) -> list[Described]:
    """Return columns as the native core reads them.

    Args:
        schema: the columns.
        symbols: the only texts of some columns, by their paths.

    Raises:
        NotNativeError: it does not know one of the types.
    """
    if b"ARROW:extension:" in schema.serialize().to_pybytes():  # which Arrow may know later
        raise NotNativeError("a column is of an extension type")
    return [_described(field, field.name, symbols or {}) for field in schema]


def _described(field: pa.Field, path: str, symbols: Mapping[str, Collection[str]]) -> Described:
    arrow = field.type
    children: tuple[Described, ...] = ()
    if arrow in _LEAVES:
        name, details = _LEAVES[arrow], None
    elif pa.types.is_struct(arrow) and len({child.name for child in arrow}) == arrow.num_fields:
        name, details = "struct", None
        children = tuple(_described(child, f"{path}.{child.name}", symbols) for child in arrow)
    elif pa.types.is_map(arrow) and has_distinct_keys(arrow):
        name, details = "map", None
        children = (
            _described(arrow.key_field, f"{path}.key", symbols),
            _described(arrow.item_field, f"{path}.value", symbols),
        )
    elif family(arrow) == "list":
        is_fixed = pa.types.is_fixed_size_list(arrow)
        name, details = ("fixed_size_list", arrow.list_size) if is_fixed else ("list", None)
        children = (_described(arrow.value_field, f"{path}.item", symbols),)
    else:
        name, details = _leaf(arrow, path, symbols.get(path))
    return field.name, field.nullable, name, details, children, branch_of(field)


def _leaf(arrow: pa.DataType, path: str, symbols: Collection[str] | None) -> tuple[str, Any]:
    """Return the name of a leaf's type, and what else there is to say of it."""
    values = family(arrow)
    if values == "string":
        return "string", None if symbols is None else sorted(symbols)
    if pa.types.is_fixed_size_binary(arrow):
        return "fixed_size_binary", arrow.byte_width
    if values == "binary":
        return "binary", None
    if values in ("timestamp", "local timestamp"):
        return _timestamp(arrow, path)
    if values in ("time", "duration"):
        return values, arrow.unit
    if values == "decimal":
        width = (10**arrow.precision - 1).bit_length() // 8 + 1
        return "decimal", (width, arrow.precision, arrow.scale, DECIMAL_DIGITS[arrow.bit_width])
    raise NotNativeError(f"column {path!r} is of the type {arrow}")


def _timestamp(arrow: pa.TimestampType, path: str) -> tuple[str, Any]:
    if arrow.tz is None:
        return "timestamp", (arrow.unit, False)
    _learn_zones()
    if arrow.tz == "UTC":
        return "timestamp", (arrow.unit, True)
    try:
        return "zoned_timestamp", (arrow.unit, pa.lib.string_to_tzinfo(arrow.tz))
    except Exception as error:  # noqa: BLE001 - from any module that knows time zones
        raise_if_once(error, partial(pa.lib.string_to_tzinfo, arrow.tz))
        raise NotNativeError(f"column {path!r} has the time zone {arrow.tz!r}") from None


def _learn_zones() -> None:
    """Tell the native core which zones it may read: in the middle of a row it imports nothing."""
    import zoneinfo  # noqa: PLC0415 - 2 ms, for times with a zone only

    try:
        utc: datetime.tzinfo | None = zoneinfo.ZoneInfo("UTC")
    except zoneinfo.ZoneInfoNotFoundError:
        utc = None
    if utc is not None and utc.utcoffset(None) != datetime.timedelta(0):
        utc = None
    pytz = getattr(sys.modules.get("pytz"), "utc", None)
    native.core.learn_zones(
        zoneinfo.ZoneInfo, [utc, pytz if isinstance(pytz, datetime.tzinfo) else None]
    )


# --- the same columns as Arrow has them -----------------------------------------------------------


class ChosenColumn(NamedTuple):
    """The number of a column, the numbers of its members that are read, None for all; the rest."""

    number: int
    members: list[int] | None
    field: pa.Field


def chosen_columns(schema: pa.Schema, names: Collection[str] | None) -> list[ChosenColumn] | None:
    """Return which columns, or members of them, Arrow's reader returns for these names.

    They are in the schema's order. The result is None for names that are Arrow's to judge: of other
    nested values, none at all, or such as might mean two columns, for one has a point in its name.
    """
    if names is None:
        return [ChosenColumn(number, None, field) for number, field in enumerate(schema)]
    if not names or any("." in name for name in schema.names):
        return None
    wanted: dict[str, set[str]] = {}
    for name in names:
        top, _, member = name.partition(".")
        wanted.setdefault(top, set()).add(member)
    chosen = []
    for number, field in enumerate(schema):
        if (members := wanted.get(field.name)) is None:
            continue
        if "" in members:
            chosen.append(ChosenColumn(number, None, field))
            continue
        children = list(field.type) if pa.types.is_struct(field.type) else []
        numbers = [index for index, child in enumerate(children) if child.name in members]
        if len(numbers) < len(members) or any("." in child.name for child in children):
            return None
        kept = field.with_type(pa.struct([children[index] for index in numbers]))
        chosen.append(ChosenColumn(number, numbers, kept))
    return chosen if len(chosen) == len(wanted) else None


def layout(arrow: pa.DataType) -> ArrayLayout:
    """Return what else the native core must know of a type to make arrays of it.

    It is the number of bits of a value or of an offset, or 0, and the same of the types inside. A
    map's children are its keys and its values.
    """
    if pa.types.is_map(arrow):
        bits, inner = 32, [arrow.key_type, arrow.item_type]
    elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        bits, inner = 64 if pa.types.is_large_list(arrow) else 32, [arrow.value_type]
    elif pa.types.is_fixed_size_list(arrow):
        bits, inner = 0, [arrow.value_type]
    elif pa.types.is_struct(arrow):
        bits, inner = 0, [field.type for field in arrow]
    elif family(arrow) in ("string", "binary"):
        bits, inner = _OFFSETS.get(arrow, 0), []
    else:
        bits, inner = arrow.bit_width, []
    return bits, [layout(child) for child in inner]
