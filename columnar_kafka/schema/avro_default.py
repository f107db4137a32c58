"""Avro's defaults: from their JSON form to the values that a row would hold."""

from __future__ import annotations

import decimal
import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.avro_unions import branch_name, is_decimal, is_union_column

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["read_default"]

_SHOWN: Final = 80
_DAY: Final = {("int", "time-millis"): 86_400_000, ("long", "time-micros"): 86_400_000_000}


def read_default(avro: Any, value: Any, path: str) -> Any:
    """Return a field's default as a row would hold it.

    The default of a union may fit any of its branches, as in Avro 1.12; it has the branch's name.

    Args:
        avro: the field's type, expanded.
        value: the default, as JSON.
        path: the field's path, for the message.

    Raises:
        SchemaError: the default does not fit the type.
    """
    try:
        return _read(avro, value)
    except (ValueError, OverflowError) as error:
        text = json.dumps(value, default=repr)
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
        raise SchemaError(
            f"field {path!r} has a default that does not fit its type: {shown}"
        ) from error


def _read(avro: Any, value: Any) -> Any:
    """Return the value; raise ValueError or OverflowError if it does not fit the type."""
    if isinstance(avro, list):
        branch, read = _first(avro, value)
        return (branch_name(branch), read) if is_union_column(avro) and read is not None else read
    if not isinstance(avro, Mapping):
        avro = {"type": avro}
    return _READERS[avro["type"]](avro, value)


def _first(branches: list[Any], value: Any) -> tuple[Any, Any]:
    for branch in branches:
        try:
            return branch, _read(branch, value)
        except (ValueError, OverflowError):
            continue
    raise ValueError


def _check(fits: bool) -> None:
    if not fits:
        raise ValueError


def _null(_: Mapping[str, Any], value: Any) -> None:
    _check(value is None)


def _boolean(_: Mapping[str, Any], value: Any) -> bool:
    _check(isinstance(value, bool))
    return bool(value)


def _whole(bits: int) -> Callable[[Mapping[str, Any], Any], int]:
    def read_whole(avro: Mapping[str, Any], value: Any) -> int:
        _check(isinstance(value, int) and not isinstance(value, bool))
        _check(-(1 << bits - 1) <= value < 1 << bits - 1)
        day = _DAY.get((avro["type"], str(avro.get("logicalType"))))
        _check(day is None or 0 <= value < day)
        return int(value)

    return read_whole


def _number(code: str) -> Callable[[Mapping[str, Any], Any], float]:
    def read_number(_: Mapping[str, Any], value: Any) -> float:
        _check(isinstance(value, int | float | str) and not isinstance(value, bool))
        number = float(value)  # also of text, as in fastavro: JSON cannot write NaN otherwise
        struct.pack(f"<{code}", number)  # raises OverflowError
        return number

    return read_number


def _string(_: Mapping[str, Any], value: Any) -> str:
    _check(isinstance(value, str))
    value.encode()  # raises for half a surrogate pair
    return str(value)


def _bytes(avro: Mapping[str, Any], value: Any) -> bytes | decimal.Decimal:
    """Read bytes, which JSON writes as text: one character for each byte."""
    _check(isinstance(value, str))
    data: bytes = value.encode("latin-1")
    _check(len(data) == avro.get("size", len(data)))
    if not is_decimal(avro):
        return data
    unscaled = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    _check(len(digits) <= avro["precision"])
    # Built from its parts, because arithmetic would round it to the context's precision.
    return decimal.Decimal((int(unscaled < 0), digits, -(avro.get("scale") or 0)))


def _enum(avro: Mapping[str, Any], value: Any) -> str:
    _check(value in avro["symbols"])
    return str(value)


def _array(avro: Mapping[str, Any], value: Any) -> list[Any]:
    _check(isinstance(value, list))
    return [_read(avro["items"], item) for item in value]


def _map(avro: Mapping[str, Any], value: Any) -> dict[str, Any]:
    _check(isinstance(value, Mapping))
    return {_string(avro, key): _read(avro["values"], item) for key, item in value.items()}


def _record(avro: Mapping[str, Any], value: Any) -> dict[str, Any]:
    _check(isinstance(value, Mapping))
    fields = {field["name"]: field for field in avro["fields"]}
    _check(value.keys() <= fields.keys())
    _check(all(name in value or "default" in field for name, field in fields.items()))
    return {
        name: _read(field["type"], value[name] if name in value else field["default"])
        for name, field in fields.items()
    }


_READERS: Final[dict[str, Callable[[Mapping[str, Any], Any], Any]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole(32),
    "long": _whole(64),
    "float": _number("f"),
    "double": _number("d"),
    "string": _string,
    "bytes": _bytes,
    "fixed": _bytes,
    "enum": _enum,
    "array": _array,
    "map": _map,
    "record": _record,
    "error": _record,
}
