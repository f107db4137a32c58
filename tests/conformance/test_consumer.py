"""What every user of `confluent_kafka.Consumer` may rely on: making one, arguments, the end."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from consumers import NOWHERE, on_mock, outcome

make = on_mock()

LIST = (TypeError, "requires list of TopicPartition")
PLACE = (TypeError, "expected cimpl.TopicPartition")
NUMBER = (TypeError, "must be real number, not {}")
CLOSED = (RuntimeError, "Consumer closed")


# --- making one -----------------------------------------------------------------------------------


def test_it_is_a_confluent_consumer(make) -> None:
    assert isinstance(make(), confluent_kafka.Consumer)


def test_a_group_is_needed(make) -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        make.kind({**NOWHERE, **make.of.own})


@pytest.mark.parametrize("arguments", [(), (5,), ({}, {})], ids=["none", "int", "two"])
def test_a_configuration_is_one_dict(make, arguments: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make.kind(*arguments)


def test_the_configuration_may_be_keywords(make) -> None:
    config = {**NOWHERE, "group.id": "g", **make.of.own}
    make.kind(**config).close()


def test_an_unknown_key_is_an_invalid_argument(make) -> None:
    with pytest.raises(KafkaException) as raised:
        make(no__such__key=1)
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG


@pytest.mark.parametrize("key", ["enable.auto.commit", "auto.commit.interval.ms"])
def test_a_value_that_means_nothing_is_an_invalid_argument(make, key: str) -> None:
    with pytest.raises(KafkaException) as raised:
        make(**{key: "often"})
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG


def test_a_callback_must_be_callable(make) -> None:
    with pytest.raises((TypeError, ValueError, KafkaException)):
        make(on_commit=5)


def test_a_subclass_that_does_not_call_init_fails_as_stock(make) -> None:
    class Mine(make.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError):
        Mine().poll(0)


def test_a_subclass_may_override_and_call_what_it_overrides(make) -> None:
    class Mine(make.kind):  # type: ignore[misc, name-defined]
        def poll(self, timeout: float = -1) -> Any:
            return "mine", super().poll(timeout)

    assert make(cls=Mine).poll(0) == ("mine", None)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, "x", []], ids=repr)
@pytest.mark.parametrize("method", ["poll", "consume"])
def test_a_timeout_is_a_number(make, method: str, timeout: Any) -> None:
    call = getattr(make(), method)
    assert outcome(call, timeout=timeout) == (TypeError, NUMBER[1].format(type(timeout).__name__))


@pytest.mark.parametrize("timeout", [0, 0.0, False, 0.01])
def test_a_poll_takes_seconds_and_may_find_nothing(make, timeout: float) -> None:
    assert make().poll(timeout) is None


def test_a_poll_takes_one_argument(make) -> None:
    with pytest.raises(TypeError):
        make().poll(0, 1)


@pytest.mark.parametrize("count", [-1, 1_000_001])
def test_consume_has_limits(make, count: int) -> None:
    expected = (ValueError, "num_messages must be between 0 and 1000000 (1M)")
    assert outcome(make().consume, count, 0) == expected


@pytest.mark.parametrize("count", ["x", 1.5, None], ids=repr)
def test_how_many_to_consume_is_a_whole_number(make, count: Any) -> None:
    name = type(count).__name__
    expected = (TypeError, f"'{name}' object cannot be interpreted as an integer")
    assert outcome(make().consume, count, 0) == expected


@pytest.mark.parametrize("count", [0, 10])
def test_consume_may_find_nothing(make, count: int) -> None:
    assert make().consume(count, 0.01) == []


@pytest.mark.parametrize(
    "method",
    [
        "assign",
        "incremental_assign",
        "incremental_unassign",
        "pause",
        "resume",
        "position",
        "committed",
        "offsets_for_times",
    ],
)
def test_partitions_are_a_list_of_them(make, method: str) -> None:
    call = getattr(make(), method)
    assert outcome(call, 5) == LIST
    assert outcome(call, [5]) == PLACE


@pytest.mark.parametrize("method", ["seek", "get_watermark_offsets"])
def test_a_partition_is_one(make, method: str) -> None:
    assert outcome(getattr(make(), method), 5) == PLACE


@pytest.mark.parametrize("method", ["commit", "store_offsets"])
def test_offsets_are_a_list_of_partitions(make, method: str) -> None:
    call = getattr(make(enable__auto__offset__store=False), method)
    assert outcome(call, offsets=5) == LIST
    assert outcome(call, offsets=[5]) == PLACE


@pytest.mark.parametrize("method", ["commit", "store_offsets"])
def test_message_and_offsets_exclude_each_other(make, method: str) -> None:
    call = getattr(make(enable__auto__offset__store=False), method)
    expected = (ValueError, "message and offsets are mutually exclusive")
    assert outcome(call, make.message("t", 0), [TopicPartition("t", 0, 1)]) == expected


def test_something_must_be_stored(make) -> None:
    expected = (ValueError, "expected either message or offsets")
    assert outcome(make(enable__auto__offset__store=False).store_offsets) == expected


@pytest.mark.parametrize("method", ["commit", "store_offsets"])
def test_a_message_is_a_message(make, method: str) -> None:
    with pytest.raises(TypeError, match=r"^expected "):
        getattr(make(enable__auto__offset__store=False), method)(5)


@pytest.mark.parametrize(("method", "what"), [("commit", "commit"), ("store_offsets", "store")])
def test_an_error_event_has_nothing_to_commit(make, method: str, what: str) -> None:
    end = make.message("t", 0, error=KafkaError(KafkaError._PARTITION_EOF))
    call = getattr(make(enable__auto__offset__store=False), method)
    reason = f"Cannot {what} offsets for message with error: 'Broker: No more messages'"
    assert outcome(call, end) == ("_INVALID_ARG", reason)


@pytest.mark.parametrize("topics", ["t", None, 5, ("t",)], ids=repr)
def test_topics_are_a_list(make, topics: Any) -> None:
    assert outcome(make().subscribe, topics) == (
        TypeError,
        "expected list of topic unicode strings",
    )


@pytest.mark.parametrize("topics", [[], [""], ["^(("]], ids=repr)
def test_topics_are_names_or_patterns(make, topics: Any) -> None:
    reason = "Failed to set subscription: Local: Invalid argument or configuration"
    assert outcome(make().subscribe, topics) == ("_INVALID_ARG", reason)


@pytest.mark.parametrize("name", ["on_assign", "on_revoke", "on_lost"])
@pytest.mark.parametrize("callback", [None, 5], ids=repr)
def test_a_rebalance_callback_must_be_callable(make, name: str, callback: Any) -> None:
    expected = (TypeError, f"{name} expects a callable")
    assert outcome(make().subscribe, ["t"], **{name: callback}) == expected


@pytest.mark.parametrize("callbacks", [{}, {"on_assign": print}, {"on_lost": print}], ids=list)
def test_subscribe_takes_callbacks(make, callbacks: dict[str, Any]) -> None:
    assert make().subscribe(["t"], **callbacks) is None


def test_rebalance_callbacks_have_their_places(make) -> None:
    assert make().subscribe(["t"], print, print, print) is None


def test_an_unknown_keyword_is_a_type_error(make) -> None:
    with pytest.raises(TypeError):
        make().subscribe(["t"], on_everything=print)
    with pytest.raises(TypeError):
        make().commit(on_everything=print)


# --- the assignment -------------------------------------------------------------------------------


def test_nothing_is_assigned_at_first(make) -> None:
    assert make().assignment() == []


def test_an_assignment_says_where_it_began(make) -> None:
    topic, consumer = make.topic(6), make()
    consumer.assign([make.place(topic, 4)])
    [place] = consumer.assignment()
    assert (place.topic, place.partition, place.offset) == (topic, 0, make.at(topic, 4))
    assert make.take(consumer) == [4]
    assert [partition.offset for partition in consumer.assignment()] == [make.at(topic, 4)]


def test_an_assignment_without_an_offset_has_none(make) -> None:
    topic, consumer = make.topic(1), make()
    consumer.assign([make.place(topic)])
    [place] = consumer.assignment()
    assert place.offset < 0


def test_an_assignment_replaces_the_one_before(make) -> None:
    topic, consumer = make.topic(6), make()
    make.fill(topic, 6, partition=0)
    other = make.topic(2)
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer, 2) == [0, 1]
    consumer.assign([make.place(other, 1)])
    assert make.take(consumer) == [1]
    assert [partition.topic for partition in consumer.assignment()] == [other]
    assert make.nothing(consumer)


def test_the_same_assignment_again_starts_again(make) -> None:
    topic, consumer = make.topic(6), make()
    for _ in range(2):
        consumer.assign([make.place(topic, 1)])
        assert make.take(consumer, 3) == [1, 2, 3]


def test_a_partition_is_assigned_once(make) -> None:
    topic, consumer = make.topic(4), make()
    consumer.assign([make.place(topic, 1)])
    assert make.take(consumer) == [1]
    twice = [make.place(topic, 0), make.place(topic, 1)]
    reason = "Failed to set assignment: Local: Invalid argument or configuration"
    assert outcome(consumer.assign, twice) == ("_INVALID_ARG", reason)
    assert consumer.assignment() == []
    assert make.nothing(consumer)


def test_nothing_comes_after_unassign(make) -> None:
    topic, consumer = make.topic(6), make()
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer) == [0]
    consumer.unassign()
    assert consumer.assignment() == []
    assert make.nothing(consumer)


def test_partitions_are_added_one_by_one(make) -> None:
    first, second, consumer = make.topic(4), make.topic(4), make()
    consumer.incremental_assign([make.place(first, 1)])
    assert make.take(consumer, 2) == [1, 2]
    consumer.incremental_assign([make.place(second, 2)])
    assert sorted(make.take(consumer, 3)) == [2, 3, 3]
    assert {partition.topic for partition in consumer.assignment()} == {first, second}


def test_a_partition_is_added_once(make) -> None:
    topic, consumer = make.topic(4), make()
    consumer.incremental_assign([make.place(topic, 1)])
    assert make.take(consumer) == [1]
    reason = f"{topic} [0] is already part of the current assignment"
    assert outcome(consumer.incremental_assign, [make.place(topic, 0)]) == ("_CONFLICT", reason)
    assert make.take(consumer, 2) == [2, 3]


def test_partitions_are_taken_away_one_by_one(make) -> None:
    first, second, consumer = make.topic(4), make.topic(4), make()
    consumer.assign([make.place(first, 0), make.place(second, 3)])
    assert sorted(make.take(consumer, 5)) == [0, 1, 2, 3, 3]
    consumer.seek(make.place(first, 0))
    consumer.seek(make.place(second, 2))
    consumer.incremental_unassign([make.place(first)])
    assert make.take(consumer, 2) == [2, 3]
    assert [partition.topic for partition in consumer.assignment()] == [second]


def test_what_is_not_assigned_cannot_be_taken_away(make) -> None:
    topic, consumer = make.topic(4), make()
    consumer.assign([make.place(topic, 1)])
    assert make.take(consumer) == [1]
    reason = f"{topic} [7] can't be unassigned since it is not in the current assignment"
    call = consumer.incremental_unassign
    assert outcome(call, [TopicPartition(topic, 7)]) == ("_INVALID_ARG", reason)
    assert make.take(consumer, 2) == [2, 3]


def test_leaving_a_subscription_keeps_what_was_assigned_by_hand(make) -> None:
    topic, consumer = make.topic(6), make()
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer, 2) == [0, 1]
    consumer.unsubscribe()
    assert make.take(consumer, 2) == [2, 3]
    assert [partition.topic for partition in consumer.assignment()] == [topic]


# --- the cluster ----------------------------------------------------------------------------------


def test_topics_are_listed(make) -> None:
    topic = make.topic(1, partitions=3)
    assert len(make().list_topics(topic, 20).topics[topic].partitions) == 3


def test_the_cluster_has_an_id(make) -> None:
    assert make().cluster_id(20)


def test_outside_of_a_group_there_is_no_member(make) -> None:
    assert make().memberid() is None


def test_credentials_may_change(make) -> None:
    assert make().set_sasl_credentials("user", "password") is None


# --- messages -------------------------------------------------------------------------------------


def test_a_message_that_was_pickled_is_the_same(make) -> None:
    topic, consumer = make.topic(6, key=b"k", headers=[("h", b"1")]), make()
    consumer.assign([make.place(topic, 4)])
    [message] = consumer.consume(1, 20)
    again = pickle.loads(pickle.dumps(message))
    assert type(again) is type(message)
    assert again == message
    assert (again.offset(), again.value(), again.key()) == (
        make.at(topic, 4),
        message.value(),
        b"k",
    )


def test_a_message_is_as_long_as_its_value(make) -> None:
    topic, consumer = make.topic(1), make()
    consumer.assign([make.place(topic, 0)])
    [message] = consumer.consume(1, 20)
    is_json = "columnar.value.format" in make.of.own
    assert len(message) == len(message.value()) == (len('{"v":"MA=="}') if is_json else 1)
    assert bool(message) is True


def test_a_value_may_be_set(make) -> None:
    """As deserializers do."""
    topic, consumer = make.topic(1), make()
    consumer.assign([make.place(topic, 0)])
    [message] = consumer.consume(1, 20)
    message.set_value({"any": "thing", "else": 1})
    message.set_key("k")
    message.set_headers([("h", b"")])
    assert message.value() == {"any": "thing", "else": 1}
    assert (message.key(), message.headers(), len(message)) == ("k", [("h", b"")], 2)
    message.set_value(None)
    assert bool(message) is False


# --- the end --------------------------------------------------------------------------------------


def test_closing_twice_is_closing_once(make) -> None:
    consumer = make()
    assert consumer.close() is None
    assert consumer.close() is None


def test_it_is_a_context_manager(make) -> None:
    with make() as consumer:
        assert consumer.poll(0) is None
    assert outcome(consumer.poll, 0) == CLOSED


def test_what_is_raised_in_its_context_is_raised(make) -> None:
    with pytest.raises(LookupError), make() as consumer:
        raise LookupError
    assert outcome(consumer.poll, 0) == CLOSED


AFTER = {
    "poll": (0,),
    "consume": (0, 0),
    "subscribe": (["t"],),
    "unsubscribe": (),
    "assign": ([TopicPartition("t", 0, 1)],),
    "unassign": (),
    "incremental_assign": ([TopicPartition("t", 0, 1)],),
    "incremental_unassign": ([TopicPartition("t", 0, 1)],),
    "assignment": (),
    "seek": (TopicPartition("t", 0, 1),),
    "pause": ([TopicPartition("t", 0)],),
    "resume": ([TopicPartition("t", 0)],),
    "position": ([TopicPartition("t", 0)],),
    "committed": ([TopicPartition("t", 0)],),
    "commit": (),
    "store_offsets": (None, [TopicPartition("t", 0, 1)]),
    "get_watermark_offsets": (TopicPartition("t", 0),),
    "offsets_for_times": ([TopicPartition("t", 0, 1)],),
    "consumer_group_metadata": (),
    "memberid": (),
    "list_topics": (),
    "cluster_id": (),
}


@pytest.mark.parametrize("method", AFTER)
def test_a_closed_consumer_says_so(make, method: str) -> None:
    topic, consumer = make.topic(6), make()
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer) == [0]
    consumer.close()
    kind, reason = outcome(getattr(consumer, method), *AFTER[method])
    assert kind is RuntimeError
    assert reason in ("Consumer closed", "Handle has been closed")


def test_a_consumer_that_is_dropped_is_gone(make) -> None:
    """It is closed by nobody, and nothing waits."""

    class Mine(make.kind):  # type: ignore[misc, name-defined]
        """confluent-kafka's own class has no weak references."""

    topic, consumer = make.topic(6), make(cls=Mine)
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer) == [0]
    gone = weakref.ref(consumer)
    make.made.remove(consumer)
    del consumer
    gc.collect()
    assert gone() is None


def test_a_stock_message_is_made_and_committed_as_it_is(make) -> None:
    """Ours takes its own only: another one's offset would be no position."""
    topic, consumer = make.topic(3), make()
    stock = Message(topic=topic, partition=0, offset=1)
    if make.of.unwraps:
        with pytest.raises(TypeError, match=r"^expected a message of this consumer, not "):
            consumer.commit(stock)
    else:
        assert [partition.offset for partition in consumer.commit(stock, asynchronous=False)] == [2]
