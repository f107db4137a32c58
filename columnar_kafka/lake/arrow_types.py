"""What tables ask of Arrow's types in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyarrow import types

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["FIELD_ID", "is_list", "zoned_columns"]

FIELD_ID: Final = b"PARQUET:field_id"
"""The key of a field's metadata that has the id of its column in a Parquet file."""


def is_list(arrow: pa.DataType) -> bool:
    """Return whether values are lists of any length: neither format has lists of a fixed one."""
    return bool(types.is_list(arrow) or types.is_large_list(arrow))


def zoned_columns(schema: pa.Schema) -> list[str]:
    """Return the paths of columns, and of what is in them, with times in another zone than UTC."""
    return [path for field in schema for path in _zoned(field.type, field.name)]


def _zoned(arrow: pa.DataType, path: str) -> Iterator[str]:
    if types.is_timestamp(arrow) and arrow.tz not in (None, "UTC"):
        yield path
    for number in range(arrow.num_fields):
        child = arrow.field(number)
        yield from _zoned(child.type, f"{path}.{child.name}")
