"""What several callbacks raise in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence


def consumer_that_raises(errors: Sequence[BaseException]) -> Any:
    """A consumer in whose next poll so many callbacks run, each of which raises one of these."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    kafka.append("t", 0, b"record")
    left = iter(errors)

    def fail(*_: Any) -> None:
        raise next(left)

    config = {"group.id": "g", "columnar.encoding": "parquet", "enable.auto.commit": False}
    consumer = kafka.Consumer({**config, "on_commit": fail})
    consumer.assign([TopicPartition("t", 0, 0)])
    for _ in errors:
        consumer.commit(offsets=[TopicPartition("t", 0, 0)])
    return consumer


def test_the_last_is_raised_and_has_the_others_as_its_context() -> None:
    errors = [LookupError(n) for n in range(3)]
    consumer = consumer_that_raises(errors)
    with pytest.raises(LookupError) as raised:
        consumer.poll(1)
    assert raised.value is errors[2]
    assert errors[2].__context__ is errors[1]
    assert errors[1].__context__ is errors[0]
    assert consumer.poll(1).value() == b"record"
    consumer.close()


def test_what_an_exception_was_raised_in_stays_its_context() -> None:
    first, last, cause = LookupError(1), LookupError(2), KeyError("cause")
    last.__context__ = cause
    with pytest.raises(LookupError) as raised:
        consumer_that_raises([first, last]).poll(1)
    assert raised.value is last
    assert last.__context__ is cause
    assert cause.__context__ is first


def test_one_that_ends_the_program_is_raised_before_others() -> None:
    with pytest.raises(KeyboardInterrupt):
        consumer_that_raises([KeyboardInterrupt(), LookupError()]).poll(1)


def test_the_same_exception_may_be_raised_again_and_again() -> None:
    same, other = LookupError("same"), LookupError("other")
    with pytest.raises(LookupError) as raised:
        consumer_that_raises([same, other, same, same]).poll(1)
    assert raised.value is same
