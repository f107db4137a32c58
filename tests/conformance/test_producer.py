"""How a producer is made, configured, subclassed and ended: as confluent-kafka's, each kind."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata, TopicMetadata
from producers import UNREACHABLE, failure
from support import eventually


def outside(key: str, value: int, allowed: str) -> str:
    return f'Configuration property "{key}" value {value} is outside allowed range {allowed}\n'


# --- construction -------------------------------------------------------------------------------


def test_it_is_a_confluent_producer(make_producer) -> None:
    assert isinstance(make_producer(), confluent_kafka.Producer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected configuration dict"),
        (("bootstrap.servers=localhost",), "expected configuration dict"),
        ((None,), "expected configuration dict"),
        (([],), "expected configuration dict"),
        (({}, {}), "expected tuple containing single dict"),
    ],
    ids=["none", "str", "None", "list", "two"],
)
def test_a_configuration_is_one_dict(make_producer, arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        make_producer.kind(*arguments)


def test_keyword_arguments_are_configuration(make_producer) -> None:
    producer = make_producer.kind(**UNREACHABLE)
    assert producer.close() is True


def test_keyword_arguments_are_added_to_the_dict(make_producer) -> None:
    producer = make_producer.kind({"log_level": 0}, **{"bootstrap.servers": make_producer.servers})
    assert producer.list_topics(timeout=60).brokers
    producer.close()


def test_keyword_arguments_win_over_the_dict(make_producer) -> None:
    producer = make_producer.kind(UNREACHABLE, **{"bootstrap.servers": make_producer.servers})
    assert producer.list_topics(timeout=60).brokers
    producer.close()


def test_the_given_dict_is_not_changed(make_producer) -> None:
    config = {
        "bootstrap.servers": make_producer.servers,
        "on_delivery": print,
        "default.topic.config": {"acks": 1},
    }
    if make_producer.of.encoding:
        config["columnar.encoding"] = "parquet"
    before = copy.deepcopy(config)
    make_producer.kind(config).close()
    assert config == before


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("no.such.key", 1, 'No such configuration property: "no.such.key"'),
        ("acks", "abc", 'Invalid value for configuration property "request.required.acks"'),
        (
            "acks",
            5000,
            outside("request.required.acks", 5000, "-1..1000"),
        ),
        ("linger.ms", "x", 'Invalid value for configuration property "queue.buffering.max.ms"'),
        (
            "linger.ms",
            -1,
            outside("queue.buffering.max.ms", -1, "0..900000"),
        ),
        (
            "message.timeout.ms",
            -5,
            outside("message.timeout.ms", -5, "0..2147483647"),
        ),
        (
            "message.max.bytes",
            10,
            outside("message.max.bytes", 10, "1000..1000000000"),
        ),
        (
            "queue.buffering.max.messages",
            -1,
            outside("queue.buffering.max.messages", -1, "0..2147483647"),
        ),
        (
            "partitioner",
            "murmur",
            'Invalid value for configuration property "partitioner": murmur',
        ),
        ("default.topic.config", {"x": 1}, 'No such configuration property: "x"'),
        ("on_delivery", 5, "on_delivery requires a callable object"),
        ("on_delivery", None, "on_delivery requires a callable object"),
        (
            "dr_msg_cb",
            print,
            'Property "dr_msg_cb" must be set through dedicated .._set_..() function',
        ),
        (
            "partitioner_cb",
            print,
            'Property "partitioner_cb" must be set through dedicated .._set_..() function',
        ),
    ],
)
def test_a_wrong_setting_is_an_invalid_argument(
    make_producer, key: str, value: Any, message: str
) -> None:
    error = failure(make_producer, **{key: value})
    assert (error.code(), error.str()) == (KafkaError._INVALID_ARG, message)


@pytest.mark.parametrize(
    ("key", "error"),
    [("error_cb", TypeError), ("stats_cb", TypeError), ("throttle_cb", ValueError)],
)
@pytest.mark.parametrize("value", [5, None])
def test_a_callback_that_is_none_is_an_error(
    make_producer, key: str, error: type[Exception], value: Any
) -> None:
    with pytest.raises(error, match=f"^expected {key} property as a callable function$"):
        make_producer(**{key: value})


@pytest.mark.parametrize("key", ["on_delivery", "error_cb", "stats_cb", "throttle_cb"])
def test_a_callback_is_accepted(make_producer, key: str) -> None:
    assert make_producer(**{key: lambda *_: None}).flush(20) == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("acks", "all"),
        ("acks", -1),
        ("request.required.acks", "1"),
        ("linger.ms", 1.5),
        ("retries", 0),
        ("message.send.max.retries", 0),
        ("delivery.timeout.ms", 60_000),
        ("compression.type", "none"),
        ("compression.codec", "zstd"),
        ("enable.idempotence", True),
        ("enable.idempotence", "true"),
        ("queue.buffering.max.messages", 0),
        ("queue.buffering.max.kbytes", "1024"),
        ("transactional.id", ""),
        ("transactional.id", None),
        ("client.id", None),
        ("client.id", 5),
        ("group.id", "ignored"),
        ("logger", None),
        ("delivery.report.only.error", False),
        ("default.topic.config", {"acks": 1}),
        ("partitioner", "murmur2"),
        ("partitioner", "murmur2_random"),
    ],
)
def test_a_setting_is_accepted(make_producer, key: str, value: Any) -> None:
    seen: list[Any] = []
    producer = make_producer(**{key: value})
    producer.produce("t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(20) == 0
    assert seen == [None]


def test_a_second_init_is_an_error(make_producer) -> None:
    producer = make_producer()
    with pytest.raises(RuntimeError, match=r"^Producer already __init__:ialized$"):
        producer.__init__({"bootstrap.servers": make_producer.servers})
    producer.produce("t", make_producer.value(b"x"))
    assert producer.flush(20) == 0


# --- callbacks of the client --------------------------------------------------------------------


def test_error_cb_is_told_that_no_broker_is_there(make_producer) -> None:
    errors: list[Any] = []
    producer = make_producer(**UNREACHABLE, error_cb=errors.append)
    eventually(lambda: producer.poll(0.1) and len(errors) > 1)
    assert {type(error) for error in errors} == {KafkaError}
    assert {error.code() for error in errors} == {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }


@pytest.mark.parametrize(
    ("raised", "method", "timeout"),
    [
        (ValueError, "poll", 20),
        (RuntimeError, "poll", 20),
        (KafkaException, "poll", 20),
        (ValueError, "flush", 1),
    ],
)
def test_an_exception_of_error_cb_passes_through(
    make_producer, raised: type[Exception], method: str, timeout: float
) -> None:
    failing = [raised("from error_cb")]

    def fail(_: Any) -> None:
        if failing:
            raise failing.pop()

    producer = make_producer(**UNREACHABLE, error_cb=fail)
    producer.produce("t", make_producer.value(b"x"))
    with pytest.raises(raised, match="from error_cb"):
        getattr(producer, method)(timeout)


def test_stats_cb_gets_json(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer(stats_cb=seen.append, **{"statistics.interval.ms": 20})
    eventually(lambda: producer.poll(0.1) and seen)
    assert json.loads(seen[0])["type"] == "producer"


def test_an_exception_of_stats_cb_passes_through(make_producer) -> None:
    failing = [ZeroDivisionError()]

    def fail(_: str) -> None:
        if failing:
            raise failing.pop()

    producer = make_producer(stats_cb=fail, **{"statistics.interval.ms": 20})
    with pytest.raises(ZeroDivisionError):
        producer.poll(20)


def _logger() -> tuple[logging.Logger, list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []
    logger = logging.getLogger("conformance")
    logger.propagate = False
    logger.handlers.clear()
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    return logger, records


@pytest.mark.parametrize("how", ["setting", "argument"])
def test_a_logger_gets_librdkafkas_log(make_producer, how: str) -> None:
    logger, records = _logger()
    config = {"bootstrap.servers": "127.0.0.1:1"}
    if make_producer.of.encoding:
        config["columnar.encoding"] = "parquet"
    if how == "setting":
        producer = make_producer.kind({**config, "logger": logger})
    else:
        producer = make_producer.kind(config, logger=logger)
    eventually(lambda: producer.poll(0.1) is not None and records)
    assert "Connection refused" in records[0].getMessage()
    producer.close()


# --- what else the object is --------------------------------------------------------------------


def test_an_empty_producer_is_true_and_has_no_length(make_producer) -> None:
    producer = make_producer()
    assert (len(producer), bool(producer)) == (0, True)


def test_a_producer_is_equal_to_itself_only(make_producer) -> None:
    one, other = make_producer(), make_producer()
    assert one == one  # noqa: PLR0124 - the behaviour
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_producer_cannot_be_copied(make_producer, how: Any) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        how(make_producer())


def test_a_producer_is_no_iterable(make_producer) -> None:
    with pytest.raises(TypeError, match="object is not iterable"):
        iter(make_producer())


# --- subclasses ---------------------------------------------------------------------------------


def test_a_subclass_has_attributes_and_methods_of_its_own(make_producer) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def __init__(self, topic: str, config: dict[str, Any]) -> None:
            super().__init__(config)
            self.topic = topic

        def produce_hi(self, value: Any) -> None:
            self.produce(self.topic, value, on_delivery=lambda e, m: seen.append((e, m.topic())))

    seen: list[Any] = []
    producer = make_producer("t", cls=Mine)
    producer.produce_hi(make_producer.value(b"hi"))
    assert producer.flush(20) == 0
    assert (seen, producer.topic) == ([(None, "t")], "t")


def test_a_subclass_may_override_produce_poll_and_flush(make_producer) -> None:
    calls: list[str] = []

    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def produce(self, *args: Any, **more: Any) -> None:
            calls.append("produce")
            super().produce(*args, **more)

        def poll(self, *args: Any) -> Any:
            calls.append("poll")
            return super().poll(*args)

        def flush(self, *args: Any) -> Any:
            calls.append("flush")
            return super().flush(*args)

    producer = make_producer(cls=Mine)
    producer.produce("t", make_producer.value(b"x"))
    eventually(lambda: producer.poll(0.1))
    assert producer.flush(20) == 0
    assert (calls[0], set(calls[1:-1]), calls[-1]) == ("produce", {"poll"}, "flush")


def test_a_subclass_with_a_wrong_configuration_fails_as_its_base(make_producer) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        pass

    assert failure(Mine, {"should.fail": False}).code() == KafkaError._INVALID_ARG


PRODUCER, HANDLE = "^Producer has been closed$", "^Handle has been closed$"
CLOSED = [
    ("produce", ("t", b"x"), PRODUCER),
    ("produce_batch", ("t", [{"value": b"x"}]), PRODUCER),
    ("poll", (0,), PRODUCER),
    ("flush", (0,), PRODUCER),
    ("purge", (), PRODUCER),
    ("init_transactions", (1,), PRODUCER),
    ("begin_transaction", (), PRODUCER),
    ("commit_transaction", (1,), PRODUCER),
    ("abort_transaction", (1,), PRODUCER),
    ("send_offsets_to_transaction", ([], b""), PRODUCER),
    ("list_topics", ("t", 1), HANDLE),
    ("cluster_id", (1,), HANDLE),
    ("set_sasl_credentials", ("u", "p"), HANDLE),
]


@pytest.mark.parametrize(("method", "arguments", "message"), CLOSED, ids=[c[0] for c in CLOSED])
def test_without_super_init_a_subclass_is_as_closed(
    make_producer, method: str, arguments: Any, message: str
) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError, match=message):
        getattr(Mine(), method)(*arguments)


def test_without_super_init_a_subclass_can_be_left_and_closed(make_producer) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    mine = Mine()
    assert (len(mine), bool(mine)) == (0, True)
    with mine as entered:
        assert entered is mine
    assert mine.close() is True


# --- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "arguments", "message"), CLOSED, ids=[c[0] for c in CLOSED])
def test_a_closed_producer_says_so(
    make_producer, method: str, arguments: Any, message: str
) -> None:
    producer = make_producer()
    producer.close()
    with pytest.raises(RuntimeError, match=message):
        getattr(producer, method)(*arguments)


def test_a_closed_producer_takes_no_record(make_producer) -> None:
    producer = make_producer()
    producer.close()
    with pytest.raises(RuntimeError, match=PRODUCER):
        producer.produce("t", make_producer.value(b"x"))


def test_close_may_be_repeated(make_producer) -> None:
    producer = make_producer()
    assert (producer.close(), producer.close()) == (True, True)
    assert (len(producer), bool(producer)) == (0, True)


def test_a_closed_producer_may_be_entered_and_left(make_producer) -> None:
    producer = make_producer()
    producer.close()
    with producer as entered:
        assert entered is producer


def test_close_delivers_and_reports_what_is_outstanding(make_producer) -> None:
    seen: list[Any] = []
    topic = make_producer.topic()
    producer = make_producer()
    for n in range(3):
        producer.produce(
            topic, make_producer.value(b"%d" % n), on_delivery=lambda e, _: seen.append(e)
        )
    assert producer.close() is True
    assert seen == [None] * 3
    received = [make_producer.read(m.value()) for m in make_producer.received(topic, 3)]
    assert received == [b"0", b"1", b"2"]


def test_leaving_the_context_delivers_and_closes(make_producer) -> None:
    seen: list[Any] = []
    with make_producer() as producer:
        assert isinstance(producer, make_producer.kind)
        producer.produce("t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    assert seen == [None]
    with pytest.raises(RuntimeError, match=PRODUCER):
        producer.poll(0)


def test_leaving_the_context_by_an_exception_closes_and_raises_it(make_producer) -> None:
    seen: list[Any] = []

    def work(producer: Any) -> None:
        with producer:
            value = make_producer.value(b"x")
            producer.produce("t", value, on_delivery=lambda e, _: seen.append(e))
            raise ZeroDivisionError

    producer = make_producer()
    with pytest.raises(ZeroDivisionError):
        work(producer)
    assert seen == [None]
    with pytest.raises(RuntimeError, match=PRODUCER):
        producer.poll(0)


def test_reports_outlive_the_producer(make_producer) -> None:
    seen: list[Any] = []
    with make_producer() as producer:
        producer.produce(
            "t", make_producer.value(b"x"), b"k", 0, on_delivery=lambda _, m: seen.append(m)
        )
    make_producer.made.clear()
    del producer
    [message] = seen
    assert (message.topic(), message.partition(), message.key()) == ("t", 0, b"k")
    assert make_producer.read(message.value()) == b"x"


# --- metadata -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), ((None, 10), {}), (("t", 10), {}), ((), {"topic": "t", "timeout": 10})],
    ids=["none", "None", "positions", "names"],
)
def test_list_topics_returns_metadata(make_producer, arguments: Any, keywords: Any) -> None:
    producer = make_producer()
    producer.list_topics("t", 10)  # creates it
    metadata = producer.list_topics(*arguments, **keywords)
    assert isinstance(metadata, ClusterMetadata)
    assert isinstance(metadata.topics["t"], TopicMetadata)
    assert sorted(metadata.topics["t"].partitions) == [0, 1, 2, 3]
    if "t" in (*arguments, *keywords.values()):
        assert list(metadata.topics) == ["t"]


def test_list_topics_without_a_broker_times_out(make_producer) -> None:
    error = failure(make_producer(**UNREACHABLE).list_topics, timeout=0.05)
    assert error.code() in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((5,), {}, "argument 1 must be str or None, not int"),
        (("t", "x"), {}, "must be real number, not str"),
        # In Python's words, which 3.13 has changed.
        ((), {"x": 1}, "'x' is an invalid keyword argument.*|.* unexpected keyword argument 'x'"),
    ],
    ids=str,
)
def test_list_topics_refuses_wrong_arguments(
    make_producer, arguments: Any, keywords: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        make_producer().list_topics(*arguments, **keywords)


def test_the_cluster_tells_its_id(make_producer) -> None:
    producer = make_producer()
    assert producer.cluster_id(60) == producer.cluster_id(timeout=60) != ""


@pytest.mark.parametrize("arguments", [("u", "p"), {"username": "u", "password": "p"}], ids=str)
def test_sasl_credentials_may_be_set(make_producer, arguments: Any) -> None:
    set_credentials = make_producer().set_sasl_credentials
    if isinstance(arguments, dict):
        assert set_credentials(**arguments) is None
    else:
        assert set_credentials(*arguments) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("u",), r"function missing required argument 'password' \(pos 2\)"),
        (("u", None), "argument 2 must be str, not None"),
        ((5, "p"), "argument 1 must be str, not int"),
    ],
    ids=str,
)
def test_sasl_credentials_are_two_texts(make_producer, arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        make_producer().set_sasl_credentials(*arguments)
