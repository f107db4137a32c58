"""A consumer's settings: parsed once, wrong values named, everything else handed on untouched."""

from __future__ import annotations

from typing import Any

import pytest
from support import setting_error

from columnar_kafka.config import DecodeLimits
from columnar_kafka.consuming.settings import ClientSettings, ConsumerConfig


def test_the_consumers_defaults_are_stock() -> None:
    parsed, rest = ConsumerConfig.parse({})
    assert parsed == ConsumerConfig(
        encoding="none",
        raw=False,
        isolated=False,
        limits=DecodeLimits(),
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


@pytest.mark.parametrize("value", [300_000, "300000", "0x493e0", 300_000.0, " 300000ms"])
def test_an_interval_is_read_as_librdkafka_reads_it(value: Any) -> None:
    assert ClientSettings.parse({"max.poll.interval.ms": value}).max_poll_interval == 300.0
