"""The measured process of a competitor that consumes, and the check of what it read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.child import Clock, Cost
from benchmarks.competitors import competitor as make_competitor
from benchmarks.competitors.base import READ_AGAIN, SECONDS
from benchmarks.measured import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

POLL, CONSUME, TABLES = "rows_by_poll", "rows_by_consume", "tables"
POLL_BYTES, CONSUME_BYTES = "bytes_by_poll", "bytes_by_consume"


class Reading:
    """Reads a topic again in every round, with one consumer; lives in a child."""

    def __init__(self, competitor: str, dataset: str, servers: str, rows: int) -> None:
        self._data = data.load(dataset)
        self._competitor = make_competitor(competitor, self._data)
        self._rows = rows
        self._consumer = self._competitor.consumer(servers, READ_AGAIN)

    def read(self, topic: str, way: str) -> Cost:
        """Measure one round: from the assignment, so all fetching counts, to the last record."""
        self._consumer.list_topics(topic, SECONDS)
        count = 0
        clock = Clock()
        for some in self._some(topic, way):
            count += len(some)
        cost = clock.stop()
        self._consumer.unassign()
        if count != self._rows:
            raise AssertionError(f"{topic}: {count:,} records of {self._rows:,}")
        return cost

    def check(self, topic: str, way: str) -> None:
        """Compare what is read with the rows that were sent. Raises UnequalError."""
        to_rows = {
            TABLES: self._rows_of_table,
            POLL_BYTES: lambda values: map(self._competitor.decode, values),
            CONSUME_BYTES: lambda values: map(self._competitor.decode, values),
        }.get(way, iter)
        read = Digest(row for some in self._some(topic, way) for row in to_rows(some))
        self._consumer.unassign()
        Digest(self._data.block(self._rows, fresh=False)).compare(read, f"{topic}, {way}")

    def _rows_of_table(self, table: Any) -> Any:
        names = [field["name"] for field in self._data.avro["fields"]]
        return table.select(names).to_pylist(maps_as_pydicts="strict")

    def _some(self, topic: str, way: str) -> Iterator[Any]:
        self._competitor.assign(self._consumer, topic)
        records: Iterator[Any] = getattr(self._competitor, way)(self._consumer, self._rows)
        return records
