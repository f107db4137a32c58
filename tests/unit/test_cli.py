"""The command line: what it passes on, and its exit codes."""

from __future__ import annotations

import json
import re
import signal
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lakes import FENCE, DeltaLake, DirectoryLake, IcebergLake, put, rows
from typer.testing import CliRunner

import columnar_kafka
from columnar_kafka import cli
from columnar_kafka.cli import outcome as ending
from columnar_kafka.demo import run as demo
from columnar_kafka.demo.compare import Comparison
from columnar_kafka.demo.figures import Results, Stage
from columnar_kafka.ingest import IngestStats, audit, ingestor
from columnar_kafka.lake.local_files import LocalFiles
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    Outcome = Callable[[Results | BaseException], list[demo.Options]]

RESULTS = Results(broker="b", environment={})


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Replace the demo by what a test wants of it; the options it was given."""
    given: list[demo.Options] = []

    def prepare(result: Results | BaseException) -> list[demo.Options]:
        def run(options: demo.Options, _screen: object) -> Results:
            given.append(options)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(demo, "run", run)
        return given

    return prepare


def test_the_version_is_the_packages() -> None:
    result = invoke("--version")
    assert result.output == f"columnar-kafka {columnar_kafka.__version__}\n"
    assert result.exit_code == 0


def test_options_reach_the_demo(outcome: Outcome, tmp_path: Path) -> None:
    given = outcome(RESULTS)
    page = tmp_path / "page.html"
    result = invoke("demo", "--bootstrap-servers", "h:1", "--rows", "5", "--report", str(page))
    assert result.exit_code == 0
    assert given == [demo.Options(bootstrap_servers="h:1", broker=None, rows=5, report=page)]
    assert page.name in result.output


def test_an_unknown_broker_is_refused(outcome: Outcome) -> None:
    outcome(RESULTS)
    assert invoke("demo", "--broker", "rabbit").exit_code == 2


def test_a_difference_ends_with_1_and_names_the_stage(outcome: Outcome) -> None:
    stage = Stage("read back as records", 1, 1.0, "", Comparison(2, 1, 1, 0))
    outcome(Results(broker="b", environment={}, stages=[stage]))
    result = invoke("demo")
    assert result.exit_code == 1
    assert "Different: read back as records" in result.output


def test_a_failure_ends_with_1_and_one_paragraph(outcome: Outcome) -> None:
    outcome(RuntimeError("no such Kafka\n\nJVM stacktrace:\n at a\n at b"))
    result = invoke("demo")
    assert result.exit_code == 1
    assert result.output == "The demo failed: RuntimeError: no such Kafka\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_raised_as_something_else_is_no_failure(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(ending, "_caught", [])
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        ending.end(number, None)
    outcome(TypeError("expected configuration property name as type unicode string"))
    result = invoke("demo")
    assert (result.exit_code, result.output) == (128 + number, "")


def test_ctrl_c_ends_with_130(outcome: Outcome) -> None:
    outcome(KeyboardInterrupt())
    result = invoke("demo")
    assert result.exit_code == 130
    assert "Interrupted" in result.output


@pytest.mark.parametrize(
    "command", ["demo", "ingest", "verify", "replay", "compact", "fence show", "fence reset"]
)
def test_every_command_explains_itself(command: str) -> None:
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


# --- ingest ---------------------------------------------------------------------------------------

INGEST = ("ingest", "--bootstrap-servers", "h:1", "--topic", "t", "--to")


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    """Five rows in three segments."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with FakeKafka() as kafka:
        monkeypatch.setattr(ingestor, "StockConsumer", kafka.Consumer)
        monkeypatch.setattr(audit, "StockConsumer", kafka.Consumer)
        for each in ingestor, audit:
            monkeypatch.setattr(each, "generation", lambda *_: ("cluster", "id"))
        with kafka.Producer({"columnar.encoding": "parquet", "columnar.segment.rows": 2}) as sender:
            sender.set_schema("t", pa.schema([("n", pa.int64())]))
            for n in range(5):
                sender.produce("t", {"n": n})
        yield kafka
    for each, handler in handlers.items():
        signal.signal(each, handler)


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
    options = [text for each in catalog for text in ("--catalog", each)]
    assert invoke(*INGEST, "lake.t", "--format", "iceberg", *options, *done).exit_code == 0
    assert len(list(tmp_path.glob("lake/t/data/t/*.parquet"))) == 3


def test_keys_of_the_client_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nsecurity.protocol = SSL\ngroup.id=g\n")
    text = ("--client-config", str(file), "-X", "auto.offset.reset=latest")
    result = invoke(*INGEST, str(tmp_path), *text)
    assert result.exit_code == 1
    assert "auto.offset.reset=latest: an ingestor needs error" in result.output


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
    result = invoke(*INGEST, str(tmp_path / "lake"))
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


def test_the_documented_configurations_name_options(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    [shown] = re.findall(r"```toml\n(.*?)```", (docs / "service.md").read_text(), re.DOTALL)
    manifest = (docs / "service/kubernetes.yaml").read_text()
    [mounted] = re.findall(r"ingest\.toml: \|\n(.*?)---", manifest, re.DOTALL)
    for text in shown, textwrap.dedent(mounted):
        file = tmp_path / "ingest.toml"
        file.write_text(text)
        result = invoke("ingest", "--config", str(file), "--start", "noon")
        assert (result.exit_code, "'noon' is not earliest" in result.output) == (2, True)


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


# --- fence ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_fences_are_shown_and_moved(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path / "lake")
    put(lake.table(), range(3))
    place = fence_place(lake)
    [shown] = json.loads(invoke("fence", "show", *place, "--json").stdout)["fences"]
    assert shown == {
        "topic": "t",
        "partition": 0,
        "first": 0,
        "next": 3,
        "segment": "p-2",
        "topic_id": "id",
        "cluster": "cluster",
    }
    result = invoke("fence", "reset", *place, "--to", "0:7", "--yes")
    assert result.exit_code == 0
    assert "t[0]  3 -> 7: gives up offsets 3 to 6" in result.stderr
    assert lake.table().fences()[FENCE].next == 7
    text = invoke("fence", "show", *place).stdout
    assert "t[0]  from 0, next 7, last segment ?, topic id id, cluster cluster" in text


def test_where_nothing_has_landed_it_is_said(tmp_path: Path) -> None:
    assert invoke("fence", "show", str(tmp_path / "none")).stdout == "nothing has landed\n"


def fence_place(lake: Any) -> list[str]:
    if isinstance(lake, IcebergLake):
        catalog = [
            text for key, value in lake.catalog.items() for text in ("--catalog", f"{key}={value}")
        ]
        return ["lake.t", "--format", "iceberg", *catalog]
    return [str(lake.root), "--format", "delta" if isinstance(lake, DeltaLake) else "parquet"]


def test_a_fence_moves_back_only_by_force_and_only_if_one_agrees(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(3))
    back = ("fence", "reset", str(lake.root), "--to", "0:1")
    result = invoke(*back, "--yes")
    assert (result.exit_code, "twice" in result.output) == (1, True)
    result = invoke(*back, "--force")
    assert (result.exit_code, "lands offsets 1 to 2 again" in result.output) == (1, True)
    assert lake.table().fences()[FENCE].next == 3
    assert invoke(*back, "--force", "--yes").exit_code == 0
    assert lake.table().fences()[FENCE].next == 1


def test_a_restored_table_is_shown_with_its_problem_and_reset(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(4))
    DeltaTable(str(lake.root)).restore(1)
    result = invoke("fence", "show", *fence_place(lake), "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["fences"][0]["next"]) == (1, 2)
    assert "the table was restored: 2 commits had landed, and 1 are left" in shown["problem"]
    assert invoke("fence", "reset", *fence_place(lake), "--yes").exit_code == 0
    put(lake.table(), range(4))
    assert len(rows(lake)) == 4 * 3


def test_a_topic_is_only_named_for_offsets_to_move_to(tmp_path: Path) -> None:
    """Without them landing goes on in the whole table."""
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(2))
    result = invoke("fence", "reset", str(lake.root), "--yes", "--topic", "t")
    assert (result.exit_code, "only with --to" in result.output) == (2, True)
    assert (
        invoke("fence", "reset", str(lake.root), "--yes", "--topic", "t", "--to", "0:3").exit_code
        == 0
    )


@pytest.mark.parametrize("text", ["0", "0:x", "t:1", "-1:5", ""])
def test_offsets_that_are_none_are_a_usage_error(tmp_path: Path, text: str) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(2))
    result = invoke("fence", "reset", str(lake.root), "--yes", "--to", text)
    assert (result.exit_code, "is not PARTITION:OFFSET" in result.output) == (2, True)


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("topic")
def test_what_landed_is_verified(tmp_path: Path) -> None:
    place = ("--bootstrap-servers", "h:1", "--topic", "t")
    assert invoke(*INGEST, str(tmp_path), "--stop-at-end", "--roll-bytes", "1").exit_code == 0
    result = invoke("verify", str(tmp_path), *place)
    assert result.stdout == (
        "3 segments with 5 rows are in the table, once and with equal values, in 3 files\n"
    )
    assert result.exit_code == 0
    file = min(tmp_path.glob("t/*.parquet"))
    file.unlink()
    result = invoke("verify", str(tmp_path), *place, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["messages"]) == (1, 2)
    [gone, missing] = report["findings"]
    assert (gone["kind"], gone["file"]) == ("not provable", f"t/{file.name}")
    assert missing == {
        "kind": "missing",
        "reason": "it is in no file",
        "partition": 0,
        "first": 0,
        "last": 0,
        "file": "",
    }
    result = invoke("verify", str(tmp_path), *place)
    assert "missing: partition 0 offsets 0 to 0 : it is in no file" in result.stderr


@pytest.mark.usefixtures("topic")
def test_what_cannot_be_verified_is_said(tmp_path: Path) -> None:
    place = ("--bootstrap-servers", "h:1", "--topic", "t")
    result = invoke("verify", str(tmp_path), *place)
    assert (result.exit_code, "has nothing of topic 't'" in result.output) == (1, True)
    assert invoke(*INGEST, str(tmp_path), "--stop-at-end").exit_code == 0
    result = invoke("verify", str(tmp_path), *place, "--topic-generation", "g")
    assert (result.exit_code, "deleted and created again" in result.output) == (1, True)


# --- compact --------------------------------------------------------------------------------------


def test_a_directory_is_compacted_while_nobody_reads_it(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(3), file_segments=1)
    result = invoke("compact", str(lake.root))
    assert (result.exit_code, "stop them" in result.output) == (2, True)
    result = invoke("compact", str(lake.root), "--offline", "--json")
    assert json.loads(result.stdout) == {"files_before": 3, "files": 1}
    assert invoke("compact", str(lake.root), "--offline").stdout == "1 files before, 1 now\n"


def test_an_iceberg_table_is_compacted(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path / "lake")
    put(lake.table(), range(3), file_segments=1)
    result = invoke("compact", *fence_place(lake))
    assert (result.exit_code, result.stdout) == (0, "3 files before, 1 now\n")


# --- what does not land, and replay ---------------------------------------------------------------


def add_plain(topic: FakeKafka) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b"plain")


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
    add_plain(topic)
    chosen = [each.replace("{root}", str(tmp_path)) for each in options]
    result = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", *chosen)
    assert result.stdout == f"t: 5 rows landed in 1 files{told}\n"
    places = {"dead-letter": "dead", "skip": "lake"}
    assert (tmp_path / places.get(options[1], "t-plain") / "t").is_dir()


def test_rules_that_do_not_fit_are_a_usage_error(tmp_path: Path) -> None:
    for options in (("--plain", "drop"), ("--plain", "dead-letter"), ("--verify", "all")):
        assert invoke(*INGEST, str(tmp_path), *options).exit_code == 2


def test_dead_letters_are_replayed(topic: FakeKafka, tmp_path: Path) -> None:
    """Plain messages, which another rule sends to another table."""
    add_plain(topic)
    lake, dead = str(tmp_path / "lake"), str(tmp_path / "dead")
    rules = ("--plain", "dead-letter", "--dead-letters", dead)
    assert invoke(*INGEST, lake, "--stop-at-end", *rules).exit_code == 0
    replay = ("replay", dead, "--to", lake)
    stopped = invoke(*replay)
    assert stopped.exit_code == 1
    assert "t[0]@3 is a plain message" in stopped.output
    assert invoke(*replay, "--plain", "skip").stdout == (
        "0 rows landed in 0 files, 1 plain messages skipped\n"
    )
    again = invoke(*replay, "--plain", "skip", "--json")
    assert json.loads(again.stdout) == {
        "rows": 0,
        "files": 0,
        "dead_letters": 0,
        "plain_messages": 0,
        "skipped": 0,
    }
    assert invoke(*replay, "--dead-letters", dead).exit_code == 1
