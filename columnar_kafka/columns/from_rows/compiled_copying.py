"""Copies rows and nested values of the usual types fast, by code that is written for their schema.

The code takes a value whose parts all have the types that most have: dicts with every field, lists,
ints in their range, ASCII text. Anything else it leaves to `copying`, which has all the rules and
errors; so it needs none, and its result for what it takes is the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.range_checks import has_distinct_keys, integer_range
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    from columnar_kafka.schema import RecordSchema

__all__ = ["VALUE_BYTES", "Copy", "compiled"]

VALUE_BYTES: Final = 40  # a value's object, or later its bytes in the column, whichever is more

Copy = Callable[[Any], tuple[Any, int]]
"""Copies a value that is not None: returns one that cannot be changed, and the bytes inside it."""


_USUAL: Final[dict[str | None, str]] = {
    "boolean": "type({0}) is not bool",
    "string": "type({0}) is not str or not {0}.isascii()",
    "binary": "type({0}) is not bytes",
    "date32": "type({0}) is not date",
}
"""What is not usual, by family or type; of the others there is more to say."""
_CLASSES: Final = {"date": datetime.date, "datetime": datetime.datetime}


def compiled(
    arrow: pa.DataType,
    path: str,
    schema: RecordSchema,
    copy: Copy,
    element: Callable[[pa.Field, str, RecordSchema], Copy],
    base_bytes: int = VALUE_BYTES,
) -> Copy:
    """Return a function that does what `copy` does with values of a nested type.

    Args:
        arrow: a struct, list or map.
        path: the field's path; empty for a row.
        schema: of the record that holds the field.
        copy: copies every value, and raises the errors.
        element: returns the function that copies, checks and measures a field's values.
        base_bytes: the bytes of a value without those inside it.
    """
    if not has_distinct_keys(arrow) or schema.coerce:  # a converter must not be called twice
        return copy
    source = _Source(schema, copy, element)
    result, nbytes = source.nested(arrow, path, "v", 2)
    source.write(2, f"return {result}, n + {nbytes - VALUE_BYTES + base_bytes}")
    text = "\n".join(
        ["def copy(v):", " n = 0", " try:", *source.lines, " except KeyError: return other(v)"]
    )
    try:
        exec(compile(text, f"<copies {path}>", "exec"), source.names)  # noqa: S102 - names are numbers
    except SyntaxError:  # Python nests 20 loops at most, and 100 indented blocks
        return copy
    function: Copy = source.names["copy"]
    return function


class _Source:
    """The body of a function: `v` is the value, and `n` counts bytes inside it."""

    def __init__(
        self,
        schema: RecordSchema,
        copy: Copy,
        element: Callable[[pa.Field, str, RecordSchema], Copy],
    ) -> None:
        self._schema = schema
        self._element = element
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"other": copy, **_CLASSES}

    def write(self, depth: int, line: str) -> None:
        self.lines.append(" " * depth + line)

    def nested(self, arrow: pa.DataType, path: str, x: str, depth: int) -> tuple[str, int]:
        """Write what copies `x`; return the expression of the copy, and its constant bytes."""
        if pa.types.is_struct(arrow):
            return self._struct(arrow, path, x, depth)
        result = self._name()
        if pa.types.is_map(arrow):
            key, value = self._name(), self._name()
            self.write(depth, f"if type({x}) is not dict: return other(v)")
            self.write(depth, f"{result} = []")
            self.write(depth, f"for {key}, {value} in {x}.items():")
            copied, nbytes = self._value(arrow.key_field, f"{path}.key", key, depth + 1)
            item, more = self._value(arrow.item_field, f"{path}.value", value, depth + 1)
            copied, nbytes = f"({copied}, {item})", nbytes + more
        else:
            value = self._name()
            self.write(depth, f"if type({x}) is not list: return other(v)")
            self.write(depth, f"{result} = []")
            self.write(depth, f"for {value} in {x}:")
            copied, nbytes = self._value(arrow.value_field, f"{path}.item", value, depth + 1)
        self.write(depth + 1, f"{result}.append({copied})")
        self.write(depth, f"n += {nbytes} * len({result})")
        return result, VALUE_BYTES

    def _struct(self, arrow: pa.DataType, path: str, x: str, depth: int) -> tuple[str, int]:
        self.write(depth, f"if type({x}) is not dict or len({x}) != {arrow.num_fields}:")
        self.write(depth + 1, "return other(v)")
        copies, nbytes = [], VALUE_BYTES
        for field in arrow:
            part = self._name()
            self.write(depth, f"{part} = {x}[{field.name!r}]")
            inner = f"{path}.{field.name}" if path else field.name
            copied, more = self._value(field, inner, part, depth)
            copies.append(copied)
            nbytes += more
        return f"({', '.join(copies)},)", nbytes

    def _value(self, field: pa.Field, path: str, x: str, depth: int) -> tuple[str, int]:
        """Write what copies `x`, which may be None where the field may be null."""
        if not field.nullable:
            copied, nbytes = self._present(field, path, x, depth)
            return copied, VALUE_BYTES + nbytes
        self.write(depth, f"if {x} is not None:")
        copied, nbytes = self._present(field, path, x, depth + 1)
        if copied != x:
            self.write(depth + 1, f"{x} = {copied}; n += {nbytes}")
        return x, VALUE_BYTES

    def _present(self, field: pa.Field, path: str, x: str, depth: int) -> tuple[str, int]:
        arrow = field.type
        rules = self._schema
        special = path in rules.symbols or path in rules.uuids
        unusual = None if special else _unusual(arrow, x)
        if unusual is not None:
            self.write(depth, f"if {unusual}: return other(v)")
            if family(arrow) in ("string", "binary"):
                self.write(depth, f"n += len({x})")
            return x, 0
        if pa.types.is_nested(arrow) and has_distinct_keys(arrow) and not special:
            return self.nested(arrow, path, x, depth)
        copy, result, more = self._name(), self._name(), self._name()
        self.names[copy] = self._element(field, path, self._schema)
        self.write(depth, f"{result}, {more} = {copy}({x})")
        self.write(depth, f"n += {more} - {VALUE_BYTES}")
        return result, 0

    def _name(self) -> str:
        self.names[name := f"x{len(self.names)}"] = None
        return name


def _unusual(arrow: pa.DataType, x: str) -> str | None:
    """Return the condition under which a value has to be looked at; None where that is always."""
    if pa.types.is_integer(arrow):
        least, most = integer_range(arrow)
        return f"type({x}) is not int or not {least} <= {x} <= {most}"
    if arrow == pa.float64():
        is_exact = f"type({x}) is int and {-(2**53)} <= {x} <= {2**53}"
        return f"type({x}) is not float and not ({is_exact})"
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        other = "" if arrow.tz else f" or {x}.tzinfo is not None"
        return f"type({x}) is not datetime{other}"
    if pa.types.is_fixed_size_binary(arrow):
        return None
    kind = "date32" if arrow == pa.date32() else family(arrow)
    return _USUAL[kind].format(x) if kind in _USUAL else None
