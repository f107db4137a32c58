"""An Avro schema in which a union's branches are records of one field, encoded as they are.

So what is read by it says which branch a value is of: ``{"member1": value}`` has the form of the
column, where a reader returns the value alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from columnar_kafka.schema.avro_names import INNER, NAMED
from columnar_kafka.schema.avro_unions import is_null, is_union_column

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["with_members"]


def with_members(parsed: Any) -> Any:
    """Return a schema, as fastavro has parsed it, with such records and without defaults."""
    named = dict(_named_types(parsed))
    names = (name for number in count() if (name := f"_Branch{number}") not in named)
    return _replaced(parsed, named, names)


def _named_types(avro: Any) -> Iterator[tuple[str, Any]]:
    """Yield the types that have names, with their names."""
    if isinstance(avro, list):
        for inner in avro:
            yield from _named_types(inner)
    elif isinstance(avro, Mapping):
        if avro.get("type") in NAMED:
            yield avro["name"], avro
        for key in INNER:
            yield from _named_types(avro.get(key))


def _replaced(avro: Any, named: Mapping[str, Any], names: Iterator[str]) -> Any:
    if isinstance(avro, list):
        branches = [_replaced(branch, named, names) for branch in avro]
        is_union = is_union_column([_looked_up(branch, named) for branch in avro])
        return _members(branches, names) if is_union else branches
    if not isinstance(avro, Mapping):
        return avro
    replaced = {key: value for key, value in avro.items() if key != "default"}
    for key in filter(avro.__contains__, INNER):
        replaced[key] = (
            [_replaced(field, named, names) for field in avro[key]]
            if key == "fields"
            else _replaced(avro[key], named, names)
        )
    if avro.get("type") in NAMED and "." not in avro["name"]:
        replaced["namespace"] = ""  # a parsed name is a whole one
    return replaced


def _looked_up(branch: Any, named: Mapping[str, Any]) -> Any:
    return named.get(branch, branch) if isinstance(branch, str) else branch


def _members(union: list[Any], names: Iterator[str]) -> list[Any]:
    places = count()
    return [
        branch
        if is_null(branch)
        else {
            "type": "record",
            "name": next(names),
            "fields": [{"name": f"member{next(places)}", "type": branch}],
        }
        for branch in union
    ]
