"""Fences that are moved by hand: after a restore, or to give up what cannot land."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from columnar_kafka import position
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import UNKNOWN_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.model import Fence

__all__ = ["moved_fences"]


def moved_fences(
    fences: Mapping[str, Fence], offsets: Mapping[tuple[str, int], int], *, force: bool = False
) -> dict[str, Fence]:
    """Return fences with other next offsets, by topic and partition; the rest as they are.

    Forward gives up what lies between. Backward lands it again: `force` says that its rows are no
    longer in the table, as nobody can tell which rows somebody has deleted.

    Raises:
        LakeError: the table has no such fence, or one would move backward without `force`.
    """
    moved = dict(fences)
    names = {(fence.topic, fence.partition): name for name, fence in fences.items()}
    for (topic, partition), offset in offsets.items():
        where = position.partition_address(topic, partition)
        if (topic, partition) not in names:
            raise LakeError(
                f"{where}: nothing of this partition has landed; the first landing decides where "
                "it starts (`ingest --start`)"
            )
        name = names[topic, partition]
        fence = fences[name]
        if offset < fence.next and not force:
            raise LakeError(
                f"{where}: offsets {offset} to {fence.next - 1} have landed, and their rows would "
                "be in the table twice. Remove these rows, or restore the table, and then use "
                "--force"
            )
        if offset != fence.next:
            moved[name] = replace(
                fence, first=min(fence.first, offset), next=offset, segment=UNKNOWN_SEGMENT
            )
    return moved
