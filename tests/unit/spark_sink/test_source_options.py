"""The source's options, without a Spark and without a Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest.oauth import named_oauth_cb
from spark_sink.reading import source_options
from spark_sink.reading.source_options import EARLIEST, LATEST, SourceMode, SourceOptions
from spark_sink.shared_options import client_config

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
REQUIRED = SERVERS | {"subscribe": "t"}


PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


def parse(streaming: bool = True, **options: str) -> SourceOptions:
    """Parse options as Spark hands them over; ``_`` stands for a dot."""
    named = {key.replace("_", "."): value for key, value in options.items()}
    return SourceOptions.parse(CaseInsensitiveDict(REQUIRED | named), streaming=streaming)


def topics(**options: str) -> SourceOptions:
    return SourceOptions.parse(CaseInsensitiveDict(SERVERS | options), streaming=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of .* must be set, not none"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, 'must be set, not "assign", "subscribe"'),
        ({"subscribe": " "}, "must be set, not none"),
        ({"subscribePattern": "("}, '"subscribePattern" is .*, which Python cannot read'),
        ({"assign": "t"}, '"assign" is .t.: it must be JSON|it must be'),
        ({"assign": '{"t": 0}'}, '"assign" is .*: it must be JSON such as'),
        ({"assign": '{"t": ["0"]}'}, '"assign" is .*: it must be JSON such as'),
        ({"assign": '{"t": [-1]}'}, '"assign" is .*: it must be JSON such as'),
    ],
)
def test_topics_that_cannot_be_meant_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        topics(**options)


def test_topics_are_a_list_a_pattern_or_partitions() -> None:
    assert topics(subscribe="a, b,a").subscription.topics == ("a", "b")
    pattern = topics(subscribePattern="flights.*").subscription
    assert [pattern.matches(topic) for topic in ("flights", "flights-2", "my-flights")] == [
        True,
        True,
        False,
    ]
    assert not topics(subscribePattern=".*").subscription.matches("__consumer_offsets")
    assert topics(assign='{"b": [1, 0, 1]}').subscription.partitions == {"b": (0, 1)}


@pytest.mark.parametrize(
    ("streaming", "options", "message"),
    [
        (True, {"endingOffsets": "latest"}, '"endingOffsets" is for batch'),
        (True, {"endingTimestamp": "1"}, '"endingTimestamp" is for batch'),
        (True, {"endingOffsetsByTimestamp": "{}"}, '"endingOffsetsByTimestamp" is for batch'),
        (
            False,
            {"startingOffsets": "latest"},
            '"startingOffsets" is .latest.: it must be earliest',
        ),
        (False, {"startingOffsets": '{"t": {"0": -1}}'}, "it must be earliest or offsets"),
        (False, {"endingOffsets": "earliest"}, '"endingOffsets" is .earliest.: it must be latest'),
        (False, {"endingOffsets": '{"t": {"0": -2}}'}, "it must be latest or offsets"),
        (True, {"startingOffsets": "sometime"}, "it must be earliest, latest, or JSON"),
        (True, {"startingOffsets": '{"t": {"0": -3}}'}, "it must be earliest, latest, or JSON"),
        (True, {"startingOffsets": '{"t": [0]}'}, "it must be earliest, latest, or JSON"),
        (True, {"startingTimestamp": "soon"}, '"startingTimestamp" is .soon.: it must be a number'),
        (True, {"startingOffsetsByTimestamp": "1"}, '"startingOffsetsByTimestamp" is .1.'),
        (True, {"startingOffsetsByTimestampStrategy": "first"}, "it must be error or latest"),
        (True, {"failOnDataLoss": "yes"}, '"failOnDataLoss" is .yes.: it must be true or false'),
        (True, {"includeHeaders": "1"}, '"includeHeaders" is .1.: it must be true or false'),
        (True, {"maxOffsetsPerTrigger": "0"}, '"maxOffsetsPerTrigger" is .0.: .* a number, 1 or'),
        (
            True,
            {"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"},
            '"minOffsetsPerTrigger" is 2, more than "maxOffsetsPerTrigger", which is 1',
        ),
        (True, {"maxTriggerDelay": "15 parsecs"}, '"maxTriggerDelay" is .15 parsecs.: .* a time'),
        (True, {"minPartitions": "-1"}, '"minPartitions" is .-1.'),
        (True, {"maxRecordsPerPartition": "x"}, '"maxRecordsPerPartition" is .x.'),
        (True, {"mode": "pages"}, '"mode" is .pages.: it must be segments or records or ranges'),
        (True, {"kafkaConsumer.pollTimeoutMs": "x"}, '"kafkaConsumer.pollTimeoutMs" is .x.'),
        (True, {"fetchOffset.numRetries": "-1"}, '"fetchOffset.numRetries" is .-1.'),
        (True, {"fetchOffset.retryIntervalMs": "-1"}, '"fetchOffset.retryIntervalMs" is .-1.'),
        (
            True,
            {"startOffsets": "earliest"},
            '"startoffsets" does not exist; the options are assign, end',
        ),
        (True, {"kafka.auto.offset.reset": "earliest"}, 'cannot be set: set "startingOffsets"'),
        (True, {"kafka.enable.auto.commit": "true"}, '"kafka.enable.auto.commit" cannot be set'),
        (True, {"kafka.bootstrap.servers": ""}, '"kafka.bootstrap.servers" is missing'),
    ],
)
def test_a_bad_option_is_named(streaming: bool, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SourceOptions.parse(CaseInsensitiveDict(REQUIRED | options), streaming=streaming)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("sasl.jaas.config", "kafka.sasl.username and kafka.sasl.password"),
        ("sasl.client.callback.handler.class", "kafka.oauth_cb"),
        ("ssl.truststore.location", "kafka.ssl.ca.location"),
        ("ssl.keystore.type", "PKCS#12"),
        ("key.deserializer", "decode the column"),
        ("interceptor.classes", "no interceptors"),
        ("max.poll.records", "maxRecordsPerPartition"),
        ("fetch.max.wait.ms", "kafka.fetch.wait.max.ms"),
        ("buffer.memory", "kafka.queue.buffering.max.kbytes"),
        ("max.request.size", "kafka.message.max.bytes"),
    ],
)
def test_a_key_of_java_clients_is_refused_with_what_to_set_instead(key: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f'"kafka.{key}" is for Java clients: .*{hint}'):
        parse(**{f"kafka.{key}": "x"})


def test_a_function_that_makes_tokens_is_imported_by_its_name() -> None:
    options = {"kafka.oauth_cb": "json:dumps"}
    assert client_config(options) == {"oauth_cb": named_oauth_cb("json:dumps")}
    with pytest.raises(ConfigError, match="oauth_cb=json:nothing: module 'json' has no 'nothing'"):
        client_config({"kafka.oauth_cb": "json:nothing"})


def test_no_check_of_host_names_is_said_in_a_word() -> None:
    key = "kafka.ssl.endpoint.identification.algorithm"
    assert parse(**{key: "none"}).config[key.removeprefix("kafka.")] == "none"
    with pytest.raises(ConfigError, match=f'"{key}" is empty, as for Java clients: set "none"'):
        parse(**{key: ""})


def test_other_kafka_options_are_the_clients_and_a_group_is_named_for_acls() -> None:
    assert parse(kafka_client_id="x").config == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "x",
        "group.id": "spark-kafka-source",
    }
    assert parse(groupIdPrefix="etl").config["group.id"] == "etl"
    assert parse(groupIdPrefix="etl", kafka_group_id="mine").config["group.id"] == "mine"


def test_a_stream_starts_at_the_latest_and_a_batch_at_the_earliest() -> None:
    assert parse().starting.everywhere == LATEST
    batch = parse(streaming=False)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)


def test_times_go_before_offsets_and_one_time_before_many() -> None:
    times = '{"t": {"0": 5}}'
    parsed = parse(
        startingOffsets="earliest", startingOffsetsByTimestamp=times, startingTimestamp="7"
    )
    assert (parsed.starting.everywhere, parsed.starting.by_time) == (7, True)
    parsed = parse(startingOffsets="earliest", startingOffsetsByTimestamp=times)
    assert (parsed.starting.each, parsed.starting.by_time) == ({("t", 0): 5}, True)


def test_a_time_that_no_message_has_is_an_error_at_the_start_and_the_latest_at_the_end() -> None:
    parsed = parse(streaming=False, startingTimestamp="7", endingTimestamp="9")
    assert (parsed.starting.unmatched, parsed.ending.unmatched) == ("error", "latest")
    parsed = parse(startingTimestamp="7", startingOffsetsByTimestampStrategy="latest")
    assert parsed.starting.unmatched == "latest"


def test_offsets_must_be_of_all_partitions_and_of_no_other() -> None:
    boundary = parse(startingOffsets='{"t": {"0": 3, "2": -2}}').starting
    assert boundary.values([("t", 0), ("t", 2)]) == {("t", 0): 3, ("t", 2): EARLIEST}
    with pytest.raises(ConfigError, match=r'"startingOffsets" lacks t\[1\]: .*-2 for earliest'):
        boundary.values([("t", 0), ("t", 1), ("t", 2)])
    with pytest.raises(ConfigError, match=r"names t\[2\], which the query does not read"):
        boundary.values([("t", 0)])


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30 s", 30), ("15m", 900), ("2h", 7200), ("40", 0.04)]
)
def test_a_delay_is_given_as_spark_gives_it(text: str, seconds: float) -> None:
    assert parse(maxTriggerDelay=text).max_delay == seconds


def test_what_is_not_set_has_sparks_defaults() -> None:
    parsed: Any = parse()
    assert (parsed.mode, parsed.headers, parsed.fail_on_data_loss) == (
        SourceMode.SEGMENTS,
        True,
        True,
    )
    assert (parsed.max_offsets, parsed.min_offsets, parsed.max_delay) == (None, None, 900)
    assert (parsed.min_partitions, parsed.max_records, parsed.poll_timeout) == (None, None, 120)
    assert (parsed.retries, parsed.retry_interval) == (3, 0.01)


def test_every_option_has_its_row_in_the_documentation() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in row.replace("`", " ").replace(",", " ").split()}
    assert set(source_options.OPTIONS) <= documented
