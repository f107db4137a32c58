"""Planning: which messages land, in which files, and what a commit admits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proportion import in_proportion
from segments import ROWS, numbered, segment, segments, staged_file

from columnar_kafka.errors import LakeError
from columnar_kafka.lake import admission
from columnar_kafka.lake.admission import admit
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    Count,
    Fence,
    NotLandedError,
    ReadRange,
    SourceMessage,
    SourcePartition,
    StagedFile,
    TopicGeneration,
)
from columnar_kafka.lake.plan import Layout, Mode, Planner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GENERATION = TopicGeneration("cluster", "id")
FENCE = "kafka:cluster:id:0"


def planner(*, fences: Mapping[str, Fence] | None = None, **layout: Any) -> Planner:
    generations = {"t": GENERATION, "u": TopicGeneration("cluster", "other")}
    return Planner(fences=fences or {}, generations=generations, layout=Layout(**layout))


def fence(first: int, following: int) -> dict[str, Fence]:
    fence = Fence(topic="t", partition=0, first=first, next=following, segment=f"p-{following - 1}")
    return {FENCE: fence}


def files(plan: Planner, messages: Iterable[SourceMessage]) -> list[list[int]]:
    """The offsets of each file, in the order of their beginning."""
    offsets: list[list[int]] = []
    current: dict[SourcePartition, list[int]] = {}
    for message in messages:
        if placement := plan.place(message):
            if placement.starts_file:
                offsets.append([])
                current[placement.source] = offsets[-1]
            current[placement.source].append(placement.offset)
    return offsets


def test_offsets_may_have_gaps() -> None:
    assert files(planner(), segments([3, 4, 7, 100])) == [[3, 4, 7, 100]]


def test_partitions_and_topics_get_files_of_their_own_when_they_alternate() -> None:
    messages = [
        numbered(0),
        numbered(0, partition=1),
        numbered(0, topic="u"),
        numbered(1),
        numbered(1, topic="u"),
        numbered(1, partition=1),
    ]
    assert files(planner(), messages) == [[0, 1], [0, 1], [0, 1]]


def test_a_file_ends_before_it_would_pass_the_size() -> None:
    size = len(numbered(0).value)
    assert files(planner(file_bytes=3 * size + size // 2), segments(range(7))) == [
        [0, 1, 2],
        [3, 4, 5],
        [6],
    ]


def test_a_segment_bigger_than_a_file_is_a_file() -> None:
    assert files(planner(file_bytes=1), segments(range(3))) == [[0], [1], [2]]


def test_a_file_has_at_most_so_many_segments() -> None:
    assert files(planner(file_row_groups=2, small_bytes=0), segments(range(5))) == [
        [0, 1],
        [2, 3],
        [4],
    ]


def runs(plan: Planner, messages: Iterable[SourceMessage]) -> list[list[int]]:
    """Return the offsets of each run of small segments, and of each other segment."""
    offsets: list[list[int]] = []
    for message in messages:
        placement = plan.place(message)
        assert placement is not None
        if not placement.joins_run:
            offsets.append([])
        offsets[-1].append(placement.offset)
    return offsets


def test_small_segments_join_a_run_and_larger_ones_do_not() -> None:
    small = len(numbered(0).value) + 100
    large = segment(pa.table({"n": [n * n * n for n in range(1000)]}), offset=2, number=2)
    messages = [*segments([0, 1]), large, *segments([3, 4])]
    assert runs(planner(small_bytes=small), messages) == [[0, 1], [2], [3, 4]]
    assert runs(planner(small_bytes=0), messages) == [[0], [1], [2], [3], [4]]
    assert files(planner(small_bytes=small, file_row_groups=2), messages) == [[0, 1, 2], [3, 4]]


def test_a_run_of_segments_has_at_most_so_many_rows_and_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("columnar_kafka.lake.plan._RUN_ROWS", 3 * ROWS)
    assert runs(planner(), segments(range(7))) == [[0, 1, 2], [3, 4, 5], [6]]
    nbytes = 5 * len(numbered(0).value) // 2
    monkeypatch.setattr("columnar_kafka.lake.plan._SMALL_RUN_BYTES", nbytes)
    assert runs(planner(), segments(range(5))) == [[0, 1], [2, 3], [4]]


def test_verbatim_is_one_file_a_segment() -> None:
    assert files(planner(mode=Mode.VERBATIM), segments(range(3))) == [[0], [1], [2]]


def test_another_schema_begins_another_file() -> None:
    other = segment(pa.table({"x": ["a"]}), offset=2, number=2)
    assert files(planner(), [*segments([0, 1]), other, numbered(3)]) == [[0, 1], [2], [3]]


def test_what_is_below_the_fence_is_counted_and_does_not_land() -> None:
    plan = planner(fences=fence(2, 5))
    assert files(plan, segments(range(2, 8))) == [[5, 6, 7]]
    assert plan.landed_before == {FENCE: Count(3, 3 * ROWS)}


def test_a_plain_message_below_the_fence_is_one_record_and_no_error() -> None:
    plan = planner(fences=fence(0, 5))
    plain = SourceMessage(topic="t", partition=0, offset=3, headers=None, value=None)
    assert plan.place(plain) is None
    assert plan.landed_before == {FENCE: Count(1, 1)}


def test_what_is_below_the_tables_beginning_is_refused() -> None:
    with pytest.raises(LakeError, match=r"t\[0\]@1: below offset 2.* land them under another path"):
        planner(fences=fence(2, 5)).place(numbered(1))


def test_a_topic_rewritten_below_its_fence_is_noticed() -> None:
    impostor = segment(pa.table({"n": [1]}), offset=4, number=99)
    with pytest.raises(LakeError, match=r"t\[0\]@4 is segment p-99, but p-4 has landed"):
        planner(fences=fence(0, 5)).place(impostor)


def test_another_generation_of_a_topic_is_refused() -> None:
    held = {"kafka:cluster:old:0": replace(fence(0, 5)[FENCE])}
    with pytest.raises(LakeError, match="table has kafka:cluster:old:0, but this is " + FENCE):
        planner(fences=held).place(numbered(7))


def test_two_topics_must_not_share_a_fence() -> None:
    plan = Planner(fences={}, generations={"t": GENERATION, "u": GENERATION})
    plan.place(numbered(0))
    with pytest.raises(LakeError, match="belongs to topic t; every topic needs"):
        plan.place(numbered(0, topic="u"))


def test_a_topic_without_a_generation_is_refused() -> None:
    with pytest.raises(LakeError, match="cluster and topic id of its topic are not known"):
        planner().place(numbered(0, topic="unknown"))


def test_a_message_that_came_twice_counts_once() -> None:
    plan = planner()
    assert files(plan, segments([0, 1, 1, 2, 0, 1, 3])) == [[0, 1, 2, 3]]
    assert plan.repeated == Count(3, 3 * ROWS)


def test_two_messages_at_one_offset_are_refused() -> None:
    plan = planner()
    files(plan, segments([0, 1, 2]))
    with pytest.raises(LakeError, match=r"t\[0\]@1 came twice, with different bytes"):
        plan.place(segment(pa.table({"n": [5]}), offset=1, number=1))


def test_ranges_may_come_in_any_order_and_their_files_stay_apart() -> None:
    assert files(planner(), segments([10, 11, 5, 6, 12, 7, 0])) == [
        [10, 11],
        [5, 6],
        [12],
        [7],
        [0],
    ]


def test_a_message_too_late_for_its_file_is_refused() -> None:
    plan = planner()
    files(plan, segments([0, 2]))
    with pytest.raises(LakeError, match=r"t\[0\]@1 came after t\[0\]@2.*sortWithinPartitions"):
        plan.place(numbered(1))


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 4))
def test_files_of_one_attempt_never_overlap(offsets: list[int], limit: int) -> None:
    """Whatever the order, each offset is in one file, or the attempt is refused."""
    try:
        placed = files(planner(file_row_groups=limit, small_bytes=0), segments(offsets))
    except LakeError:
        return
    ordered = sorted(placed)
    assert [offset for file in ordered for offset in file] == sorted(set(offsets))
    assert all(len(file) <= limit for file in placed)


def test_a_plain_message_is_refused_by_place() -> None:
    plain = SourceMessage(topic="t", partition=3, offset=7, headers=[("a", b"b")], value=b"x")
    with pytest.raises(LakeError, match=r"t\[3\]@7 is a plain message"):
        planner().place(plain)


def test_a_segment_of_a_newer_version_is_refused_by_place() -> None:
    message = numbered(0)
    headers = [(k, b"2" if k == "columnar.version" else v) for k, v in message.headers or ()]
    with pytest.raises(LakeError, match=r"t\[0\]@0: columnar.version is 2.*upgrade"):
        planner().place(replace(message, headers=headers))


@pytest.mark.parametrize("bad", ["", "a:b", "a b", "x" * 501])
def test_ids_that_would_blur_fences_are_refused(bad: str) -> None:
    with pytest.raises(LakeError, match="id '"):
        TopicGeneration("cluster", bad)


@pytest.mark.parametrize("bad", ["", "a/b", "..\n", "a:b"])
def test_names_no_topic_can_have_are_refused(bad: str) -> None:
    with pytest.raises(LakeError, match="not a Kafka partition"):
        SourcePartition(GENERATION, bad, 0)


# --- the commit ---------------------------------------------------------------------------------


def file(first: int, last: int, **changed: Any) -> StagedFile:
    return staged_file(FENCE, first, last, **changed)


def test_files_land_in_the_order_of_offsets_and_move_the_fence() -> None:
    admission = admit([file(5, 6), file(0, 3)], {})
    assert admission.lands == (file(0, 3), file(5, 6))
    assert admission.fences == {
        FENCE: Fence(topic="t", partition=0, first=0, next=7, segment="p-6"),
    }


def test_files_below_the_fence_have_landed() -> None:
    admission = admit([file(0, 3), file(4, 5)], fence(0, 4))
    assert admission.landed_before == (file(0, 3),)
    assert admission.lands == (file(4, 5),)
    assert admission.fences[FENCE].first == 0


def test_nothing_new_leaves_the_fences_as_they_are() -> None:
    assert admit([file(0, 3)], fence(0, 4)).fences == fence(0, 4)


def test_a_task_that_ran_twice_lands_once() -> None:
    twice = [file(0, 3, path="one"), file(0, 3, path="two"), file(0, 3, path="three")]
    admission = admit(twice, {})
    assert len(admission.lands) == 1
    assert len(admission.repeated) == 2


@pytest.mark.parametrize(
    "pair",
    [
        (file(0, 3), file(0, 3, digest="other")),
        (file(0, 3), file(3, 5)),
        (file(0, 9), file(2, 3)),
        (file(0, 9), file(0, 3)),
    ],
)
def test_files_that_overlap_do_not_land(pair: tuple[StagedFile, ...]) -> None:
    with pytest.raises(NotLandedError, match="overlap"):
        admit(reversed(pair), {})


def test_a_file_across_the_fence_must_be_staged_again() -> None:
    with pytest.raises(NotLandedError, match="the offsets up to 3 have landed meanwhile"):
        admit([file(2, 5)], fence(0, 4))


@pytest.mark.parametrize("last", [1, 3, 9])
def test_a_file_below_the_tables_beginning_does_not_land(last: int) -> None:
    with pytest.raises(NotLandedError, match="below offset 2, where the table begins"):
        admit([file(0, last)], fence(2, 5))


@pytest.mark.parametrize("held", [{}, {"kafka:cluster:id:0": fence(0, 5)[FENCE]}])
def test_another_generation_does_not_land(held: dict[str, Fence]) -> None:
    """Neither in a table that has one, nor together in one commit."""
    with pytest.raises(NotLandedError, match="created again, or belongs to another cluster"):
        admit([file(5, 6), file(7, 8, fence="kafka:cluster:new:0")], held)


def test_partitions_have_fences_of_their_own() -> None:
    other = file(0, 3, fence="kafka:cluster:id:1", partition=1)
    admission = admit([other], fence(0, 9))
    assert admission.lands == (other,)
    assert set(admission.fences) == {FENCE, "kafka:cluster:id:1"}


# --- the ranges that were read --------------------------------------------------------------------


def read(first: int, following: int, *, partition: int = 0) -> ReadRange:
    return ReadRange(SourcePartition(GENERATION, "t", partition), first, following)


def test_the_fence_moves_by_the_range_and_not_by_the_files() -> None:
    admission = admit([file(5, 6)], {}, ranges=[read(2, 9)])
    assert admission.fences == {
        FENCE: Fence(topic="t", partition=0, first=2, next=9, segment="p-6")
    }


def test_a_range_past_the_fence_is_refused_and_both_are_named() -> None:
    match = r"t\[0\] was read from offset 500, but the table's next offset is 10.*table.gap=allow"
    with pytest.raises(NotLandedError, match=match):
        admit([file(500, 510)], fence(0, 10), ranges=[read(500, 511)])


def test_a_gap_lands_where_it_is_allowed() -> None:
    admission = admit([file(500, 510)], fence(0, 10), ranges=[read(500, 511)], allow_gaps=True)
    assert (admission.fences[FENCE].first, admission.fences[FENCE].next) == (0, 511)


def test_offsets_without_a_message_are_no_gap() -> None:
    admission = admit([file(12, 13)], fence(0, 10), ranges=[read(10, 15)])
    assert admission.fences[FENCE].next == 15


def test_a_range_that_overlaps_what_landed_is_cut() -> None:
    admission = admit([file(2, 3), file(4, 7)], fence(0, 4), ranges=[read(2, 9)])
    assert (admission.landed_before, admission.lands) == ((file(2, 3),), (file(4, 7),))
    assert (admission.fences[FENCE].first, admission.fences[FENCE].next) == (0, 9)


def test_a_range_that_has_landed_changes_nothing() -> None:
    assert admit([], fence(2, 5), ranges=[read(0, 4)]).fences == fence(2, 5)


@pytest.mark.parametrize("last", [3, 9])
def test_files_of_another_partition_do_not_say_what_was_set_aside_last(last: int) -> None:
    """The fence moves past it, unless a file of its own partition lies behind it."""
    other = "kafka:cluster:id:1"
    landed = file(5, 9), file(0, last, fence=other, partition=1)
    fences = admit(landed, {}, set_aside=[read(3, 7, partition=1)]).fences
    assert (fences[FENCE].next, fences[FENCE].segment) == (10, "p-9")
    behind = (10, "p-9") if last == 9 else (7, UNKNOWN_SEGMENT)
    assert (fences[other].next, fences[other].segment) == behind


def test_the_fence_moves_past_a_first_message_that_was_set_aside_alone() -> None:
    other = "kafka:cluster:id:1"
    fences = admit([file(5, 9)], {}, set_aside=[read(0, 1, partition=1)]).fences
    assert (fences[other].next, fences[other].segment) == (1, UNKNOWN_SEGMENT)


def test_an_empty_range_moves_the_fence_that_is_there() -> None:
    assert admit([], fence(2, 5), ranges=[read(5, 8)]).fences[FENCE].next == 8


def test_an_empty_range_of_a_partition_that_has_nothing_makes_no_fence() -> None:
    assert admit([], {}, ranges=[read(0, 8)]).fences == {}


def test_the_ranges_of_one_commit_follow_each_other_in_any_order() -> None:
    admission = admit([file(0, 3), file(4, 7)], {}, ranges=[read(4, 8), read(0, 4)])
    assert admission.fences[FENCE].next == 8


def test_a_gap_between_the_ranges_of_one_commit_is_refused() -> None:
    with pytest.raises(NotLandedError, match="from offset 5, but the table's next offset is 4"):
        admit([file(0, 3), file(5, 7)], {}, ranges=[read(5, 8), read(0, 4)])


def test_a_range_of_another_generation_is_refused() -> None:
    other = ReadRange(SourcePartition(TopicGeneration("cluster", "new"), "t", 0), 0, 4)
    with pytest.raises(NotLandedError, match="created again, or belongs to another cluster"):
        admit([], fence(0, 5), ranges=[other])


def test_fences_move_past_what_was_set_aside_in_proportion() -> None:
    def work(count: int) -> Callable[[], object]:
        fences = [FENCE.replace(":0", f":{number}") for number in range(count)]
        landed = [replace(file(0, 1), fence=name, partition=n) for n, name in enumerate(fences)]
        aside = [read(2, 3, partition=number) for number in range(count)]
        return lambda: admit(landed, {}, set_aside=aside)

    admitted = work(3)()
    assert [fence.next for fence in admitted.fences.values()] == [3, 3, 3]
    in_proportion(admission, work, 50)
