"""A consumer's settings: parsed once, wrong values named, everything else handed on untouched."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from support import setting_error

from columnar_kafka.config import ReadOptions, c_integer
from columnar_kafka.consuming.settings import ClientSettings, ConsumerConfig
from columnar_kafka.errors import ConfigError


def test_the_consumers_defaults_are_stock() -> None:
    parsed, rest = ConsumerConfig.parse({})
    assert parsed == ConsumerConfig(
        encoding="none",
        raw=False,
        isolated=False,
        value_format="rows",
        read_options=ReadOptions(),
        auto_commit=True,
        auto_commit_interval=5.0,
        auto_store=True,
        on_commit=None,
    )
    assert (parsed.unwraps, rest) == (False, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("columnar.encoding", "avro"),
        ("columnar.value.format", "xml"),
        ("fetch.raw.bytes", "yes"),
        ("enable.auto.commit", 2),
        ("auto.commit.interval.ms", -1),
        ("enable.auto.offset.store", ""),
    ],
)
def test_a_consumers_wrong_value_is_named(key: str, value: Any) -> None:
    assert setting_error(ConsumerConfig, key, value).reason.startswith(f"{key}={value!r}: must be ")


@pytest.mark.parametrize("raw", [True, "true", "True", 1, "1"])
def test_raw_bytes_leave_segments_as_they_are(raw: Any) -> None:
    parsed, rest = ConsumerConfig.parse({"columnar.encoding": "parquet", "fetch.raw.bytes": raw})
    assert (parsed.raw, parsed.unwraps, rest) == (True, False, {})


def test_librdkafka_stores_and_commits_no_offsets_if_segments_are_unwrapped() -> None:
    config = {"columnar.encoding": "parquet", "enable.auto.commit": True}
    parsed, rest = ConsumerConfig.parse(config)
    assert (parsed.unwraps, parsed.auto_commit, parsed.auto_store) == (True, True, True)
    off = {"enable.auto.commit": False, "enable.auto.offset.store": False}
    assert rest == {**off, "fetch.queue.backoff.ms": 50}
    _, rest = ConsumerConfig.parse({**config, "fetch.queue.backoff.ms": 1000})
    assert rest == {**off, "fetch.queue.backoff.ms": 1000}


@pytest.mark.parametrize(
    "value", [300_000, "300000", "0x493e0", "0X493E0", "01111740", 300_000.0, "\v+300000ms"]
)
def test_an_interval_is_read_as_librdkafka_reads_it(value: Any) -> None:
    assert ClientSettings.parse({"max.poll.interval.ms": value}).max_poll_interval == 300.0
    parsed, _ = ConsumerConfig.parse({"auto.commit.interval.ms": value})
    assert (parsed.auto_commit_interval, parsed.deferred_error) == (300.0, None)
    confluent_kafka.Consumer({"group.id": "g", "auto.commit.interval.ms": value})  # takes it too


@pytest.mark.parametrize("value", ["", "ms", "-1", "\u0665", True, None, "86400001"])
def test_no_other_interval_is(value: Any) -> None:
    with pytest.raises(ConfigError):
        c_integer(0, 86_400_000)("auto.commit.interval.ms", value)


@pytest.mark.parametrize(
    ("value", "is_on"), [(True, True), ("T", True), ("f", False), ("0", False)]
)
def test_a_boolean_is_read_as_librdkafka_reads_it(value: Any, *, is_on: bool) -> None:
    assert ClientSettings.parse({"enable.partition.eof": value}).partition_eof is is_on
    confluent_kafka.Consumer({"group.id": "g", "enable.partition.eof": value})
