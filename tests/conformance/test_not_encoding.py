"""Clients that neither encode nor unwrap: every call is confluent-kafka's own, unchanged.

A class in the place of confluent-kafka's notes what it is called with. So one row of a table stands
for all that the other tests here ask of a method.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from consumers import NOWHERE

import columnar_kafka
from columnar_kafka import ConfigError
from columnar_kafka.broker.traced_classes import StockConsumer, StockProducer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import EmbeddedKafka

PLACES = [TopicPartition("t", 0, 5)]
PLACE = TopicPartition("t", 1, 2)
MESSAGE = Message(topic="t", partition=0, offset=1)
ABSENT: Final[Any] = object()  # confluent-kafka refuses None where a callback is expected


class Call(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


class Method(NamedTuple):
    """A method as confluent-kafka documents it, and calls of it."""

    parameters: str
    calls: list[Call]
    returns: bool = True

    def arguments(self, given: Call) -> dict[str, Any]:
        """Return all arguments by name, the defaults among them."""
        signature = inspect.signature(eval(f"lambda {self.parameters}: None"))
        bound = signature.bind(*given.args, **given.kwargs)
        bound.apply_defaults()
        return bound.arguments


def on_places(*, returns: bool) -> Method:
    calls = [call(PLACES), call(partitions=PLACES)]
    return Method("partitions", calls, returns)


def nothing(*, returns: bool = True) -> Method:
    return Method("", [call()], returns)


def with_timeout(*, returns: bool = True) -> Method:
    return Method("timeout=-1", [call(), call(0.5), call(timeout=0.5)], returns)


LIST_TOPICS = Method(
    "topic=None, timeout=-1",
    [call(), call("t"), call("t", 5), call(topic="t", timeout=5)],
)
CREDENTIALS = Method(
    "username, password", [call("u", "p"), call(username="u", password="p")], False
)
CONSUMER: Final = {
    "poll": with_timeout(),
    "consume": Method(
        "num_messages=1, timeout=-1",
        [call(), call(7), call(7, 0.5), call(num_messages=7, timeout=0.5)],
    ),
    "subscribe": Method(
        "topics, on_assign=ABSENT, on_revoke=ABSENT, on_lost=ABSENT",
        [
            call(["t"]),
            call(["t"], print, len, max),
            call(topics=["t"], on_assign=print),
            call(["t"], on_revoke=print),
            call(["t"], on_lost=None),
        ],
        returns=False,
    ),
    "unsubscribe": nothing(returns=False),
    "assignment": nothing(),
    "assign": on_places(returns=False),
    "unassign": nothing(returns=False),
    "incremental_assign": on_places(returns=False),
    "incremental_unassign": on_places(returns=False),
    "pause": on_places(returns=False),
    "resume": on_places(returns=False),
    "seek": Method("partition", [call(PLACE), call(partition=PLACE)], returns=False),
    "position": on_places(returns=True),
    "committed": Method(
        "partitions, timeout=-1",
        [call(PLACES), call(PLACES, 5), call(partitions=PLACES, timeout=5)],
    ),
    "commit": Method(
        "message=None, offsets=None, asynchronous=True",
        [
            call(),
            call(MESSAGE),
            call(None, PLACES, False),
            call(MESSAGE, PLACES),
            call(offsets=PLACES),
            call(message=MESSAGE, asynchronous=False),
        ],
    ),
    "store_offsets": Method(
        "message=None, offsets=None",
        [call(), call(MESSAGE), call(None, PLACES), call(message=MESSAGE), call(offsets=PLACES)],
        returns=False,
    ),
    "get_watermark_offsets": Method(
        "partition, timeout=-1, cached=False",
        [
            call(PLACE),
            call(PLACE, 5, True),
            call(partition=PLACE, timeout=5),
            call(PLACE, cached=True),
        ],
    ),
    "offsets_for_times": Method(
        "partitions, timeout=-1",
        [call(PLACES), call(PLACES, 5), call(partitions=PLACES, timeout=5)],
    ),
    "consumer_group_metadata": nothing(),
    "list_topics": LIST_TOPICS,
    "cluster_id": with_timeout(),
    "memberid": nothing(),
    "set_sasl_credentials": CREDENTIALS,
    "close": nothing(returns=False),
}
PRODUCER: Final = {
    "produce": Method(
        "topic, value=None, key=None, partition=-1, callback=ABSENT, on_delivery=ABSENT, "
        "timestamp=0, headers=None",
        [
            call("t"),
            call("t", b"v", b"k", 3),
            call("t", {"no": "bytes"}, key="k"),
            call(topic="t", value="v", key=b"k", partition=3, timestamp=7, headers=[("h", b"")]),
            call("t", b"v", on_delivery=print),
        ],
        returns=False,
    ),
    "produce_batch": Method(
        "topic, messages, partition=-1, callback=ABSENT, on_delivery=ABSENT",
        [
            call("t", [{"value": b"v"}]),
            call("t", [{"value": b"v"}], 3),
            call(topic="t", messages=[{}], partition=3, on_delivery=print),
        ],
    ),
    "poll": with_timeout(),
    "flush": with_timeout(),
    "purge": Method(
        "in_queue=True, in_flight=True, blocking=True",
        [call(), call(False, False, False), call(in_queue=False), call(in_flight=False)],
        returns=False,
    ),
    "init_transactions": Method("timeout=-1, /", [call(), call(0.5)], returns=False),
    "begin_transaction": nothing(returns=False),
    "commit_transaction": Method("timeout=-1", [call(), call(0.5)], returns=False),
    "abort_transaction": Method("timeout=-1", [call(), call(0.5)], returns=False),
    "send_offsets_to_transaction": Method(
        "positions, group_metadata, timeout=-1",
        [call(PLACES, "group"), call(PLACES, "group", 5)],
        returns=False,
    ),
    "list_topics": LIST_TOPICS,
    "cluster_id": with_timeout(),
    "set_sasl_credentials": CREDENTIALS,
    "close": nothing(),
}
_RAW: Final = {"columnar.encoding": "parquet", "fetch.raw.bytes": True}
KINDS: Final[dict[str, tuple[Any, Any, dict[str, Method], dict[str, Any]]]] = {
    "producer": (columnar_kafka.Producer, StockProducer, PRODUCER, {}),
    "consumer, none": (columnar_kafka.Consumer, StockConsumer, CONSUMER, {}),
    "consumer, raw": (columnar_kafka.Consumer, StockConsumer, CONSUMER, _RAW),
}


class Recorded:
    """A client on a class that notes how confluent-kafka's methods are called."""

    def __init__(self, kind: str, *, overrides: bool) -> None:
        """Make one; with `overrides` it is a subclass whose methods call what they override."""
        ours, stock, self.methods, own = KINDS[kind]
        self.calls: list[tuple[str, Call]] = []
        self.answer: Any = object()
        self.error: Exception | None = None
        recorder = type("Recorder", (stock,), {name: self._noting(name) for name in self.methods})
        kept = {"__len__": lambda _: 7} if hasattr(stock, "__len__") else {}
        self.config: list[Call] = []
        self._stock = stock

        def init(client: Any, *args: Any, **kwargs: Any) -> None:
            self.config.append(Call(args, kwargs))
            stock.__init__(client, *args, **kwargs)

        base = type("Noted", (recorder,), {"__init__": init, **kept})
        self.cls: Any = type("Ours", (ours, base), {})
        if overrides:
            for name in self.methods:
                setattr(self.cls, name, _overriding(self.cls, name))
        self.group = {} if stock is StockProducer else {"group.id": "g"}
        self.client = self.cls({**NOWHERE, **self.group, **own})
        self.calls.clear()

    def _noting(self, name: str) -> Any:
        def note(_: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, Call(args, kwargs)))
            if self.error is not None:
                raise self.error
            return self.answer if self.methods[name].returns else None

        return note

    def end(self) -> None:
        self._stock.close(self.client)


def _overriding(cls: Any, name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(cls, self), name)(*args, **kwargs)

    return method


@pytest.fixture(params=["as it is", "overridden"])
def overrides(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "overridden")


@pytest.fixture(params=KINDS)
def recorded(request: pytest.FixtureRequest, overrides: bool) -> Iterator[Recorded]:
    made = Recorded(request.param, overrides=overrides)
    yield made
    made.end()


def test_every_public_method_is_in_the_table() -> None:
    for stock, methods in ((StockProducer, PRODUCER), (StockConsumer, CONSUMER)):
        assert {name for name in vars(stock) if not name.startswith("_")} == {*methods}


def test_a_method_passes_its_arguments_on_and_returns_the_result(recorded: Recorded) -> None:
    for name, method in recorded.methods.items():
        for given in method.calls:
            recorded.calls.clear()
            result = getattr(recorded.client, name)(*given.args, **given.kwargs)
            [(called, passed)] = recorded.calls
            assert called == name
            assert method.arguments(passed) == method.arguments(given), (name, given, passed)
            assert result is (recorded.answer if method.returns else None), name


def test_what_a_method_raises_is_raised(recorded: Recorded) -> None:
    for name, method in recorded.methods.items():
        recorded.error = KafkaException(KafkaError(KafkaError._FAIL))
        with pytest.raises(KafkaException) as raised:
            getattr(recorded.client, name)(*method.calls[0].args)
        assert raised.value is recorded.error, name


@pytest.mark.parametrize("overrides", [False], indirect=True)
def test_the_end_of_its_context_closes_it(recorded: Recorded) -> None:
    with recorded.client as entered:
        assert entered is recorded.client
        assert recorded.calls == []
    if recorded.group:  # the method in C does it without another call
        with pytest.raises(RuntimeError, match="Consumer closed"):
            StockConsumer.poll(recorded.client, 0)
    else:
        assert recorded.calls == [("close", call())]


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
@pytest.mark.parametrize("method", ["produce", "produce_batch"])
def test_a_report_has_two_names(method: str, name: str) -> None:
    recorded = Recorded("producer", overrides=True)
    getattr(recorded.client, method)("t", [], **{name: print})
    [(_, passed)] = recorded.calls
    assert passed.kwargs["on_delivery"] is print
    assert "callback" not in passed.kwargs
    recorded.end()


@pytest.mark.parametrize("given", [{"async": False}, {"asynchronous": 0}, {"asynchronous": None}])
@pytest.mark.parametrize("kind", ["consumer, none", "consumer, raw"])
def test_a_commit_is_synchronous_where_asked_for(kind: str, given: dict[str, Any]) -> None:
    recorded = Recorded(kind, overrides=False)
    recorded.client.commit(**given)
    recorded.client.commit(unknown=1)
    assert [passed.kwargs for _, passed in recorded.calls] == [
        {"asynchronous": False},
        {"asynchronous": True, "unknown": 1},
    ]
    recorded.end()


def test_a_producer_is_as_long_as_confluent_kafkas_and_always_true() -> None:
    recorded = Recorded("producer", overrides=False)
    assert (len(recorded.client), bool(recorded.client)) == (7, True)
    recorded.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_is_passed_on(kind: str) -> None:
    """As one dict, without the keys that are ours; it is not changed."""
    recorded = Recorded(kind, overrides=False)
    own = KINDS[kind][3]
    config = {**NOWHERE, **recorded.group, "statistics.interval.ms": 5, "on_delivery": print}
    if recorded.group:
        config["on_commit"] = config.pop("on_delivery")
        config["enable.auto.offset.store"] = False
    else:
        config["default.topic.config"] = {"acks": 1}
    given = {**config, **own}
    for arguments in (call(given), call(**given), call({**given, "log_level": 7}, log_level=0)):
        recorded.config.clear()
        client = recorded.cls(*arguments.args, **arguments.kwargs)
        assert recorded.config == [call(config)]
        StockProducer.close(client) if not recorded.group else StockConsumer.close(client)
    assert given == {**config, **own}
    recorded.end()


@pytest.mark.parametrize("kind", KINDS)
def test_what_confluent_kafka_says_of_a_configuration_is_raised(kind: str) -> None:
    recorded = Recorded(kind, overrides=False)
    with pytest.raises(KafkaException) as raised:
        recorded.cls({**NOWHERE, **recorded.group, **KINDS[kind][3], "no.such.key": 1})
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG
    recorded.end()


@pytest.mark.parametrize("kind", ["consumer, none", "consumer, raw"])
@pytest.mark.parametrize("method", ["poll_segment", "lag", "arrow_reader", "consume_arrow"])
def test_what_only_ours_can_needs_segments_unwrapped(kind: str, method: str) -> None:
    recorded = Recorded(kind, overrides=False)
    needed = rf"{method} needs columnar\.encoding=parquet, without raw bytes"
    with pytest.raises(ConfigError, match=needed):
        getattr(recorded.client, method)(*([5] if method == "consume_arrow" else []))
    recorded.end()


def test_messages_go_through_and_are_committed(embedded: EmbeddedKafka) -> None:
    topic = "not-encoding"
    embedded.create_topic(topic, 1)
    servers = {"bootstrap.servers": embedded.bootstrap_servers, "log_level": 0}
    reports: list[Any] = []
    with columnar_kafka.Producer(servers) as producer:
        for n in range(3):
            producer.produce(
                topic, b"%d" % n, on_delivery=lambda _, message: reports.append(message.offset())
            )
        assert producer.flush(20) == 0
    assert reports == [0, 1, 2]
    for n, own in enumerate(({}, _RAW)):
        group = {"group.id": f"{topic}-{n}", "auto.offset.reset": "earliest"}
        with columnar_kafka.Consumer({**servers, **group, **own}) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            messages = consumer.consume(3, 20)
            assert [(type(m), m.value(), m.offset()) for m in messages] == [
                (Message, b"%d" % n, n) for n in range(3)
            ]
            [done] = consumer.commit(messages[1], asynchronous=False)
            assert done.offset == 2
