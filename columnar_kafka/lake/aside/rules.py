"""The rules of what may land, and what becomes of the rest.

`plan` and `landing.stage` judge each message by them. `set_aside` and `message_rows` write those
elsewhere that do not land.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, get_args

from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.partition import STRADDLE
from columnar_kafka.segment.verification import VERIFICATIONS

if TYPE_CHECKING:
    from columnar_kafka.lake.aside.dead_letters import DeadLetters
    from columnar_kafka.lake.aside.decoding import Decoding, Sample
    from columnar_kafka.lake.partition import Straddle
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.segment.verification import Verification

__all__ = ["PLAIN", "Plain", "Rules"]

Plain = Literal["stop", "skip", "dead-letter", "table", "decode"]
PLAIN: Final[tuple[Plain, ...]] = get_args(Plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How closely a segment is looked at, and where messages go that do not land in the table.

    Without a place for `dead_letters` a segment that cannot land stops the landing. A `plain`
    message stops it, is skipped and counted, is a dead letter, goes to the `plain_table`, or is
    decoded by `decoding` and lands as a row; if that fails, it is as a segment that cannot land. To
    `straddle` is to have rows of several partitions of the table: such a segment is decoded and
    split, stops the landing, or is a dead letter.

    Raises:
        ConfigError: a value is not allowed, or one needs another that is missing.
    """

    verify: Verification = "pages"
    dead_letters: DeadLetters | None = None
    plain: Plain = "stop"
    plain_table: LakeTable | None = None
    decoding: Decoding | None = None
    straddle: Straddle = "split"

    def __post_init__(self) -> None:
        if self.verify not in VERIFICATIONS:
            raise ConfigError(f"verify is {self.verify!r}: it must be {' or '.join(VERIFICATIONS)}")
        if self.plain not in PLAIN:
            raise ConfigError(f"plain is {self.plain!r}: it must be {' or '.join(PLAIN)}")
        if self.straddle not in STRADDLE:
            raise ConfigError(f"straddle is {self.straddle!r}: it must be {' or '.join(STRADDLE)}")
        for name, value in (("plain", self.plain), ("straddle", self.straddle)):
            if value == "dead-letter" and self.dead_letters is None:
                raise ConfigError(f"{name} is dead-letter: it needs a place for dead letters")
        if (self.plain == "table") is (self.plain_table is None):
            raise ConfigError("plain=table and a table of plain messages must be set together")
        if self.plain == "decode" and self.decoding is None:
            raise ConfigError("plain is decode: it needs the plain messages' format and schema")
        if self.plain != "decode" and self.decoding is not None:
            raise ConfigError(
                f"plain is {self.plain}: only decode takes the plain messages' format and schema. "
                "Set plain=decode, or leave them out"
            )

    def decided(self, table: LakeTable, sample: Sample | None = None) -> Rules:
        """Return rules for a table, by which it is known how to decode. As `Decoding.decided`."""
        if self.decoding is None:
            return self
        return replace(self, decoding=self.decoding.decided(table, sample))

    def check_apart(self, table: LakeTable, replayed: DeadLetters | None = None) -> None:
        """Refuse places that share a directory with `table` or with the `replayed` dead letters.

        A fence counts for all that lies in a place, and who maintains a table removes files below
        it that are not the table's.

        Raises:
            ConfigError: two places are one, or one is below the other.
        """
        places = {"the table": table}
        if replayed is not None:
            places["the replayed dead letters"] = replayed.table
        if self.dead_letters is not None:
            places["the dead letters"] = self.dead_letters.table
        if self.plain_table is not None:
            places["the table of plain messages"] = self.plain_table
        for (first, one), (second, other) in combinations(places.items(), 2):
            above, below = sorted((f"{one.place}/", f"{other.place}/"))
            if below.startswith(above):
                raise ConfigError(
                    f"{first} at {one.place} and {second} at {other.place} need directories apart"
                )
