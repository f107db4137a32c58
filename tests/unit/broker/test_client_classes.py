"""A tracer sees what the user calls, once, and nothing of what that does inside.

The tracers here do what the real ones do, which `make third-parties` runs.
"""

from __future__ import annotations

import functools
import gc
import itertools
import weakref
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.deserializing_consumer import DeserializingConsumer as StockDeserializing
from confluent_kafka.serializing_producer import SerializingProducer as StockSerializing

import columnar_kafka
from columnar_kafka import RowError
from columnar_kafka.broker import traced_classes
from columnar_kafka.broker.traced_classes import StockConsumer, StockProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.local import EmbeddedKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
PARQUET = {"columnar.encoding": "parquet", "columnar.linger.ms": 10}
STOCK = {
    "Producer": StockProducer,
    "Consumer": StockConsumer,
    "SerializingProducer": StockSerializing,
    "DeserializingConsumer": StockDeserializing,
}
_numbers = itertools.count(1)

Calls = list[tuple[str, Any]]


class Wrapper:
    """wrapt's, as far as tracers use it: it is bound to the function that it has found."""

    def __init__(self, wrapped: Any, wrapper: Callable[..., Any]) -> None:
        self.__wrapped__ = wrapped
        self._self_wrapper = wrapper

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = self.__wrapped__.__get__(instance, owner)
        return lambda *args, **kwargs: self._self_wrapper(bound, instance, args, kwargs)


def see(calls: Calls, name: str, function: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Note a call; a record gets a header with the call's number."""
    assert instance.seen_by == "a tracer"
    calls.append((name, args[0] if args else None))
    if name == "produce":
        added = ("trace", str(len(calls)).encode())
        kwargs = kwargs | {"headers": [*(kwargs.get("headers") or ()), added]}
    return function(*args, **kwargs)


def traced_by_super(stock: type, methods: list[str], calls: Calls) -> type:
    """OpenTelemetry's way: its own methods call `super()`."""

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return see(calls, name, getattr(super(made, self), name), self, args, kwargs)

        return call

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        super(made, self).__init__(*args, **kwargs)
        self.seen_by = "a tracer"

    made: Any = type("Traced", (stock,), {"__init__": init} | {n: method(n) for n in methods})
    return made


def traced_by_wrapper(stock: type, methods: list[str], calls: Calls) -> type:
    """Datadog's way and New Relic's: what it inherits is wrapped, `__init__` too."""

    def init(function: Any, instance: Any, args: Any, kwargs: Any) -> None:
        function(*args, **kwargs)
        instance.seen_by = "a tracer"

    made = type("Traced", (stock,), {})
    for name in methods:
        original = next(vars(base)[name] for base in stock.__mro__ if name in vars(base))
        setattr(made, name, Wrapper(original, functools.partial(see, calls, name)))
    original = next(vars(base)["__init__"] for base in stock.__mro__ if "__init__" in vars(base))
    made.__init__ = Wrapper(original, init)  # type: ignore[misc,assignment]
    return made


METHODS = {
    "Producer": ["produce"],
    "Consumer": ["poll", "consume", "commit"],
    "SerializingProducer": ["produce"],
    "DeserializingConsumer": ["poll", "commit"],
}


@pytest.fixture(params=[traced_by_super, traced_by_wrapper])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What a tracer sees that has taken the place of confluent-kafka's classes."""
    seen: Calls = []
    for name, stock in STOCK.items():
        monkeypatch.setattr(confluent_kafka, name, request.param(stock, METHODS[name], seen))
    return seen


@pytest.fixture
def topic(embedded: EmbeddedKafka) -> str:
    name = f"traced-{next(_numbers)}"
    embedded.create_topic(name, 1)
    return name


def producer(embedded: EmbeddedKafka, kind: Any = columnar_kafka.Producer, **config: Any) -> Any:
    servers = {"bootstrap.servers": embedded.bootstrap_servers}
    return kind(servers | PARQUET | {key.replace("__", "."): v for key, v in config.items()})


def consumer(embedded: EmbeddedKafka, topic: str, kind: Any = columnar_kafka.Consumer) -> Any:
    servers = {"bootstrap.servers": embedded.bootstrap_servers, "columnar.encoding": "parquet"}
    group = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    made = kind(servers | group)
    made.assign([confluent_kafka.TopicPartition(topic, 0)])
    return made


def trace(message: Any) -> bytes | None:
    return dict(message.headers() or {}).get("trace")


@pytest.mark.parametrize("kind", ["Producer", "SerializingProducer"])
@pytest.mark.parametrize("rows", [True, False])
def test_each_record_is_seen_once_and_has_the_header_of_its_own_call(
    calls: Calls, embedded: EmbeddedKafka, topic: str, kind: str, rows: bool
) -> None:
    with producer(embedded, getattr(columnar_kafka, kind)) as made:
        if rows:
            made.set_schema(topic, SCHEMA)
        for n in range(3):
            made.produce(topic, value={"n": n} if rows else b"")
        made.flush()
    assert calls == [("produce", topic)] * 3
    reader = consumer(embedded, topic)
    assert [trace(message) for message in reader.consume(3, 30)] == [b"1", b"2", b"3"]
    reader.close()


def fill(embedded: EmbeddedKafka, topic: str) -> None:
    """Send three records."""
    with producer(embedded) as made:
        made.set_schema(topic, SCHEMA)
        for n in range(3):
            made.produce(topic, value={"n": n})


def test_each_call_of_a_consumer_is_seen_once(
    calls: Calls, embedded: EmbeddedKafka, topic: str
) -> None:
    fill(embedded, topic)
    calls.clear()
    reader = consumer(embedded, topic)
    first = reader.poll(30)
    assert len(reader.consume(2, 30)) == 2
    reader.commit(first, asynchronous=False)
    assert reader.committed([confluent_kafka.TopicPartition(topic, 0)])[0].offset == (
        first.offset() + 1
    )
    reader.close()
    assert calls == [("poll", 30), ("consume", 2), ("commit", first)]


def test_a_deserializing_consumer_commits_positions(
    calls: Calls, embedded: EmbeddedKafka, topic: str
) -> None:
    """Its tracer has found `commit` in confluent-kafka's class, which takes offsets."""
    fill(embedded, topic)
    calls.clear()
    reader = consumer(embedded, topic, columnar_kafka.DeserializingConsumer)
    first = reader.poll(30)
    reader.commit(first, asynchronous=False)
    committed = reader.committed([confluent_kafka.TopicPartition(topic, 0)])[0]
    assert committed.offset == first.offset() + 1
    reader.close()
    assert calls == [("poll", 30), ("commit", first)]


@pytest.mark.parametrize("kind", list(STOCK))
def test_a_client_is_an_instance_of_what_confluent_kafka_has_now(
    calls: Calls, embedded: EmbeddedKafka, kind: str
) -> None:
    ours, stock = getattr(columnar_kafka, kind), STOCK[kind]
    config = {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "g"}
    made = ours(config if "Consumer" in kind else config | {"group.id": None})
    assert isinstance(made, ours)
    assert isinstance(made, getattr(confluent_kafka, kind))
    assert isinstance(made, stock)
    assert type(made).__name__ == kind
    assert type(made).__module__ == ours.__module__
    made.close()
    assert calls == []


def test_a_subclass_is_above_the_tracer(calls: Calls, embedded: EmbeddedKafka, topic: str) -> None:
    """Which so is given what confluent-kafka's method takes, not what the subclass's does."""

    class Orders(columnar_kafka.Producer):
        def __init__(self, servers: EmbeddedKafka, name: str) -> None:
            super().__init__({"bootstrap.servers": servers.bootstrap_servers} | PARQUET)
            self.name = name

        def produce(self, number: int) -> None:  # type: ignore[override]
            super().produce(self.name, value={"n": number})

    made = Orders(embedded, topic)
    made.set_schema(topic, SCHEMA)
    made.produce(1)
    made.close()
    assert calls == [("produce", topic)]


def test_records_without_a_place_for_headers_are_not_traced(
    calls: Calls, embedded: EmbeddedKafka, topic: str
) -> None:
    """The header that a tracer adds would have each of them refused."""
    with producer(embedded, columnar__metadata="id") as made:
        made.set_schema(topic, SCHEMA)
        made.produce(topic, value={"n": 1})
        assert calls == []
        with pytest.raises(RowError, match="does not store a record's headers"):
            made.produce(topic, value={"n": 2}, headers=[("mine", b"")])
        made.produce(topic, value=b"plain")
        assert made.flush() == 0
    with producer(embedded, columnar__metadata="id") as made:
        made.produce(topic, value=b"no schema")
        assert calls == [("produce", topic)]


def test_batches_are_no_more_traced_than_confluent_kafkas(
    calls: Calls, embedded: EmbeddedKafka, topic: str
) -> None:
    with producer(embedded) as made:
        made.set_schema(topic, SCHEMA)
        assert made.produce_batch(topic, [{"value": {"n": 1}}, {"value": {"n": 2}}]) == 2
        made.produce_arrow(topic, pa.table({"n": [3]}))
    assert calls == []


def test_it_is_traced_where_it_has_taken_the_tracers_place(
    calls: Calls, embedded: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a framework uses it; the tracer was there when the package was imported."""
    monkeypatch.setitem(traced_classes.BEFORE_OURS, "Producer", confluent_kafka.Producer)
    monkeypatch.setattr(confluent_kafka, "Producer", columnar_kafka.Producer)
    with producer(embedded, confluent_kafka.Producer) as made:
        made.set_schema(topic, SCHEMA)
        made.produce(topic, value={"n": 1})
    assert calls == [("produce", topic)]


def test_a_tracer_that_has_gone_sees_nothing(
    embedded: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From clients made later, and from all where it unwraps its methods."""
    calls: Calls = []
    tracer = traced_by_wrapper(StockProducer, ["produce"], calls)
    monkeypatch.setattr(confluent_kafka, "Producer", tracer)
    made = producer(embedded)
    made.set_schema(topic, SCHEMA)
    made.produce(topic, value={"n": 1})
    del tracer.produce  # type: ignore[attr-defined]
    made.produce(topic, value={"n": 2})
    assert made.flush() == 0
    made.close()
    assert calls == [("produce", topic)]


@pytest.mark.parametrize("other", [None, object(), int, columnar_kafka.Producer])
def test_without_a_tracer_it_is_the_class_itself(
    embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, other: Any
) -> None:
    if other is not None:
        monkeypatch.setattr(confluent_kafka, "Producer", other)
    made = producer(embedded)
    assert type(made) is columnar_kafka.Producer
    assert type(made).__mro__[1:] == (StockProducer, object)
    made.close()


def test_a_fake_is_traced_as_the_real_one(calls: Calls, topic: str) -> None:
    from columnar_kafka.testing import FakeKafka  # noqa: PLC0415

    with FakeKafka() as kafka:
        made = kafka.Producer(PARQUET)
        made.set_schema(topic, SCHEMA)
        made.produce(topic, value={"n": 1})
        made.produce("plain", value=b"1")
        assert made.flush() == 0
        made.close()
        assert [trace(record) for record in kafka.records(topic)] == [b"1"]
        assert [trace(record) for record in kafka.records("plain")] == [b"2"]
    assert calls == [("produce", topic), ("produce", "plain")]


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_subclass_that_nobody_has_any_more_is_freed(
    request: pytest.FixtureRequest, is_traced: bool
) -> None:
    """As those of a fake are, which have its messages."""
    if is_traced:
        monkeypatch = request.getfixturevalue("monkeypatch")
        tracer = traced_by_wrapper(StockConsumer, ["poll"], [])
        monkeypatch.setattr(confluent_kafka, "Consumer", tracer)
    subclass: Any = type("Mine", (columnar_kafka.Consumer,), {})
    made = [subclass({"group.id": "g"}) for _ in range(2)]
    assert type(made[0]) is type(made[1])
    assert isinstance(made[0], confluent_kafka.Consumer)
    left = weakref.ref(subclass)
    del subclass, made
    gc.collect()
    assert left() is None


def test_an_error_is_the_callers(calls: Calls, embedded: EmbeddedKafka, topic: str) -> None:
    with producer(embedded) as made:
        made.set_schema(topic, SCHEMA)
        with pytest.raises(RowError) as raised:
            made.produce(topic, value={"m": 1})
    assert isinstance(raised.value.args[0], KafkaError)
    assert calls == [("produce", topic)]


@pytest.mark.parametrize(
    ("inner", "outer"),
    [(traced_by_wrapper, traced_by_super), (traced_by_super, traced_by_wrapper)],
)
def test_two_tracers_see_each_call_once(
    embedded: EmbeddedKafka,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    inner: Any,
    outer: Any,
) -> None:
    """Whichever has wrapped the other's class."""
    inside: Calls = []
    outside: Calls = []
    tracer = outer(inner(StockProducer, ["produce"], inside), ["produce"], outside)
    monkeypatch.setattr(confluent_kafka, "Producer", tracer)
    with producer(embedded) as made:
        made.set_schema(topic, SCHEMA)
        made.produce(topic, value={"n": 1})
    assert inside == [("produce", topic)]
    assert outside == [("produce", topic)]
