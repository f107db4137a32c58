"""Fences that are moved by hand: in which direction, and what lands afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable
from lakes import FENCE, DeltaLake, DirectoryLake, IcebergLake, put, rows, staged
from segments import numbers

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import UNKNOWN_SEGMENT, Fence, NotLandedError
from columnar_kafka.lake.tables.base import commit_fences
from columnar_kafka.lake.tables.fence_reset import moved_fences

T = ("t", 0)


@pytest.fixture(
    params=[DirectoryLake, DeltaLake, IcebergLake], ids=["directory", "delta", "iceberg"]
)
def lake(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return request.param(tmp_path / "lake")


def reset(table: Any, offset: int, *, force: bool = False) -> Any:
    return commit_fences(table, lambda fences: moved_fences(fences, {T: offset}, force=force))


def test_forward_gives_up_what_lies_between(lake: Any) -> None:
    put(lake.table(), range(2))
    reset(lake.table(), 5)
    expected = Fence(topic="t", partition=0, first=0, next=5, segment=UNKNOWN_SEGMENT)
    assert lake.table().fences() == {FENCE: expected}
    assert put(lake.table(), range(7)).landed_before.messages == 5
    assert rows(lake) == numbers([0, 1, 5, 6])


def test_backward_needs_force(lake: Any) -> None:
    put(lake.table(), range(4))
    before = lake.table().fences()
    with pytest.raises(LakeError, match=r"t\[0\]: offsets 2 to 3 have landed, .* twice.* --force"):
        reset(lake.table(), 2)
    assert lake.table().fences() == before
    assert reset(lake.table(), 2, force=True)[FENCE].next == 2


def test_where_a_fence_is_it_stays_with_its_segment(lake: Any) -> None:
    put(lake.table(), range(4))
    before = lake.table().fences()
    assert reset(lake.table(), 4) == before == lake.table().fences()


def test_what_was_staged_before_it_is_not_landed_over_it(lake: Any) -> None:
    put(lake.table(), range(2))
    table = lake.table()
    late = staged(table, [2, 3])
    reset(lake.table(), 3)
    with pytest.raises(NotLandedError, match="have landed meanwhile"):
        table.commit([late])
    assert rows(lake) == numbers([0, 1])


def test_a_reset_that_comes_second_sees_the_fence_of_the_first(lake: Any) -> None:
    put(lake.table(), range(2))
    seen = []

    def change(fences: Any) -> Any:
        seen.append(fences[FENCE].next)
        if len(seen) == 1:
            put(lake.table(), range(3))
        return moved_fences(fences, {T: 9})

    commit_fences(lake.table(), change)
    assert seen == [2, 3]
    assert lake.table().fences()[FENCE].next == 9
    assert rows(lake) == numbers(range(3))


def test_below_the_first_offset_the_table_begins_there() -> None:
    fence = Fence(topic="t", partition=0, first=5, next=9, segment="s")
    moved = moved_fences({FENCE: fence}, {T: 3}, force=True)
    assert (moved[FENCE].first, moved[FENCE].next) == (3, 3)


def test_a_partition_that_never_landed_has_no_fence_to_move() -> None:
    with pytest.raises(LakeError, match=r"t\[0\]: nothing of this partition has landed"):
        moved_fences({}, {T: 3})


def test_a_table_that_does_not_exist_is_not_committed_to(lake: Any) -> None:
    with pytest.raises(NotLandedError, match="there is no table"):
        commit_fences(lake.table(), lambda fences: moved_fences(fences, {}))


def test_after_a_restore_landing_goes_on_from_where_the_fence_was_put(tmp_path: Any) -> None:
    """Offsets 2 and 3 were bad: whoever restored the table does not get them again."""
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(4))
    table = DeltaTable(str(lake.root))
    table.restore(table.version() - 1)
    with pytest.raises(LakeError, match="columnar-kafka fence reset"):
        lake.table().fences()
    reset(lake.table(reland=True), 4)
    put(lake.table(), range(6))
    assert rows(lake) == numbers([0, 1, 4, 5])
