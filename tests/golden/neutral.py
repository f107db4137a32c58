"""Values as JSON that no library's release can change the meaning of; only pyarrow is needed.

Times are their number since the epoch (or midnight) in their column's unit, decimals are text,
bytes are hex, maps are lists of pairs, and floats are what C's `%a` shows of them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a table."""
    names = table.schema.names
    columns = [[plain(value) for value in column] for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def plain(value: pa.Scalar) -> Any:  # noqa: PLR0911 - one for each kind of type
    """One value."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [[plain(entry["key"]), plain(entry["value"])] for entry in value.values]
    if pa.types.is_nested(kind):
        return [plain(item) for item in value.values]
    if pa.types.is_temporal(kind):
        return value.value
    if pa.types.is_floating(kind):
        return float(value.as_py()).hex()
    if pa.types.is_decimal(kind):
        return str(value.as_py())
    converted = value.as_py()
    return converted.hex() if isinstance(converted, bytes) else converted
