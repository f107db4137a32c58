"""The history of a Delta table, and the newest record of what has landed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.fences import CommitRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable

__all__ = ["newest_record"]


def newest_record(table: DeltaTable) -> tuple[CommitRecord | None, bool]:
    """Return the newest record of the current version, and whether the history is whole."""
    version = table.version()
    for entry in _history(table):
        if entry["version"] > version:
            continue  # undone by a restore
        if (record := CommitRecord.from_properties(entry)) is not None:
            return record, True
        if entry["operation"] == "RESTORE":
            version = _restored(entry)
        if entry["version"] == 0:
            return None, True
    return None, False


def _restored(entry: Mapping[str, Any]) -> int:
    """Return the version that a `RESTORE` went back to."""
    version = entry["operationParameters"].get("version")
    if version is None or not str(version).isdecimal():
        raise LakeError(
            f"version {entry['version']} restores a point in time, and Delta does not record which "
            "version that was: restore the table to a version number"
        )
    return int(version)


def _commits(table: DeltaTable, limit: int) -> list[dict[str, Any]]:
    """Return what the newest commits up to the version of `table` say about themselves.

    deltalake also returns those that came since it was opened, and counts the versions as if the
    newest of them was this one.
    """
    while True:
        since = len(table.history(1)) - 1
        commits = table.history(limit)[since:]
        if len(table.history(1)) - 1 == since:
            return [{**each, "version": each["version"] + since} for each in commits]


def _history(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """Yield what each commit says about itself, the newest first. Few are read if few are asked."""
    seen, limit = 0, 1
    while True:
        commits = _commits(table, limit)
        yield from commits[seen:]
        if len(commits) < limit:
            return
        seen, limit = len(commits), limit * 16
