"""Fences in the metadata of a table's commits, as Delta and Iceberg keep them.

Every commit carries the fences that are valid after it, so a table that is restored to an earlier
version brings their old values back. A counter beside the history, which a restore leaves alone, is
the second witness: it tells that there was more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import Fence

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ATTEMPT", "CREATED", "KEPT", "CommitRecord", "check_witness", "may_grow"]

ATTEMPT: Final = "columnar.attempt"
_FENCES: Final = "columnar.fences"
_SEQUENCE: Final = "columnar.sequence"
_GROWTH: Final = "columnar.growth"
KEPT: Final = "columnar.plain.schema"
"""The property that has the schema of plain messages; see `LakeTable.kept_schema`."""

CREATED: Final = {_GROWTH: "allow"}
"""The properties of a table that is created here: no one else owns its schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """What one of our commits says about itself. `sequence` counts ours, restored ones too."""

    sequence: int = 0
    attempt: str = ""
    fences: Mapping[str, Fence] = field(default_factory=dict)

    def to_properties(self) -> dict[str, str]:
        """Return the record as the commit's metadata has it."""
        fences = {name: asdict(fence) for name, fence in self.fences.items()}
        return {
            ATTEMPT: self.attempt,
            _SEQUENCE: str(self.sequence),
            _FENCES: json.dumps({"version": 1, "fences": fences}),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> CommitRecord | None:
        """Read a commit's metadata; None if the commit is another writer's.

        Raises:
            LakeError: it is malformed, or of a newer version.
        """
        if _FENCES not in properties:
            return None
        try:
            values = json.loads(properties[_FENCES])
            if (version := values["version"]) != 1:
                raise LakeError(f"its fences have version {version}; upgrade columnar-kafka")
            return cls(
                sequence=int(properties[_SEQUENCE]),
                attempt=properties[ATTEMPT],
                fences={name: Fence(**fence) for name, fence in values["fences"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(f"{_FENCES} of a commit cannot be read: {error!r}") from error


def check_witness(
    newest: CommitRecord | None, witness: int | None, *, is_whole: bool, reland: bool
) -> CommitRecord:
    """Return the newest record of a table's history, if the second witness agrees.

    Args:
        newest: the newest record that can be reached from the current version.
        witness: the newest `sequence` by the witness; None if it has none.
        is_whole: whether the history reaches back to the table's beginning.
        reland: go on from the restored fences (``table.after.restore=reland``).

    Raises:
        LakeError: the table was restored, or its history was expired.
    """
    sequence = newest.sequence if newest else 0
    if witness is None or witness == sequence:
        return newest or CommitRecord()
    if newest is None and not is_whole:
        raise LakeError(
            f"{witness} commits have landed, but the history that held their fences has expired. "
            "Land under another path, or restore the expired history"
        )
    if witness < sequence:
        raise LakeError(
            f"the history has commit {sequence}, but the table's own record says that {witness} is "
            "the newest one: someone has changed that record"
        )
    if not reland:
        raise LakeError(
            f"the table was restored: {witness} commits had landed, and {sequence} are left. "
            "Landing would bring the undone rows back. To allow that, set "
            "table.after.restore=reland; otherwise move the fences with "
            "`columnar-kafka fence reset`"
        )
    return CommitRecord(sequence=witness, fences=newest.fences if newest else {})


def may_grow(growth: bool | None, properties: Mapping[str, str]) -> bool:
    """Return whether columns may be added: as the user says, or else as the table says."""
    return properties.get(_GROWTH) == CREATED[_GROWTH] if growth is None else growth
