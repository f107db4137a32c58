"""A signal handler that raises (Ctrl-C) anywhere in a producer's calls loses no record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from inside import pipeline_of
from interrupting import Interrupted, Signals

from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from columnar_kafka.local import EmbeddedKafka

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
RECORDS = 20_000


class Interruptions(Signals):
    """Raise now and then; in `spared`, which is the user's, never."""

    spared: CodeType | None = None

    def _come(self, frame: FrameType) -> None:
        if frame.f_code is not self.spared:
            self._raise()

    def during(self, call: Callable[[], Any], within: float) -> bool:
        """Make a call that may be interrupted; say whether it came to its end."""
        try:
            self._arm(self._random.uniform(1e-6, within))
            call()
            self.armed = False
        except Interrupted:
            return False
        return True


@pytest.fixture
def interruptions() -> Iterator[Interruptions]:
    with Interruptions(5) as made:
        yield made


def take(producer: Producer, topic: str, n: int, report: Callable[..., None]) -> None:
    while True:
        try:
            producer.produce(topic, {"n": n, "text": "x"}, key=b"%d" % n, on_delivery=report)
        except BufferError:
            producer.poll(0.01)
        else:
            return


# Python swallows what is raised while it collects garbage.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("config", [{}, {"queue.buffering.max.messages": 700}])
def test_whatever_is_interrupted_each_accepted_record_is_reported_once(
    embedded: EmbeddedKafka, interruptions: Interruptions, config: dict[str, Any]
) -> None:
    topic = f"interrupted-{len(config)}"
    embedded.create_topic(topic, 2)
    producer = Producer(
        {
            "bootstrap.servers": embedded.bootstrap_servers,
            "columnar.encoding": "parquet",
            "columnar.linger.ms": 5,
            "linger.ms": 0,
            **config,
        }
    )
    producer.set_schema(topic, SCHEMA)
    reports = [0] * RECORDS
    wrong: list[int] = []
    accepted: set[int] = set()

    def produce(n: int) -> None:
        def report(error: Any, message: Any) -> None:
            reports[n] += 1  # no call comes before it, in which it would not be spared
            if error is not None or message.value()["n"] != n:
                wrong.append(n)

        interruptions.spared = report.__code__
        take(producer, topic, n, report)

    for n in range(RECORDS):
        if interruptions.during(lambda n=n: produce(n), 100e-6):  # type: ignore[misc]
            accepted.add(n)
        if n % 10 == 0:
            interruptions.during(lambda: producer.poll(0.001), 1e-3)
        if n % 2000 == 0:
            interruptions.during(producer.flush, 20e-3)
    assert interruptions.count > 100
    assert producer.flush(200) == 0
    assert len(producer) == 0
    assert pipeline_of(producer).queue.used_bytes == 0
    assert wrong == []
    assert max(reports) == 1
    assert [n for n in accepted if not reports[n]] == []
    producer.close()
