"""Positions handed out and stored, and what they are as offsets and metadata at the broker."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from columnar_kafka import position
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.offsets import GroupMetadata, key_of, to_positions
from columnar_kafka.position import MAX_ROWS

KEY = ("t", 3)


def at(offset: int, row: int = 0, rows: int = 1) -> int:
    return position.pack(offset, row, rows)


def shown(partition: TopicPartition) -> tuple[str, int, int, str | None]:
    return partition.topic, partition.partition, partition.offset, partition.metadata


def place(position_: int, metadata: str | None = None) -> TopicPartition:
    """That position of the partition, as a user may give it."""
    given = {} if metadata is None else {"metadata": metadata}
    return TopicPartition(*KEY, position_, **given)


def offset_store(*, auto_store: bool = True, segments: dict[int, int] | None = None) -> OffsetStore:
    """An offset store that has seen segments of so many rows at these offsets."""
    store = OffsetStore(auto_store=auto_store)
    for offset, rows in (segments or {}).items():
        store.opened(KEY, offset, f"p-{offset}", rows)
    return store


# --- positions as offsets -------------------------------------------------------------------------


def test_a_position_inside_a_known_segment_keeps_its_row_in_the_metadata() -> None:
    committable = offset_store(segments={7: 10}).committable(place(at(7, 4, 10)))
    assert shown(committable) == ("t", 3, 7, "1:6:p-7")


@pytest.mark.parametrize(
    ("position_", "offset"),
    [
        (at(7, 0, 10), 7),
        (7 * MAX_ROWS, 7),
        (7 * MAX_ROWS + 1, 7),
        (8 * MAX_ROWS, 8),
        (at(6), 6),
        (0, 0),
    ],
    ids=["first row", "start", "before the first row", "after the last row", "plain", "zero"],
)
def test_a_position_between_segments_is_an_offset_without_metadata(
    position_: int, offset: int
) -> None:
    committable = offset_store(segments={7: 10}).committable(place(position_))
    assert shown(committable) == ("t", 3, offset, None)


def test_the_first_of_the_most_rows_is_its_offsets_start() -> None:
    committable = offset_store(segments={7: MAX_ROWS}).committable(place(at(7, 0, MAX_ROWS)))
    assert shown(committable) == ("t", 3, 7, None)


def test_the_second_of_the_most_rows_is_inside() -> None:
    committable = offset_store(segments={7: MAX_ROWS}).committable(place(at(7, 1, MAX_ROWS)))
    assert shown(committable) == ("t", 3, 7, "1:1048575:p-7")


def test_a_position_inside_an_unknown_segment_is_its_start() -> None:
    """Its rows are read again; none is skipped."""
    assert shown(offset_store().committable(place(at(7, 4, 10)))) == ("t", 3, 7, None)


@pytest.mark.parametrize(
    ("position_", "metadata", "kept"),
    [
        (8 * MAX_ROWS, "mine", "mine"),
        (at(8, 4, 10), "mine", "mine"),
        (at(8, 4, 10), "1:6:p-8", "1:6:p-8"),
        (at(8, 5, 10), "1:6:p-8", None),
        (8 * MAX_ROWS, "1:6:p-8", None),
        (7 * MAX_ROWS, "mine", "mine"),
        (at(7, 4, 10), "mine", "1:6:p-7"),
        (at(7, 4, 10), "1:6:p-99", "1:6:p-7"),
        (7 * MAX_ROWS, "1:6:p-7", None),
        (at(7, 0, 10), "1:10:p-7", None),
        (-1001, "mine", "mine"),
    ],
    ids=[
        "the user's own",
        "inside an unknown segment",
        "as committed() returns it",
        "left over from another row",
        "left over from inside",
        "the user's own, segment known",
        "row over the user's own",
        "row over another segment's",
        "left over, segment known",
        "first row",
        "no offset",
    ],
)
def test_metadata_that_is_given_is_kept_where_it_is_true(
    position_: int, metadata: str, kept: str | None
) -> None:
    """A row left over from another position would skip rows on resume."""
    committable = offset_store(segments={7: 10}).committable(place(position_, metadata))
    assert committable.metadata == kept


@pytest.mark.parametrize("special", [-1, -2, -1000, -1001])
def test_special_offsets_pass_unchanged(special: int) -> None:
    assert shown(offset_store().committable(place(special))) == ("t", 3, special, None)


def test_a_segment_of_another_partition_is_another_segment() -> None:
    committable = offset_store(segments={7: 10}).committable(TopicPartition("t", 4, at(7, 4, 10)))
    assert shown(committable) == ("t", 4, 7, None)


def test_a_thousand_segments_are_remembered_and_the_oldest_forgotten() -> None:
    known = offset_store(segments=dict.fromkeys(range(1001), 10))
    assert known.committable(place(at(0, 4, 10))).metadata is None
    assert known.committable(place(at(1, 4, 10))).metadata == "1:6:p-1"
    assert known.committable(place(at(1000, 4, 10))).metadata == "1:6:p-1000"


def test_many_positions_at_once() -> None:
    given = [TopicPartition("t", 3, at(7, 4, 10)), TopicPartition("u", 0, at(2))]
    committables = offset_store(segments={7: 10}).committables(given)
    assert list(map(shown, committables)) == [("t", 3, 7, "1:6:p-7"), ("u", 0, 2, None)]


def test_what_was_committed_comes_back_as_positions() -> None:
    given = [
        TopicPartition("t", 0, 7, "1:6:p-7"),
        TopicPartition("t", 1, 7, "somebody's"),
        TopicPartition("t", 2, 7),
        TopicPartition("t", 3, OFFSET_INVALID),
    ]
    positions = to_positions(given)
    assert [partition.offset for partition in positions] == [
        at(7, 4, 10),
        7 * MAX_ROWS,
        7 * MAX_ROWS,
        -1001,
    ]
    assert to_positions(None) == []


def test_an_offset_that_kafka_never_had_is_no_reason_to_fail() -> None:
    [partition] = to_positions([TopicPartition("t", 0, (1 << 63) - 1, "1:6:p-7")])
    assert partition.offset == (1 << 63) - 1


def test_a_partition_is_known_by_topic_and_number() -> None:
    assert key_of(TopicPartition("t", 3, 99, "x")) == KEY


# --- what is to be committed ----------------------------------------------------------------------


def test_with_auto_store_what_was_handed_out_is_committed() -> None:
    known = offset_store(segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:6:p-7")]


def test_without_auto_store_only_what_was_stored_is() -> None:
    known = offset_store(auto_store=False, segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    assert known.uncommitted() == []
    known.store(place(at(7, 2, 10)))
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:8:p-7")]


def test_what_was_committed_is_not_committed_again_until_it_moves() -> None:
    known = offset_store(segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.mark_committed(known.uncommitted())
    assert known.uncommitted() == []
    known.delivered[KEY] = at(7, 5, 10)
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:5:p-7")]


def test_a_step_back_is_not_committed() -> None:
    """As in librdkafka: what is stored is committed when it is further."""
    known = offset_store(segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.mark_committed(known.uncommitted())
    known.delivered[KEY] = at(7, 3, 10)
    assert known.uncommitted() == []


def test_after_a_commit_further_back_what_is_stored_is_committed_again() -> None:
    known = offset_store(segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.mark_committed(known.uncommitted())
    known.mark_committed([TopicPartition(*KEY, 7, "1:9:p-7")])
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:6:p-7")]


def test_a_commit_that_failed_is_no_commit() -> None:
    class Failed:
        topic, partition, offset, metadata = "t", 3, 7, None
        error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)

    known = offset_store(segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.mark_committed([Failed(), TopicPartition(*KEY, OFFSET_INVALID)])  # type: ignore[list-item]
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:6:p-7")]


@pytest.mark.parametrize("auto_store", [True, False])
def test_a_seek_leaves_what_is_stored(*, auto_store: bool) -> None:
    known = offset_store(auto_store=auto_store, segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.store(place(at(7, 4, 10)))
    known.seeked(KEY)
    assert known.delivered == {}
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, "1:6:p-7")]


def test_what_was_handed_out_is_committed_with_its_leaders_epoch() -> None:
    known = offset_store()
    known.hand_out({}, {KEY: 5})
    known.delivered[KEY] = at(7) + 1
    assert [partition.leader_epoch for partition in known.uncommitted()] == [5]
    known.hand_out({}, {KEY: None})
    assert [partition.leader_epoch for partition in known.uncommitted()] == [None]


def test_only_the_partitions_asked_for() -> None:
    known = offset_store()
    known.delivered |= {("t", 0): at(1), ("t", 1): at(2)}
    asked = [("t", 1), ("t", 2)]
    assert list(map(shown, known.uncommitted(asked))) == [("t", 1, 2, None)]


@pytest.mark.parametrize("auto_store", [True, False])
def test_nothing_is_left_of_a_forgotten_partition(*, auto_store: bool) -> None:
    known = offset_store(auto_store=auto_store, segments={7: 10})
    known.delivered[KEY] = at(7, 4, 10)
    known.store(place(at(7, 4, 10)))
    known.mark_committed(known.uncommitted())
    known.forget([KEY, ("never", 0)])
    assert known.uncommitted() == []
    known.delivered[KEY] = at(7, 4, 10)
    known.store(place(at(7, 4, 10)))
    assert list(map(shown, known.uncommitted())) == [("t", 3, 7, None)]


# --- transactions ---------------------------------------------------------------------------------


def test_group_metadata_turns_positions_into_offsets_with_the_rows() -> None:
    inner = object()
    group = GroupMetadata(inner, offset_store(segments={7: 10}).committables)
    assert group.inner is inner
    [committable] = group.offsets([TopicPartition("t", 3, at(7, 4, 10))])
    assert shown(committable) == ("t", 3, 7, "1:6:p-7")


def test_a_stock_producer_refuses_our_group_metadata() -> None:
    """It would commit positions as offsets, and the group would skip everything."""
    import confluent_kafka  # noqa: PLC0415 - only here

    producer = confluent_kafka.Producer({"bootstrap.servers": "localhost:1"})
    group = GroupMetadata(object(), offset_store().committables)
    with pytest.raises(TypeError):
        producer.send_offsets_to_transaction([TopicPartition("t", 0, 1)], group)
