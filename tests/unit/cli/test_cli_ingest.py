"""`columnar-kafka ingest`: what it passes on, and its exit codes."""

from __future__ import annotations

import json
import re
import signal
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from commands import INGEST, invoke
from deltalake import DeltaTable

from columnar_kafka.ingest import IngestStats
from columnar_kafka.lake.tables.local_files import LocalFiles

if TYPE_CHECKING:
    from columnar_kafka.testing import FakeKafka


@pytest.mark.usefixtures("topic")
def test_a_topic_is_ingested_and_what_landed_is_said(tmp_path: Path) -> None:
    result = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", "--partition", "0")
    assert (result.exit_code, result.stdout) == (0, "t: 5 rows landed in 1 files\n")
    again = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", "--json")
    assert json.loads(again.stdout) == {"t": asdict(IngestStats())}


@pytest.mark.usefixtures("topic")
def test_a_partitioned_table_is_made_and_what_was_split_is_counted(tmp_path: Path) -> None:
    place = (str(tmp_path / "lake"), "--format", "delta", "--partition-by", "n", "--stop-at-end")
    stopped = invoke(*INGEST, *place, "--straddle", "stop", "--partition", "0")
    assert (stopped.exit_code, "has rows of 2 partitions" in stopped.stderr) == (1, True)
    told = invoke(*INGEST, *place, "--partition", "0").stdout
    assert told == "t: 5 rows landed in 5 files, 2 segments encoded anew\n"


@pytest.mark.usefixtures("topic")
def test_what_would_be_split_can_be_a_dead_letter_and_is_counted(tmp_path: Path) -> None:
    place = (str(tmp_path / "lake"), "--format", "delta", "--partition-by", "n", "--stop-at-end")
    straddle = ("--straddle", "dead-letter")
    assert invoke(*INGEST, *place, *straddle).exit_code == 2
    dead = str(tmp_path / "dead")
    told = invoke(*INGEST, *place, *straddle, "--dead-letters", dead, "--partition", "0").stdout
    assert told == "t: 1 rows landed in 1 files, 2 dead letters\n"
    replayed = invoke("replay", dead, "--to", place[0], "--format", "delta").stdout
    assert replayed == "4 rows landed in 4 files, 2 segments encoded anew\n"


@pytest.mark.usefixtures("topic")
def test_every_format_and_layout_can_be_named(tmp_path: Path) -> None:
    done = ("--stop-at-end", "--layout", "verbatim")
    assert invoke(*INGEST, str(tmp_path / "delta"), "--format", "delta", *done).exit_code == 0
    assert len(DeltaTable(str(tmp_path / "delta")).file_uris()) == 3
    catalog = [f"uri=sqlite:///{tmp_path}/catalog.db", f"warehouse=file://{tmp_path}", "type=sql"]
    options = [text for setting in catalog for text in ("--catalog", setting)]
    assert invoke(*INGEST, "lake.t", "--format", "iceberg", *options, *done).exit_code == 0
    assert len(list(tmp_path.glob("lake/t/data/t/*.parquet"))) == 3


def test_keys_of_the_client_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nsecurity.protocol = SSL\ngroup.id=g\n")
    text = ("--client-config", str(file), "-X", "auto.offset.reset=latest")
    result = invoke(*INGEST, str(tmp_path), *text)
    assert result.exit_code == 1
    assert "auto.offset.reset=latest: an ingestor needs error" in result.output


def test_several_topics_of_one_group_cannot_have_one_instance_id(tmp_path: Path) -> None:
    line = (*INGEST, str(tmp_path / "{topic}"), "--topic", "u", "-X", "group.instance.id=pod-1")
    result = invoke(*line, "-X", "group.id=g")
    assert (result.exit_code, "group.instance.id" in result.output) == (2, True)


def test_what_is_not_key_and_value_is_a_usage_error(tmp_path: Path) -> None:
    assert invoke(*INGEST, str(tmp_path), "-X", "group.id").exit_code == 2


def test_a_file_of_keys_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"sasl.password=\xff\n")
    for place in (file, tmp_path):
        result = invoke(*INGEST, str(tmp_path / "lake"), "--client-config", str(place))
        assert (result.exit_code, "--client-config" in result.output) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        ("--catalog", "type=sql"),
        ("--after-restore", "reland"),
        ("--growth", "allow"),
        ("--keep-snapshots", "3"),
        ("--partition-by", "n"),
    ],
)
def test_an_option_of_another_format_is_a_usage_error(tmp_path: Path, text: list[str]) -> None:
    result = invoke(*INGEST, str(tmp_path), *text)
    assert result.exit_code == 2
    assert "only for" in result.output


def test_keys_of_an_object_store_are_handed_on(tmp_path: Path) -> None:
    result = invoke(*INGEST, str(tmp_path), "--storage", "aws_region=eu-central-1")
    assert result.exit_code == 1
    assert "storage aws_region" in result.output


def test_what_cannot_land_ends_with_1_and_is_named(topic: FakeKafka, tmp_path: Path) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b"plain")
    result = invoke(*INGEST, str(tmp_path), "--stop-at-end")
    assert result.exit_code == 1
    assert "t[0]@3 is a plain message" in result.output


@pytest.mark.usefixtures("topic")
def test_a_signal_lands_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's process gets it while the first file is created."""
    create = LocalFiles.create

    def interrupted(self: LocalFiles, path: Path) -> object:
        if path.suffix == ".segment":
            signal.raise_signal(signal.SIGTERM)
        return create(self, path)

    monkeypatch.setattr(LocalFiles, "create", interrupted)
    result = invoke(*INGEST, str(tmp_path / "lake"), "--small-bytes", "0")
    assert (result.exit_code, result.stdout) == (0, "t: 2 rows landed in 1 files\n")


@pytest.mark.usefixtures("topic")
def test_the_options_may_stand_in_a_file(tmp_path: Path) -> None:
    """As their long names; tables are for keys and values; the command line goes before."""
    file = tmp_path / "ingest.toml"
    file.write_text(
        f"""
        bootstrap-servers = "h:1"
        topic = ["t"]
        to = "{tmp_path}/lake"
        format = "delta"
        partition = [0]
        stop-at-end = true
        roll-seconds = 5
        json = true
        [client]
        "group.id" = "ours"
        "enable.auto.commit" = false
        """
    )
    result = invoke("ingest", "--config", str(file), "--start", "latest")
    assert (result.exit_code, json.loads(result.stdout)["t"]["rows"]) == (0, 0)
    result = invoke("ingest", "--config", str(file))
    assert json.loads(result.stdout)["t"]["rows"] == 5
    assert len(DeltaTable(str(tmp_path / "lake")).file_uris()) == 1


@pytest.mark.usefixtures("topic")
def test_keys_of_the_command_line_join_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ingest.toml"
    file.write_text('[client]\n"auto.offset.reset" = "latest"\n"group.id" = "g"\n')
    line = (*INGEST, str(tmp_path / "lake"), "--config", str(file), "--stop-at-end")
    result = invoke(*line, "-X", "group.id=h")
    assert (result.exit_code, "auto.offset.reset=latest: an" in result.output) == (1, True)
    assert invoke(*line, "-X", "auto.offset.reset=error").exit_code == 0


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("key", ["enable.auto.commit", '"enable.auto.commit"'])
def test_a_key_of_a_table_may_be_written_with_or_without_quotes(tmp_path: Path, key: str) -> None:
    """Without them TOML makes a table of tables of it."""
    file = tmp_path / "ingest.toml"
    file.write_text(f"[client]\n{key} = true\n")
    result = invoke(*INGEST, str(tmp_path / "lake"), "--config", str(file))
    assert (result.exit_code, "enable.auto.commit=true: an" in result.output) == (1, True)


@pytest.mark.usefixtures("topic")
def test_an_option_that_repeats_may_be_a_single_value(tmp_path: Path) -> None:
    file = tmp_path / "ingest.toml"
    file.write_text(f"topic = 't'\npartition = 0\nto = '{tmp_path}/lake'\nstop-at-end = true\n")
    result = invoke("ingest", "--config", str(file), "--bootstrap-servers", "h:1")
    assert result.stdout == "t: 5 rows landed in 1 files\n"


def test_the_documented_configurations_name_options(tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs"
    [shown] = re.findall(r"```toml\n(.*?)```", (docs / "service.md").read_text(), re.DOTALL)
    manifest = (docs / "service/kubernetes.yaml").read_text()
    [mounted] = re.findall(r"ingest\.toml: \|\n(.*?)---", manifest, re.DOTALL)
    for text in shown, textwrap.dedent(mounted):
        file = tmp_path / "ingest.toml"
        file.write_text(text)
        result = invoke("ingest", "--config", str(file), "--start", "noon")
        assert (result.exit_code, "'noon' is not earliest" in result.output) == (2, True)


def test_pods_whose_name_is_their_instance_id_keep_it() -> None:
    """A Deployment's pods have a new name each time, for which a session would have to end."""
    docs = Path(__file__).parents[3] / "docs"
    _, _, workload = (docs / "service/kubernetes.yaml").read_text().rpartition("\n---\n")
    assert "group.instance.id=$(POD_NAME)" in workload
    assert re.findall(r"^kind: (\w+)", workload, re.MULTILINE) == ["StatefulSet"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("topics = 1", "'topics' is not an option"), ("=", "Invalid statement"), ("gap = 'x'", "gap")],
)
def test_a_file_that_is_wrong_is_a_usage_error(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "ingest.toml"
    file.write_text(text)
    result = invoke(*INGEST, str(tmp_path), "--config", str(file))
    assert (result.exit_code, why in result.output) == (2, True)


@pytest.mark.usefixtures("topic")
def test_where_it_starts_and_ends_can_be_said(tmp_path: Path) -> None:
    some = ("--partition", "0", "--start", "0:1", "--end-offsets", "0:2")
    assert invoke(*INGEST, str(tmp_path / "a"), *some).stdout == "t: 2 rows landed in 1 files\n"
    late = ("--stop-at-end", "--start", "2200-01-01T00:00:00Z")
    assert invoke(*INGEST, str(tmp_path / "b"), *late).stdout == "t: 0 rows landed in 0 files\n"


@pytest.mark.parametrize(
    "line",
    [
        ("--topic", "u"),
        ("--start", "noon"),
        ("--start", "2026-01-01"),
        ("--end-offsets", "5"),
        ("--end-offsets", "0:5", "--stop-at-end"),
        ("--health", "x"),
        ("--health", "65536"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(tmp_path: Path, line: list[str]) -> None:
    assert invoke(*INGEST, str(tmp_path / "{no}"), *line).exit_code == 2


def test_several_topics_land_in_a_table_each(topic: FakeKafka, tmp_path: Path) -> None:
    topic.create_topic("u", 1)
    both = ("--topic", "u", "--stop-at-end", "--health", "127.0.0.1:0")
    result = invoke(*INGEST, str(tmp_path / "{topic}"), *both)
    assert result.stdout == "t: 5 rows landed in 1 files\nu: 0 rows landed in 0 files\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    assert invoke(*INGEST, str(tmp_path / "{topic}"), *both, "--partition", "0").exit_code == 2
    letters = invoke(*INGEST, str(tmp_path / "{topic}"), *both, "--dead-letters", "/dead")
    assert (letters.exit_code, "each table needs a place" in letters.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--plain", "skip"), ", 1 plain messages skipped"),
        (("--plain", "dead-letter", "--dead-letters", "{root}/dead"), ", 1 dead letters"),
        (("--plain", "table:{root}/{topic}-plain"), ", 1 plain messages set aside"),
    ],
)
def test_what_was_set_aside_is_said(
    topic: FakeKafka, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b"plain")
    chosen = [option.replace("{root}", str(tmp_path)) for option in options]
    result = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", *chosen)
    assert result.stdout == f"t: 5 rows landed in 1 files{told}\n"
    places = {"dead-letter": "dead", "skip": "lake"}
    assert (tmp_path / places.get(options[1], "t-plain") / "t").is_dir()


SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "long"]}]}'


def test_plain_messages_are_decoded_verified_and_counted(topic: FakeKafka, tmp_path: Path) -> None:
    """The schema's file may be named after the topic."""
    (tmp_path / "t.avsc").write_text(SCHEMA)
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"n": 5}', key=b"k")
    schema = ("--plain-format", "json", "--plain-schema", str(tmp_path / "{topic}.avsc"))
    line = (*INGEST, str(tmp_path / "lake"), "--stop-at-end", "--plain", "decode", *schema)
    told = "t: 6 rows landed in 1 files, 1 plain messages decoded\n"
    result = invoke(*line)
    assert (result.exit_code, result.stdout) == (0, told)
    verify = ("verify", str(tmp_path / "lake"), "--bootstrap-servers", "h:1", "--topic", "t")
    assert invoke(*verify).stdout.splitlines() == [
        "3 segments with 5 rows are in the table, once and with equal values, in 1 files",
        "1 messages are not segments, and were not looked for",
    ]
    proven = (*verify, *schema[:3], str(tmp_path / "t.avsc"))
    assert invoke(*proven).stdout == (
        "3 segments with 5 rows and 1 plain messages are in the table, once and with equal values, "
        "in 1 files\n"
    )
    assert json.loads(invoke(*proven, "--json").stdout)["decoded"] == 1


def test_messages_that_differ_land_with_a_rest_and_are_verified(
    topic: FakeKafka, tmp_path: Path
) -> None:
    (tmp_path / "t.avsc").write_text(SCHEMA)
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"p": {"n": "5", "new": 1}}')
    decode = (
        *("--plain-format", "json", "--plain-schema", str(tmp_path / "t.avsc")),
        *("--plain-fields", "lenient", "--plain-coerce", "--plain-path", "/p"),
        *("--plain-rest-column", "others"),
    )
    lake = tmp_path / "lake"
    result = invoke(*INGEST, str(lake), "--stop-at-end", "--plain", "decode", *decode)
    assert (result.exit_code, result.output.endswith("1 plain messages decoded\n")) == (0, True)
    rows = [row for file in lake.glob("t/*") for row in pq.read_table(file).to_pylist()]
    [(number, others)] = [(row["n"], row["others"]) for row in rows if row.get("others")]
    assert (number, others) == (5, '{"p":{"new":1}}')
    verify = ("verify", str(lake), "--bootstrap-servers", "h:1", "--topic", "t")
    assert json.loads(invoke(*verify, *decode, "--json").stdout)["decoded"] == 1


def test_a_json_schema_has_the_columns(topic: FakeKafka, tmp_path: Path) -> None:
    properties = {"n": {"type": "integer"}, "on": {"type": "string", "format": "date"}, "any": {}}
    schema = {"type": "object", "properties": properties, "required": ["n"]}
    (tmp_path / "t.json").write_text(json.dumps(schema))
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"n": 5, "on": "2026-01-31", "any": [1.50, "x"]}')
        sender.produce("t", b'{"on": "2026-01-31"}')
    lake = tmp_path / "lake"
    decode = ("--plain-format", "json", "--plain-schema", str(tmp_path / "t.json"))
    line = (*INGEST, str(lake), "--stop-at-end", "--plain", "decode", *decode)
    result = invoke(*line, "--dead-letters", str(tmp_path / "dead"))
    assert "1 plain messages decoded, 1 dead letters" in result.stdout
    tables = [pq.read_table(file) for file in lake.glob("t/*")]
    [row] = [row for table in tables for row in table.to_pylist() if "on" in row]
    assert (row["n"], str(row["on"]), row["any"]) == (5, "2026-01-31", '[1.50,"x"]')


def test_a_schema_that_is_guessed_is_shown_once_and_replayed_and_verified(
    topic: FakeKafka, tmp_path: Path
) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"n": 5, "x": {"y": 1.5}}')
        sender.produce("t", b"[]")
    decode = ("--plain-format", "json", "--plain-schema", "infer", "--plain-fields", "lenient")
    lake, dead = tmp_path / "lake", tmp_path / "dead"
    line = (*INGEST, str(lake), "--stop-at-end", "--plain", "decode", *decode)
    result = invoke(*line, "--dead-letters", str(dead))
    assert result.stdout.endswith("1 plain messages decoded, 1 dead letters\n")
    shown = [line.split() for line in result.stderr.splitlines()]
    assert ["x.y", "double", "1", "fraction", "0"] in shown
    assert "objects: 1; values that are not a JSON object: 1" in result.stderr
    assert "x.y" not in invoke(*line).stderr
    verify = ("verify", str(lake), "--bootstrap-servers", "h:1", "--topic", "t")
    verified = json.loads(invoke(*verify, *decode, "--dead-letters", str(dead), "--json").stdout)
    assert (verified["decoded"], verified["dead_letters"]) == (1, 1)
    replay = ("replay", str(dead), "--plain", "decode", *decode, "--to")
    assert "not a JSON object" in invoke(*replay, str(lake)).stderr
    assert "keeps no schema of plain messages" in invoke(*replay, str(tmp_path / "new")).stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--plain", "decode"), "plain is decode: it needs"),
        (("--plain-format", "json"), "need a format and a schema"),
        (("--plain-schema", "{root}/t.avsc"), "need a format and a schema"),
        (("--plain-format", "json", "--plain-schema", "{root}/none"), "No such file"),
        (("--plain-format", "json", "--plain-schema", "{root}/t.avsc"), "only decode takes"),
        (
            ("--plain-format", "json", "--plain-schema", "{root}/t.avsc", "--plain-schema-id", "1"),
            "a schema id is for plain",
        ),
        (
            (
                *("--plain-format", "json", "--plain-schema", "{root}/t.avsc"),
                *("--plain-unknown", "ignore"),
            ),
            "plain-unknown is 'ignore': it needs plain-fields to be lenient",
        ),
        (
            (
                *("--plain-format", "json", "--plain-schema", "{root}/t.avsc"),
                *("--plain-fields", "lenient", "--plain-path", "p"),
            ),
            "path is 'p': it must be a JSON pointer",
        ),
        (("--plain-fields", "lenient"), "need a format and a schema"),
        (("--plain-format", "avro", "--plain-schema", "infer"), "need the Avro schema that wrote"),
        (("--plain-format", "json", "--plain-schema", "infer"), "only decode takes"),
        (
            ("--plain-format", "json", "--plain-schema", "table", "--infer-messages", "1"),
            "infer-messages is set: it needs plain-schema to be infer",
        ),
        (
            ("--plain-format", "json", "--plain-schema", "{root}/t.avsc", "--infer-times"),
            "infer-times is set: it needs plain-schema to be infer",
        ),
        (
            ("--plain-format", "json", "--plain-schema", "{root}/no.json"),
            "JSON Schema #: a row is an object with properties",
        ),
        (("--registry-key", "timeout=3"), "need a format and a schema"),
        (("--registry", "ftp://x"), "the settings of the registry: Invalid url ftp://x"),
        (("--registry", "http://h", "--registry-key", "x=secret"), "Unrecognized properties: x"),
        (
            ("--registry", "http://h", "--plain-format", "avro", "--plain-schema", "{root}/t.avsc"),
            "registry is set, which has all of the schemas: leave plain-format out",
        ),
        (("--registry", "http://h"), "only decode takes"),
    ],
)
def test_options_of_decoding_that_contradict_are_a_usage_error(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    (tmp_path / "t.avsc").write_text(SCHEMA)
    (tmp_path / "no.json").write_text('{"properties": {}}')
    chosen = [option.replace("{root}", str(tmp_path)) for option in options]
    result = invoke(*INGEST, str(tmp_path / "lake"), *chosen)
    output = " ".join(result.output.replace("│", " ").split())
    assert (result.exit_code, told in output) == (2, True), output
    assert "secret" not in output


def test_rules_that_do_not_fit_are_a_usage_error(tmp_path: Path) -> None:
    for options in (("--plain", "drop"), ("--plain", "dead-letter"), ("--verify", "all")):
        assert invoke(*INGEST, str(tmp_path), *options).exit_code == 2
