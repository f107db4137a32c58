"""One commit for every kind of table: a compare-and-swap, tried again until it is decided.

Read the head, admit, swap on condition that the head is still that one. A target brings the steps
of its own table format. The loop decides what each outcome means, and asks the table whenever an
answer may have been lost: a library that repeats a request by itself reports its own commit as
another's.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import CommitResult, Count, MayHaveLandedError, NotLandedError
from columnar_kafka.lake.plan import Admission, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from columnar_kafka.lake.model import Fence, LandedFile, StagedFile, StageResult

__all__ = ["BaseTable", "CommitTarget", "Head", "commit", "commit_admission", "commit_fences"]

_TRIES: Final = 100
"""A commit is tried again after another one came first; so many in a row mean a fault."""
_OTHER: Final = "another commit came first"

State = TypeVar("State")
Result = TypeVar("Result", CommitResult, Admission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Generic[State]):
    """A table as it was read. Every commit gives it another `version`.

    `state` is what the target needs to swap on condition that this is still the head. `exists` says
    whether there is a table.
    """

    version: int
    fences: Mapping[str, Fence]
    state: State
    exists: bool = True


class CommitTarget(Protocol[State]):
    """What a table format brings to `commit`. All methods block for requests to the table."""

    late_requests: bool
    """Whether a request whose answer was lost may be carried out later still."""
    needs_columns: bool = True
    """True if only a commit that adds files can create the table: they supply its columns."""

    def head(self) -> Head[State]:
        """Read the table, and finish what an earlier commit left undone.

        Raises:
            LakeError, OSError: the table cannot be read, or must not be written.
        """
        ...

    def check(
        self, head: Head[State], admission: Admission, landed_before: Collection[str]
    ) -> None:
        """Check that the files can land. Input of the fences `landed_before` counts as landed.

        Raises:
            LakeError, OSError: they cannot.
        """
        ...

    def swap(self, head: Head[State], admission: Admission, attempt: str) -> str:
        """Land the files and the fences of an admission; mark the commit with the id `attempt`.

        Returns:
            Nothing if it has landed. Else another commit came first, or so this text says.

        Raises:
            NotLandedError: it has not landed, for certain.
            MayHaveLandedError: it has or may have.
            Exception: any other leaves the outcome open.
        """
        ...

    def has_landed(self, head: Head[State], attempt: str) -> bool:
        """Return whether the commit of an attempt is among all commits since `head`.

        Raises any exception if that cannot be told.
        """
        ...

    def landed_files(self, head: Head[State]) -> Iterable[LandedFile]:
        """Return all Parquet files of the table at `head`, whoever has written them.

        Raises:
            LakeError: a file's rows are not all rows of the table.
        """
        ...

    def visible_path(self, file: StagedFile) -> str:
        """Return the path of a file that has landed, relative to the table."""
        ...

    def remove(self, files: Iterable[StagedFile]) -> None:
        """Remove staged files, except those that the table references. Raises nothing."""
        ...


class BaseTable(CommitTarget[State]):
    """What the `LakeTable` of every format does in the same way: it commits itself."""

    def __init__(self, *, allow_gaps: bool) -> None:
        """Let a range land that starts past the fence, with `allow_gaps`."""
        self._allow_gaps = allow_gaps

    def commit(self, staged: Iterable[StageResult]) -> CommitResult:
        """See `LakeTable.commit`. Blocks for requests to the table."""
        return commit(self, staged, allow_gaps=self._allow_gaps)

    def discard(self, staged: Iterable[StageResult]) -> None:
        """See `LakeTable.discard`."""
        self.remove(file for each in staged for file in each.files)

    def visible_path(self, file: StagedFile) -> str:
        """See `CommitTarget.visible_path`: a file is staged where it will be seen."""
        return file.path


def commit(
    target: CommitTarget[State], staged: Iterable[StageResult], *, allow_gaps: bool = False
) -> CommitResult:
    """Land the files of all attempts together; see `LakeTable.commit`, which this implements.

    With `allow_gaps` a fence moves over offsets that were not read.
    """
    attempts = tuple(staged)
    return _decided(target, lambda: _try_commit(target, attempts, allow_gaps=allow_gaps))


def commit_fences(
    target: CommitTarget[State], change: Callable[[Mapping[str, Fence]], Mapping[str, Fence]]
) -> Mapping[str, Fence]:
    """Commit other fences and no files; return them.

    `change` gets the table's fences, and is called again if another commit came first.

    Raises:
        NotLandedError, MayHaveLandedError: as `commit`.
        LakeError, OSError: the table cannot be read, or whatever `change` raises.
    """

    def admitted(head: Head[State]) -> Admission:
        return Admission(lands=(), landed_before=(), repeated=(), fences=change(head.fences))

    return commit_admission(target, admitted).fences


def commit_admission(
    target: CommitTarget[State], admitted: Callable[[Head[State]], Admission]
) -> Admission:
    """Commit what `admitted` returns for the head of the table, called anew for another head.

    Raises:
        NotLandedError, MayHaveLandedError: as `commit`.
        LakeError, OSError: the table cannot be read, or whatever `admitted` raises.
    """

    def attempt() -> Admission | str:
        head = target.head()
        admission = admitted(head)
        return _swap(target, head, admission) or admission

    return _decided(target, attempt)


def _decided(target: CommitTarget[State], attempt: Callable[[], Result | str]) -> Result:
    """Return the result of the first attempt before which no other commit came, as a text says."""
    conflict = ""
    for _ in range(_TRIES):
        result = attempt()
        if not isinstance(result, str):
            return result
        conflict = result
    raise NotLandedError(
        f"{target}: nothing has landed in {_TRIES} attempts; the last one: {conflict}"
    )


def _try_commit(
    target: CommitTarget[State], attempts: tuple[StageResult, ...], *, allow_gaps: bool
) -> CommitResult | str:
    """Commit; return a text if another commit came first."""
    set_aside = [each for attempt in attempts for each in attempt.set_aside]
    try:
        head = target.head()
        admission = admit(
            (file for each in attempts for file in each.files),
            head.fences,
            ranges=[each for attempt in attempts for each in attempt.ranges],
            set_aside=set_aside,
            allow_gaps=allow_gaps,
            exists=head.exists or not target.needs_columns,
        )
        if not _checked(target, head, admission, attempts):
            return _OTHER
    except NotLandedError:
        raise
    except (LakeError, OSError) as error:
        raise NotLandedError(f"{target}: nothing has landed: {error}") from error
    # Without files a commit only says that there is nothing else to land up to these fences.
    moves = bool(admission.lands or (set_aside and admission.fences != head.fences))
    if moves and (conflict := _swap(target, head, admission)):
        return conflict
    target.remove((*admission.landed_before, *admission.repeated))
    return _result(target, attempts, admission)


def _checked(
    target: CommitTarget[State],
    head: Head[State],
    admission: Admission,
    attempts: tuple[StageResult, ...],
) -> bool:
    """Check that the files can land; return False if another commit may be why they cannot."""
    landed_before = {file.fence for file in admission.landed_before}
    try:
        target.check(head, admission, landed_before.union(*(a.landed_before for a in attempts)))
    except (LakeError, OSError):
        if target.head().version == head.version:
            raise
        return False
    return True


def _swap(target: CommitTarget[State], head: Head[State], admission: Admission) -> str:
    """Swap; return a text if another commit came first, for certain."""
    attempt = uuid.uuid4().hex
    cause: Exception | None = None
    conflict = ""
    try:
        if not (conflict := target.swap(head, admission, attempt)):
            return ""
    except (NotLandedError, MayHaveLandedError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library raises leaves the outcome open
        cause = error
    try:
        landed = target.has_landed(head, attempt)
    except MayHaveLandedError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise MayHaveLandedError(
            f"{target}: the commit may have been written ({cause or conflict}), but the table "
            f"cannot be read: {error}"
        ) from cause
    if landed or cause is None:
        return "" if landed else conflict
    if target.late_requests:
        raise MayHaveLandedError(
            f"{target}: the commit is not in the table yet, but may still arrive: {cause}"
        ) from cause
    raise NotLandedError(f"{target}: nothing has landed: {cause}") from cause


def _result(
    target: CommitTarget[State], attempts: tuple[StageResult, ...], admission: Admission
) -> CommitResult:
    planned = [count for each in attempts for count in each.landed_before.values()]
    decoded = {path: count for each in attempts for path, count in each.decoded.items()}
    return CommitResult(
        files=tuple(map(target.visible_path, admission.lands)),
        landed=_total(map(_count, admission.lands)),
        nbytes=sum(file.nbytes for file in admission.lands),
        landed_before=_total([*planned, *map(_count, admission.landed_before)]),
        repeated=_total([each.repeated for each in attempts] + [*map(_count, admission.repeated)]),
        rewritten=sum(each.rewritten for each in attempts),
        decoded=sum(decoded.get(file.path, 0) for file in admission.lands),
        dead_letters=_messages(file for each in attempts for file in each.dead_letters),
        plain_messages=_messages(file for each in attempts for file in each.plain_messages),
        skipped=sum(each.skipped for each in attempts),
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
