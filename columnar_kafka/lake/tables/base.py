"""A table of any format, and its one commit: a compare-and-swap, tried again until it is decided.

Read the head, admit, swap on condition that the head is still that one. A format brings the steps.
The loop decides what each outcome means, and asks the table whenever an answer may have been lost:
a library that repeats a request by itself reports its own commit as another's.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.admission import Admission, admit
from columnar_kafka.lake.model import CommitResult, Count, MayHaveLandedError, NotLandedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from columnar_kafka.lake.model import (
        Check,
        CompactResult,
        Fence,
        FileWriter,
        Fitting,
        LandedFile,
        PartitionValues,
        SourcePartition,
        StagedFile,
        StageResult,
        WrongFile,
    )

__all__ = ["Head", "LakeTable", "commit", "commit_admission", "commit_fences"]

_TRIES: Final = 100
"""A commit is tried again after another one came first; so many in a row mean a fault."""
_OTHER: Final = "another commit came first"

State = TypeVar("State")
Result = TypeVar("Result", CommitResult, Admission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Generic[State]):
    """A table as it was read. Every commit gives it another `version`.

    `state` is what the table needs to swap on condition that this is still the head. `exists` says
    whether there is a table.
    """

    version: int
    fences: Mapping[str, Fence]
    state: State
    exists: bool = True


class LakeTable(ABC):
    """A place where files land; a commit lands whole or not at all. Picklable.

    What an object remembers of the table only saves requests: another process may commit meanwhile.

    Executors call `fences`, `fit` and `create`; the driver, or a single process, calls `commit`.
    Any number of processes and threads may call all methods at the same time. All but `relanding`
    block for requests to the table.
    """

    place: str
    """Where the table is: one text for all its names, a path, URL or name in a catalog."""
    late_requests: bool
    """Whether a request whose answer was lost may be carried out later still."""
    needs_columns: bool = True
    """True if only a commit with files, which bring the columns, can create the table."""
    is_listed: bool = False
    """Whether readers find the files by listing them: no metadata says which ones count."""

    def __init__(self, *, allow_gaps: bool = False, reland: bool = False) -> None:
        """Set what may land.

        Args:
            allow_gaps: land a range that starts past the fence (``table.gap=allow``).
            reland: go on after a restore from the fences that it brought back
                (``table.after.restore=reland``).
        """
        self._allow_gaps = allow_gaps
        self.reland = reland

    def relanding(self) -> LakeTable:
        """Return this table as one that goes on after a restore."""
        table = copy(self)
        table.reland = True
        return table

    # What stages files.

    @abstractmethod
    def fences(self) -> Mapping[str, Fence]:
        """Return how far each partition has landed, by fence name.

        Raises:
            LakeError: the table cannot be read, files cannot be added to it, or it was restored.
        """

    @abstractmethod
    def fit(self, schema: pa.Schema) -> Fitting:
        """Say how segments of `schema` land; may create the table, or add columns to it.

        Raises:
            UnlandableError: segments of that schema cannot land in the table.
            LakeError: the table cannot be read or changed, or is partitioned in another way.
        """

    @abstractmethod
    def create(
        self, source: SourcePartition, first: int, schema: pa.Schema, partition: PartitionValues
    ) -> FileWriter:
        """Open a new file, visible to no reader, for segments of `schema` from offset `first` on.

        The schema was fitted. The file is for rows of one `partition` of the table.

        Raises:
            LakeError: files of that schema cannot land in the table any more.
            OSError: the file cannot be created.
        """

    # The schema of plain messages.

    @abstractmethod
    def columns(self) -> pa.Schema | None:
        """Return the table's columns, all of them; None if there is no table, or no file tells.

        Raises:
            LakeError: the table cannot be read.
        """

    @abstractmethod
    def kept_schema(self) -> str | None:
        """Return the schema of plain messages that is kept with the table; None if none is.

        Raises:
            LakeError: the table cannot be read.
        """

    def keep_schema(self, text: str, rows: pa.Schema, before: str | None = None) -> str:
        """Keep a schema in place of the one `before`; return the one that is kept.

        That may be another process', which was faster. If there is no table, it is created for
        files with the columns of `rows`.

        Raises:
            UnlandableError: such rows cannot land in the table.
            LakeError: the table cannot be read or changed.
        """
        for _ in range(_TRIES):
            kept = self.kept_schema()
            if kept is not None and kept != before:
                return kept
            self._try_to_keep(text, rows, kept)
        raise LakeError(f"{self}: others keep changing the schema that is kept")

    @abstractmethod
    def _try_to_keep(self, text: str, rows: pa.Schema, before: str | None) -> None:
        """Keep a schema as `keep_schema`, if no other one was kept, and none changed, meanwhile."""

    # What changes the table.

    def commit(self, staged: Iterable[StageResult]) -> CommitResult:
        """Land the files of all attempts together, and move the fences with them.

        A fence moves to the end of the range that was read, or, where that is not known, of the
        last file. Staged files that the fences show to have landed are counted and removed; so are
        repeated files. When this returns, all others have landed.

        Raises:
            NotLandedError: nothing has landed. The message says why, and what to do.
            MayHaveLandedError: the files have landed or may have. Delete none; stage the same input
                and commit again.
        """
        return commit(self, staged, allow_gaps=self._allow_gaps)

    def discard(self, staged: Iterable[StageResult]) -> None:
        """Remove files that are not going to land. Files that have landed are kept.

        Call it without a commit, or after a `NotLandedError`: after a `MayHaveLandedError` the
        commit may still arrive. Raises nothing: a remaining file is waste.
        """
        self.remove(file for attempt in staged for file in attempt.files)

    @abstractmethod
    def compact(self, file_bytes: int) -> CompactResult:
        """Merge files of a partition that follow each other, up to `file_bytes` each.

        Takes the memory of two such files. Others may land meanwhile. They may read too, unless the
        table `is_listed`.

        Raises:
            LakeError, OSError: there is no table, or a file cannot be read.
            NotLandedError, MayHaveLandedError: as `commit`.
        """

    # The steps of a commit.

    @abstractmethod
    def head(self) -> Head[Any]:
        """Read the table, and finish what an earlier commit left undone.

        Raises:
            LakeError, OSError: the table cannot be read, or must not be written.
        """

    @abstractmethod
    def check(self, head: Head[Any], admission: Admission, landed_before: Collection[str]) -> None:
        """Check that the files can land. Input of the fences `landed_before` counts as landed.

        Raises:
            LakeError, OSError: they cannot.
        """

    @abstractmethod
    def swap(self, head: Head[Any], admission: Admission, attempt: str) -> str:
        """Land the files and the fences of an admission; mark the commit with the id `attempt`.

        Returns:
            Nothing if it has landed. Else another commit came first, or so this text says.

        Raises:
            NotLandedError: it has not landed, for certain.
            MayHaveLandedError: it has or may have.
            Exception: any other leaves the outcome open.
        """

    @abstractmethod
    def has_landed(self, head: Head[Any], attempt: str) -> bool:
        """Return whether the commit of an attempt is among all commits since `head`.

        Raises any exception if that cannot be told.
        """

    @abstractmethod
    def remove(self, files: Iterable[StagedFile]) -> None:
        """Remove staged files, except those that the table references. Raises nothing."""

    def visible_path(self, file: StagedFile) -> str:
        """Return the path of a file that has landed, relative to the table: where it was staged."""
        return file.path

    # What its files are, to audit, merge and repair them.

    @abstractmethod
    def landed_files(self, head: Head[Any]) -> Iterable[LandedFile]:
        """Return all Parquet files of the table at `head`, whoever has written them.

        Raises:
            LakeError: a file's rows are not all rows of the table.
        """

    @abstractmethod
    def paths(self, head: Head[Any]) -> Collection[str]:
        """Return the paths of all files of the table, as `WrongFile` has them."""

    def checks(self, head: Head[Any]) -> Iterator[tuple[str, Check]]:
        """Yield the path of each file that can be looked at, and what looks at it.

        There are none where no metadata states bounds of files.

        Raises:
            LakeError: not all rows of a file are the table's.
        """
        return iter(())

    def mended(self, head: Head[Any], wrong: WrongFile) -> StagedFile:
        """Return what takes the place of a file: the file itself, or a new one that was staged.

        Raises:
            LakeError, OSError: a file cannot be read or written.
        """
        return wrong.file


def commit(
    table: LakeTable, staged: Iterable[StageResult], *, allow_gaps: bool = False
) -> CommitResult:
    """Land the files of all attempts together; see `LakeTable.commit`, which this implements.

    With `allow_gaps` a fence moves over offsets that were not read.
    """
    attempts = tuple(staged)
    return _decided(table, lambda: _try_commit(table, attempts, allow_gaps=allow_gaps))


def commit_fences(
    table: LakeTable, change: Callable[[Mapping[str, Fence]], Mapping[str, Fence]]
) -> Mapping[str, Fence]:
    """Commit other fences and no files; return them.

    `change` gets the table's fences, and is called again if another commit came first.

    Raises:
        NotLandedError, MayHaveLandedError: as `commit`.
        LakeError, OSError: the table cannot be read, or whatever `change` raises.
    """

    def admitted(head: Head[Any]) -> Admission:
        return Admission(lands=(), landed_before=(), repeated=(), fences=change(head.fences))

    return commit_admission(table, admitted).fences


def commit_admission(table: LakeTable, admitted: Callable[[Head[Any]], Admission]) -> Admission:
    """Commit what `admitted` returns for the head of the table, called anew for another head.

    Raises:
        NotLandedError, MayHaveLandedError: as `commit`.
        LakeError, OSError: the table cannot be read, or whatever `admitted` raises.
    """

    def attempt() -> Admission | str:
        head = table.head()
        admission = admitted(head)
        return _swap(table, head, admission) or admission

    return _decided(table, attempt)


def _decided(table: LakeTable, attempt: Callable[[], Result | str]) -> Result:
    """Return the result of the first attempt before which no other commit came, as a text says."""
    conflict = ""
    for _ in range(_TRIES):
        result = attempt()
        if not isinstance(result, str):
            return result
        conflict = result
    raise NotLandedError(
        f"{table}: nothing has landed in {_TRIES} attempts; the last one: {conflict}"
    )


def _try_commit(
    table: LakeTable, attempts: tuple[StageResult, ...], *, allow_gaps: bool
) -> CommitResult | str:
    """Commit; return a text if another commit came first."""
    set_aside = [read_range for attempt in attempts for read_range in attempt.set_aside]
    try:
        head = table.head()
        admission = admit(
            (file for attempt in attempts for file in attempt.files),
            head.fences,
            ranges=[read_range for attempt in attempts for read_range in attempt.ranges],
            set_aside=set_aside,
            allow_gaps=allow_gaps,
            exists=head.exists or not table.needs_columns,
        )
        if not _checked(table, head, admission, attempts):
            return _OTHER
    except NotLandedError:
        raise
    except (LakeError, OSError) as error:
        raise NotLandedError(f"{table}: nothing has landed: {error}") from error
    # Without files a commit only says that there is nothing else to land up to these fences.
    moves = bool(admission.lands or (set_aside and admission.fences != head.fences))
    if moves and (conflict := _swap(table, head, admission)):
        return conflict
    table.remove((*admission.landed_before, *admission.repeated))
    return _result(table, attempts, admission)


def _checked(
    table: LakeTable,
    head: Head[Any],
    admission: Admission,
    attempts: tuple[StageResult, ...],
) -> bool:
    """Check that the files can land; return False if another commit may be why they cannot."""
    landed_before = {file.fence for file in admission.landed_before}
    try:
        table.check(head, admission, landed_before.union(*(a.landed_before for a in attempts)))
    except (LakeError, OSError):
        if table.head().version == head.version:
            raise
        return False
    return True


def _swap(table: LakeTable, head: Head[Any], admission: Admission) -> str:
    """Swap; return a text if another commit came first, for certain."""
    attempt = uuid.uuid4().hex
    cause: Exception | None = None
    conflict = ""
    try:
        if not (conflict := table.swap(head, admission, attempt)):
            return ""
    except (NotLandedError, MayHaveLandedError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library raises leaves the outcome open
        cause = error
    try:
        landed = table.has_landed(head, attempt)
    except MayHaveLandedError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise MayHaveLandedError(
            f"{table}: the commit may have been written ({cause or conflict}), but the table "
            f"cannot be read: {error}"
        ) from cause
    if landed or cause is None:
        return "" if landed else conflict
    if table.late_requests:
        raise MayHaveLandedError(
            f"{table}: the commit is not in the table yet, but may still arrive: {cause}"
        ) from cause
    raise NotLandedError(f"{table}: nothing has landed: {cause}") from cause


def _result(
    table: LakeTable, attempts: tuple[StageResult, ...], admission: Admission
) -> CommitResult:
    planned = [count for attempt in attempts for count in attempt.landed_before.values()]
    decoded = {path: count for attempt in attempts for path, count in attempt.decoded.items()}
    return CommitResult(
        files=tuple(map(table.visible_path, admission.lands)),
        landed=_total(map(_count, admission.lands)),
        nbytes=sum(file.nbytes for file in admission.lands),
        landed_before=_total([*planned, *map(_count, admission.landed_before)]),
        repeated=_total(
            [attempt.repeated for attempt in attempts] + [*map(_count, admission.repeated)]
        ),
        rewritten=sum(attempt.rewritten for attempt in attempts),
        decoded=sum(decoded.get(file.path, 0) for file in admission.lands),
        dead_letters=_messages(file for attempt in attempts for file in attempt.dead_letters),
        plain_messages=_messages(file for attempt in attempts for file in attempt.plain_messages),
        skipped=sum(attempt.skipped for attempt in attempts),
    )


def _count(file: StagedFile) -> Count:
    return Count(file.messages, file.rows)


def _messages(files: Iterable[StagedFile]) -> int:
    return sum(file.messages for file in files)


def _total(counts: Iterable[Count]) -> Count:
    total = Count()
    for count in counts:
        total = total.plus(count)
    return total
