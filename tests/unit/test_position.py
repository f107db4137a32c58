"""Positions: exact numbers, their order, `+ 1`, and no row skipped for doubtful metadata."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka import position
from columnar_kafka.position import MAX_ROWS, Unpacked

offsets = st.integers(0, (1 << 42) - 2)
segments = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=40)


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, int, int]:
    """An offset, a row, and the number of rows."""
    count = draw(st.one_of(st.integers(1, 10), st.integers(1, MAX_ROWS), st.just(MAX_ROWS)))
    return draw(offsets), draw(st.integers(0, count - 1)), count


def test_a_partition_and_a_message_are_named_alike() -> None:
    assert position.partition_address("t", 3) == "t[3]"
    assert position.address("t", 3, 5) == "t[3]@5"


@pytest.mark.parametrize(
    ("offset", "row", "count", "expected"),
    [
        (0, 0, 1, 1_048_575),
        (0, 0, 3, 1_048_573),
        (0, 2, 3, 1_048_575),
        (7, 0, 1, 8_388_607),
        (7, 3, 10, 8_388_601),
        (0, 0, MAX_ROWS, 0),
        (7, 0, MAX_ROWS, 7_340_032),
        (7, MAX_ROWS - 1, MAX_ROWS, 8_388_607),
        (1 << 41, 0, 1, 2_305_843_009_214_742_527),
    ],
)
def test_the_position_of_a_row(offset: int, row: int, count: int, expected: int) -> None:
    assert position.pack(offset, row, count) == expected


def test_a_plain_message_is_row_0_of_1() -> None:
    assert position.pack(41) == position.pack(41, 0, 1) == 42 * MAX_ROWS - 1


@pytest.mark.parametrize(
    ("offset", "row", "count"),
    [(-1, 0, 1), (0, 1, 1), (0, -1, 1), (0, 0, 0), (0, 0, MAX_ROWS + 1), (-1001, 0, 1)],
)
def test_there_is_no_position_for_a_row_that_cannot_exist(
    offset: int, row: int, count: int
) -> None:
    with pytest.raises(
        ValueError, match=f"no position for row {row} of {count} at offset {offset}"
    ):
        position.pack(offset, row, count)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, Unpacked(0, 0)),
        (1, Unpacked(0, MAX_ROWS - 1)),
        (MAX_ROWS - 1, Unpacked(0, 1)),
        (MAX_ROWS, Unpacked(1, 0)),
        (8_388_601, Unpacked(7, 7)),
    ],
)
def test_a_position_unpacks_to_its_offset_and_the_rows_left(at: int, expected: Unpacked) -> None:
    assert position.unpack(at) == expected


@pytest.mark.parametrize("special", [-1, -2, -1000, -1001, -2005])
def test_special_offsets_are_not_positions_and_stay_as_they_are(special: int) -> None:
    assert position.start(special) == special
    assert position.resume(special, "1:3:p-0") == (special, "")
    with pytest.raises(ValueError, match="special offset"):
        position.unpack(special)


@pytest.mark.parametrize(("offset", "at"), [(0, 0), (1, 1_048_576), (7, 7_340_032)])
def test_an_offsets_start_is_a_multiple_of_2_to_the_20(offset: int, at: int) -> None:
    assert position.start(offset) == at


@given(rows())
def test_unpack_finds_the_offset_and_the_rows_left(place: tuple[int, int, int]) -> None:
    offset, row, count = place
    left = count - row
    # The first of 2^20 rows is where the offset starts: all rows are left either way.
    expected = Unpacked(offset, left if left < MAX_ROWS else 0)
    assert position.unpack(position.pack(offset, row, count)) == expected


@given(rows())
def test_one_more_is_the_next_row_and_after_the_last_the_next_offsets_start(
    place: tuple[int, int, int],
) -> None:
    offset, row, count = place
    after = position.pack(offset, row, count) + 1
    if row + 1 < count:
        assert after == position.pack(offset, row + 1, count)
    else:
        assert after == position.start(offset + 1)


@given(rows(), rows())
def test_positions_order_as_offsets_then_rows(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    offset, row, count = one
    other_offset, other_row, other_count = other
    if offset == other_offset:  # one segment lies at an offset
        other_count, other_row = count, min(other_row, count - 1)
    left = position.pack(offset, row, count)
    right = position.pack(other_offset, other_row, other_count)
    assert (left < right) == ((offset, row) < (other_offset, other_row))
    assert (left == right) == ((offset, row) == (other_offset, other_row))


@given(rows())
def test_a_row_lies_between_its_offsets_start_and_the_next_ones(
    place: tuple[int, int, int],
) -> None:
    offset = place[0]
    assert position.start(offset) <= position.pack(*place) < position.start(offset + 1)


def test_the_metadata_of_a_commit_inside_a_segment() -> None:
    assert position.commit_metadata(7, "0123456789abcdef0123-42") == "1:7:0123456789abcdef0123-42"


def test_the_longest_metadata_fits() -> None:
    assert len(position.commit_metadata(MAX_ROWS, "x" * 40)) == 50


@given(rows(), segments)
def test_reading_resumes_at_the_committed_position(
    place: tuple[int, int, int], segment: str
) -> None:
    offset, row, count = place
    at = position.pack(offset, row, count)
    metadata = position.commit_metadata(count - row, segment)
    assert position.resume(offset, metadata) == (at, segment)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "",
        "1",
        "1:",
        "1:5",
        "1:5:",
        "1:0:p-0",
        "1:-5:p-0",
        "1:+5:p-0",
        "1:05:p-0",
        "1:5.0:p-0",
        "1:1048577:p-0",
        "1:9999999:p-0",
        "1:99999999:p-0",
        "2:5:p-0",
        "01:5:p-0",
        "1:5:p 0",
        "1:5:p-0:",
        "1:5:p-0\n",
        "\n1:5:p-0",
        " 1:5:p-0",
        "1:5:" + "x" * 41,
        "1:\u0665:p-0",
        "1:5:pé",
        "\x001:5:p-0",
    ],
)
def test_metadata_that_is_not_ours_means_the_first_row(metadata: str | None) -> None:
    assert position.resume(7, metadata) == (7 * MAX_ROWS, "")


def test_garbage_never_skips_a_row() -> None:
    """10,000 strings, near misses among them, all resume at a row of their own offset."""
    random_ = random.Random(20)
    letters = "1:0-_aZ9 \n\x00é\u0665" + string.printable
    inside = 0
    for _ in range(10_000):
        noise = "".join(random_.choices(letters, k=random_.randrange(0, 20)))
        metadata = random_.choice([noise, f"1:{noise}", f"1:{noise}:p-0", f"1:5:{noise}"])
        at, segment = position.resume(7, metadata)
        if segment:
            inside += 1
            _, left, name = metadata.split(":")
            assert (segment, at) == (name, 8 * MAX_ROWS - int(left))
            assert 7 * MAX_ROWS <= at < 8 * MAX_ROWS
        else:
            assert at == 7 * MAX_ROWS
    assert 0 < inside < 1000
