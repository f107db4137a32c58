"""What the native core is profiled with: `native/profiled.py` runs it on an instrumented core.

Every data set is produced in all four ways to librdkafka's mock cluster, read in both, and landed;
and it is produced as JSON.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from benchmarks import data
from benchmarks.competitors import OURS, OURS_JSON
from benchmarks.competitors.base import connection
from benchmarks.reading import CONSUME, POLL, Reading
from benchmarks.sending import Sending
from columnar_kafka import native
from columnar_kafka.ingest import Ingestor, IngestSettings, open_table
from columnar_kafka.local import EmbeddedKafka

ROWS = 30_000
SMALL_ROWS = 1_000


def main() -> None:
    """Raise where something is lost, or the core is off."""
    if not native.enabled:
        raise SystemExit(f"the native core is off: {native.reason}")
    with EmbeddedKafka() as kafka:
        for name in data.NAMES:
            rows = min(ROWS, data.load(name).rows)
            sending = Sending(OURS, name, kafka.bootstrap_servers, rows)
            reading = Reading(OURS, name, kafka.bootstrap_servers, rows)
            for full in (False, True):
                for fresh in (False, True):
                    topic = f"{name}-{full}-{fresh}"
                    kafka.create_topic(topic)
                    sending.send(topic, fresh, full)
                    for way in (CONSUME, POLL):
                        reading.read(topic, way)
                    land(kafka.bootstrap_servers, topic)
            of_json = f"{name}-json"
            kafka.create_topic(of_json)
            Sending(OURS_JSON, name, kafka.bootstrap_servers, rows).send(of_json, False, False)
            small = f"{name}-small"
            kafka.create_topic(small)
            sending.connect(small, batch_rows=1, rows=SMALL_ROWS)
            sending.send(small, False, False)
            land(kafka.bootstrap_servers, small)


def land(servers: str, topic: str) -> None:
    """Put a topic's segments into a directory, checked page by page and stitched."""
    settings = IngestSettings(partitions=(0,), stop_at_end=True)
    with TemporaryDirectory() as folder:
        ingestor = Ingestor(connection(servers), topic, open_table("parquet", folder), settings)
        ingestor.run()
    if not ingestor.stats.rows:
        raise RuntimeError(f"nothing of {topic} has landed")


if __name__ == "__main__":
    main()
