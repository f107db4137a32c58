"""What a batch of the source reads, and in how many tasks: pure."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka.errors import ColumnarError, ConfigError
from spark_sink.reading.planning import (
    OffsetRange,
    Offsets,
    TopicIds,
    batch_start,
    following,
    grouped,
    limited,
    ranges,
    split,
    still_there,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_sink.reading.source_options import Partition

IDS = TopicIds("cluster", "id")


def offsets(**topics: list[int]) -> Offsets:
    """Return the offsets of topics, by partition."""
    return Offsets(
        dict.fromkeys(topics, IDS),
        {(topic, n): at for topic, of_topic in topics.items() for n, at in enumerate(of_topic)},
    )


def no_new(partitions: Iterable[Partition]) -> dict[Partition, int]:
    raise AssertionError(partitions)


def from_zero(partitions: Iterable[Partition]) -> dict[Partition, int]:
    return dict.fromkeys(partitions, 0)


def test_equal_offsets_are_equal_texts() -> None:
    one = Offsets({"b": IDS, "a": IDS}, {("b", 10): 1, ("b", 9): 2, ("a", 0): 3})
    other = Offsets({"a": IDS, "b": IDS}, {("a", 0): 3, ("b", 9): 2, ("b", 10): 1})
    text = json.dumps(one.to_json())
    assert text == json.dumps(other.to_json())
    assert Offsets.from_json(json.loads(text)) == one


def test_a_checkpoint_of_sparks_own_source_goes_on_without_ids() -> None:
    start = Offsets.from_json({"t": {"0": 3}})
    assert start == Offsets({"t": TopicIds(None, None)}, {("t", 0): 3})
    assert following(start, offsets(t=[5]), no_new, fail=True) == {("t", 0): 3}


def test_the_end_of_a_first_batch_says_where_it_began() -> None:
    """Whatever Spark was answered when it asked for the start again."""
    end = offsets(t=[5, 2]).started_at({("t", 0): 3, ("t", 1): 0})
    saved = end.to_json()
    assert saved["t"]["next"] == {"0": 5, "1": 2}
    assert saved["t"]["start"] == {"0": 3, "1": 0}
    again = Offsets.from_json(saved)
    assert again == end
    asked = offsets(t=[9, 9, 9]).started_at(offsets(t=[9, 9, 9]).next)
    began = batch_start(asked, again, may_follow=False, fail=True)
    assert began == offsets(t=[3, 0])
    assert batch_start(again, offsets(t=[7, 2]), may_follow=False, fail=True) == again
    assert batch_start(again, again, may_follow=False, fail=True) == again


def test_a_start_that_was_asked_for_after_the_end_is_not_past_it() -> None:
    start, end = offsets(t=[4, 1], new=[3]), offsets(t=[5]).moved_to({("t", 0): 3})
    assert within(start, end) == offsets(t=[3])
    asked = start.started_at(start.next)
    assert batch_start(asked, end, may_follow=True, fail=True) == offsets(t=[3])
    with pytest.raises(ColumnarError, match=r"t\[0\]: .* first batch, which ends at offset 3, did"):
        batch_start(asked, end, may_follow=False, fail=True)
    assert batch_start(asked, end, may_follow=False, fail=False) == offsets(t=[3])


def test_a_first_batch_that_would_be_empty_began_earlier() -> None:
    """It was planned, so it had messages, and nothing has come since."""
    asked = offsets(t=[3, 5])
    asked = asked.started_at(asked.next)
    with pytest.raises(ColumnarError, match=r"t\[0\]: .* first batch, which ends at offset 3, did"):
        batch_start(asked, offsets(t=[3, 5]), may_follow=False, fail=True)
    known = batch_start(asked, offsets(t=[3, 9]), may_follow=False, fail=True)
    assert known == offsets(t=[3, 5])


@pytest.mark.parametrize(
    "saved",
    [
        7,
        [3],
        {"offset": 0, "timestamp": 5},  # Spark's rate-micro-batch source
        {"logOffset": 0},  # Spark's files
        {"shardId-0": {"iteratorType": "AT_SEQUENCE_NUMBER", "iteratorPosition": "49"}},
        {"t": {"0": None}},
    ],
)
def test_a_checkpoint_of_another_source_is_refused(saved: Any) -> None:
    with pytest.raises(ConfigError, match=r"not those of Kafka's topics: .* checkpointLocation"):
        Offsets.from_json(saved)


def test_a_batch_starts_where_the_last_one_ended_and_new_partitions_at_their_first() -> None:
    starts = following(offsets(t=[3]), offsets(t=[5, 7], u=[1]), from_zero, fail=True)
    assert starts == {("t", 0): 3, ("t", 1): 0, ("u", 0): 0}
    assert following(offsets(t=[3]), offsets(t=[5]), no_new, fail=True) == {("t", 0): 3}


@pytest.mark.parametrize(
    ("start", "end", "message", "goes_on_at"),
    [
        (offsets(t=[3], u=[1]), offsets(t=[5]), "topic 'u' was deleted", {("t", 0): 3}),
        (
            offsets(t=[3]),
            Offsets({"t": TopicIds("cluster", "other")}, {("t", 0): 2}),
            "topic 't' was deleted and created again.*'id'.* before.*'other'.* now",
            {("t", 0): 0},
        ),
        (offsets(t=[3, 1]), offsets(t=[3]), r"t\[1\] is gone", {("t", 0): 3}),
        (
            offsets(t=[3]),
            offsets(t=[2]),
            r"t\[0\] ended at offset 3 before, and ends at 2 now",
            {("t", 0): 3},
        ),
    ],
)
def test_messages_that_may_be_lost_stop_the_query_or_are_logged(
    start: Offsets,
    end: Offsets,
    message: str,
    goes_on_at: dict[Partition, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ColumnarError, match=f"{message}.*failOnDataLoss"):
        following(start, end, from_zero, fail=True)
    with caplog.at_level(logging.WARNING):
        assert following(start, end, from_zero, fail=False) == goes_on_at
    assert len(caplog.records) == 1


def test_a_new_partition_whose_first_messages_are_gone_may_have_lost_some() -> None:
    with pytest.raises(ColumnarError, match=r"t\[1\] is new, but its messages 0 to 3 are gone"):
        following(offsets(t=[1]), offsets(t=[1, 9]), lambda new: dict.fromkeys(new, 4), fail=True)


def test_of_a_planned_end_stays_what_is_still_there() -> None:
    planned = offsets(shorter=[9], longer=[2, 4], deleted=[3], again=[5])
    latest = Offsets(
        {"shorter": IDS, "longer": IDS, "again": TopicIds("cluster", "other"), "new": IDS},
        {("shorter", 0): 7, ("longer", 0): 6, ("again", 0): 8, ("new", 0): 1},
    )
    assert still_there(planned, latest) == offsets(shorter=[7], longer=[2])
    assert still_there(Offsets.from_json({"t": {"0": 3}}), offsets(t=[5])) == Offsets(
        {"t": TopicIds(None, None)}, {("t", 0): 3}
    )


def test_a_limit_is_shared_by_how_much_each_partition_has() -> None:
    start = {("t", 0): 0, ("t", 1): 100, ("t", 2): 5}
    end = {("t", 0): 900, ("t", 1): 200, ("t", 2): 5}
    assert limited(start, end, 100) == {("t", 0): 90, ("t", 1): 110, ("t", 2): 5}
    assert limited(start, end, 1000) == end


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_batches_of_a_limited_size_reach_the_end(
    partitions: list[tuple[int, int]], most: int
) -> None:
    start = {("t", n): at for n, (at, _) in enumerate(partitions)}
    end = {("t", n): at + more for n, (at, more) in enumerate(partitions)}
    for _ in range(301):
        if start == end:
            return
        after = limited(start, end, most)
        assert all(start[place] <= after[place] <= end[place] for place in end)
        assert 0 < sum(after[place] - start[place] for place in end) <= most + len(partitions)
        start = after
    raise AssertionError("no end")


def test_only_partitions_with_messages_become_ranges() -> None:
    end = offsets(t=[5, 2], u=[1])
    planned = ranges({("t", 0): 3, ("t", 1): 2, ("u", 0): 4}, end, {("t", 0): 9})
    assert planned == [OffsetRange("t", 0, 3, 5, "cluster", "id", latest=9)]


def sized(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", n, 10, 10 + size, None, None, 99) for n, size in enumerate(sizes)]


def shape(parts: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(part.partition, part.start, part.end) for part in parts]


def test_large_ranges_are_cut_until_there_are_enough_and_small_ones_are_left() -> None:
    parts = split(sized(2, 90), 4, None)
    assert shape(parts) == [(0, 10, 12), (1, 10, 40), (1, 40, 70), (1, 70, 100)]
    assert split(sized(2, 90), 2, None) == sized(2, 90)
    assert shape(split(sized(2), 5, None)) == [(0, 10, 11), (0, 11, 12)]


def test_no_range_is_larger_than_asked_for() -> None:
    assert shape(split(sized(5, 2), None, 2)) == [
        (0, 10, 11),
        (0, 11, 13),
        (0, 13, 15),
        (1, 10, 12),
    ]


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 20),
)
def test_the_parts_of_a_range_are_the_range(
    sizes: list[int], least: int | None, most: int | None
) -> None:
    parts = split(sized(*sizes), least, most)
    there = [(part.partition, at) for part in parts for at in range(part.start, part.end)]
    assert there == [(n, at) for n, size in enumerate(sizes) for at in range(10, 10 + size)]
    assert all(part.end - part.start <= (most or 30) for part in parts)


@given(st.lists(st.integers(1, 30), max_size=12), st.none() | st.integers(1, 6))
def test_a_group_is_no_larger_than_another_by_more_than_one_range(
    sizes: list[int], most: int | None
) -> None:
    groups = grouped(sized(*sizes), most)
    assert sorted(offsets for group in groups for offsets in group) == sized(*sizes)
    assert len(groups) == (len(sizes) if most is None else min(most, len(sizes)))
    loads = [[offsets.end - offsets.start for offsets in group] for group in groups]
    assert all(sum(load) - min(load) <= sum(other) for load in loads for other in loads)
