"""The names in an Avro schema: which the specification allows, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ARROW",
    "INNER",
    "NAMED",
    "RECORDS",
    "check_names",
    "inlined",
    "is_avro_name",
    "one_record",
]

ARROW: Final = "arrow"
"""The attribute of a type that Avro does not have: that type, as Arrow serializes it."""

RECORDS: Final = ("record", "error")
NAMED: Final = (*RECORDS, "enum", "fixed")
"""Types that have names of their own."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
INNER: Final = ("type", "items", "values", "fields")
"""Where a type, or a field, has others."""


def is_avro_name(name: str) -> bool:
    """Whether Avro's specification allows a field of this name."""
    return _NAME.fullmatch(name) is not None


def check_names(avro: Any, path: str = "") -> None:
    """Check the names of all types, fields and symbols in a schema, as JSON has it.

    Raises:
        SchemaError: Avro's specification forbids one; says which.
    """
    if isinstance(avro, list):
        for branch in avro:
            check_names(branch, path)
    elif isinstance(avro, Mapping):
        _check_own(avro)
        for inner, where in _inside(avro, path):
            check_names(inner, where)


def _check_own(avro: Mapping[str, Any]) -> None:
    """Check a type's own name, its namespace, and its symbols."""
    name, namespace = avro.get("name"), avro.get("namespace")
    if avro.get("type") in NAMED:
        _check(str(name).removeprefix(".").split("."), f"type {name!r}")
        if namespace:
            _check(str(namespace).split("."), f"namespace {namespace!r}")
    if avro.get("type") == "enum" and isinstance(avro.get("symbols"), list):
        for symbol in avro["symbols"]:
            _check([symbol], f"symbol {symbol!r} of {name!r}")


def _inside(avro: Mapping[str, Any], path: str) -> Iterator[tuple[Any, str]]:
    """Yield the types inside a type, with their paths; the names of fields are checked."""
    if avro.get("type") in RECORDS and isinstance(avro.get("fields"), list):
        for field in avro["fields"]:
            if isinstance(field, Mapping) and isinstance(field.get("name"), str):
                where = f"{path}.{field['name']}" if path else field["name"]
                _check([field["name"]], f"field {where!r}")
                yield field.get("type"), where
    elif not isinstance(avro.get("type"), str):
        yield avro.get("type"), path
    yield avro.get("items"), f"{path}.item"
    yield avro.get("values"), f"{path}.value"


def _check(parts: list[Any], what: str) -> None:
    """Check a name's parts; what is no text is no name of anything."""
    if not all(_NAME.fullmatch(part) for part in parts if isinstance(part, str)):
        raise SchemaError(
            f"{what}: Avro allows letters from A to Z, digits and _ in a name, and no digit first"
        )


def one_record(types: Any) -> Mapping[str, Any] | None:
    """Return the only record in a list of named types; None where it is another list, or none."""
    if not isinstance(types, list):
        return None
    named = [
        named_type
        for named_type in types
        if isinstance(named_type, Mapping) and named_type.get("type") in NAMED
    ]
    records = [named_type for named_type in named if named_type["type"] in RECORDS]
    return records[0] if len(records) == 1 and len(named) == len(types) else None


def inlined(avro: Any, types: dict[str, Any]) -> Any:
    """Return a parsed schema with each of the `types` in the place where it is first named.

    They are taken out of `types`.
    """
    if isinstance(avro, list):
        return [inlined(branch, types) for branch in avro]
    if isinstance(avro, dict):
        return {
            key: inlined(value, types) if key in INNER else value for key, value in avro.items()
        }
    return inlined(types.pop(avro), types) if isinstance(avro, str) and avro in types else avro
