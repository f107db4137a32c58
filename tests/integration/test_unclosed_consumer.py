"""A process ends, and a consumer goes, that nobody has closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from unclosed import Case, failures_of, with_segments

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

# The others are in tests/faults.
CASES: Final = [
    Case("cooperative", "parquet", "granted", "module"),
    Case("cooperative", "parquet", "granted", "nobody"),
    Case("cooperative", "none", "granted", "cycle"),
    Case("consumer", "parquet", "granted", "module"),
    Case("consumer", "none", "granted", "nobody"),
    Case("consumer", "parquet", "exceeded", "raised"),
    Case("cooperative", "isolated", "read", "module"),
]


def test_a_process_ends_whatever_its_group_has_granted_to_a_consumer_that_is_not_closed(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    """librdkafka waits for ever for what a cooperative group grants to be taken up."""
    name = with_segments(kafka, topic(partitions=2))
    assert failures_of(kafka.bootstrap_servers, name, CASES, seconds=240) == []
