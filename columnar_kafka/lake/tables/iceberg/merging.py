"""The files of an Iceberg table: what they are, and which may be merged or have wrong bounds."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import LandedFile
from columnar_kafka.lake.tables.bounds import as_wrong, read_footer, with_nan
from columnar_kafka.lake.tables.iceberg.partition import check_file
from columnar_kafka.lake.tables.merging import as_staged, fence_names, layout_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from columnar_kafka.lake.model import Check, Fence, PartitionValues, StagedFile, WrongFile
    from columnar_kafka.lake.tables.bounds import Footer

__all__ = ["checks", "current_files", "file_content", "files_to_merge", "landed_file"]


_PARQUET: Final = "PARQUET"  # of pyiceberg's FileFormat


def current_files(table: Any) -> dict[str, Any]:
    """Return the data files of a pyiceberg table's current snapshot, by URI; blocks.

    `table` is None if there is none.

    Raises:
        LakeError: a file's rows are not all rows of the table.
    """
    tasks = [] if table is None else list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise LakeError(
            f"{'.'.join(table.name())}: delete files have deleted rows, and they cannot be read"
        )
    return {task.file.file_path: task.file for task in tasks}


def landed_file(table: Any, file: Any) -> LandedFile:
    """Return a file of a pyiceberg table as an audit reads it."""
    uri = file.file_path
    return LandedFile(
        path=uri,
        footer=lambda: table.io.new_input(uri).open(),
        open=lambda: table.io.new_input(uri).open(),
        read=lambda: file_content(table, uri),
        partition={
            field.name: pa.scalar(file.partition[number])
            for number, field in enumerate(table.specs()[file.spec_id].fields)
        },
    )


def file_content(table: Any, uri: str) -> bytes:
    """Return the bytes of a file of a pyiceberg table."""
    with table.io.new_input(uri).open() as opened:
        return bytes(opened.read())


def files_to_merge(
    table: Any, current: Mapping[str, Any], fences: Mapping[str, Fence]
) -> tuple[dict[str, StagedFile], dict[str, bytes]]:
    """Return the files that we have written in the table's partitioning, and their layouts, by URI.

    `current` are the table's files, by `current_files`; those of other programs do not say which
    messages they have. A file whose columns have other names in the table now has a layout of its
    own. Blocks to read each footer.

    Raises:
        LakeError: a footer cannot be read.
    """
    names = fence_names(fences)
    files: dict[str, StagedFile] = {}
    layouts: dict[str, bytes] = {}
    for uri, file in current.items():
        if file.spec_id != table.spec().spec_id or file.file_format != _PARQUET:
            continue
        with unreadable(uri):
            footer = pq.read_metadata(table.io.new_input(uri).open())
            values = _partition(table, file)
            staged = as_staged(uri, file.file_size_in_bytes, footer, names, values)
        if staged is None:
            continue
        files[uri] = staged
        # From before a column was renamed: like no other.
        is_like = _fits(uri, footer, table)
        layouts[uri] = layout_of(footer.schema.to_arrow_schema()) if is_like else uri.encode()
    return files, layouts


def _fits(uri: str, footer: pq.FileMetaData, table: Any) -> bool:
    """Return whether a file's columns have the names and ids of the table as it is now."""
    with suppress(LakeError):
        check_file(uri, footer.schema.to_arrow_schema(), table.metadata)
        return True
    return False


def checks(
    table: Any,
    fences: Mapping[str, Fence],
    wrong_columns: Callable[[Any, Footer, Any], Iterable[str]],
) -> Iterator[tuple[str, Check]]:
    """Yield each file by its URI, and what says whether we have written it and it hides rows.

    Of a file of another program no more is read than its footer, and that only of Parquet.

    Raises:
        LakeError: a file's rows are not all rows of the table.
    """
    names = fence_names(fences)

    def checked(uri: str, file: Any) -> WrongFile | None:
        landed, nbytes = landed_file(table, file), file.file_size_in_bytes
        with unreadable(uri):
            footer = read_footer(landed.footer())
            values = _partition(table, file)
            if as_staged(uri, nbytes, footer.metadata, names, values) is None:
                return None
            footer = with_nan(footer, landed.open)
            columns = wrong_columns(file, footer, table.metadata)
            wrong = as_wrong(uri, nbytes, footer, columns, fences, values)
        if wrong is None:
            return None
        is_of_spec = file.spec_id == table.spec().spec_id
        fits = is_of_spec and not footer.is_encrypted and _fits(uri, footer.metadata, table)
        return wrong._replace(can_be_mended=fits)

    for uri, file in current_files(table).items():
        if file.file_format == _PARQUET:
            yield uri, partial(checked, uri, file)


def _partition(table: Any, file: Any) -> PartitionValues:
    fields = table.specs()[file.spec_id].fields
    return tuple((str(field), file.partition[number]) for number, field in enumerate(fields))
