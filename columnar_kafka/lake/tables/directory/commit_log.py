"""The log of a directory's commits: numbered entries, each written once and never changed.

An entry is the intent of one commit: its files, and the fences of the whole table after it. It
appears whole or not at all, under the next free number. Writing it is the commit: from then on the
files have landed, though none is visible yet.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import Fence, StagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from columnar_kafka.lake.tables.files import Files

__all__ = ["LOG_FOLDER", "CommitLog", "LogEntry"]

LOG_FOLDER: Final = "_columnar/log"
_NAME: Final = re.compile(r"([0-9]{20})\.json", re.ASCII)
_FOLLOWED: Final = 8  # entries that others have added since; for more a list is cheaper
_LEAP: Final = 1000  # entries: as many as a store lists in one request


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One commit. `files` are by final path; `tails` has the path of each fence's last file.

    `replaced` has, by the final path of a file that merges others, the paths of those.
    """

    sequence: int = 0
    attempt: str = ""
    files: Mapping[str, StagedFile] = field(default_factory=dict)
    fences: Mapping[str, Fence] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def next(
        self, files: Mapping[str, StagedFile], fences: Mapping[str, Fence], attempt: str
    ) -> LogEntry:
        """Return the entry that follows this one and lands these files, in this attempt."""
        return LogEntry(
            sequence=self.sequence + 1,
            attempt=attempt,
            files=files,
            fences=fences,
            tails={**self.tails, **{file.fence: path for path, file in files.items()}},
        )

    def compacted(
        self, files: Mapping[str, StagedFile], replaced: Mapping[str, Sequence[str]], attempt: str
    ) -> LogEntry:
        """Return the entry that follows this one and replaces files by these."""
        new = {old: path for path, paths in replaced.items() for old in paths}
        return LogEntry(
            sequence=self.sequence + 1,
            attempt=attempt,
            files=files,
            fences=self.fences,
            tails={fence: new.get(path, path) for fence, path in self.tails.items()},
            replaced=replaced,
        )

    def to_json(self) -> bytes:
        """Return the entry as the log has it."""
        values = {"version": 1, **asdict(self)}
        if not self.replaced:  # most have none
            del values["replaced"]
        return json.dumps(values, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> LogEntry:
        """Parse an entry; ValueError, TypeError, KeyError or AttributeError if it is malformed."""
        values = json.loads(data)
        if (version := values.pop("version")) != 1:
            raise ValueError(f"its version is {version}; upgrade columnar-kafka")
        files = {path: StagedFile(**file) for path, file in values.pop("files").items()}
        fences = {name: Fence(**fence) for name, fence in values.pop("fences").items()}
        return cls(files=files, fences=fences, **values)


class CommitLog:
    """The log under the directory `root`. It remembers where to look for newer entries."""

    def __init__(self, root: PurePath, files: Files[Any]) -> None:
        self._root = root
        self._folder = root / LOG_FOLDER
        self._files = files
        self._seen = 0

    def newest(self) -> LogEntry:
        """Read the newest entry, or return an empty one if the log has none.

        Raises:
            LakeError: it is malformed, or of a newer version.
            OSError: it cannot be read.
        """
        seen = self._seen
        self._seen = self._followed(seen) if seen else self._listed(self._leap())
        if (entry := self.read(self._seen)) is not None:
            return entry
        if seen:  # the log is another one, an older copy of it
            self._seen = 0
            return self.newest()
        return LogEntry()

    def old_drafts(self, when: float) -> list[str]:
        """Return the names of entries that killed processes have begun before a time (Unix's).

        Drafts have random names, which come after those of entries: the log is not listed again.
        """
        newest = self._path(self._seen).name
        return self._files.older(self._folder, when, suffix=".draft", after=newest)

    def files(self, sequence: int) -> dict[str, StagedFile]:
        """Return the files that the table has after an entry, by path. Raises as `newest`."""
        files: dict[str, StagedFile] = {}
        for number in range(1, sequence + 1):
            if (entry := self.read(number)) is None:
                raise LakeError(f"{self._path(number)} is gone")
            for path in itertools.chain.from_iterable(entry.replaced.values()):
                if files.pop(path, None) is None:
                    raise LakeError(f"{self._path(number)} replaces {path}, which no entry landed")
            files |= entry.files
        return files

    def read(self, sequence: int) -> LogEntry | None:
        """Read an entry; None if there is none of that number. Raises as `newest`."""
        path = self._path(sequence)
        if self._files.size(path) is None:
            return None
        try:
            return LogEntry.from_json(self._files.read(path))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(f"{path} is not an entry of the log: {error}") from error

    def add(self, entry: LogEntry) -> bool:
        """Write an entry; return False if another commit has taken its number.

        Over a network the answer may be lost, and either outcome may be wrong.

        Raises:
            OSError: it was not written, or its answer was lost.
        """
        try:
            self._files.put(self._path(entry.sequence), entry.to_json())
        except FileExistsError:
            return False
        return True

    def sync(self) -> None:
        """Make the newest entry survive a crash of the machine. Raises OSError."""
        self._files.sync_folder(self._folder)

    def _followed(self, number: int) -> int:
        """Return the number of the newest entry that follows one without a gap.

        The log is not listed for it: a disk lists all of it, however long it is.
        """
        for later in itertools.count(number + 1):
            if self._files.size(self._path(later)) is None:
                return later - 1
            if later - number == _FOLLOWED:
                return self._listed(later)
        raise AssertionError  # a count does not end

    def _listed(self, known: int) -> int:
        """Return the number of the newest entry after one, by a list; its own if there is none."""
        names = self._files.names(self._folder, after=self._path(known).name)
        matches = [_NAME.fullmatch(name) for name in names]
        return max((int(match[1]) for match in matches if match), default=known)

    def _leap(self) -> int:
        """Return the number of an entry near the newest one, or 0: a long log is not listed.

        Where entries in between are gone, it may be far from that, and what follows is listed.
        """
        number, step = 0, _LEAP
        while self._files.size(self._path(number + step)) is not None:
            number, step = number + step, 2 * step
        while step > _LEAP:
            step //= 2
            if self._files.size(self._path(number + step)) is not None:
                number += step
        return number

    def _path(self, sequence: int) -> PurePath:
        return self._folder / f"{sequence:020}.json"
