"""Arrow data from elsewhere to the types of a schema: every value stays what it is, or is refused.

pyarrow's own casts are not enough: they make 1e300 an infinite float32, take bytes for text, and
look neither at nulls nor at the keys of maps.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from columnar_kafka.columns.layouts import as_lists, filled, offsets, plain, regroup, repeat
from columnar_kafka.errors import RowError
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.schema.families import Family

__all__ = ["Caster", "check_names"]


class Caster:
    """Casts arrays to fields of one schema, in one kind of value. Thread-safe: has no state."""

    def __init__(self, schema: RecordSchema, *, ignore_extra: bool) -> None:
        self._defaults = schema.defaults
        self._symbols = schema.symbols
        self._ignore_extra = ignore_extra

    def cast(
        self, array: pa.Array, to: pa.Field, path: str, outer: pa.BooleanArray | None = None
    ) -> pa.Array:
        """Return `array` as the field at `path`: itself where it is already right.

        Args:
            array: valid data.
            to: the field.
            path: how messages call it.
            outer: where the record that holds the field is null, if anywhere.

        Raises:
            RowError: for the type, or for any value; `convert` finds out which row that is.
        """
        given = array.type
        array = plain(array)
        if outer is not None:
            # What is under a null may be anything, and is nothing.
            array = pa.StructArray.from_arrays([array], names=[""], mask=outer).flatten()[0]
        if not to.nullable and array.null_count > (outer.true_count if outer is not None else 0):
            raise RowError(f"field {path!r} is null, and its schema does not allow null")
        if types.is_null(array.type):
            return repeat(None, to.type, len(array))
        if not _is_kin(array.type, to.type) or not _is_storage_of(given, to.type):
            raise _wrong(path, given, to)
        if types.is_struct(to.type):
            return self._struct(array, to.type, path)
        if types.is_map(to.type):
            return self._map(array, to.type, path)
        if types.is_nested(to.type):
            return self._list(array, to.type, path)
        try:
            made = _leaf(array, to.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _wrong(path, given, to, f": {error}") from error
        self._check_symbols(made, path)
        return made

    def default(self, to: pa.Field, path: str, rows: int) -> pa.Array:
        """Return the default of the field at `path` for each of `rows`."""
        return repeat(self._defaults[path], to.type, rows)

    def _struct(self, array: pa.StructArray, to: pa.StructType, path: str) -> pa.Array:
        names = [each.name for each in array.type]
        fields = {f"{path}.{each.name}": each for each in to}
        optional = {each.name for inner, each in fields.items() if inner in self._defaults}
        check_names(names, to, optional, path, ignore_extra=self._ignore_extra)
        nulls = array.is_null() if array.null_count else None
        there = set(names)
        given = {each.name: array.field(each.name) for each in to if each.name in there}
        made = [
            self.cast(given[each.name], each, inner, nulls)
            if each.name in given
            else self.default(each, inner, len(array))
            for inner, each in fields.items()
        ]
        if _same(array.type, to) and all(map(_is, made, given.values())):
            return array
        # Parquet's writer wants no nulls where none are allowed, though these are not written.
        made = [filled(array, each, nulls) for array, each in zip(made, to, strict=True)]
        return pa.StructArray.from_arrays(made, fields=list(to), mask=nulls)

    def _list(self, array: pa.Array, to: pa.DataType, path: str) -> pa.Array:
        items = array.flatten()
        made = self.cast(items, to.value_field, f"{path}.item")
        if _same(array.type, to) and made is items:
            return array
        if not types.is_fixed_size_list(to):
            return regroup(array, made, to)
        made = filled(made, to.value_field)  # or it cannot be cast
        lists = regroup(array, made, pa.large_list(to.value_field))
        try:
            return lists.cast(to)
        except pa.ArrowInvalid as error:
            raise _wrong(path, array.type, pa.field(path, to)) from error

    def _map(self, array: pa.MapArray, to: pa.MapType, path: str) -> pa.Array:
        maps = as_lists(array)
        keys, values = maps.flatten().flatten()
        keys = self.cast(keys, to.key_field, f"{path}.key")
        values = self.cast(values, to.item_field, f"{path}.value")
        if _has_equal_keys(regroup(maps, keys, pa.large_list(to.key_field))):
            raise RowError(f"field {path!r} has two keys that are equal as {to.key_type}")
        # Made anew always: a map whose entries are a slice is not read back as it is.
        nulls = maps.is_null() if maps.null_count else None
        return pa.MapArray.from_arrays(offsets(maps, pa.int32()), keys, values, to, mask=nulls)

    def _check_symbols(self, array: pa.Array, path: str) -> None:
        allowed = self._symbols.get(path)
        if allowed is None:
            return
        known = pc.is_in(array.drop_null(), value_set=pa.array(allowed, type=array.type))
        if not _all(known):
            raise RowError(f"field {path!r} has a symbol other than {', '.join(sorted(allowed))}")


def check_names(
    given: Sequence[str],
    wanted: Iterable[pa.Field],
    optional: Container[str],
    path: str = "",
    *,
    ignore_extra: bool,
) -> None:
    """Refuse names that occur twice, are missing though not `optional`, or are not `wanted`.

    Raises:
        RowError: naming the fields, with `path` before them.
    """
    prefix = f"{path}." if path else ""
    counts = Counter(given)
    names = {each.name: None for each in wanted}
    for name in names:
        if counts[name] > 1:
            raise RowError(f"field {prefix + name!r} occurs {counts[name]} times in the data")
        if name not in counts and name not in optional:
            raise RowError(f"field {prefix + name!r} is missing, and has no default")
    extra = [repr(prefix + name) for name in given if name not in names]
    if extra and not ignore_extra:
        raise RowError(
            f"the data has {', '.join(extra)}, which the topic's schema does not "
            f"({', '.join(names)}): leave them out, or pass extra='ignore'"
        )


def _wrong(path: str, given: pa.DataType, to: pa.Field, why: str = "") -> RowError:
    want = f"{to.type}" + (" or null" if to.nullable else "")
    hint = _HINTS.get((family(given), family(to.type)), "")
    return RowError(f"field {path!r} is {given} in the data; its schema wants {want}{why}{hint}")


# --- types ----------------------------------------------------------------------------------------

_HINTS: Final[dict[tuple[Family | None, Family | None], str]] = {
    ("float", "integer"): " (pandas: astype('Int64') makes integers of them, with nulls)",
    ("local timestamp", "timestamp"): " (name the zone that its times are in)",
}
_WIDER: Final = (("integer", "float"), ("integer", "decimal"), ("list view", "list"))


def _is_kin(given: pa.DataType, to: pa.DataType) -> bool:
    return family(given) == family(to) or (family(given), family(to)) in _WIDER


def _is_storage_of(given: pa.DataType, to: pa.DataType) -> bool:
    """Say whether a type keeps an extension's values; 16 bytes that are a UUID are no other."""
    if not isinstance(given, pa.BaseExtensionType):
        return True
    storage = given.storage_type
    return storage.equals(to) or not types.is_fixed_size_binary(storage)


# --- values ---------------------------------------------------------------------------------------


def _leaf(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return values in another type of their kind; raise ArrowInvalid where one would change."""
    if array.type.equals(to):
        return array
    if types.is_floating(to):
        return _float(array.cast(pa.float64()), to)
    if types.is_decimal(to) and types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # room for all 64 bits
    return array.cast(to)


def _float(doubles: pa.Array, to: pa.DataType) -> pa.Array:
    made = doubles.cast(to)
    same = pc.or_(pc.equal(made.cast(pa.float64()), doubles), pc.is_nan(doubles))
    if not _all(same):
        raise pa.ArrowInvalid("the type cannot hold a value exactly")
    return made


def _has_equal_keys(lists: pa.LargeListArray) -> bool:
    """Say whether a list holds two values that are one key in Python."""
    keys = lists.flatten()
    if types.is_floating(keys.type):
        keys = pc.add(keys.cast(pa.float64()), 0.0)  # 0.0 and -0.0 are
    elif types.is_timestamp(keys.type) and keys.type.tz not in (None, "UTC"):
        keys = pc.local_timestamp(keys)  # the hour that comes twice in autumn is
    elif types.is_decimal32(keys.type) or types.is_decimal64(keys.type):
        keys = keys.cast(pa.decimal128(keys.type.precision, keys.type.scale))  # those are encoded
    codes = keys.dictionary_encode()
    maps = pc.list_parent_indices(lists).cast(pa.int64())
    pairs = pc.add(pc.multiply(maps, len(codes.dictionary)), codes.indices.cast(pa.int64()))
    distinct: int = pc.count_distinct(pairs).as_py()
    return distinct < len(pairs)


def _all(booleans: pa.BooleanArray) -> bool:
    return bool(pc.all(booleans, min_count=0).as_py())


def _same(given: pa.DataType, to: pa.DataType) -> bool:
    return bool(given.equals(to, check_metadata=True))


def _is(one: object, other: object) -> bool:
    return one is other
