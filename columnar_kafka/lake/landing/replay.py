"""Dead letters that land after all: with other rules, or in a table that was changed meanwhile.

A place of dead letters is read like a topic, from a fence of its own on, which the table keeps
beside the topic's: ``kafka:dead-letters:<place>/<topic>:<partition>``. The same commit lands the
letters and moves that fence, so a letter lands once, however often it is replayed. What still
cannot land goes to the next place of dead letters, or stops the replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.aside.set_aside import land_staged
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import CommitResult, ReadRange
from columnar_kafka.lake.plan import Planner

if TYPE_CHECKING:
    from columnar_kafka.lake.aside.dead_letters import DeadLetters
    from columnar_kafka.lake.model import SourceMessage, SourcePartition
    from columnar_kafka.lake.plan import Layout
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = ["replay"]


def replay(
    letters: DeadLetters,
    table: LakeTable,
    *,
    rules: Rules | None = None,
    layout: Layout | None = None,
    roll_bytes: int = 128 << 20,
) -> CommitResult:
    """Land the dead letters of a place in a table, those that have not landed yet. Blocks.

    Args:
        letters: the place, which stays as it is.
        table: where they land.
        rules: what may land now, and where the rest goes: to another place.
        layout: how large files are.
        roll_bytes: a commit is due when so many bytes are staged.

    Returns:
        What has landed, over all commits.

    Raises:
        ConfigError: as `Rules.check_apart`, or as `Rules.decided`.
        LakeError: a letter cannot land, and the rules do not set it aside; or the place cannot be
            read.
        NotLandedError, MayHaveLandedError: as `LakeTable.commit`. Call it again.
    """
    rules = rules or Rules()
    rules.check_apart(table, letters)
    total = CommitResult()
    for source in letters.sources():
        batch = _Letters(table, rules, source, layout)
        try:
            for message in letters.messages(source, batch.start):
                batch.add(message)
                if batch.nbytes >= roll_bytes:
                    total = total.plus(batch.land())
                    batch = _Letters(table, rules, source, layout)
            total = total.plus(batch.land())
        except BaseException:
            batch.discard()
            raise
    return total


class _Letters:
    """The letters of one partition, and of one commit."""

    def __init__(
        self, table: LakeTable, rules: Rules, source: SourcePartition, layout: Layout | None
    ) -> None:
        rules, fences = rules.decided(table), table.fences()
        fence = fences.get(source.fence)
        generations = {source.topic: source.generation}
        planner = Planner(fences=fences, generations=generations, layout=layout)
        self._stager: Stager | None = Stager(table=table, planner=planner, rules=rules)
        self._table, self._rules, self._source = table, rules, source
        self.start = self._end = fence.next if fence else 0
        self.nbytes = 0

    def add(self, message: SourceMessage) -> None:
        assert self._stager is not None
        self._stager.add(message)
        self._end = message.offset + 1
        self.nbytes += len(message.value or b"")

    def land(self) -> CommitResult:
        if self._stager is None or self._end == self.start:
            return CommitResult()
        staged = self._stager.finish([ReadRange(self._source, self.start, self._end)])
        self._stager = None  # from here on the table decides what becomes of the files
        return land_staged(self._table, [staged], self._rules)

    def discard(self) -> None:
        if self._stager is not None:
            self._stager.discard()
