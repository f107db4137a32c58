"""Casts Arrow data from elsewhere to a schema's types; a value that would change is an error.

pyarrow's own casts are not enough: they turn 1e300 into an infinite float32, accept bytes as text,
and check neither nulls nor the keys of maps.
"""

from __future__ import annotations

import operator
from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import types

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.from_rows.copying import element
from columnar_kafka.columns.layouts import (
    as_lists,
    fill_hidden_nulls,
    offsets,
    regroup,
    repeat,
    unencoded,
)
from columnar_kafka.errors import RowError
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import is_union

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.schema.type_families import Family

__all__ = ["Caster", "check_branches", "check_field_names"]


class Caster:
    """Casts arrays to the fields of one schema. Thread-safe: it has no state."""

    def __init__(self, schema: RecordSchema, *, ignore_extra: bool) -> None:
        self._schema = schema
        self._defaults = schema.defaults
        self._symbols = schema.symbols
        self._ignore_extra = ignore_extra

    def cast(
        self, array: pa.Array, to: pa.Field, path: str, hidden: pa.BooleanArray | None = None
    ) -> pa.Array:
        """Return `array` as the field at `path`; the same array if it already fits.

        Args:
            array: valid data.
            to: the field.
            path: its path, for messages.
            hidden: where the record that holds the field is null; None if nowhere.

        Raises:
            RowError: the type or a value does not fit; `convert_chunks` finds the value's row.
        """
        source = array.type
        array = unencoded(array)
        if hidden is not None:
            # Values under a null record can be anything and mean nothing: make them null.
            array = pa.StructArray.from_arrays([array], names=[""], mask=hidden).flatten()[0]
        if not to.nullable and array.null_count > (hidden.true_count if hidden is not None else 0):
            raise RowError(f"field {path!r} is null, and its schema does not allow null")
        if types.is_null(array.type):
            return repeat(None, to.type, len(array))
        if not _is_castable(array.type, to.type) or not _is_storage_of(source, to.type):
            raise _type_error(path, source, to)
        if types.is_struct(to.type):
            return self._struct(array, to.type, path)
        if types.is_map(to.type):
            return self._map(array, to.type, path)
        if types.is_nested(to.type):
            return self._list(array, to.type, path)
        try:
            leaf = _cast_leaf(array, to.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _type_error(path, source, to, f": {error}") from error
        self._check_symbols(leaf, path)
        return leaf

    def default(self, to: pa.Field, path: str, rows: int) -> pa.Array:
        """Return the default of the field at `path`, once for each of `rows` rows."""
        value = self._defaults[path]
        if types.is_nested(to.type):
            value, _ = element(to, path, self._schema)(value)
        return repeat(value, to.type, rows)

    def _struct(self, array: pa.StructArray, to: pa.StructType, path: str) -> pa.Array:
        names = [field.name for field in array.type]
        fields = {f"{path}.{field.name}": field for field in to}
        optional = {field.name for inner, field in fields.items() if inner in self._defaults}
        check_field_names(names, to, optional, path, ignore_extra=self._ignore_extra)
        nulls = array.is_null() if array.null_count else None
        present = set(names)
        children = {field.name: array.field(field.name) for field in to if field.name in present}
        cast = [
            self.cast(children[field.name], field, inner, nulls)
            if field.name in children
            else self.default(field, inner, len(array))
            for inner, field in fields.items()
        ]
        if is_union(to):
            check_branches(cast, nulls, f"field {path!r}")
        if _same(array.type, to) and all(map(operator.is_, cast, children.values())):
            return array
        # Parquet's writer refuses nulls in required fields, even under nulls, where it writes none.
        cast = [
            fill_hidden_nulls(child, field, nulls) for child, field in zip(cast, to, strict=True)
        ]
        return pa.StructArray.from_arrays(cast, fields=list(to), mask=nulls)

    def _list(self, array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
        items = array.flatten()
        cast = self.cast(items, to.value_field, f"{path}.item")
        if _same(array.type, to) and cast is items:
            return array
        if not types.is_fixed_size_list(to):
            return regroup(array, cast, to)
        cast = fill_hidden_nulls(cast, to.value_field)  # or pyarrow refuses to cast the lists
        lists = regroup(array, cast, pa.large_list(to.value_field))
        try:
            return lists.cast(to)
        except pa.ArrowInvalid as error:
            raise _type_error(path, array.type, pa.field(path, to)) from error

    def _map(self, array: pa.MapArray, to: pa.MapType, path: str) -> pa.Array:
        maps = as_lists(array)
        keys, values = maps.flatten().flatten()
        keys = self.cast(keys, to.key_field, f"{path}.key")
        values = self.cast(values, to.item_field, f"{path}.value")
        if _has_equal_keys(regroup(maps, keys, pa.large_list(to.key_field))):
            raise RowError(f"field {path!r} has two keys that are equal as {to.key_type}")
        # Always a new array: a map whose entries are a slice does not read back correctly.
        nulls = maps.is_null() if maps.null_count else None
        return pa.MapArray.from_arrays(offsets(maps, pa.int32()), keys, values, to, mask=nulls)

    def _check_symbols(self, array: pa.Array, path: str) -> None:
        allowed = self._symbols.get(path)
        if allowed is None:
            return
        known = pc.is_in(array.drop_null(), value_set=pa.array(allowed, type=array.type))
        if not _all(known):
            raise RowError(f"field {path!r} has a symbol other than {', '.join(sorted(allowed))}")


def check_branches(
    members: Iterable[pa.Array | pa.ChunkedArray], nulls: pa.BooleanArray | None, where: str
) -> None:
    """Check that one member of a union is not null, except where `nulls` says that it is null.

    Raises:
        RowError: there is none, or there are several; `where` names the union.
    """
    counts = reduce(pc.add, [pc.is_valid(member).cast(pa.int32()) for member in members])
    is_right = pc.equal(counts, 1)
    if not _all(is_right if nulls is None else pc.or_(is_right, nulls)):
        raise RowError(f"{where} is a union, of whose branches one must have a value, and no other")


def check_field_names(
    names: Sequence[str],
    wanted: Iterable[pa.Field],
    optional: Container[str],
    path: str = "",
    *,
    ignore_extra: bool,
) -> None:
    """Check the names of a record's fields in data from outside.

    Args:
        names: those in the data.
        wanted: the schema's fields.
        optional: the names that may be missing.
        path: of the record, for messages; empty at the top.
        ignore_extra: allow names that the schema does not have.

    Raises:
        RowError: a name occurs twice, is missing, or is not in the schema.
    """
    prefix = f"{path}." if path else ""
    counts = Counter(names)
    known = {field.name: None for field in wanted}
    for name in known:
        if counts[name] > 1:
            raise RowError(f"field {prefix + name!r} occurs {counts[name]} times in the data")
        if name not in counts and name not in optional:
            raise RowError(f"field {prefix + name!r} is missing, and has no default")
    extra = [repr(prefix + name) for name in names if name not in known]
    if extra and not ignore_extra:
        raise RowError(
            f"the data has {', '.join(extra)}, which the topic's schema does not "
            f"({', '.join(known)}): leave them out, or pass extra='ignore'"
        )


def _type_error(path: str, source: pa.DataType, to: pa.Field, why: str = "") -> RowError:
    want = f"{to.type}" + (" or null" if to.nullable else "")
    hint = _HINTS.get((family(source), family(to.type)), "")
    return RowError(f"field {path!r} is {source} in the data; its schema wants {want}{why}{hint}")


# --- types ----------------------------------------------------------------------------------------

_HINTS: Final[dict[tuple[Family | None, Family | None], str]] = {
    ("float", "integer"): " (pandas: astype('Int64') makes integers of them, with nulls)",
    ("local timestamp", "timestamp"): " (name the zone that its times are in)",
}
_CASTABLE: Final = (("integer", "float"), ("integer", "decimal"), ("list view", "list"))


def _is_castable(source: pa.DataType, to: pa.DataType) -> bool:
    return family(source) == family(to) or (family(source), family(to)) in _CASTABLE


def _is_storage_of(source: pa.DataType, to: pa.DataType) -> bool:
    """Say whether an extension's values may become `to`; fixed-size ones only as stored."""
    if not isinstance(source, pa.BaseExtensionType):
        return True
    storage = source.storage_type
    return storage.equals(to) or not types.is_fixed_size_binary(storage)


# --- values ---------------------------------------------------------------------------------------


def _cast_leaf(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return values in another type of their family; raise ArrowInvalid if one would change."""
    if array.type.equals(to):
        return array
    if types.is_floating(to):
        return _float(array.cast(pa.float64()), to)
    if types.is_decimal(to) and types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # room for all 64 bits
    return array.cast(to)


def _float(doubles: pa.Array, to: pa.DataType) -> pa.Array:
    cast = doubles.cast(to)
    same = pc.or_(pc.equal(cast.cast(pa.float64()), doubles), pc.is_nan(doubles))
    if not _all(same):
        raise pa.ArrowInvalid("the type cannot hold a value exactly")
    return cast


def _has_equal_keys(lists: pa.LargeListArray) -> bool:
    """Say whether a list holds two values that are equal as keys of a Python dict."""
    keys = lists.flatten()
    if types.is_floating(keys.type):
        keys = pc.add(keys.cast(pa.float64()), 0.0)  # 0.0 equals -0.0
    elif types.is_timestamp(keys.type) and (keys.type.tz or "UTC") != "UTC":
        if keys.type.tz[0] not in "+-":  # offsets, which pyarrow 17 cannot look up
            keys = pc.local_timestamp(keys)  # the hour that repeats in autumn
    elif types.is_decimal(keys.type) and keys.type.bit_width < 128:  # noqa: PLR2004 - of decimal128
        keys = keys.cast(
            pa.decimal128(keys.type.precision, keys.type.scale)
        )  # pyarrow cannot encode the narrow ones
    codes = keys.dictionary_encode()
    maps = pc.list_parent_indices(lists).cast(pa.int64())
    pairs = pc.add(pc.multiply(maps, len(codes.dictionary)), codes.indices.cast(pa.int64()))
    distinct: int = pc.count_distinct(pairs).as_py()
    return distinct < len(pairs)


def _all(booleans: pa.BooleanArray) -> bool:
    return bool(pc.all(booleans, min_count=0).as_py())


def _same(source: pa.DataType, to: pa.DataType) -> bool:
    return bool(source.equals(to, check_metadata=True))
