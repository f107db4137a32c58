"""The fences of a table, shown and moved by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from columnar_kafka.config import Hidden
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.formats import open_table
from columnar_kafka.lake.tables.base import commit_fences
from columnar_kafka.lake.tables.fence_reset import moved_fences
from columnar_kafka.lake.tables.files import hide_password

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.model import Fence

__all__ = ["FenceTable", "TableFences"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFences:
    """A table's fences, by name, at one of its versions.

    `version` is Delta's, Iceberg's snapshot id (-1 without one), or the number of the directory's
    log entry. `problem` says why nothing lands at the moment; it is empty if nothing hinders it.
    """

    version: int
    fences: Mapping[str, Fence]
    problem: str = ""


class FenceTable:
    """A table whose fences are looked at or moved. Nobody need stop landing for that."""

    def __init__(self, table_format: str, place: str, **options: Any) -> None:
        """Open a table as `open_table` does. Raises as that."""
        place, options = hide_password(place), Hidden(options)
        self._table = open_table(table_format, place, **options)
        self._restored = self._table.relanding()

    def read(self) -> TableFences:
        """Return the fences of the current version, after a restore those that it brought back.

        Raises:
            LakeError: there is no table, or it cannot be read.
        """
        head = self._restored.head()
        if not head.exists:
            raise LakeError(f"{self._restored}: there is no table")
        try:
            self._table.fences()
        except LakeError as error:
            return TableFences(version=head.version, fences=head.fences, problem=error.reason)
        return TableFences(version=head.version, fences=head.fences)

    def reset(
        self, offsets: Mapping[tuple[str, int], int], *, force: bool = False, dry: bool = False
    ) -> Mapping[str, Fence]:
        """Move the fences to these next offsets, by topic and partition, in a commit of their own.

        Without offsets they stay: after a restore, landing then goes on from what it brought back.
        Returns the fences after it; if `dry`, without moving any.

        Raises:
            LakeError: a fence must not be moved there, see `moved_fences`.
            NotLandedError, MayHaveLandedError: the commit failed, or may have.
        """
        if dry:
            return moved_fences(self._restored.head().fences, offsets, force=force)
        return commit_fences(
            self._restored, lambda fences: moved_fences(fences, offsets, force=force)
        )
