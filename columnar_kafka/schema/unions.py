"""A union as columns: a record with a member for each branch, of which one is not null.

Each member says by its metadata that it is a branch, and of which type. So it is where a whole row
is a union, too: then the columns are the members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.canonical import children

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BRANCH",
    "branch_of",
    "branches",
    "is_union",
    "is_union_of_rows",
    "member",
    "refuse_unions",
    "without_unions",
]

BRANCH: Final = b"columnar.branch"
"""The key of a member's metadata: the name of its type, as a producer names the branch."""


def member(place: int, name: str, arrow: pa.DataType) -> pa.Field:
    """Return the member for a branch; `place` is that among the branches but null."""
    return pa.field(f"member{place}", arrow, metadata={BRANCH: name.encode()})


def branch_of(field: pa.Field) -> str | None:
    """Return the name of the branch that a field is; None: it is none."""
    said = (field.metadata or {}).get(BRANCH)
    return None if said is None or not field.nullable else said.decode(errors="replace")


def branches(fields: Iterable[pa.Field]) -> list[str] | None:
    """Return the names of the branches, if these fields are those of a union."""
    names = []
    for field in fields:
        name = branch_of(field)
        if name is None:
            return None
        names.append(name)
    return names or None


def is_union(arrow: pa.DataType) -> bool:
    """Say whether a type is a union."""
    return pa.types.is_struct(arrow) and branches(arrow) is not None


def is_union_of_rows(columns: Iterable[pa.Field]) -> bool:
    """Say whether rows of these columns are of several types of records."""
    fields = list(columns)
    return all(pa.types.is_struct(field.type) for field in fields) and branches(fields) is not None


def refuse_unions(schema: pa.Schema, what: str) -> None:
    """Check that columns have no union, where what they are made of does not tell the branch.

    Raises:
        SchemaError: there is one.
    """
    for field in schema:
        _refuse(field, field.name, what)


def _refuse(field: pa.Field, path: str, what: str) -> None:
    if branch_of(field) is not None:
        raise SchemaError(
            f"field {path!r} is a branch of a union, and {what} does not say of which branch a "
            "value is: use rows, or Avro"
        )
    for name, child in children(field.type):
        _refuse(child, f"{path}.{name}", what)


def without_unions(columns: pa.Schema) -> tuple[pa.Schema, dict[str, None]]:
    """Return columns with records in place of unions, and the paths of these records' members."""
    paths: dict[str, None] = {}
    fields = [_plain(field, field.name, paths) for field in columns]
    return pa.schema(fields, columns.metadata), paths


def _plain(field: pa.Field, path: str, paths: dict[str, None]) -> pa.Field:
    arrow = field.type
    if branch_of(field) is not None:
        paths[path] = None
        field = field.remove_metadata()
    if pa.types.is_struct(arrow):
        arrow = pa.struct([_plain(child, f"{path}.{child.name}", paths) for child in arrow])
    elif pa.types.is_map(arrow):
        arrow = pa.map_(arrow.key_field, _plain(arrow.item_field, f"{path}.value", paths))
    elif pa.types.is_list(arrow):
        arrow = pa.list_(_plain(arrow.value_field, f"{path}.item", paths))
    return field.with_type(arrow)
