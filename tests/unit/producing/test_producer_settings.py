"""A producer's settings: parsed once, wrong values named, everything else handed on untouched."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from support import setting_error

from columnar_kafka import Producer
from columnar_kafka.errors import ConfigError
from columnar_kafka.producing.settings import ProducerConfig

ZSTD = {"compression.type": "zstd", "compression.level": 1}


def producer(**config: Any) -> ProducerConfig:
    return ProducerConfig.parse({key.replace("__", "."): value for key, value in config.items()})[0]


def librdkafkas(config: dict[str, Any]) -> dict[str, Any]:
    """What librdkafka gets, but for its compression."""
    rest = ProducerConfig.parse({"compression.type": "none", **config})[1]
    return {key: value for key, value in rest.items() if key != "compression.type"}


# --- defaults -------------------------------------------------------------------------------------


def test_the_producers_defaults() -> None:
    assert ProducerConfig.parse({}) == (
        ProducerConfig(
            encoding="none",
            compression="zstd",
            messages_are_compressed=False,
            segment_bytes=900_000,
            segment_rows=100_000,
            linger=0.995,
            metadata=("id", "key", "timestamp", "headers"),
            infers=False,
            max_columns=200,
            schemas={},
            value_format="rows",
            value_fields="lenient",
            value_misfit="plain",
            rest_column="_rest",
            partitioner="consistent_random",
            message_timeout=300.0,
            message_max_bytes=1_000_000,
            batch_bytes=1_000_000,
            queue_bytes=1 << 30,
            queue_records=None,
            metadata_refresh=300.0,
            metadata_propagation=30.0,
            transactional=False,
            on_delivery=None,
            errors_only=False,
        ),
        {},
    )


# --- own keys -------------------------------------------------------------------------------------


def test_our_own_keys_are_removed_and_all_others_stay() -> None:
    config = {
        "bootstrap.servers": "b:1",
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 7,
        "linger.ms": 3,
        "x.unknown": object(),
    }
    rest = ProducerConfig.parse(config)[1]
    own = {"columnar.encoding", "columnar.segment.rows"}
    assert rest == ZSTD | {key: value for key, value in config.items() if key not in own}


def test_the_users_own_dict_is_not_changed() -> None:
    config = {"columnar.encoding": "parquet", "linger.ms": 3}
    ProducerConfig.parse(config)
    assert config == {"columnar.encoding": "parquet", "linger.ms": 3}


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("columnar.encoding", "orc", "must be one of none, parquet"),
        ("columnar.encoding", None, "must be one of none, parquet"),
        ("columnar.encoding.compression", "brotli", "must be one of none, gzip, snappy, lz4, zstd"),
        ("columnar.segment.bytes", 999, "must be a whole number from 1000 to 1000000000"),
        ("columnar.segment.bytes", 1_000_000_001, "must be a whole number from 1000 to 1000000000"),
        ("columnar.segment.rows", 0, "must be a whole number from 1 to 1048576"),
        ("columnar.segment.rows", 1_048_577, "must be a whole number from 1 to 1048576"),
        ("columnar.segment.rows", 1.5, "must be a whole number from 1 to 1048576"),
        ("columnar.segment.rows", True, "must be a whole number from 1 to 1048576"),
        ("columnar.linger.ms", -1, "must be a number from 0 to 900000"),
        ("columnar.linger.ms", "soon", "must be a number from 0 to 900000"),
        ("columnar.linger.ms", "nan", "must be a number from 0 to 900000"),
        ("columnar.linger.ms", False, "must be a number from 0 to 900000"),
        ("columnar.metadata", "", "must be none, or some of id,key,timestamp,headers, each once"),
        ("columnar.metadata", "key,key", "must be none, or some of id,key,timestamp,headers,"),
        ("columnar.metadata", "offset", "must be none, or some of id,key,timestamp,headers,"),
        ("columnar.metadata", "none,key", "must be none, or some of id,key,timestamp,headers,"),
        ("columnar.metadata", ["key"], "must be none, or some of id,key,timestamp,headers,"),
        ("partitioner", "murmur3", "must be one of consistent, consistent_random, fnv1a, "),
        ("message.timeout.ms", -1, "must be a whole number from 0 to 2147483647"),
        ("message.max.bytes", 999, "must be a whole number from 1000 to 1000000000"),
        ("queue.buffering.max.kbytes", 0, "must be a whole number from 1 to 2147483647"),
        ("queue.buffering.max.messages", -1, "must be a whole number from 0 to 2147483647"),
        ("topic.metadata.refresh.interval.ms", -2, "must be a whole number from -1 to 3600000"),
        ("linger.ms", 900_001, "must be a number from 0 to 900000"),
    ],
)
def test_a_producers_wrong_value_is_named_with_what_is_allowed(
    key: str, value: Any, allowed: str
) -> None:
    error = setting_error(ProducerConfig, key, value)
    assert error.reason.startswith(f"{key}={value!r}: {allowed}")
    assert error.kafka_error.code() == KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("none", ()),
        (" headers , id", ("id", "headers")),
        ("key", ("key",)),
        ("id,key,timestamp,headers", ("id", "key", "timestamp", "headers")),
    ],
)
def test_metadata_members_keep_one_order(value: str, expected: tuple[str, ...]) -> None:
    assert producer(columnar__metadata=value).metadata == expected


def test_numbers_may_be_given_as_text() -> None:
    parsed = producer(columnar__segment__rows="12", columnar__linger__ms="7.5", linger__ms="0.5")
    assert (parsed.segment_rows, parsed.linger) == (12, 0.007)


@pytest.mark.parametrize("rows", [1, 1_048_576])
def test_the_ends_of_a_range_are_allowed(rows: int) -> None:
    assert producer(columnar__segment__rows=rows).segment_rows == rows


# --- librdkafka's keys ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["linger.ms", "queue.buffering.max.ms"])
def test_librdkafkas_linger_does_not_add_to_ours(key: str) -> None:
    parsed, rest = ProducerConfig.parse({"columnar.linger.ms": 100, key: 40})
    assert parsed.linger == 0.06
    assert rest == {key: 40}


@pytest.mark.parametrize(
    ("ours", "expected", "inner"),
    [(0, 0.0, {"linger.ms": 0.0}), (5, 0.0045, {"linger.ms": 0.5}), (50, 0.045, {})],
)
def test_librdkafkas_linger_is_a_tenth_of_a_short_one_of_ours(
    ours: float, expected: float, inner: dict[str, float]
) -> None:
    config = {"columnar.encoding": "parquet", "columnar.linger.ms": ours}
    assert (ProducerConfig.parse(config)[0].linger, librdkafkas(config)) == (expected, inner)
    set_by_user = {"queue.buffering.max.ms": 3}
    assert librdkafkas(config | set_by_user) == set_by_user


def test_a_long_linger_of_librdkafkas_leaves_half_of_ours_for_segments_to_fill() -> None:
    assert producer(columnar__linger__ms=100, linger__ms=200).linger == 0.05


@pytest.mark.parametrize("key", ["message.timeout.ms", "delivery.timeout.ms"])
def test_the_message_timeout_has_two_names(key: str) -> None:
    assert ProducerConfig.parse({key: 1500})[0].message_timeout == 1.5


def test_a_message_timeout_of_0_is_infinite_as_in_librdkafka() -> None:
    assert producer(message__timeout__ms=0).message_timeout == float("inf")


def test_keys_of_the_topic_level_are_found_where_confluent_had_them() -> None:
    nested = {"message.timeout.ms": 2000, "partitioner": "murmur2"}
    parsed, rest = ProducerConfig.parse({"default.topic.config": nested})
    assert (parsed.message_timeout, parsed.partitioner) == (2.0, "murmur2")
    assert rest == {"default.topic.config": nested}


def test_the_outer_level_wins_over_the_topic_level() -> None:
    parsed, _ = ProducerConfig.parse(
        {"default.topic.config": {"partitioner": "murmur2"}, "partitioner": "fnv1a"}
    )
    assert parsed.partitioner == "fnv1a"


@pytest.mark.parametrize("how", [{"enable.idempotence": True}, {"transactional.id": "x"}])
def test_an_idempotent_producer_has_one_request_in_flight_unless_configured_otherwise(
    how: dict[str, Any],
) -> None:
    key, alias = "max.in.flight.requests.per.connection", "max.in.flight"
    on: dict[str, Any] = {"columnar.encoding": "parquet"}
    assert librdkafkas(on | how) == how | {key: 1}
    assert librdkafkas(on | how | {key: 5}) == how | {key: 5}
    assert librdkafkas(on | how | {alias: 5}) == how | {alias: 5}
    assert librdkafkas(how) == how  # without segments all is as ever
    assert librdkafkas(on) == {}
    assert librdkafkas(on | {"enable.idempotence": "false"}) == {"enable.idempotence": "false"}


@pytest.mark.parametrize("key", ["compression.type", "compression.codec"])
@pytest.mark.parametrize("value", ["none", "gzip", None])
def test_messages_are_compressed_with_zstd_unless_configured_otherwise(
    key: str, value: str | None
) -> None:
    on: dict[str, Any] = {"columnar.encoding": "parquet"}
    parsed, rest = ProducerConfig.parse(on)
    assert (parsed.messages_are_compressed, rest) == (True, ZSTD)
    for its_own in {key: value}, {"default.topic.config": {key: value}}:
        parsed, rest = ProducerConfig.parse(on | its_own)
        assert (parsed.messages_are_compressed, rest) == (value == "gzip", its_own)
    level = {"compression.level": 9}
    assert ProducerConfig.parse(on | level)[1] == ZSTD | level
    assert ProducerConfig.parse({"columnar.encoding": "none"})[1] == {}  # all is as ever


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("key", ["compression.type", "compression.codec"])
def test_each_name_of_the_compression_is_librdkafkas(key: str, nested: bool) -> None:
    config: dict[str, Any] = {key: "unknown"}
    with pytest.raises(KafkaException, match="compression"):
        Producer({"default.topic.config": config} if nested else config)


def test_the_memory_bound_is_in_kibibytes() -> None:
    parsed = producer(queue__buffering__max__kbytes=3, queue__buffering__max__messages=9)
    assert (parsed.queue_bytes, parsed.queue_records) == (3072, 9)


def test_metadata_is_never_refreshed_when_librdkafka_does_not() -> None:
    assert producer(topic__metadata__refresh__interval__ms=-1).metadata_refresh < 0


def test_a_transactional_id_makes_it_transactional() -> None:
    assert producer(transactional__id="x").transactional is True


def test_with_segments_librdkafka_reports_successes_to_us_even_if_users_want_errors_only() -> None:
    config = {"delivery.report.only.error": True}
    on = config | {"columnar.encoding": "parquet"}
    assert ProducerConfig.parse(on)[0].errors_only is True
    assert librdkafkas(on) == {"delivery.report.only.error": False}
    assert ProducerConfig.parse(config)[1] == config


def test_without_segments_librdkafka_itself_reports_errors_only() -> None:
    config = {"delivery.report.only.error": True}
    assert ProducerConfig.parse(config)[1] == config


def test_records_must_not_time_out_while_their_segment_fills() -> None:
    config = {"columnar.encoding": "parquet", "message.timeout.ms": 1000}
    with pytest.raises(
        ConfigError, match=r"^message\.timeout\.ms=1000 .* columnar\.linger\.ms=1000:"
    ):
        ProducerConfig.parse(config)
    assert ProducerConfig.parse(config | {"message.timeout.ms": 1001})[0].message_timeout == 1.001
    assert ProducerConfig.parse({**config, "columnar.encoding": "none"})[0].message_timeout == 1


def test_a_number_that_librdkafka_alone_can_read_is_refused() -> None:
    """It reads as far as it goes: 5000ms as 5000, and 0.5s as 0.5."""
    confluent_kafka.Producer({"linger.ms": "0.5s"}).close()
    with pytest.raises(
        ConfigError, match=r"^linger\.ms='0\.5s': must be a number from 0 to 900000"
    ):
        Producer({"linger.ms": "0.5s", "columnar.encoding": "parquet"})
