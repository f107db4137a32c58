"""Streams that land the same topic in one table at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from pyiceberg.catalog import load_catalog
from spark_tasks import Query, close_kept_clients, send

from columnar_kafka.lake.model import NotLandedError

if TYPE_CHECKING:
    from pathlib import Path

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

RACES = 20


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_two_streams_on_one_table_land_each_row_once(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, kind: Any, record_property: Any
) -> None:
    """Their batches overlap. One that comes too late says so, and lands the rest again."""
    name, lake = topic(2), kind(tmp_path)
    if isinstance(lake, IcebergLake):
        with closing(load_catalog(**lake.catalog)) as catalog:
            # pyiceberg's catalog on SQLite does not allow two to begin it at the same time.
            catalog.create_namespace("lake")
    streams = [Query(kafka, name, **lake.spark_options()) for _ in range(2)]
    start, losers = Barrier(2), []

    def land(stream: Query, batches: list[Any], staged: list[Any]) -> None:
        start.wait()
        try:
            stream.commit(staged)
        except NotLandedError as error:
            losers.append(str(error))
            stream.land(batches)

    with ThreadPoolExecutor(2) as threads:
        for first in range(0, RACES * 16, 16):
            send(kafka, name, range(first, first + 8))
            some = streams[0].ranges()
            send(kafka, name, range(first + 8, first + 16))
            inputs = [some, streams[1].ranges()]
            # Both have staged before either waits: nobody waits for one that has failed.
            staged = list(threads.map(Query.stage, streams, inputs))
            list(threads.map(land, streams, inputs, staged))
    close_kept_clients()
    assert rows(lake) == list(range(RACES * 16))
    assert [
        loser for loser in losers if "have landed meanwhile: stage the input again" not in loser
    ] == []
    record_property("races lost", len(losers))
