"""Changes of a Delta table's properties, by deltalake."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable

__all__ = ["ONCE", "changing", "set_once"]

ONCE: Final = CommitProperties(max_commit_retries=0)
"""Has deltalake give up where another commit comes first."""


@contextmanager
def changing(uri: str) -> Iterator[None]:
    """Raise a LakeError for what deltalake raises."""
    try:
        yield
    except DeltaError as error:
        raise LakeError(f"{uri} cannot be changed: {error}") from error


def set_once(table: DeltaTable, properties: dict[str, str]) -> None:
    """Set properties of a table, unless another commit comes first. Raises DeltaError."""
    with suppress(CommitFailedError):
        table.alter.set_table_properties(properties, False, commit_properties=ONCE)
