"""The snapshots of an Iceberg table: where its fences are found, and which of them end.

Each metadata file lists all snapshots, so a table that lands for long costs more with every commit,
unless old ones expire. What expires is decided by `retained`, without I/O. `expire` takes them out
of the metadata by a commit of its own, after one that has landed, and removes what only they had:
manifest lists, manifests, and data files that a merge has replaced. Killed in between, these files
stay until ``remove_orphan_files``.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import TableProperties
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate, UpdateTableMetadata
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.properties import property_as_bool, property_as_int

from columnar_kafka.lake.tables.commit_record import ATTEMPT, CommitRecord
from columnar_kafka.lake.tables.iceberg.commit import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import UpdatesAndRequirements

__all__ = ["BOUNDED", "expire", "has_attempt", "newest_record", "retained"]

_log = logging.getLogger(__name__)

_KEEP: Final = "columnar.keep-snapshots"
_GC: Final = "gc.enabled"  # Iceberg's own: files may belong to other tables too
BOUNDED: Final = {
    _KEEP: "100",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_TARGET_SIZE_BYTES: f"{1 << 20}",
}
"""The properties by which the metadata of a table that is created here stays bounded.

A manifest of 1 MiB has some thousand files. Small ones are written anew every hundredth commit, up
to this size, which takes pyiceberg longer than Iceberg's Java library.
"""
_BATCH: Final = 50  # snapshots that end together: each time is a commit, and a few files to be read
_MOST: Final = 100  # at once: the first time there may be thousands
_MERGED: Final = re.compile(r"(.+)-m[1-9][0-9]*\.avro")


def newest_record(metadata: TableMetadata) -> tuple[CommitRecord | None, bool]:
    """Return the newest record of the current snapshot, and whether the history is whole.

    Without a record it is whole if no snapshot that may have had one was expired.

    Raises:
        LakeError: the record is malformed, or of a newer version.
    """
    oldest = current = metadata.current_snapshot()
    for oldest in _ancestors(metadata, current.snapshot_id if current else None):
        if (record := CommitRecord.from_properties(_summary(oldest))) is not None:
            return record, True
    was_undone = any(ATTEMPT in _summary(snapshot) for snapshot in metadata.snapshots)
    return None, was_undone or oldest is None or oldest.sequence_number == 1


def has_attempt(metadata: TableMetadata, attempt: str) -> bool:
    """Return whether the commit of an attempt is among the snapshots."""
    return any(_summary(snapshot).get(ATTEMPT) == attempt for snapshot in metadata.snapshots)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Snapshots of a branch stay if they are among its newest `count`, or younger than `age_ms`.

    Files that are no longer in the table stay for `files_ms` after they have left it.
    """

    count: int
    age_ms: int
    files_ms: int


def _rule(properties: Mapping[str, str], keep: int | None) -> _Rule | None:
    """Return what expires, or None if nothing does.

    `keep` is the user's own word. Else it is the table's: ``history.expire.*`` as Iceberg has them,
    or what a table has that was created here.
    """
    if not property_as_bool(dict(properties), _GC, default=True):
        return None
    age, least = TableProperties.MAX_SNAPSHOT_AGE_MS, TableProperties.MIN_SNAPSHOTS_TO_KEEP
    age_ms = _number(properties, age, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    if keep is not None:
        return _Rule(keep, 0, age_ms)
    if age in properties or least in properties:
        count = _number(properties, least, TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT)
        return _Rule(count, age_ms, age_ms)
    return _Rule(_number(properties, _KEEP, 1), 0, age_ms) if _KEEP in properties else None


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    return property_as_int(dict(properties), name, default) or 0


def retained(metadata: TableMetadata, keep: int | None, now_ms: int) -> set[int] | None:
    """Return the ids of the snapshots that stay, or None if the table lets none expire.

    Beyond those that the rule names, these stay:

    - for each branch and tag whatever comes before them up to a record of the fences: a rollback
      to any snapshot that is left finds the fences that were valid then;
    - what has removed files from the table, and what comes right before it, as long as those files
      are to stay: a query that began before a merge may still be reading them;
    - what no branch or tag has, as long as files stay: it was rolled back, is not published yet, or
      what came after it has expired.
    """
    if (rule := _rule(metadata.properties, keep)) is None:
        return None
    stays: set[int] = set()
    for ref in metadata.refs.values():
        chain = list(_ancestors(metadata, ref.snapshot_id))
        stays.update(_with_record(chain, 0, _newest(chain, ref, rule, now_ms)))
        for place, snapshot in enumerate(chain):
            if _may_remove(snapshot) and now_ms - snapshot.timestamp_ms < rule.files_ms:
                stays.update(_with_record(chain, place, place + 2))
    reached = _reached(metadata)
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in reached and now_ms - snapshot.timestamp_ms < rule.files_ms:
            chain = list(_ancestors(metadata, snapshot.snapshot_id))
            stays.update(_with_record(chain, 0, 1 + _may_remove(snapshot)))
    return stays


def _reached(metadata: TableMetadata) -> set[int]:
    """Return the ids of the snapshots that a branch or tag has in its history."""
    heads = [ref.snapshot_id for ref in metadata.refs.values()]
    return {ancestor.snapshot_id for head in heads for ancestor in _ancestors(metadata, head)}


def _newest(chain: Sequence[Snapshot], ref: SnapshotRef, rule: _Rule, now_ms: int) -> int:
    """Return how many of a branch's snapshots stay; a tag is one."""
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        return 1
    count = max(1, ref.min_snapshots_to_keep or rule.count)
    oldest = now_ms - (ref.max_snapshot_age_ms or rule.age_ms)
    return max(count, sum(snapshot.timestamp_ms > oldest for snapshot in chain))


def _with_record(chain: Sequence[Snapshot], start: int, end: int) -> Iterator[int]:
    """Yield the ids of a part of a chain, and of those before it up to one with a record."""
    kept = chain[start:end]
    yield from (snapshot.snapshot_id for snapshot in kept)
    if kept and ATTEMPT not in _summary(kept[-1]):
        records = (
            n for n, snapshot in enumerate(chain[end:], end) if ATTEMPT in _summary(snapshot)
        )
        record = next(records, -1)  # without any there are no fences to be found
        yield from (snapshot.snapshot_id for snapshot in chain[end : record + 1])


def expire(table: Table, keep: int | None, now_ms: int) -> None:
    """Let snapshots of a table expire, if there are enough of them. Raises nothing.

    Call it with a table as it is after a commit. Blocks for a commit, and to remove files. If it
    fails, a later one does it: nothing has changed, or files are left over.
    """
    try:
        stays = retained(table.metadata, keep, now_ms)
        if stays is None:
            return
        ends = [
            snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id not in stays
        ]
        if len(ends) >= min(_BATCH, max(1, len(stays) // 4)):
            expire_snapshots(table, ends[:_MOST])
    except ConflictError:
        pass  # another process commits, and will do it
    except Exception as error:  # noqa: BLE001 - the commit before has landed, whatever happens here
        _log.warning("%s: old snapshots stay: %r", ".".join(table.name()), error)


def expire_snapshots(table: Table, ends: Sequence[Snapshot]) -> None:
    """Take snapshots out of a table, and remove the files that only these have."""
    manifests = {path for by_path in _manifests(table.io, ends) for path in by_path}
    reached = _reached(table.metadata)
    removed = {
        path
        for end in ends
        for path in _files_to_remove(table.io, end, rolled_back=end.snapshot_id not in reached)
    }
    transaction = table.transaction()
    ids = [end.snapshot_id for end in ends]
    _Expiry(transaction, ids, table.metadata.refs).commit()
    transaction.commit_transaction()
    left = table.metadata.snapshots
    used = {
        path: manifest
        for by_path in _manifests(table.io, left)
        for path, manifest in by_path.items()
    }
    if removed:
        for manifest in used.values():
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            removed.difference_update(entry.data_file.file_path for entry in entries)
    # pyiceberg leaves the manifest of a commit behind that it has merged with older ones.
    merged = {f"{match[1]}-m0.avro" for path in manifests if (match := _MERGED.fullmatch(path))}
    lists = {end.manifest_list for end in ends} - {snapshot.manifest_list for snapshot in left}
    _remove(table.io, [*removed, *(manifests | merged).difference(used), *lists])


class _Expiry(UpdateTableMetadata["_Expiry"]):
    """The end of snapshots, on condition that no branch or tag has moved: it may be one of them."""

    def __init__(
        self, transaction: Transaction, ids: list[int], refs: Mapping[str, SnapshotRef]
    ) -> None:
        super().__init__(transaction)
        self._ids = ids
        self._refs = refs

    def _commit(self) -> UpdatesAndRequirements:
        refs = self._refs.items()
        unmoved = [{"ref": name, "snapshot-id": ref.snapshot_id} for name, ref in refs]
        update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": self._ids})
        return (update,), tuple(map(AssertRefSnapshotId.model_validate, unmoved))


def _manifests(io: FileIO, snapshots: Iterable[Snapshot]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of each snapshot, by path."""
    for manifests in ExecutorFactory.get_or_create().map(
        lambda snapshot: snapshot.manifests(io), snapshots
    ):
        yield {manifest.manifest_path: manifest for manifest in manifests}


def _may_remove(snapshot: Snapshot) -> bool:
    return snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND


def _files_to_remove(io: FileIO, snapshot: Snapshot, *, rolled_back: bool) -> Iterator[str]:
    """Yield the files that a snapshot has removed from the table; if rolled back, added to it."""
    if not (rolled_back or _may_remove(snapshot)):
        return
    gone = [ManifestEntryStatus.DELETED, *[ManifestEntryStatus.ADDED] * rolled_back]
    for manifest in snapshot.manifests(io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
                if entry.status in gone and entry.snapshot_id == snapshot.snapshot_id:
                    yield entry.data_file.file_path


def _remove(io: FileIO, paths: Iterable[str]) -> None:
    """Remove files, as far as they are there."""

    def remove(path: str) -> None:
        try:
            io.delete(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("%s is left over: %r", path, error)

    for _ in ExecutorFactory.get_or_create().map(remove, paths):
        pass


def _ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield a snapshot and those before it, as far as they have not expired."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def _summary(snapshot: Any) -> Mapping[str, str]:
    summary = snapshot.summary
    return summary.additional_properties if summary else {}
