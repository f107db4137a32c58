"""Delta's statistics of a file, from its Parquet footer: no value is read."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.lake.arrow_types import is_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow.parquet as pq

__all__ = ["file_statistics"]

_TEXT: Final = 32  # characters; as much as Delta's own writers keep
_DIGITS: Final = 15  # of a decimal that a JSON number surely keeps
Path = tuple[str, ...]


def file_statistics(footer: pq.FileMetaData, columns: int) -> str:
    """Return the statistics of a file's first columns, nested ones counted, as JSON.

    A negative number of `columns` means all. What a footer does not say is left out, and so is
    everything in lists and maps.
    """
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index, path in enumerate(_leaves(footer.schema.to_arrow_schema(), ())):
        if path is None or 0 <= columns <= index:
            continue
        groups = [
            footer.row_group(n).column(index).statistics for n in range(footer.num_row_groups)
        ]
        if any(each is None or not each.has_null_count for each in groups):
            continue
        _put(nulls, path, sum(each.null_count for each in groups))
        filled = [each for each in groups if each.num_values]
        if filled and all(each.has_min_max for each in filled):
            with suppress(ValueError, OverflowError):  # bounds that are no values of Python
                low = _bound(min(each.min for each in filled), is_upper=False)
                high = _bound(max(each.max for each in filled), is_upper=True)
                _put(least, path, low)
                _put(most, path, high)
    return json.dumps(
        {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    )


def _leaves(fields: Iterable[pa.Field], path: Path) -> Iterator[Path | None]:
    """Yield the path of each Parquet column; None for those in lists and maps."""
    for each in fields:
        yield from _leaves_of(each.type, (*path, each.name))


def _leaves_of(arrow: pa.DataType, path: Path) -> Iterator[Path | None]:
    if pa.types.is_struct(arrow):
        yield from _leaves(list(arrow), path)
    elif is_list(arrow):
        yield from (None for _ in _leaves_of(arrow.value_type, path))
    elif pa.types.is_map(arrow):
        for each in (arrow.key_type, arrow.item_type):
            yield from (None for _ in _leaves_of(each, path))
    else:
        yield path


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _bound(value: Any, *, is_upper: bool) -> Any:
    """Return a bound as Delta's JSON has it, rounded outwards; None if it has none."""
    if isinstance(value, datetime.datetime):
        if is_upper and value.microsecond % 1000:
            value += datetime.timedelta(milliseconds=1)
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value) if len(value.as_tuple().digits) <= _DIGITS else None
    if isinstance(value, str):
        return None if is_upper and len(value) > _TEXT else value[:_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
