"""Processes that ingest what is in a topic, and are killed at a point of their work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from killing import Orders, Table, around

from columnar_kafka.ingest import Ingestor, IngestSettings, Rules, ingestor, open_dead_letters
from columnar_kafka.ingest.reader import TopicReader
from columnar_kafka.lake.tables.local_files import LocalFiles

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.ingest import Decoding

POINTS = (
    *("before a file", "in a file", "before the commit", "before the swap", "in the swap"),
    *("after the swap", "before Kafka's commit", "between batches"),
)
GROWING_POINTS = (
    *("before a schema", "after a schema", "before a file", "in a file", "before the commit"),
    *("before the swap", "in the swap", "after the swap", "before Kafka's commit"),
    "between batches",
)
"""Points of a process that has its table grow: a schema is kept before the files are written."""
LETTER_POINTS = (
    *("before the letters", "in the letters", "after the letters"),
    *("before the commit", "before the swap", "after the swap"),
)
"""Points of a process that has dead letters: their commit comes before the table's."""

# Its children have imported everything: they start at once.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__, "lakes"])


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is ingested, and where to.

    Plain messages go to a `place` of dead letters, if any; with a `decoding` only those that it
    cannot decode, which without a place are an error.
    """

    lake: Any
    servers: str
    topic: str
    partitions: tuple[int, ...] = (0,)
    roll_bytes: int = 4000
    place: str | None = None
    decoding: Decoding | None = None

    def run(self) -> None:
        """Ingest all there is."""
        self._ingest(self._table(), self._rules())

    def be_killed(self, point: str, at: int, folder: Path) -> str:
        """Run in a process that is killed when it comes to a point; return what was logged.

        `at` is at which time; `folder` is created.
        """
        process, orders = self.armed(point, at, folder)
        process.join()
        assert process.exitcode == -signal.SIGKILL, point
        [line] = orders.killed()
        return line

    def armed(self, point: str, at: int, folder: Path) -> tuple[Any, Orders]:
        """Do as `be_killed`, but return the process, started, and its orders."""
        folder.mkdir()
        orders = Orders(points=(point,), at=(at,), folder=str(folder))
        return self._started(self._run_armed, orders), orders

    def started(self) -> Any:
        """Return a process, started, that ingests all there is."""
        return self._started(self.run)

    def _started(self, run: Any, *arguments: Any) -> Any:
        process = _processes.Process(target=run, args=arguments)
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
            process.start()
        return process

    def _run_armed(self, orders: Orders) -> None:
        os.environ.update(orders.environment())
        ingestor.TopicReader = KilledReader  # type: ignore[misc]
        rules = self._rules()
        if rules.dead_letters is not None:
            letters: Any = rules.dead_letters.table
            letters.commit = between("before the letters", letters.commit, "after the letters")
            letters.swap = between("", letters.swap, "in the letters")
        self._ingest(Table(self._table()), rules)

    def _table(self) -> Any:
        return self.lake.table(**({} if self.lake.bucket else {"files": LocalFiles()}))

    def _rules(self) -> Rules:
        if self.place is None and self.decoding is None:
            return Rules()
        if self.place is None:
            return Rules(plain="decode", decoding=self.decoding)
        plain: Any = "dead-letter" if self.decoding is None else "decode"
        letters = open_dead_letters(self.place)
        return Rules(dead_letters=letters, plain=plain, decoding=self.decoding)

    def _ingest(self, table: Any, rules: Rules) -> None:
        config = {
            "bootstrap.servers": self.servers,
            "group.id": self.topic,
            # So that a commit has messages of several partitions.
            "fetch.message.max.bytes": self.roll_bytes // 4,
        }
        settings = IngestSettings(
            partitions=self.partitions, stop_at_end=True, roll_bytes=self.roll_bytes, rules=rules
        )
        Ingestor(config, self.topic, table, settings).run()


class KilledReader(TopicReader):
    def commit(self) -> None:
        with around("before Kafka's commit", "between batches"):
            super().commit()


def between(before: str, method: Any, after: str) -> Any:
    """Return a method between two points."""

    def armed(*arguments: Any) -> Any:
        with around(before, after):
            return method(*arguments)

    return armed
