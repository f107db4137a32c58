"""The open batches of the native core and of Python: the same answers to whatever is asked."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import native
from columnar_kafka.producing.accepting.open_batches import PureOpenBatches
from columnar_kafka.producing.partitioner import PARTITIONERS, Partitioner
from columnar_kafka.testing import FakeKafka

FORMATS: Final = {"a": [object(), object()], "b": [object()]}
PARTITIONS: Final = st.integers(-1, 4)
TOPICS: Final = st.sampled_from(["a", "b", "unknown"])


class Batch:
    """A batch of Python's, which the core opens too."""

    is_full = False


def step(name: str, *parts: Any) -> Any:
    return st.tuples(st.just(name), *parts)


# Keys that any partition will do for are left out: both choose at random then.
HASHED: Final = st.binary(min_size=1, max_size=3)
STEPS: Final = st.one_of(
    step("set_format", st.sampled_from(["a", "b"]), st.integers(0, 1)),
    step("set_partitions", TOPICS, st.integers(0, 4)),
    step("find", TOPICS, PARTITIONS, HASHED, st.integers(-1, 1)),
    step("open", TOPICS, st.integers(0, 4), st.integers(0, 1)),
    step("let_go", TOPICS, st.integers(0, 4), st.booleans()),
    step("close", TOPICS, PARTITIONS, HASHED),
    step("close_all", TOPICS),
)


class Opened:
    """One of both kinds, and the queue that it appends to."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self.queue: list[Any] = []

    def do(self, name: str, topic: str, *rest: Any, batch: Batch) -> Any:
        formats = FORMATS.get(topic, FORMATS["a"])
        if name == "set_format":
            chosen = formats[rest[0] % len(formats)]
            return self.opened.set_format(topic, chosen, stores_keys=True, stores_headers=True)
        if name == "find":
            *place, number = rest
            return self.opened.find(
                topic, *place, None if number < 0 else formats[number % len(formats)]
            )
        if name == "open":
            partition, number = rest
            chosen = formats[number % len(formats)]
            return self.opened.open(topic, partition, chosen, batch, None, self.queue)
        if name == "let_go":
            partition, is_there = rest
            there = self.opened.find(topic, partition, None)
            known = there[1] if there is not None and is_there else None
            return self.opened.let_go(topic, partition, known or batch)
        return getattr(self.opened, name)(topic, *rest)


def both(partitioner: str) -> tuple[Opened, Opened]:
    core = native.core.OpenBatches(
        native.core.Usage(1), partitioner, lambda *_: None, lambda *_: False
    )
    pair = Opened(core), Opened(PureOpenBatches(Partitioner(partitioner)))
    for batches in pair:
        batches.do("set_format", "a", 0, batch=Batch())
        batches.do("set_partitions", "a", 3, batch=Batch())
    return pair


@settings(max_examples=examples(300))
@given(st.sampled_from(sorted(PARTITIONERS - {"random"})), st.lists(STEPS, min_size=5, max_size=40))
def test_both_say_the_same_of_the_same_steps(partitioner: str, steps: list[Any]) -> None:
    core, pure = both(partitioner)
    for arguments in steps:
        batch = Batch()
        assert core.do(*arguments, batch=batch) == pure.do(*arguments, batch=batch), arguments
    assert core.queue == pure.queue


def test_the_core_leaves_the_batches_of_a_topic_without_it_to_python() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.encoding.compression": "gzip"}
    with kafka.Producer(
        config | {"columnar.linger.ms": 60_000, "columnar.segment.rows": 3}
    ) as made:
        made.set_schema("t", pa.schema([("n", pa.int64())]))
        for n in range(4):
            made.produce("t", {"n": n})
        made.produce("t", b"plain")
        made.produce("t", {"n": 4})
    values = [record.value() for record in kafka.records("t")]
    assert values == [*({"n": n} for n in range(4)), b"plain", {"n": 4}]
    sizes = [dict(message.headers() or ()).get("columnar.rows") for message in kafka.messages("t")]
    assert sizes == [b"3", b"1", None, b"1"]
