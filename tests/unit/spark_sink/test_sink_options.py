"""The sink's options, without a Spark: what is wrong with them is said before anything runs."""

from __future__ import annotations

import json
import pickle
import re
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StringType, StructField, StructType

import spark_sink
from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest import sampling
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.lake.plan import Mode
from columnar_kafka.plain import Lenient
from spark_sink.columns import MESSAGE as MESSAGE_COLUMNS
from spark_sink.columns import RANGE as RANGE_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = ("value", "topic", "partition", "offset", "headers")
IDS = ("cluster_id", "topic_id")
RANGE = ("topic", "partition", "start", "end", *IDS, "latest")


def columns(*names: str) -> StructType:
    source = RANGE_COLUMNS if "start" in names or "end" in names else MESSAGE_COLUMNS
    return StructType([source[name] for name in names])


SCHEMA = columns(*NEEDED, *IDS)
PLAIN = {
    "table.plain": "decode",
    "table.plain.format": "json",
    "table.plain.schema": json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}
    ),
}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"table.format": "csv"},
            r'"table\.format" is .csv.: it must be parquet or delta or iceberg',
        ),
        (
            {"table.layout": "whole"},
            r'"table\.layout" is .whole.: it must be stitched or verbatim$',
        ),
        ({"table.file.bytes": "many"}, r'"table\.file\.bytes" is .many.: it must be a positive'),
        ({"table.file.bytes": "0"}, r'"table\.file\.bytes" is .0.: it must be a positive'),
        (
            {"table.verify": "all"},
            r'"table\.verify" is .all.: it must be headers or pages or decode',
        ),
        ({"table.plain": "drop"}, "plain is 'drop': it must be stop or skip or dead-letter or"),
        ({"table.plain": "dead-letter"}, "it needs a place for dead letters"),
        ({"table.plain": "table:"}, "name the table, as in table:PLACE"),
        ({"table.plain": "decode"}, "plain is decode: it needs the plain messages' format and sch"),
        ({"table.plain.format": "json"}, r'"table\.plain\.schema" is missing'),
        ({"table.plain.schema": "{}"}, r'"table\.plain\.format" is missing'),
        (PLAIN | {"table.plain.format": "xml"}, "is 'xml': it must be avro or json"),
        (PLAIN | {"table.plain.schema": "{"}, "the schema of plain messages: the Avro schema is"),
        (PLAIN | {"table.plain.schema.id": "x"}, r'"table\.plain\.schema\.id" is .x.: it must be'),
        (PLAIN | {"table.plain": "skip"}, "plain is skip: only decode takes the plain messages'"),
        (
            PLAIN | {"table.plain.fields": "any"},
            r'"table\.plain\.fields" is .any.: it must be exact',
        ),
        (PLAIN | {"table.plain.path": "/p"}, "plain-path is '/p': it needs plain-fields to be"),
        (
            PLAIN | {"table.plain.fields": "lenient", "table.plain.coerce": "yes"},
            r'"table\.plain\.coerce" is .yes.: it must be true or false',
        ),
        (PLAIN, "column 'key' of the Kafka source is missing"),
        ({"table.gap": "yes"}, r'"table\.gap" is .yes.: it must be refuse or allow'),
        (
            {"table.format": "delta", "table.after.restore": "go"},
            r'"table\.after\.restore" is .go.: it must be stop or reland',
        ),
        ({"table.after.restore": "stop"}, r'"table\.after\.restore" is for delta and iceberg'),
        ({"table.partition.by": "n"}, r'"table\.partition\.by" is for delta and iceberg'),
        ({"table.straddle": "x"}, r'"table\.straddle" is .x.: it must be split or stop or dead-'),
        ({"table.straddle": "dead-letter"}, "straddle is dead-letter: it needs a place for dead"),
        (
            {"table.format": "delta", "table.keep.snapshots": "3"},
            r'"table\.keep\.snapshots" is for iceberg tables',
        ),
        (
            {
                "table.format": "iceberg",
                "table.catalog.type": "sql",
                "table.keep.snapshots": "0",
            },
            r'"table\.keep\.snapshots" is \'0\': it must be a positive number',
        ),
        ({"table.growth": "allow"}, r'"table\.growth" is for delta and iceberg'),
        ({"table.format": "delta", "table.growth": "x"}, r'"table\.growth" is \'x\': it must be'),
        (
            {"table.format": "iceberg", "path": "t", "table.catalog.type": "sql"},
            "table 't': name it with its namespace",
        ),
        ({"table.format": "iceberg"}, r'an iceberg table needs options "table\.catalog\.\*"'),
        ({"table.catalog.type": "sql"}, r'"table\.catalog\.\*" are for iceberg tables'),
        (
            {"table.storage.aws_region": "x"},
            "storage aws_region: '/lake' is not in an object store",
        ),
        ({"tableformat": "parquet"}, r'"tableformat" does not exist'),
        ({"path": ""}, r'"path" is missing'),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], message: str) -> None:
    sink = spark_sink.LakeSink({"path": "/lake", **options})
    with pytest.raises((ConfigError, LakeError), match=message):
        sink.streamWriter(SCHEMA, overwrite=False)


def test_what_spark_adds_to_a_streams_options_is_taken() -> None:
    options = {"path": "/lake", "checkpointLocation": "/checkpoint", "queryName": "land"}
    writer = spark_sink.LakeSink(options).streamWriter(SCHEMA, overwrite=False)
    assert str(writer.settings.table.root) == "/lake"


def test_the_rules_of_messages_that_differ_can_be_named() -> None:
    options = {
        "table.plain.fields": "lenient",
        "table.plain.coerce": "true",
        "table.plain.misfit": "dead-letter",
        "table.plain.rest.column": "others",
    }
    columns_too = columns(*NEEDED, *IDS, "key", "timestamp")
    sink = spark_sink.LakeSink({"path": "/lake", **PLAIN, **options})
    decoding = sink.streamWriter(columns_too, overwrite=False).settings.rules.decoding
    assert decoding.lenient == Lenient(misfit="dead-letter", coerce=True, rest_column="others")


@pytest.mark.parametrize("mode", Mode)
def test_each_layout_can_be_named(mode: Mode) -> None:
    options = {"path": "/lake", "table.layout": mode.name.lower()}
    writer = spark_sink.LakeSink(options).streamWriter(SCHEMA, overwrite=False)
    assert writer.settings.layout.mode is mode


def test_what_straddles_can_be_a_dead_letter() -> None:
    options = {"path": "/lake", "table.dead.letters": "/dead", "table.straddle": "dead-letter"}
    writer = spark_sink.LakeSink(options).streamWriter(SCHEMA, overwrite=False)
    assert writer.settings.rules.straddle == "dead-letter"


def test_plain_messages_can_be_decoded() -> None:
    options = {"path": "/lake", **PLAIN, "table.plain.format": "avro", "table.plain.schema.id": "7"}
    schema = columns(*NEEDED, *IDS, "key", "timestamp")
    decoding = spark_sink.LakeSink(options).writer(schema, overwrite=False).settings.rules.decoding
    assert (decoding.format, decoding.schema_id) == ("avro", 7)


def test_a_registry_can_have_the_schemas_of_plain_messages() -> None:
    keys = {"table.registry.key.basic.auth.user.info": "user:secret"}
    options = {"path": "/lake", "table.plain": "decode", **keys}
    schema = columns(*NEEDED, *IDS, "key", "timestamp")
    with pytest.raises(ConfigError, match=r'option "table\.registry" is missing'):
        spark_sink.LakeSink(options).writer(schema, overwrite=False)
    options["table.registry"] = "http://user@registry:8081"
    settings = spark_sink.LakeSink(options).writer(schema, overwrite=False).settings
    decoding = pickle.loads(pickle.dumps(settings)).rules.decoding
    assert dict(decoding.registry) == {
        "url": "http://user@registry:8081",
        "basic.auth.user.info": "user:secret",
        "max.retries": 10,
    }
    assert "secret" not in repr(settings)


def test_the_schema_of_plain_messages_is_decided_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [SourceMessage(topic="t", partition=0, offset=0, headers=None, value=b'{"n": 1}')]
    monkeypatch.setattr(sampling, "sampled_messages", lambda *_: messages)
    options = {"path": str(tmp_path / "lake"), **PLAIN, "table.plain.schema": "infer"}
    schema = columns(*NEEDED, *IDS, "key", "timestamp")
    for key in "subscribe", "kafka.bootstrap.servers":
        with pytest.raises(ConfigError, match=f'option "{key}" is missing'):
            spark_sink.LakeSink(options).writer(schema, overwrite=False)
        options[key] = "t"
    for _ in range(2):
        settings = spark_sink.LakeSink(options).streamWriter(schema, overwrite=False).settings
        assert pickle.loads(pickle.dumps(settings)).rules.decoding.schema.arrow.names == ["n"]
        messages.clear()  # by then a schema is kept


def test_another_output_mode_than_append_is_refused() -> None:
    for method in ("writer", "streamWriter"):
        with pytest.raises(ConfigError, match="append"):
            getattr(spark_sink.LakeSink({"path": "/lake"}), method)(SCHEMA, overwrite=True)


@pytest.mark.parametrize(
    ("names", "missing"),
    [(NEEDED, name) for name in NEEDED]
    + [(RANGE, name) for name in RANGE if name not in ("start", "end")],
)
def test_a_column_that_is_missing_is_named(names: tuple[str, ...], missing: str) -> None:
    schema = columns(*(name for name in names if name != missing))
    with pytest.raises(ConfigError, match=f"column {missing!r} of the Kafka source is missing"):
        spark_sink.LakeSink({"path": "/lake"}).streamWriter(schema, overwrite=False)


@pytest.mark.parametrize(
    ("names", "other", "type_"),
    [
        ((*NEEDED, "timestamp"), "timestamp", "timestamp"),
        (NEEDED, "value", "binary"),
        (NEEDED, "headers", "array<struct<key:string,value:binary>>"),
        (RANGE, "start", "bigint"),
    ],
)
def test_a_column_of_another_type_is_named(names: tuple[str, ...], other: str, type_: str) -> None:
    schema = StructType(
        [
            StructField(other, StringType()) if column.name == other else column
            for column in columns(*names)
        ]
    )
    message = re.escape(f"column {other!r} is string; in the Kafka source it is {type_}")
    with pytest.raises(ConfigError, match=message):
        spark_sink.LakeSink({"path": "/lake"}).streamWriter(schema, overwrite=False)


def test_headers_are_missing_because_sparks_source_leaves_them_out() -> None:
    schema = columns(*NEEDED[:-1])
    with pytest.raises(ConfigError, match=r'option\("includeHeaders", "true"\)'):
        spark_sink.LakeSink({"path": "/lake"}).streamWriter(schema, overwrite=False)


def test_whether_sparks_source_leaves_out_aborted_messages_must_be_said() -> None:
    schema, options = columns(*NEEDED), {"path": "/lake"}
    with pytest.raises(ConfigError, match=r'"table\.source\.isolation", "read_committed"\) here'):
        spark_sink.LakeSink(options).streamWriter(schema, overwrite=False)
    for isolation in ("read_committed", "read_uncommitted"):
        options["table.source.isolation"] = isolation
        writer = spark_sink.LakeSink(options).streamWriter(schema, overwrite=False)
        assert writer.settings.config == {"isolation.level": isolation}
    options["table.source.isolation"] = "dirty"
    with pytest.raises(ConfigError, match=r"it must be read_committed or read_uncommitted"):
        spark_sink.LakeSink(options).streamWriter(schema, overwrite=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r'"kafka\.bootstrap\.servers" is missing'),
        ({"table.source.isolation": "read_committed"}, r'set "kafka\.isolation\.level", on source'),
        ({"kafka.auto.offset.reset": "latest"}, r'"kafka\.auto\.offset\.reset" cannot be set'),
    ],
)
def test_ranges_are_read_with_the_sinks_own_client(options: dict[str, str], message: str) -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092"} if options else {}
    sink = spark_sink.LakeSink({"path": "/lake", **servers, **options})
    with pytest.raises(ConfigError, match=message):
        sink.streamWriter(columns(*RANGE), overwrite=False)
