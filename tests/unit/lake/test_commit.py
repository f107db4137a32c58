"""The commit loop on a table in memory: races, lost answers, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from segments import staged_file

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import (
    Count,
    MayHaveLandedError,
    NotLandedError,
    ReadRange,
    SourcePartition,
    StagedFile,
    StageResult,
    TopicGeneration,
)
from columnar_kafka.lake.tables import base as base_module
from columnar_kafka.lake.tables.base import Head, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from columnar_kafka.lake.admission import Admission

SOURCE = SourcePartition(TopicGeneration("cluster", "id"), "t", 0)


def file(first: int, last: int, **changed: Any) -> StagedFile:
    return staged_file(SOURCE.fence, first, last, **changed)


def result(*files: StagedFile, ranges: tuple[ReadRange, ...] = ()) -> StageResult:
    return StageResult(files=files, ranges=ranges)


class Table:
    """Its commits are a list. Before and after the next swap a test may interfere, once."""

    def __init__(self, *, late_requests: bool = False) -> None:
        self.late_requests = late_requests
        self.commits: list[tuple[str, Admission]] = []
        self.removed: list[str] = []
        self.before: Callable[[], Any] = lambda: None
        self.after: Callable[[], Any] = lambda: ""
        self.readable = True
        self.refusal = ""

    def __repr__(self) -> str:
        return "the table"

    @property
    def paths(self) -> list[str]:
        return [land.path for _, admission in self.commits for land in admission.lands]

    def head(self) -> Head[int]:
        if not self.readable:
            raise OSError("no route to host")
        fences = self.commits[-1][1].fences if self.commits else {}
        return Head(version=len(self.commits), fences=fences, state=len(self.commits))

    def check(self, head: Head[int], admission: Admission, landed_before: Collection[str]) -> None:
        before, self.before = self.before, lambda: None
        before()
        if self.refusal:
            raise LakeError(self.refusal)

    def swap(self, head: Head[int], admission: Admission, attempt: str) -> str:
        if head.state != len(self.commits):
            return "conflict"
        self.commits.append((attempt, admission))
        after, self.after = self.after, lambda: ""
        return str(after())

    def has_landed(self, head: Head[int], attempt: str) -> bool:
        self.head()
        return any(committed == attempt for committed, _ in self.commits[head.version :])

    def visible_path(self, file: StagedFile) -> str:
        return f"visible/{file.path}"

    def remove(self, files: Iterable[StagedFile]) -> None:
        self.removed += [file.path for file in files if file.path not in self.paths]


def lost() -> None:
    raise TimeoutError("no answer")


def test_what_lands_is_counted_and_named_as_it_is_seen() -> None:
    committed = commit(Table(), [result(file(0, 3), file(4, 5))])
    assert committed.files == ("visible/0-3", "visible/4-5")
    assert (committed.landed, committed.nbytes) == (Count(6, 20), 200)


def test_after_another_commit_it_is_admitted_anew() -> None:
    table = Table()
    table.before = lambda: commit(table, [result(file(0, 3, path="other"))])
    committed = commit(table, [result(file(0, 3), file(4, 5))])
    assert (committed.landed.messages, committed.landed_before.messages) == (2, 4)
    assert table.paths == ["other", "4-5"]
    assert table.removed == ["0-3"]


def test_a_conflict_with_its_own_commit_has_landed() -> None:
    """A library that did not hear the answer asks again, and meets its own commit."""
    table = Table()
    table.after = lambda: "conflict"
    assert commit(table, [result(file(0, 3))]).landed.messages == 4
    assert (table.paths, table.removed) == (["0-3"], [])


def test_a_conflict_with_its_own_commit_under_anothers_has_landed() -> None:
    table = Table()

    def others_on_top() -> str:
        commit(table, [result(file(4, 5))])
        commit(table, [result(file(6, 7))])
        return "conflict"

    table.after = others_on_top
    assert commit(table, [result(file(0, 3))]).landed.messages == 4
    assert (table.paths, table.removed) == (["0-3", "4-5", "6-7"], [])


def test_a_lost_answer_of_a_commit_that_is_there_has_landed() -> None:
    table = Table(late_requests=True)
    table.after = lost
    assert commit(table, [result(file(0, 3))]).landed.messages == 4
    assert table.paths == ["0-3"]


def fails(*_: object) -> str:
    raise TimeoutError("no answer")


def test_a_lost_request_has_not_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    monkeypatch.setattr(table, "swap", fails)
    with pytest.raises(NotLandedError, match="the table: nothing has landed: no answer"):
        commit(table, [result(file(0, 3))])


def test_a_request_that_may_come_late_may_have_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(late_requests=True)
    monkeypatch.setattr(table, "swap", fails)
    with pytest.raises(
        MayHaveLandedError, match="not in the table yet, but may still arrive: no answer"
    ):
        commit(table, [result(file(0, 3))])


@pytest.mark.parametrize("answer", [lost, lambda: "conflict"])
def test_a_table_that_cannot_be_asked_may_have_it(answer: Callable[[], Any]) -> None:
    table = Table()

    def unreadable() -> Any:
        table.readable = False
        return answer()

    table.after = unreadable
    with pytest.raises(MayHaveLandedError, match="cannot be read: no route to host"):
        commit(table, [result(file(0, 3))])
    table.readable = True
    again = commit(table, [result(file(0, 3))])
    assert (again.landed.messages, again.landed_before.messages) == (0, 4)
    assert (table.paths, table.removed) == (["0-3"], [])


def test_a_table_that_cannot_be_read_lands_nothing() -> None:
    table = Table()
    table.readable = False
    with pytest.raises(NotLandedError, match="the table: nothing has landed: no route to host"):
        commit(table, [result(file(0, 3))])


def test_a_refusal_that_another_commit_explains_is_tried_again() -> None:
    table = Table()

    def other() -> None:
        commit(table, [result(file(0, 3, path="other"))])
        table.refusal = "is in the way"

    def no_more(head: Any, admission: Any, landed_before: Any) -> None:
        if head.version == 0:
            Table.check(table, head, admission, landed_before)

    table.before = other
    table.check = no_more  # type: ignore[method-assign]
    assert commit(table, [result(file(0, 3))]).landed_before.messages == 4


def test_a_refusal_is_an_error_that_says_so() -> None:
    table = Table()
    table.refusal = "is in the way"
    with pytest.raises(NotLandedError, match="the table: nothing has landed: is in the way"):
        commit(table, [result(file(0, 3))])


def test_a_gap_is_refused_unless_it_is_allowed() -> None:
    table = Table()
    commit(table, [result(file(0, 3), ranges=(ReadRange(SOURCE, 0, 4),))])
    beyond = result(file(8, 9), ranges=(ReadRange(SOURCE, 8, 10),))
    with pytest.raises(NotLandedError, match="from offset 8, but the table's next offset is 4"):
        commit(table, [beyond])
    assert commit(table, [beyond], allow_gaps=True).landed.messages == 2
    assert table.head().fences[SOURCE.fence].next == 10


def test_where_others_always_come_first_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "_TRIES", 3)
    table = Table()
    monkeypatch.setattr(table, "swap", lambda *_: "conflict with 7")
    with pytest.raises(
        NotLandedError, match="nothing has landed in 3 attempts; the last one: conflict with 7"
    ):
        commit(table, [result(file(0, 3))])
