"""Avro's unions: which of them are one column, and how the branches of others are told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

__all__ = [
    "LOGICAL",
    "branch_name",
    "is_decimal",
    "is_null",
    "is_union_column",
    "is_uuid",
    "one_column",
    "without_null",
]

LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_ONE_COLUMN: Final = {
    frozenset({"int", "long"}): pa.int64(),
    frozenset({"float", "double"}): pa.float64(),
    frozenset({"enum", "string"}): pa.string(),
    frozenset({"fixed", "bytes"}): pa.binary(),
}
"""The unions that one column can hold: the values read back are the values produced."""
_UUID_BYTES: Final = 16


def is_decimal(avro: Mapping[str, Any]) -> bool:
    """Say whether a type is a decimal; Avro says to ignore one without a precision."""
    return (
        avro.get("logicalType") == "decimal"
        and avro["type"] in ("bytes", "fixed")
        and bool(avro.get("precision"))
    )


def is_uuid(avro: Mapping[str, Any]) -> bool:
    """Say whether a type is a UUID."""
    if avro.get("logicalType") != "uuid":
        return False
    return avro["type"] == "string" or avro.get("size") == _UUID_BYTES


def one_column(branches: Sequence[Any]) -> pa.DataType | None:
    """Return the column that holds all values of several types; None: there is none."""
    return _ONE_COLUMN.get(frozenset(map(_value_type, branches)))


def is_union_column(avro: Any) -> bool:
    """Say whether a type is a union that has a member for each branch."""
    if not isinstance(avro, list):
        return False
    branches = without_null(avro)
    return len(branches) > 1 and one_column(branches) is None


def without_null(union: Sequence[Any]) -> list[Any]:
    """Return the branches but null."""
    return [branch for branch in union if not is_null(branch)]


def is_null(branch: Any) -> bool:
    """Say whether a branch is null."""
    return branch in ("null", {"type": "null"})


def branch_name(avro: Any) -> str:
    """Return the name by which a producer tells a branch: its own, or that of its type."""
    if not isinstance(avro, Mapping):
        return str(avro)
    return str(avro["name"] if "name" in avro else avro["type"])


def _value_type(avro: Any) -> str:
    """Return the logical type of a union's branch if it has one that we know, else its type."""
    if not isinstance(avro, Mapping):
        return str(avro)
    name = str(avro["type"])
    logical = str(avro.get("logicalType"))
    if is_decimal(avro) or is_uuid(avro) or (name, logical) in LOGICAL:
        return logical
    return name
