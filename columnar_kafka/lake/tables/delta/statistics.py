"""Delta's statistics of a file, from its Parquet footer: no value is read.

Readers of pyarrow's datasets, which deltalake makes of a table, take a bound that is missing beside
others for one that no value reaches, and find no row. So the least values of all columns are
stated, or of none; and so are the greatest. (Binary columns have no bounds in Delta, and columns in
structs may lack some, but the struct may not.)
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.lake.arrow_types import is_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from columnar_kafka.lake.tables.delta.schema import JsonObject

__all__ = [
    "exact_bound",
    "file_leaves",
    "file_statistics",
    "has_no_bounds",
    "indexed_columns",
    "lacking",
    "restated",
    "setting",
]

_COLUMNS: Final = "delta.dataSkippingStatsColumns"
_COUNT: Final = "delta.dataSkippingNumIndexedCols"
_COUNT_DEFAULT: Final = 32  # Delta's own
_NAMES: Final = re.compile(r"`((?:[^`]|``)*)`|([^`.,]+)|([.,])")

_TEXT: Final = 32  # characters; as much as Delta's own writers keep
_LAST: Final = "\U0010ffff"
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
Path = tuple[str, ...]


# --- which columns --------------------------------------------------------------------------------


def indexed_columns(
    table: JsonObject, partition: Collection[str], properties: Mapping[str, str]
) -> frozenset[Path]:
    """Return the columns, and members of structs, of which a table's properties want statistics.

    `table` is its schema; its `partition` columns have none.
    """
    fields = [field for field in table["fields"] if field["name"] not in partition]
    paths = list(_table_leaves(fields, ()))
    if names := properties.get(_COLUMNS):
        wanted = _parsed(names)
        return frozenset(
            path for path in paths if any(path[: len(prefix)] == prefix for prefix in wanted)
        )
    count = setting(properties, _COUNT, _COUNT_DEFAULT, least=-1)
    return frozenset(paths if count < 0 else paths[:count])


def setting(properties: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    """Return a number that a table's properties may set; the default if they set none so great."""
    try:
        value = int(properties.get(name, default))
    except ValueError:
        return default
    return value if value >= least else default


def _table_leaves(fields: Iterable[JsonObject], path: Path) -> Iterator[Path]:
    """Yield the path of each column that is no struct; lists and maps are one, as Delta counts."""
    for field in fields:
        kind, inner = field["type"], (*path, field["name"])
        if isinstance(kind, dict) and kind["type"] == "struct":
            yield from _table_leaves(kind["fields"], inner)
        else:
            yield inner


def _parsed(names: str) -> list[Path]:
    """Return the columns that a property names, such as ``a, b.c, `d,e```."""
    paths: list[list[str]] = [[]]
    for quoted, plain, separator in _NAMES.findall(names):
        if separator == ",":
            paths.append([])
        elif name := quoted.replace("``", "`") or plain.strip():
            paths[-1].append(name)
    return [tuple(path) for path in paths if path]


# --- what is stated -------------------------------------------------------------------------------


def file_statistics(footer: pq.FileMetaData, indexed: Collection[Path]) -> str:
    """Return the statistics of a file's `indexed` columns, as JSON in UTF-8.

    What a footer does not say is left out, and so is everything in lists and maps.
    """
    least: dict[str, Any] | None = {}
    most: dict[str, Any] | None = {}
    nulls: dict[str, Any] = {}
    for number, path, arrow in file_leaves(footer, indexed):
        groups = [
            footer.row_group(n).column(number).statistics for n in range(footer.num_row_groups)
        ]
        if all(group is not None and group.has_null_count for group in groups):
            _put(nulls, path, sum(group.null_count for group in groups))
        else:
            groups = [None]  # beside a bound, readers would take it that there are no nulls
        least = _with_bound(least, path, arrow, groups, is_upper=False)
        most = _with_bound(most, path, arrow, groups, is_upper=True)
    return _statistics(footer.num_rows, least, most, nulls, lacking(footer, indexed))


def lacking(footer: pq.FileMetaData, indexed: Collection[Path]) -> list[Path]:
    """Return those of a table's columns that a file does not have."""
    columns = set(_fields(footer.schema.to_arrow_schema(), ()))
    return sorted(set(indexed) - columns)


def restated(records: int, least: Any, most: Any, nulls: Any, columns: Collection[Path]) -> str:
    """Return statistics that were read from the log, of a file without some `columns`.

    Readers would take it that these have values, because the log says nothing of them. A NaN, which
    is a bound to Spark, is one that no value reaches to others.
    """
    if _has_nan(least) or _has_nan(most):
        least = most = None
    return _statistics(
        records,
        least and _stated_tree(least, is_upper=False),
        most and _stated_tree(most, is_upper=True),
        _stated_tree(nulls or {}, is_upper=False),
        columns,
    )


def _has_nan(values: Any) -> bool:
    if isinstance(values, dict):
        return any(map(_has_nan, values.values()))
    return isinstance(values, float) and math.isnan(values)


def _stated_tree(values: Mapping[str, Any], *, is_upper: bool) -> dict[str, Any]:
    """Return bounds as JSON has them; those that there are none of are left out."""
    return {
        name: _stated_tree(value, is_upper=is_upper)
        if isinstance(value, dict)
        else _stated(value, is_upper=is_upper)
        for name, value in values.items()
        if value is not None
    }


def _statistics(
    records: int,
    least: dict[str, Any] | None,
    most: dict[str, Any] | None,
    nulls: dict[str, Any],
    absent: Iterable[Path],
) -> str:
    for path in absent:
        for tree in (least, most):
            if tree:
                _put(tree, path, None)
        _put(nulls, path, records)
    stated = {"minValues": least, "maxValues": most, "nullCount": nulls}
    return _json(
        {"numRecords": records} | {name: values for name, values in stated.items() if values}
    )


def _fields(fields: Iterable[pa.Field], path: Path) -> Iterator[Path]:
    """Yield the path of each column, and of members of structs, whatever their types."""
    for field in fields:
        yield (*path, field.name)
        if pa.types.is_struct(field.type):
            yield from _fields(list(field.type), (*path, field.name))


def file_leaves(
    footer: pq.FileMetaData, indexed: Collection[Path]
) -> Iterator[tuple[int, Path, pa.DataType]]:
    """Yield number, path and type of each of a file's columns that is `indexed`."""
    for number, (path, arrow) in enumerate(_leaves(footer.schema.to_arrow_schema(), ())):
        if path is not None and path in indexed:
            yield number, path, arrow


def has_no_bounds(arrow: pa.DataType) -> bool:
    """Return whether columns of a type have no bounds in Delta."""
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def _leaves(fields: Iterable[pa.Field], path: Path) -> Iterator[tuple[Path | None, pa.DataType]]:
    """Yield path and type of each Parquet column; no path for those in lists and maps."""
    for field in fields:
        yield from _leaves_of(field.type, (*path, field.name))


def _leaves_of(arrow: pa.DataType, path: Path) -> Iterator[tuple[Path | None, pa.DataType]]:
    if pa.types.is_struct(arrow):
        yield from _leaves(list(arrow), path)
    elif is_list(arrow):
        yield from ((None, leaf) for _, leaf in _leaves_of(arrow.value_type, path))
    elif pa.types.is_map(arrow):
        for inner in (arrow.key_type, arrow.item_type):
            yield from ((None, leaf) for _, leaf in _leaves_of(inner, path))
    else:
        yield path, arrow


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value where a path says, and the structs above it; None is no value."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if value is not None:
        tree[path[-1]] = value


def _with_bound(
    tree: dict[str, Any] | None,
    path: Path,
    arrow: pa.DataType,
    groups: Sequence[Any],
    *,
    is_upper: bool,
) -> dict[str, Any] | None:
    """Add a column's bound to those of the others; None if one of them lacks it."""
    if tree is None or has_no_bounds(arrow):
        return tree
    filled = [group for group in groups if group is None or group.num_values]
    is_counted = not any(group is None for group in filled)
    bound = exact_bound(filled, is_upper=is_upper)
    if bound is not None:
        _put(tree, path, _stated(bound, is_upper=is_upper))
    elif filled and is_counted and not is_upper and arrow in _TEXTS:
        _put(tree, path, "")  # no text is less
    elif filled and len(path) == 1:
        return None
    else:
        _put(tree, path, None)
    return tree


def exact_bound(groups: Sequence[Any], *, is_upper: bool) -> Any:
    """Return the greatest of all values, or the least; None if not all row groups state theirs.

    `groups` are the statistics of the row groups that have values; None where a footer has none.
    """
    try:
        stated = [
            None if group is None or not group.has_min_max else group.max if is_upper else group.min
            for group in groups
        ]
    except (ValueError, OverflowError):  # they are no values of Python
        return None
    known = [bound for bound in stated if bound is not None and bound == bound]  # noqa: PLR0124 - NaN
    if not known or len(known) < len(stated):
        return None
    return max(known) if is_upper else min(known)


_TEXTS: Final = (pa.string(), pa.large_string())


def _stated(value: Any, *, is_upper: bool) -> Any:
    """Return a bound as Delta's JSON has it, rounded outwards."""
    if isinstance(value, datetime.datetime):
        if is_upper and value.microsecond % 1000 and value.year < datetime.MAXYEAR:
            value += _MILLISECOND  # readers allow for it, too
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return _upper_text(value) if is_upper else value[:_TEXT]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"  # as Spark has it
    return value


def _upper_text(value: str) -> str:
    """Return a text that is not less than this one, and short if there is one."""
    cut = value[:_TEXT].rstrip(_LAST)
    if len(value) <= _TEXT or not cut:
        return value
    after = ord(cut[-1]) + 1
    return cut[:-1] + chr(0xE000 if after == 0xD800 else after)  # noqa: PLR2004 - no surrogates


def _json(value: Any) -> str:
    """Return JSON in UTF-8 with all digits of decimals.

    The parser that deltalake and others read logs with joins escaped surrogates wrongly.
    """
    if isinstance(value, dict):
        pairs = [f"{_json(name)}: {_json(inner)}" for name, inner in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return json.dumps(value, ensure_ascii=False)
