"""What the native core is profiled with: `native/profiled.py` runs it on an instrumented core.

Every data set is produced in all four ways, and read in both, from librdkafka's mock cluster.
"""

from __future__ import annotations

from benchmarks import data
from benchmarks.competitors import OURS
from benchmarks.reading import CONSUME, POLL, Reading
from benchmarks.sending import Sending
from columnar_kafka import native
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
            small = f"{name}-small"
            kafka.create_topic(small)
            sending.connect(small, batch_rows=1, rows=SMALL_ROWS)
            sending.send(small, False, False)


if __name__ == "__main__":
    main()
