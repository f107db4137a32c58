"""The state that the steps of one run share: cluster, records, screen and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.demo.figures import Stage
from columnar_kafka.demo.screen import Clock
from columnar_kafka.demo.sending.produce import produce

if TYPE_CHECKING:
    from columnar_kafka.demo.figures import Results
    from columnar_kafka.demo.screen import Screen
    from columnar_kafka.demo.servers import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run. `expected` is produced first and `more` later; finished stages go to `results`."""

    cluster: Cluster
    screen: Screen
    results: Results
    topic: str
    partitions: int
    expected: pa.Table
    more: pa.Table

    @property
    def everything(self) -> pa.Table:
        """All records of the run."""
        return pa.concat_tables([self.expected, self.more])

    def produce(self, table: pa.Table, name: str) -> None:
        """Send records to the topic, as a stage of that name.

        Raises:
            DeliveryError: a record was not delivered.
        """
        clock, servers = Clock(), self.cluster.bootstrap_servers
        with self.screen.progress("producing", table.num_rows) as advance:
            sent = produce(servers, self.topic, table, advance=advance)
        self.done(Stage(name, table.num_rows, clock(), f"{sent / 1e6:.2f} MB on the wire"))

    def done(self, stage: Stage) -> None:
        """Keep and show a finished stage."""
        self.results.stages.append(stage)
        self.screen.stage(stage)
