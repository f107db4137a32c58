"""Messages that are set aside while others land: dead letters, plain messages, skipped ones.

An attempt writes them beside the table's files. `land_staged` commits them first and the table
last, so what the table's fences pass is somewhere. After a kill in between, the next attempt finds
out what was set aside already: dead letters by their offsets, since a verdict may change (see
`dead_letters`), plain messages by the fences of their table, since a message stays plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.dead_letters import replayed_place
from columnar_kafka.lake.aside.message_rows import DEAD_LETTERS, PLAIN_MESSAGES, MessageWriter
from columnar_kafka.lake.model import (
    MayHaveLandedError,
    NotLandedError,
    PlainMessageError,
    ReadRange,
    StageResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.aside.dead_letters import Taken
    from columnar_kafka.lake.aside.rules import Rules
    from columnar_kafka.lake.model import (
        CommitResult,
        Fence,
        SourceMessage,
        SourcePartition,
        StagedFile,
        UnlandableError,
    )
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = ["SetAside", "discard_staged", "land_staged"]


class SetAside:
    """What one attempt sets aside. For one thread."""

    def __init__(self, rules: Rules, fences: Mapping[str, Fence]) -> None:
        """Set aside by `rules`, for a table with these `fences`. Blocks to read the dead letters.

        Raises:
            LakeError, OSError: the dead letters cannot be read.
        """
        self._rules = rules
        self._taken: Mapping[str, Taken] = {}
        self._plain_fences: Mapping[str, Fence] | None = None
        self._letters = self._plain = None
        if rules.dead_letters is not None:
            self._taken = rules.dead_letters.taken(fences)
            self._letters = MessageWriter(rules.dead_letters.table, DEAD_LETTERS)
        if rules.plain_table is not None:
            self._plain = MessageWriter(rules.plain_table, PLAIN_MESSAGES)
        self._skipped = 0
        self._ranges: dict[SourcePartition, ReadRange] = {}
        self._origins: set[str] = set()  # from where the place may have letters

    def may_have(self, source: SourcePartition) -> bool:
        """Return whether an attempt before has set messages of a partition aside."""
        return source.fence in self._taken

    def has(self, source: SourcePartition, offset: int) -> bool:
        """Return whether a message was set aside by an attempt before, and note it if so."""
        taken = self._taken.get(source.fence)
        if taken is None or not taken.has(offset):
            return False
        self._note(source, offset)
        return True

    def take(self, source: SourcePartition, message: SourceMessage, why: UnlandableError) -> bool:
        """Set a message aside; return False if it has to land.

        Raises:
            LakeError, OSError: it cannot be set aside.
        """
        if self.has(source, message.offset):
            return True
        if not isinstance(why, PlainMessageError) or self._rules.plain == "dead-letter":
            is_taken = self._letter(source, message, why.reason)
        elif self._plain is not None:
            is_taken = self._plain_message(source, message, self._plain)
        else:
            is_taken = self._rules.plain == "skip"
            self._skipped += is_taken
        if is_taken:
            self._note(source, message.offset)
        return is_taken

    def finish(self) -> StageResult:
        """Make all files durable; return them, and what was set aside. Raises as `take`."""
        return StageResult(
            dead_letters=_finished(self._letters),
            plain_messages=_finished(self._plain),
            skipped=self._skipped,
            set_aside=tuple(self._ranges.values()),
        )

    def discard(self) -> None:
        """Remove all files. Raises nothing."""
        for writer in self._letters, self._plain:
            if writer is not None:
                writer.discard()

    def _letter(self, source: SourcePartition, message: SourceMessage, reason: str) -> bool:
        place = self._rules.dead_letters
        if self._letters is None or place is None:
            return False
        if (origin := replayed_place(source.fence)) not in self._origins:
            place.check_origin(source)
            self._origins.add(origin)
        taken = self._taken.get(source.fence)
        if taken is not None and message.offset < taken.next:
            raise LakeError(  # letters follow each other by offset, and replays go by that
                f"{reason}. An earlier attempt accepted this message, did not finish or was undone "
                f"by a restore, and set aside messages up to offset {taken.next - 1}. Run once "
                "with that attempt's settings; or, to keep this message out of the table, give it "
                f"up with `fence reset`, or name another place for dead letters than {place}: "
                "that gets all of them from the table's fence on, so never replay the first one "
                "again"
            )
        self._letters.add(source, message, reason)
        return True

    def _plain_message(
        self, source: SourcePartition, message: SourceMessage, writer: MessageWriter
    ) -> bool:
        if self._plain_fences is None:
            assert self._rules.plain_table is not None
            self._plain_fences = self._rules.plain_table.fences()
        fence = self._plain_fences.get(source.fence)
        if fence is None or message.offset >= fence.next:
            writer.add(source, message, "")
        return True

    def _note(self, source: SourcePartition, offset: int) -> None:
        noted = self._ranges.get(source, ReadRange(source, offset, offset + 1))
        self._ranges[source] = ReadRange(
            source, min(noted.first, offset), max(noted.next, offset + 1)
        )


def _finished(writer: MessageWriter | None) -> tuple[StagedFile, ...]:
    return () if writer is None else writer.finish()


def land_staged(table: LakeTable, staged: Iterable[StageResult], rules: Rules) -> CommitResult:
    """Commit what was set aside, and then the table's files. Blocks.

    Raises:
        NotLandedError: nothing has landed in the table, and no staged file is left.
        MayHaveLandedError: as `LakeTable.commit`.
    """
    staged = tuple(staged)
    try:
        try:
            if rules.dead_letters is not None:
                rules.dead_letters.commit(staged)
            plain = [StageResult(files=attempt.plain_messages) for attempt in staged]
            if rules.plain_table is not None and any(attempt.files for attempt in plain):
                rules.plain_table.commit(plain)
        except MayHaveLandedError:
            table.discard(staged)  # these have not landed, for certain
            raise
        return table.commit(staged)
    except NotLandedError:
        discard_staged(table, staged, rules)
        raise


def discard_staged(table: LakeTable, staged: Iterable[StageResult], rules: Rules) -> None:
    """Remove files that are not going to land. Files that have landed are kept. Raises nothing."""
    staged = tuple(staged)
    table.discard(staged)
    if rules.dead_letters is not None:
        rules.dead_letters.table.discard(
            [StageResult(files=attempt.dead_letters) for attempt in staged]
        )
    if rules.plain_table is not None:
        rules.plain_table.discard([StageResult(files=attempt.plain_messages) for attempt in staged])
