"""Between which values a Parquet file says that its columns lie.

Read from the bytes: Arrow ends the process on some statistics that are malformed. What is not as
parquet.thrift wants it counts as not said.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.schema.canonical import children
from columnar_kafka.schema.families import family
from columnar_kafka.segment.parquet import metadata, thrift
from columnar_kafka.segment.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Cursor,
    ThriftError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Bounds", "Path", "bounds"]

# parquet.thrift: ids of the fields read here, and the kinds they must have.
_F_SCHEMA, _F_GROUPS, _G_COLUMNS, _C_META = 2, 4, 1, 3
_M_TYPE, _M_PATH, _M_VALUES, _M_STATISTICS = 1, 3, 5, 12
_S_NULLS, _S_GREATEST, _S_LEAST, _S_GREATEST_EXACT, _S_LEAST_EXACT = 3, 5, 6, 7, 8
_META: Final = {1: I32, 3: LIST, 5: I64, 12: STRUCT}
_STATISTICS: Final = {3: I64, 5: BINARY, 6: BINARY}
_INT32, _INT64, _BYTES = 1, 2, 6
_TYPE_ORDER: Final = thrift.struct([(1, STRUCT, thrift.struct([]))])


Path = tuple[str, ...]
"""The names of a column and of members in it."""


class Bounds(NamedTuple):
    """The least and the greatest value of a column, of its type; both None where all are null."""

    least: pa.Scalar | None
    greatest: pa.Scalar | None
    has_nulls: bool


class _Said(NamedTuple):
    """What is said of one column chunk; `nulls` is -1 if it is not said how many there are."""

    type: int = -1
    path: tuple[str, ...] = ()
    values: int = -1
    nulls: int = -1
    least: bytes | None = None
    greatest: bytes | None = None


def bounds(footer: bytes, schema: pa.Schema, names: Collection[str]) -> dict[Path, Bounds]:
    """Return what a file with this schema says of these columns and of members of structs in them.

    Whole numbers, dates, times, text and bytes: of others it says nothing, nor of what is in lists.
    """
    leaves = _all_leaves(schema)
    wanted = {
        number: (path, kind)
        for number, (path, kind) in enumerate(leaves)
        if kind is not None and path[0] in names
    }
    if not wanted:
        return {}
    try:
        said = list(_groups(footer, len(leaves), wanted))
    except (ThriftError, IndexError, UnicodeDecodeError):
        return {}
    found = {}
    for number, (path, kind) in wanted.items() if said else ():
        one = _bounds([group[number] for group in said], path, kind)
        if one is not None:
            found[path] = one
    return found


# --- types ----------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A type that has an order: that of Parquet and its bytes there, and whether it is signed."""

    arrow: pa.DataType
    physical: int
    width: int = 0
    signed: bool = True

    def decoded(self, data: bytes) -> Any:
        """Return what orders as the value does.

        Raises:
            ValueError: it has another width.
        """
        if self.physical == _BYTES:
            return data
        if len(data) != self.width:
            raise ValueError(data)
        return int.from_bytes(data, "little", signed=self.signed)

    def scalar(self, found: Any) -> pa.Scalar:
        """Return the value itself.

        Raises:
            ValueError, OverflowError: it is none of this type.
        """
        is_text = pa.types.is_string(self.arrow) or pa.types.is_large_string(self.arrow)
        return pa.scalar(found.decode() if is_text else found, self.arrow)


def _kind(arrow: pa.DataType) -> _Kind | None:
    """Return what is known of a type; None where there is no order, or writers differ on it."""
    is_time = pa.types.is_date32(arrow) or pa.types.is_time(arrow) or pa.types.is_timestamp(arrow)
    if is_time or pa.types.is_integer(arrow):
        is_long = arrow.bit_width == 64  # noqa: PLR2004
        signed = not pa.types.is_unsigned_integer(arrow)
        return _Kind(arrow, _INT64 if is_long else _INT32, 8 if is_long else 4, signed)
    is_fixed = pa.types.is_fixed_size_binary(arrow)
    in_bytes = family(arrow) in ("string", "binary") and not is_fixed
    return _Kind(arrow, _BYTES) if in_bytes else None


@lru_cache(maxsize=100)
def _all_leaves(schema: pa.Schema) -> list[tuple[Path, _Kind | None]]:
    return [leaf for each in schema for leaf in _leaves(each, ())]


def _leaves(each: pa.Field, above: Path) -> Iterator[tuple[Path, _Kind | None]]:
    """Yield the leaf columns of a field; those whose values are not one a row have no kind."""
    path = (*above, each.name)
    inner = children(each.type)
    if not inner:
        yield path, _kind(each.type)
    for _, child in inner:
        for below, kind in _leaves(child, path):
            yield below, kind if pa.types.is_struct(each.type) else None


# --- the footer -----------------------------------------------------------------------------------


def _groups(footer: bytes, columns: int, wanted: Collection[int]) -> Iterator[dict[int, _Said]]:
    """Yield what is said of columns, by number, of one row group after the other.

    Raises:
        ThriftError, IndexError, UnicodeDecodeError: it is damaged, or values are in another order
            than that of their types.
    """
    # The orders come last: with them the rest, which is most of a footer, need not be walked.
    if not footer.endswith(thrift.listing(STRUCT, [_TYPE_ORDER] * columns) + thrift.STOP):
        raise ThriftError("no order of values")
    cursor, schema = Cursor(footer), b""
    for fid, kind in cursor.fields({_F_SCHEMA: LIST, _F_GROUPS: LIST}):
        if fid == _F_GROUPS:
            for _ in range(cursor.structs()):
                yield _group(cursor, columns, wanted)
            metadata.last.schema = schema
            return
        if fid == _F_SCHEMA:
            schema = cursor.span(LIST, known=metadata.last.schema)
        else:
            cursor.skip(kind)


def _group(cursor: Cursor, columns: int, wanted: Collection[int]) -> dict[int, _Said]:
    found = {}
    for fid, kind in cursor.fields({_G_COLUMNS: LIST}):
        if fid != _G_COLUMNS:
            cursor.skip(kind)
        elif (count := cursor.structs()) != columns:
            raise ThriftError(f"{count} columns of {columns}")
        else:
            for number in range(columns):
                if number in wanted:
                    found[number] = _chunk(cursor)
                elif match := metadata.ARROW_CHUNK.match(cursor.buf, cursor.pos):
                    cursor.pos = match.end()
                else:
                    cursor.skip(STRUCT)
    if len(found) < len(wanted):
        raise ThriftError("a row group without columns")
    return found


def _chunk(cursor: Cursor) -> _Said:
    found = _Said()
    for fid, kind in cursor.fields({_C_META: STRUCT}):
        if fid == _C_META:
            found = _meta(cursor)
        else:
            cursor.skip(kind)
    return found


def _meta(cursor: Cursor) -> _Said:
    found = _Said()
    for fid, kind in cursor.fields(_META):
        if fid == _M_TYPE:
            found = found._replace(type=cursor.integer())
        elif fid == _M_PATH:
            found = found._replace(path=_path(cursor))
        elif fid == _M_VALUES:
            found = found._replace(values=cursor.integer())
        elif fid == _M_STATISTICS:
            found = _statistics(cursor, found)
        else:
            cursor.skip(kind)
    return found


def _path(cursor: Cursor) -> Path:
    kind, count = cursor.listing()
    if kind != BINARY:
        raise ThriftError(f"a path of the kind {kind}")
    return tuple([cursor.binary().decode() for _ in range(count)])


def _statistics(cursor: Cursor, found: _Said) -> _Said:
    for fid, kind in cursor.fields(_STATISTICS):
        if fid == _S_NULLS:
            found = found._replace(nulls=cursor.integer())
        elif fid == _S_GREATEST:
            found = found._replace(greatest=cursor.binary())
        elif fid == _S_LEAST:
            found = found._replace(least=cursor.binary())
        else:
            # Cut short, the greatest must have been made greater: not all writers do that.
            if (fid, kind) == (_S_GREATEST_EXACT, thrift.FALSE):
                found = found._replace(greatest=None)
            elif (fid, kind) == (_S_LEAST_EXACT, thrift.FALSE):
                found = found._replace(least=None)
            cursor.skip(kind)
    return found


# --- one column -----------------------------------------------------------------------------------


def _bounds(said: Sequence[_Said], path: Path, kind: _Kind) -> Bounds | None:
    """Return what is said of a column in all row groups; None where one of them says too little."""
    ends: list[tuple[Any, Any]] = []
    for each in said:
        if (each.path, each.type) != (path, kind.physical):
            return None
        if each.nulls == each.values >= 0:
            continue
        if each.least is None or each.greatest is None:
            return None
        ends.append((each.least, each.greatest))
    has_nulls = any(each.nulls for each in said)
    if not ends:
        return Bounds(None, None, has_nulls)
    try:
        pairs = [(kind.decoded(least), kind.decoded(greatest)) for least, greatest in ends]
        if any(least > greatest for least, greatest in pairs):
            return None
        least, greatest = min(each for each, _ in pairs), max(each for _, each in pairs)
        return Bounds(kind.scalar(least), kind.scalar(greatest), has_nulls)
    except (ValueError, OverflowError):  # pa.ArrowInvalid and UnicodeDecodeError are ValueErrors
        return None
