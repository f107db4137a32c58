"""The files of a Delta table: which may be merged, and which have bounds that hide rows."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.lake.tables.delta.partition import as_text
from columnar_kafka.lake.tables.delta.statistics import (
    exact_bound,
    file_leaves,
    has_no_bounds,
    lacking,
    restated,
)
from columnar_kafka.lake.tables.merging import as_staged, fence_names, layout_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from columnar_kafka.lake.model import Fence, PartitionValues, StagedFile
    from columnar_kafka.lake.tables.bounds import Footer
    from columnar_kafka.lake.tables.delta.statistics import Path

__all__ = ["LoggedFile", "files_to_merge", "logged_files", "wrong_columns"]

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


class LoggedFile(NamedTuple):
    """A file as readers find it in the log; `least`, `most` and `nulls` are None if not stated.

    `path` is encoded as the log has it.
    """

    path: str
    nbytes: int
    modified: int
    partition: PartitionValues
    records: int | None
    least: Mapping[str, Any] | None
    most: Mapping[str, Any] | None
    nulls: Mapping[str, Any] | None

    @property
    def has_bounds(self) -> bool:
        """Whether readers find bounds in the log."""
        return self.records is not None and not (self.least is None and self.most is None)

    def hides(self, column: Path) -> bool:
        """Whether readers take it that rows have values in a column that the file lacks.

        Members of a struct may lack statistics, but the struct may not; see `statistics`.
        """
        top = column[0]
        structs = [self.least, self.most] if len(column) > 1 else []
        return self.has_bounds and (
            _stated(self.nulls, (top,)) is None
            or any(struct is not None and struct.get(top, top) is None for struct in structs)
        )

    def may_hide(self, column: Path) -> bool:
        """Whether they will, once the table has that column."""
        stated = [self.nulls, *(bounds for bounds in (self.least, self.most) if bounds is not None)]
        return self.has_bounds and any(
            _stated(statistic, column[:1]) is None for statistic in stated
        )

    def lacking(self, columns: Collection[Path]) -> str:
        """Return the statistics of a file that `has_bounds`, and has none of these `columns`."""
        return restated(self.records or 0, self.least, self.most, self.nulls, columns)


def logged_files(table: DeltaTable) -> dict[str, LoggedFile]:
    """Return the files of deltalake's table by their paths, decoded.

    Raises:
        LakeError: the type of a partition column is not supported.
    """
    names = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions())
    return {
        unquote(row["path"]): LoggedFile(
            path=row["path"],
            nbytes=row["size_bytes"],
            modified=row["modification_time"],
            partition=tuple((name, as_text(row["partition"][name])) for name in names),
            records=row["num_records"],
            least=row.get("min"),
            most=row.get("max"),
            nulls=row.get("null_count"),
        )
        for batch in actions.to_batches(max_chunksize=1000)
        for row in batch.to_pylist()
    }


def files_to_merge(
    files: Mapping[str, LoggedFile], footer: Callable[[str, int], Any], fences: Mapping[str, Fence]
) -> tuple[dict[str, StagedFile], dict[str, bytes]]:
    """Return the files that we have written, and their layouts, by their paths.

    Those of other programs do not say which messages they have. `footer` returns what pyarrow can
    read the footer of a file from, by its path and size. Blocks to read each.

    Raises:
        LakeError: a footer cannot be read.
    """
    names = fence_names(fences)
    written: dict[str, StagedFile] = {}
    layouts: dict[str, bytes] = {}
    for path, file in files.items():
        with unreadable(path):
            metadata = pq.read_metadata(footer(path, file.nbytes))
            staged = as_staged(path, file.nbytes, metadata, names, file.partition)
        if staged is not None:
            written[path] = staged
            layouts[path] = layout_of(metadata.schema.to_arrow_schema())
    return written, layouts


def wrong_columns(file: LoggedFile, footer: Footer, indexed: Collection[Path]) -> Iterator[str]:
    """Yield the columns whose bounds in the log are not as the file's footer has them.

    `indexed` are those of which readers expect statistics.
    """
    metadata = footer.metadata
    for path in lacking(metadata, () if footer.is_encrypted else indexed):
        if file.hides(path):
            yield path[0]
    for number, path, arrow in file_leaves(metadata, indexed):
        groups = [
            None if footer.is_encrypted else metadata.row_group(n).column(number).statistics
            for n in range(metadata.num_row_groups)
        ]
        filled = [group for group in groups if group is None or group.num_values]
        for bounds, is_upper in ((file.least, False), (file.most, True)):
            if bounds is None or has_no_bounds(arrow):
                continue
            if len(path) > 1 and bounds.get(path[0]) is None:
                yield path[0]
            elif _is_wrong(_stated(bounds, path), path, filled, is_upper=is_upper):
                yield ".".join(path)


def _is_wrong(stated: Any, path: Path, groups: Sequence[Any], *, is_upper: bool) -> bool:
    """Return whether a bound is not that of row groups with these statistics, or is missing."""
    if stated is None:
        return bool(groups) and len(path) == 1
    exact = exact_bound(groups, is_upper=is_upper)
    return exact is not None and not _covers(stated, exact, is_upper=is_upper)


def _stated(bounds: Any, path: Path) -> Any:
    for name in path:
        bounds = None if bounds is None else bounds.get(name)
    return bounds


def _covers(stated: Any, exact: Any, *, is_upper: bool) -> bool:
    """Return whether a bound as readers have it, times in milliseconds, is one of the values.

    The columns of another program's file may have other types than the table's. What cannot be
    compared is none.
    """
    try:
        if isinstance(stated, datetime.datetime) and is_upper:
            return bool(exact - stated < _MILLISECOND)
        return bool(stated >= exact if is_upper else stated <= exact)
    except TypeError:
        return False
