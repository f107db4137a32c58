"""The log of a Delta table: an entry is one commit, written once and never changed.

deltalake opens tables and writes their checkpoints. Its commits, and its way to a newer version,
take time for every file of a table; these take time for what they commit.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import MayHaveLandedError
from columnar_kafka.lake.tables.commit_record import ATTEMPT, CommitRecord
from columnar_kafka.lake.tables.delta.statistics import indexed_columns
from columnar_kafka.lake.tables.files import LEFT_OVER, unreferenced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import PurePath

    from deltalake import DeltaTable

    from columnar_kafka.lake.model import StagedFile
    from columnar_kafka.lake.tables.delta.schema import JsonObject
    from columnar_kafka.lake.tables.files import Files

    Entry = Sequence[JsonObject]

__all__ = ["DeltaLog", "Snapshot", "commit_entry"]

_APPLICATION: Final = "columnar-kafka"
_RESTORE: Final = "RESTORE"
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint\.", re.ASCII)
_OF_FILES: Final = (b'{"add":', b'{"remove":', b'{"cdc":')
_FOLLOWED: Final = 100
"""Commits since then. For more, opening the table is cheaper, which begins at a checkpoint."""
_WRITER_VERSION: Final = 7  # of the protocol, from which on features are listed by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a version of a table is like, but for its files.

    `info` is what its commit says about itself. `record` is the newest that can be reached by the
    history; None if there is none, or if the history does not reach back that far, and so is not
    whole. `sequence` is the second witness, the application transaction.
    """

    version: int
    info: Mapping[str, Any]
    schema: JsonObject
    partition_columns: Sequence[str]
    configuration: Mapping[str, str]
    features: Collection[str]
    sequence: int | None
    record: CommitRecord | None
    is_whole: bool

    @property
    def indexed(self) -> Collection[tuple[str, ...]]:
        """The columns of which the table's readers expect statistics."""
        return indexed_columns(self.schema, self.partition_columns, self.configuration)

    def after(self, entry: Entry) -> Snapshot | None:
        """Return the snapshot after one more commit; None if that changes more than files.

        Raises:
            LakeError: the commit's record is malformed, or of a newer version.
        """
        info = _info(entry)
        if info.get("operation") == _RESTORE:
            return None
        if any("metaData" in action or "protocol" in action for action in entry):
            return None
        sequence = self.sequence
        for action in entry:
            if (transaction := action.get("txn") or {}).get("appId") == _APPLICATION:
                sequence = int(transaction["version"])
        record = CommitRecord.from_properties(info)
        return replace(
            self,
            version=self.version + 1,
            info=info,
            sequence=sequence,
            record=record or self.record,
            is_whole=record is not None or self.is_whole,
        )


def commit_entry(
    actions: Iterable[JsonObject], record: CommitRecord | None, *, lands: bool
) -> list[JsonObject]:
    """Return a commit with these actions on files, which land rows or restate what is there."""
    properties = record.to_properties() if record else {}
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "WRITE" if lands else "OPTIMIZE",
        "operationParameters": {"mode": "Append"} if lands else {},
        "isBlindAppend": lands,
        "engineInfo": _APPLICATION,
        **properties,
    }
    entry: list[JsonObject] = [{"commitInfo": info}, *actions]
    if record:
        entry.append({"txn": {"appId": _APPLICATION, "version": record.sequence}})
    return entry


class DeltaLog:
    """The log of the table at `root`. All methods block for requests, and may raise OSError."""

    def __init__(self, root: PurePath, files: Files[Any]) -> None:
        self._folder = root / "_delta_log"
        self._files = files

    def snapshot(self, table: DeltaTable) -> Snapshot:
        """Return what a table that deltalake has opened is like.

        Raises:
            LakeError: its history cannot be read, or followed.
        """
        version, protocol, metadata = table.version(), table.protocol(), table.metadata()
        features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
        if protocol.min_writer_version > _WRITER_VERSION:
            features.add(f"writer version {protocol.min_writer_version}")
        entry = self.read(version)
        record, is_whole = self._newest_record(version, entry)
        return Snapshot(
            version=version,
            info=_info(entry or ()),
            schema=json.loads(table.schema().to_json()),
            partition_columns=metadata.partition_columns,
            configuration=metadata.configuration,
            features=features,
            sequence=table.transaction_version(_APPLICATION),
            record=record,
            is_whole=is_whole,
        )

    def newest(self, known: Snapshot) -> Snapshot | None:
        """Return the newest snapshot, from one that is known; None if the table is to be opened.

        Only newer commits are read, and the known one: the table may have been deleted, and another
        one begun in its place.

        Raises:
            LakeError: a commit is malformed, or of a newer version of this package.
        """
        if not known.info or _info(self.read(known.version) or ()) != known.info:
            return None
        newest: Snapshot | None = known
        while newest is not None and newest.version - known.version <= _FOLLOWED:
            if (entry := self.read(newest.version + 1)) is None:
                return newest
            newest = newest.after(entry)
        return None

    def has(self, attempt: str, after: int) -> bool:
        """Return whether one of the commits after a version has the id `attempt`.

        Raises:
            LakeError: a commit is malformed.
        """
        for version in itertools.count(after + 1):
            if (entry := self.read(version)) is None:
                return False
            if _info(entry).get(ATTEMPT) == attempt:
                return True
        raise AssertionError  # a count does not end

    def read(self, version: int) -> Entry | None:
        """Return what a commit says, but not of files; None if there is none of that version.

        Raises:
            LakeError: it is malformed.
        """
        path = self._path(version)
        try:
            lines = self._files.read(path).splitlines()
        except FileNotFoundError:
            return None
        try:
            return [
                _action(line) for line in lines if line.strip() and not line.startswith(_OF_FILES)
            ]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LakeError(f"{path} is not a commit of Delta: {error!r}") from error

    def commit(
        self,
        snapshot: Snapshot,
        entry: Entry,
        files: Collection[StagedFile],
        landed: Callable[[], Iterable[str]],
    ) -> str:
        """Write the commit that follows a snapshot; return a text if readers do not read it.

        Whether they do is told by the log, or by the `files` that the commit adds: if the table has
        `landed` them. Over a network the answer may be lost, and either outcome may be wrong.

        Raises:
            MayHaveLandedError: it is in a table that was made anew.
            LakeError: a commit is malformed, or whatever `landed` raises; the outcome is open.
        """
        version = snapshot.version + 1
        if not self._add(version, entry):
            return f"another commit took version {version}"
        if self.continues(snapshot):
            return ""
        if self._has_another_than(snapshot):
            raise MayHaveLandedError(
                f"the table of {self._folder} was made anew while version {version} was written, "
                "which now has rows and fences of the table before: delete it, or reset its fences"
            )
        is_read = self._reaches(snapshot.version)
        if is_read and files and not unreferenced(files, landed()):
            return ""
        if files or not is_read:
            self._retract(version, entry)
        return f"the table was deleted, or its log cleaned up, while version {version} was written"

    def remove_drafts(self) -> None:
        """Remove commits that killed processes have begun to write."""
        when = time.time() - LEFT_OVER
        for name in self._files.older(self._folder, when, suffix=".draft"):
            self._files.remove(self._folder / name)

    def continues(self, snapshot: Snapshot) -> bool:
        """Return whether readers read a commit that was written after a snapshot.

        Not if the table was deleted meanwhile, or made anew, or if its log was cleaned up past that
        commit. Where others have just made a checkpoint, they may read it all the same.
        """
        before = self.read(snapshot.version)
        is_there = before is not None and _info(before) == snapshot.info
        return is_there and self._checkpoint() <= snapshot.version + 1

    def _add(self, version: int, entry: Entry) -> bool:
        """Write a commit; return False if another one has taken its version."""
        # Parsers of logs join escaped surrogates wrongly.
        lines = [json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in entry]
        try:
            self._files.put(self._path(version), "\n".join([*lines, ""]).encode())
        except FileExistsError:
            return False
        self._files.sync_folder(self._folder)
        return True

    def _retract(self, version: int, entry: Entry) -> None:
        """Remove a commit that nobody reads, if it is this one."""
        if _info(self.read(version) or ()) == _info(entry):
            self._files.remove(self._path(version))

    def _reaches(self, version: int) -> bool:
        """Return whether there is a commit, or a checkpoint of it or a later one, to follow."""
        names = self._files.names(self._folder)
        return self._path(version).name in names or any(
            int(match[1]) >= version for match in map(_CHECKPOINT.match, names) if match
        )

    def _has_another_than(self, snapshot: Snapshot) -> bool:
        entry = self.read(snapshot.version)
        return entry is not None and _info(entry) != snapshot.info

    def _checkpoint(self) -> int:
        """Return the version at which readers begin, or -1: that file is only a hint for them."""
        try:
            return int(json.loads(self._files.read(self._folder / "_last_checkpoint"))["version"])
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return -1

    def _newest_record(self, version: int, entry: Entry | None) -> tuple[CommitRecord | None, bool]:
        """Return the newest record up to a version with this `entry`, and if the history is whole.

        It is walked back: through a `RESTORE`, and over the commits of other writers.
        """
        while entry is not None:
            info = _info(entry)
            if (record := CommitRecord.from_properties(info)) is not None:
                return record, True
            if version == 0:
                return None, True
            version = _restored(version, info) if info.get("operation") == _RESTORE else version - 1
            entry = self.read(version)
        return None, False

    def _path(self, version: int) -> PurePath:
        return self._folder / f"{version:020}.json"


def _action(line: bytes) -> JsonObject:
    """Parse a line of a commit; ValueError, TypeError, KeyError or AttributeError for others."""
    action = dict(json.loads(line.decode(), parse_constant=int))  # which refuses NaN, as readers do
    info, transaction = action.get("commitInfo") or {}, action.get("txn") or {"version": 0}
    for part in (info, info.get("operationParameters") or {}, transaction):
        part.items()
    int(transaction["version"])
    return action


def _info(entry: Entry) -> JsonObject:
    """Return what a commit says about itself; nothing if it does not."""
    return next((action["commitInfo"] for action in entry if action.get("commitInfo")), {})


def _restored(version: int, info: Mapping[str, Any]) -> int:
    """Return the version that a `RESTORE` went back to."""
    restored = (info.get("operationParameters") or {}).get("version")
    if restored is None or not str(restored).isdecimal():
        raise LakeError(
            f"version {version} restores a point in time, and Delta does not record which version "
            "that was: restore the table to a version number"
        )
    return min(int(restored), version - 1)
