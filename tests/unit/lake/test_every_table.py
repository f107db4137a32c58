"""What every kind of table promises: each row once, through races, kills and lost answers."""

from __future__ import annotations

import pickle
import re
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    audit,
    lake_at,
    put,
    rows,
    staged,
    targets,
)
from segments import ROWS, numbers, segment
from support import by_profile

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import (
    Count,
    Fence,
    MayHaveLandedError,
    NotLandedError,
    ReadRange,
    SourcePartition,
    StageResult,
    TopicGeneration,
)
from columnar_kafka.lake.plan import Mode
from columnar_kafka.lake.tables import base

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=targets())
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path / "lake")


def writing(table: Any, write: Callable[[Any, Any], int]) -> Any:
    """Have the table's files written by a function of the file and the data."""
    create = table.create

    def created(*arguments: Any) -> Any:
        writer = create(*arguments)
        original = writer.write
        writer.write = lambda data: write(original, data)
        return writer

    table.create = created
    return table


def test_what_landed_is_there_once_and_the_fence_says_so(lake: Any) -> None:
    assert lake.table().fences() == {}
    first = put(lake.table(), [3, 4], file_row_groups=1, small_bytes=0)
    assert (first.landed, len(first.files)) == (Count(2, 2 * ROWS), 2)
    second = put(lake.table(), [3, 4, 7])
    assert (second.landed, second.landed_before) == (Count(1, ROWS), Count(2, 2 * ROWS))
    assert rows(lake) == numbers([3, 4, 7])
    expected = Fence(topic="t", partition=0, first=3, next=8, segment="p-7")
    assert lake.table().fences() == {FENCE: expected}


def test_verbatim_files_land_too(lake: Any) -> None:
    assert len(put(lake.table(), range(3), mode=Mode.VERBATIM).files) == 3
    assert rows(lake) == numbers(range(3))


@pytest.mark.parametrize(
    "lake",
    [target for target in targets() if target.values[0][0] is not DirectoryLake],
    indirect=True,
)
def test_a_table_with_partitions_that_grows_is_read_and_proven(lake: Any) -> None:
    texts = ["DE /%=", "ü", "a#b?c", "x y", "a:b", None]
    old = pa.table({"n": range(6), "c": texts})
    messages = [
        segment(old, offset=0, number=0),
        segment(old.append_column("more", [range(6)]), offset=1, number=1),
    ]
    for message in messages:
        table = lake.table(partition_by=["c"])
        result = land([message], table=table, generations=GENERATIONS)
        assert (len(result.files), result.rewritten) == (6, 1)
    landed = lake.read().sort_by([("n", "ascending"), ("more", "ascending")])
    assert landed["c"].to_pylist() == [text for text in texts for _ in range(2)]
    assert landed["more"].to_pylist() == [value for n in range(6) for value in (n, None)]
    report = audit(lake, messages)
    assert (report.findings, report.messages, report.files) == ([], 2, 12)


def test_a_table_in_use_sees_that_others_have_changed_it(lake: Any) -> None:
    """It does not look at the table for each file, but the commit does."""
    table = lake.table()
    put(table, [0])
    put(lake.table(), [1])
    put(table, range(4), file_row_groups=1, small_bytes=0)
    assert rows(lake) == numbers(range(4))


def test_many_tasks_land_in_one_commit(lake: Any) -> None:
    table = lake.table()
    table.commit([staged(table, [4, 5]), staged(table, [0, 2]), staged(table, [1], partition=1)])
    assert rows(lake) == sorted(numbers([0, 2, 4, 5]) + numbers([1]))
    assert {name: fence.next for name, fence in table.fences().items()} == {
        FENCE: 6,
        "kafka:cluster:id:1": 2,
    }


def test_a_task_that_ran_twice_lands_once_and_leaves_nothing(lake: Any) -> None:
    table = lake.table()
    result = table.commit([staged(table, [0, 1]), staged(table, [0, 1])])
    assert result.repeated == Count(2, 2 * ROWS)
    assert (rows(lake), len(lake.data_files())) == (numbers([0, 1]), 1)


def test_the_same_commit_again_lands_nothing_and_removes_nothing(lake: Any) -> None:
    table = lake.table()
    once = staged(table, [0, 1])
    table.commit([once])
    assert table.commit([once]).landed_before == Count(2, 2 * ROWS)
    table.discard([once])
    assert rows(lake) == numbers([0, 1])


@pytest.mark.parametrize(
    ("kind", "name"),
    [(DeltaLake, "50%"), (DeltaLake, "what?"), (DeltaLake, "a\x1f"), (IcebergLake, "c#")],
)
def test_a_path_that_libraries_would_take_for_another_is_refused(
    tmp_path: Path, kind: Any, name: str
) -> None:
    (tmp_path / name).mkdir()
    match = f"a table's path must not contain {name[-1]!r}"
    with pytest.raises(LakeError, match=re.escape(match)):
        put(kind(tmp_path / name / "lake").table(), [0])
    assert list((tmp_path / name).rglob("*.parquet")) == []


def test_what_another_has_landed_meanwhile_is_removed(lake: Any) -> None:
    late = staged(lake.table(), [0, 1])
    put(lake.table(), [0, 1])
    assert lake.table().commit([late]).landed_before == Count(2, 2 * ROWS)
    assert (rows(lake), len(lake.data_files())) == (numbers([0, 1]), 1)


def test_staged_files_are_seen_by_no_reader_and_can_be_discarded(lake: Any) -> None:
    put(lake.table(), [0])
    attempt = staged(lake.table(), [1, 2])
    assert rows(lake) == numbers([0])
    lake.table().discard([attempt])
    assert len(lake.data_files()) == 1


def test_a_topic_made_again_is_refused(lake: Any) -> None:
    put(lake.table(), range(5))
    again = staged(lake.table(), [0], fences={}, generation=TopicGeneration("cluster", "new"))
    with pytest.raises(NotLandedError, match="the topic was deleted and created again"):
        lake.table().commit([again])
    assert rows(lake) == numbers(range(5))


def test_a_gap_is_refused_and_can_be_allowed(lake: Any) -> None:
    put(lake.table(), [0, 1])
    source = SourcePartition(TopicGeneration("cluster", "id"), "t", 0)
    late = staged(lake.table(), [5])
    late = StageResult(files=late.files, ranges=(ReadRange(source, 4, 8),))
    with pytest.raises(NotLandedError, match="from offset 4, but the table's next offset is 2"):
        lake.table().commit([late])
    lake.table(allow_gaps=True).commit([late])
    assert rows(lake) == numbers([0, 1, 5])
    assert lake.table().fences()[FENCE].next == 8


def test_a_staged_file_that_is_gone_must_be_staged_again(lake: Any) -> None:
    attempt = staged(lake.table(), [0])
    lake.filesystem().delete_file(attempt.files[0].path)
    with pytest.raises(NotLandedError, match="gone or cut short: stage the input again"):
        lake.table().commit([attempt])


def test_a_file_that_cannot_be_written_leaves_nothing(lake: Any) -> None:
    def full(write: Any, data: Any) -> int:
        write(memoryview(data)[:1])
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        put(writing(lake.table(), full), [0])
    assert lake.data_files() == []


def test_a_table_is_picklable(lake: Any) -> None:
    table = lake.table()
    put(table, [0])
    put(pickle.loads(pickle.dumps(table)), [1])
    assert rows(lake) == numbers([0, 1])


# --- races and lost answers -----------------------------------------------------------------------


@pytest.mark.parametrize("others", [range(5), range(8)] * by_profile(1, 10))
def test_two_at_once_one_lands_and_the_other_is_told(lake: Any, others: range) -> None:
    """Both have read the same head when they swap, and have staged overlapping ranges."""
    put(lake.table(), [0])
    barrier = threading.Barrier(2, timeout=60)
    outcomes: list[Any] = []

    def commit(offsets: range) -> None:
        table, met = lake.table(), []
        swap = table.swap

        def together(*arguments: Any) -> Any:
            if not met:
                met.append(barrier.wait())
            return swap(*arguments)

        table.swap = together
        attempt = staged(table, offsets)
        try:
            outcomes.append(table.commit([attempt]).landed.messages)
        except NotLandedError as error:
            outcomes.append(str(error))
            table.discard([attempt])

    threads = [threading.Thread(target=commit, args=(offsets,)) for offsets in (range(6), others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    landed = [outcome for outcome in outcomes if isinstance(outcome, int) and outcome]
    assert len(landed) == 1
    assert rows(lake) == numbers(range(landed[0] + 1))
    [told] = [outcome for outcome in outcomes if outcome not in landed]
    assert told == 0 or "have landed meanwhile: stage the input again" in told
    put(lake.table(), range(8))
    assert rows(lake) == numbers(range(8))


def test_partitions_of_two_processes_both_land(lake: Any) -> None:
    put(lake.table(), [0])
    table = lake.table()
    attempt = staged(table, [1, 2], partition=1)
    swap = table.swap

    def second(*arguments: Any) -> Any:
        table.swap = swap
        put(lake.table(), [1])
        return swap(*arguments)

    table.swap = second
    assert table.commit([attempt]).landed.messages == 2
    assert rows(lake) == sorted(numbers([0, 1]) + numbers([1, 2]))


def conflict() -> str:
    return "conflict"


def timeout() -> str:
    raise OSError(110, "Connection timed out")


@pytest.mark.parametrize("answer", [conflict, timeout])
@pytest.mark.parametrize("on_top", [False, True])
def test_a_commit_whose_answer_is_lost_has_landed(
    lake: Any, answer: Callable[[], str], *, on_top: bool
) -> None:
    put(lake.table(), [0])
    table = lake.table()
    swap = table.swap

    def lost(*arguments: Any) -> str:
        assert swap(*arguments) == ""
        if on_top:
            put(lake.table(), [5])
        return answer()

    table.swap = lost
    assert put(table, [1, 2]).landed == Count(2, 2 * ROWS)
    assert rows(lake) == numbers([0, 1, 2, 5] if on_top else [0, 1, 2])


def test_a_table_that_refuses_every_commit_says_why(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_TRIES", 3)
    table = lake.table()
    attempt = staged(table, [0])
    table.swap = lambda *_: "the writer is too old"
    with pytest.raises(NotLandedError, match="in 3 attempts; the last one: the writer is too old"):
        table.commit([attempt])


def test_a_commit_that_never_arrived_has_not_landed_or_may_have(lake: Any) -> None:
    put(lake.table(), [0])
    table = lake.table()
    table.swap = lambda *_: timeout()
    outcome = MayHaveLandedError if table.late_requests else NotLandedError
    with pytest.raises(outcome, match="Connection timed out"):
        put(table, [1, 2])
    put(lake.table(), [1, 2])
    assert rows(lake) == numbers([0, 1, 2])


class Killed(BaseException):
    """What kill -9 is to the code: nothing after it runs."""


def test_killed_in_the_middle_of_a_file_and_started_again(lake: Any) -> None:
    def dying(write: Any, data: Any) -> int:
        write(memoryview(data)[:1])
        writer = write.__self__
        writer.discard = lambda: None if lake.bucket else writer.file.close()
        raise Killed

    put(lake.table(), [0])
    with pytest.raises(Killed):
        put(writing(lake.table(), dying), range(4))
    assert rows(lake) == numbers([0])
    assert lake.bucket or len(lake.data_files()) == 2  # an object appears when it is finished
    put(lake.table(), range(4))
    assert rows(lake) == numbers(range(4))


@pytest.mark.parametrize("step", ["head", "check", "swap", "has_landed", "remove"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_a_step_and_started_again(lake: Any, step: str, *, after: bool) -> None:
    put(lake.table(), [0])
    table = lake.table()
    table.discard = lambda *_: None
    method = getattr(table, step)

    def killed(*arguments: Any) -> Any:
        if after:
            method(*arguments)
        raise Killed

    setattr(table, step, killed)
    if step == "has_landed":  # which is asked only then
        swap = table.swap
        table.swap = lambda *arguments: swap(*arguments) or timeout()
    with pytest.raises(Killed):
        put(table, range(4))
    assert rows(lake) in (numbers([0]), numbers(range(4)))
    put(lake.table(), range(6))
    assert rows(lake) == numbers(range(6))
