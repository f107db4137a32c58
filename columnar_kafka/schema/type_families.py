"""Families of Arrow types: types whose values are the same, in whichever width or layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pyarrow import types

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

__all__ = ["NESTED", "Family", "family"]

Family = Literal[
    "boolean",
    "integer",
    "float",
    "decimal",
    "date",
    "time",
    "local timestamp",
    "timestamp",
    "duration",
    "string",
    "binary",
    "struct",
    "map",
    "list",
    "list view",
]

NESTED: Final = frozenset[Family]({"struct", "map", "list", "list view"})

_FAMILIES: Final[dict[Family, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "boolean": (types.is_boolean,),
    "integer": (types.is_integer,),
    "float": (types.is_floating,),
    "decimal": (types.is_decimal,),
    "date": (types.is_date,),
    "time": (types.is_time,),
    "local timestamp": (lambda arrow: types.is_timestamp(arrow) and arrow.tz is None,),
    "timestamp": (types.is_timestamp,),
    "duration": (types.is_duration,),
    "string": (types.is_string, types.is_large_string),
    "binary": (types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    "struct": (types.is_struct,),
    "map": (types.is_map,),
    "list": (types.is_list, types.is_large_list, types.is_fixed_size_list),
    "list view": (types.is_list_view, types.is_large_list_view),
}


def family(arrow: pa.DataType) -> Family | None:
    """Return the family of a type.

    None: its values are in none (null, intervals, unions), or need decoding first (dictionaries,
    runs, views of bytes, extension types).
    """
    for name, tests in _FAMILIES.items():
        if any(test(arrow) for test in tests):
            return name
    return None
