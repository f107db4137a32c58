"""What Delta and Iceberg ask of Arrow's types in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyarrow import types

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FIELD_ID", "is_list"]

FIELD_ID: Final = b"PARQUET:field_id"
"""The key of a field's metadata that has the id of its column in a Parquet file."""


def is_list(arrow: pa.DataType) -> bool:
    """Return whether values are lists of any length: neither format has lists of a fixed one."""
    return bool(types.is_list(arrow) or types.is_large_list(arrow))
