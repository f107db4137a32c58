"""What README and docs show runs, and what they name exists."""

from __future__ import annotations

import doctest
import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from typer.main import get_command

import columnar_kafka
from columnar_kafka import Consumer, Producer
from columnar_kafka.cli.commands import app
from columnar_kafka.consuming.settings import _CONSUMER_KEYS
from columnar_kafka.ingest import Decoding, Infer, Rules, open_table
from columnar_kafka.lake.formats import FORMATS, formats_with
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage, TopicGeneration
from columnar_kafka.lake.options import LakeOptions, options_of
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.producing.settings import _PRODUCER_KEYS
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka
from spark_sink.landing.sink_options import lake_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippets(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.kafka
@pytest.mark.spark
def test_the_readmes_snippets_run_one_after_the_other_on_spark(
    kafka, spark, on_spark, tmp_path, capsys
) -> None:
    kafka.create_topic("flights", 1)
    namespace = {"spark": spark}
    for text in snippets("python"):
        there = text.replace("localhost:9092", kafka.bootstrap_servers)
        there = there.replace('"/lake', f'"{tmp_path}/lake').replace("poll(10)", "poll(120)")
        code = compile(there, "README.md", "exec")
        if "spark_sink" in there:
            on_spark(lambda code=code: exec(code, namespace))
        else:
            exec(code, namespace)
    namespace["producer"].close()
    printed = capsys.readouterr().out
    bytes_given = '{"carrier": "UA", "flight": 1545, "delay": 2, "gate": null}'
    assert f"delivered {bytes_given.encode()}" in printed
    assert "delivered {'carrier': 'AA', 'flight': 1141, 'delay': None}" in printed
    assert f"{json.loads(bytes_given)} b'N14228' [('trace', b'1')]" in printed
    rows = spark.read.parquet(f"{tmp_path}/lake/flights").select("carrier", "delay").collect()
    assert sorted(map(tuple, rows)) == [("AA", None), ("UA", 2)]


@pytest.mark.kafka
def test_the_readmes_command_lands_json_that_nobody_has_described(kafka, topic, tmp_path) -> None:
    name = topic(2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    orders = [{"shop": "a", "total": 1.5}, {"shop": "b", "total": 2}, {"total": 3.0, "shop": "a"}]
    for number, order in enumerate([*orders, {"shop": 7, "new": {"x": 1}}]):
        producer.produce(name, json.dumps(order), partition=number % 2)
    producer.flush()
    [text] = snippets("sh")
    there = text.replace("localhost:9092", kafka.bootstrap_servers).replace("/lake", f"{tmp_path}")
    there = there.replace("--topic orders", f"--topic {name} --stop-at-end --infer-messages 1")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", there],
        check=False,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "4 rows landed" in done.stdout
    shown = [line.split() for line in done.stdout.splitlines()]
    assert ["│", "a", "┆", "4.5", "│"] in shown
    rests = [row["_rest"] for row in pl.read_delta(str(tmp_path / "orders")).to_dicts()]
    assert [rest for rest in rests if rest] == ['{"shop":7,"new":{"x":1}}']


@pytest.mark.kafka
def test_the_producers_snippets_run_one_after_the_other(kafka, capsys) -> None:
    for topic in ("orders", "other"):
        kafka.create_topic(topic, 2)
    namespace: dict[str, Any] = {}
    for text in snippets("python", (ROOT / "docs/producer.md").read_text(encoding="utf-8")):
        there = text.replace("localhost:9092", kafka.bootstrap_servers)
        exec(compile(there, "producer.md", "exec"), namespace)
    namespace["producer"].close()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "docs"}
    with Consumer({**config, "columnar.encoding": "parquet"}) as consumer:
        places = [TopicPartition(topic, n, 0) for topic in ("orders", "other") for n in range(2)]
        consumer.assign(places)
        messages = [message for _ in range(7) for message in [consumer.poll(120)] if message]
    ids = [message.value()["id"] for message in messages if message.topic() == "orders"]
    assert sorted(ids) == [1, 2, 3, 4, 5, 6]
    [plain] = [message.value() for message in messages if message.topic() == "other"]
    assert plain == b"a topic without a schema: an ordinary message"
    printed = json.loads(capsys.readouterr().out)
    assert len(printed) == 2
    assert set(printed) <= {message.offset() for message in messages}


@pytest.mark.kafka
def test_the_consumers_snippets_for_arrow_run(kafka, capsys) -> None:
    kafka.create_topic("arrow-orders", 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema("arrow-orders", pa.schema([("id", pa.int64())]))
        for n in (1, 2, 3):
            producer.produce("arrow-orders", {"id": n})
        producer.produce("arrow-orders", b'{"id": 4}')
    page = (ROOT / "docs/consumer.md").read_text(encoding="utf-8")
    text = "".join(snippet for snippet in snippets("python", page) if "arrow" in snippet)
    there = text.replace("orders", "arrow-orders").replace("consume_arrow(100", "consume_arrow(2")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "docs-arrow"}
    exec(compile(there, "consumer.md", "exec"), {"Consumer": Consumer, "settings": settings})
    assert capsys.readouterr().out == "b'arrow-orders' [1, 2]\n[3, 4]\n4\n"


@pytest.mark.kafka
def test_the_consumers_snippet_for_json_runs(kafka, capsys) -> None:
    kafka.create_topic("json-orders", 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema("json-orders", pa.schema([("id", pa.int64())]))
        producer.produce("json-orders", {"id": 1})
        producer.produce("json-orders", b'{"id": 2, "new": null}')
    page = (ROOT / "docs/consumer.md").read_text(encoding="utf-8")
    [text] = [snippet for snippet in snippets("python", page) if "value.format" in snippet]
    there = text.replace('["orders"]', '["json-orders"]').replace("poll(10)", "poll(5)")
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "docs-json",
        "auto.offset.reset": "earliest",
    }
    exec(compile(there, "consumer.md", "exec"), {"Consumer": Consumer, "settings": settings})
    assert capsys.readouterr().out == "{'id': 1}\n{'id': 2, 'new': None}\n"


@pytest.mark.kafka
def test_the_consumers_snippet_for_asyncio_runs(kafka, capsys) -> None:
    kafka.create_topic("aio-orders", 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema("aio-orders", pa.schema([("id", pa.int64())]))
        for n in (1, 2, 3, 4):
            producer.produce("aio-orders", {"id": n})
    page = (ROOT / "docs/consumer.md").read_text(encoding="utf-8")
    [text] = [snippet for snippet in snippets("python", page) if "async for" in snippet]
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "docs-aio"}
    settings["auto.offset.reset"] = "earliest"
    there = text.replace("orders", "aio-orders")
    exec(compile(there, "consumer.md", "exec"), {"settings": settings})
    assert capsys.readouterr().out == "{'id': 1}\n{'id': 2}\n{'id': 3}\n"


@pytest.mark.kafka
def test_the_consumers_snippet_for_the_lag_runs(kafka, capsys) -> None:
    kafka.create_topic("lag-orders", 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema("lag-orders", pa.schema([("id", pa.int64())]))
        for n in (1, 2, 3):
            producer.produce("lag-orders", {"id": n})
    page = (ROOT / "docs/consumer.md").read_text(encoding="utf-8")
    [text] = [snippet for snippet in snippets("python", page) if ".lag(" in snippet]
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    there = text.replace("orders", "lag-orders").replace("poll(10)", "poll(120)")
    exec(compile(there, "consumer.md", "exec"), {"Consumer": Consumer, "settings": settings})
    assert capsys.readouterr().out == "lag-orders 0 1 messages, 2 records\n"


def section(page: str, heading: str) -> str:
    """Return the only code in a section of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    [code] = snippets("python", text.partition("\n## ")[0])
    return code


@pytest.mark.kafka
def test_the_snippet_with_serializers_runs(kafka, capsys) -> None:
    kafka.create_topic("serialized-orders", 1)
    text = section("frameworks.md", "Serializers")
    there = text.replace("localhost:9092", kafka.bootstrap_servers).replace("poll(10)", "poll(120)")
    there = there.replace('"orders"', '"serialized-orders"').replace("billing", "docs-serialized")
    namespace: dict[str, Any] = {}
    exec(compile(there, "frameworks.md", "exec"), namespace)
    namespace["producer"].close()
    assert capsys.readouterr().out == "{'id': 1, 'items': ['tea'], 'gift': None}\n"
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "docs-raw"}
    with Consumer(config) as consumer:
        consumer.assign([TopicPartition("serialized-orders", 0, 0)])
        assert is_segment(consumer.poll(120).headers())


@pytest.fixture
def root_logger(monkeypatch) -> logging.Logger:
    """The root of all loggers, with no handlers but those that the test adds."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    return root


def test_the_logging_handler_makes_a_table_of_a_log(monkeypatch, root_logger) -> None:
    with FakeKafka() as kafka:
        monkeypatch.setattr(columnar_kafka, "Producer", kafka.Producer)
        namespace: dict[str, Any] = {}
        exec(compile(section("frameworks.md", "Logging"), "frameworks.md", "exec"), namespace)
        try:
            {}["no such order"]
        except KeyError:
            root_logger.exception("late")
        logging.getLogger("columnar_kafka.x").warning("what must not come back")
        namespace["producer"].close()
        [segment] = kafka.messages("log")
        assert is_segment(segment.headers())
        first, second = [record.value() for record in kafka.records("log")]
    assert first.pop("time") == pytest.approx(time.time(), abs=3600)
    assert first == {
        "level": "WARNING",
        "logger": "root",
        "message": "3 orders are late",
        "exception": None,
        "_rest": '{"shop":"a"}',
    }
    assert (second["level"], second["_rest"]) == ("ERROR", None)
    assert second["exception"].endswith("KeyError: 'no such order'")


def test_the_logging_handler_never_fails_the_program(monkeypatch, root_logger, capsys) -> None:
    with FakeKafka() as kafka:
        monkeypatch.setattr(columnar_kafka, "Producer", kafka.Producer)
        text = section("frameworks.md", "Logging")
        full = text.replace(
            '"columnar.encoding"', '"queue.buffering.max.messages": 1, "columnar.encoding"'
        )
        kafka.create_topic("log")
        namespace: dict[str, Any] = {}
        exec(compile(full, "frameworks.md", "exec"), namespace)
        root_logger.warning("one too many")
        namespace["producer"].close()
        assert len(kafka.records("log")) == 1
    assert "BufferError" in capsys.readouterr().err


def test_one_record_goes_all_the_way_as_the_design_shows_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    shown = doctest.DocTestParser().get_doctest(
        "".join(snippets("pycon", page)), {}, "design.md", None, None
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert (runner.run(shown, clear_globs=False).failed, runner.tries > 20) == (0, True)
    shown.globs["producer"].close()
    shown.globs["consumer"].close()


def test_a_registry_gives_and_takes_schemas_as_its_page_shows_it() -> None:
    page = (ROOT / "docs/schemas.md").read_text(encoding="utf-8")
    shown = doctest.DocTestParser().get_doctest(
        "".join(snippets("pycon", page)), {}, "schemas.md", None, None
    )
    runner = doctest.DocTestRunner()
    assert (runner.run(shown, clear_globs=False).failed, runner.tries > 10) == (0, True)
    shown.globs["producer"].close()


def test_the_readmes_error_is_the_one_that_users_see() -> None:
    from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns  # noqa: PLC0415
    from columnar_kafka.errors import RowError  # noqa: PLC0415
    from columnar_kafka.schema import RecordSchema  # noqa: PLC0415

    columns = RowColumns(RecordSchema.parse(pa.schema([("flight", pa.int32())])))
    with pytest.raises(RowError) as raised:
        columns.take({"flight": "1545"})
    assert snippets("text") == [f"{raised.value}\n"]


def test_the_readmes_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = re.findall(r"^make (\w+)", snippets("console")[0], flags=re.MULTILINE)
    assert named == ["demo", "test"]
    assert set(named) <= targets


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.kafka
def test_the_lakes_snippet_lands_what_is_in_the_topic(kafka, topic, tmp_path, capsys) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, pa.schema([("n", pa.int64())]))
        for n in range(3):
            producer.produce(name, {"n": n})
    [text] = snippets("python", (ROOT / "docs/lake.md").read_text(encoding="utf-8"))
    there = text.replace("localhost:9092", kafka.bootstrap_servers)
    there = there.replace('"/lake"', repr(str(tmp_path))).replace('"flights"', repr(name))
    exec(compile(there, "lake.md", "exec"), {})
    assert capsys.readouterr().out == "3\n"


def test_links_between_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    anchors = {document: set(map(anchor, headings(document))) for document in documents}
    for document in documents:
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", document.read_text(encoding="utf-8")):
            path, _, section = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            assert target.exists(), f"{document.name}: {link}"
            assert not section or section in anchors[target], f"{document.name}: {link}"


def headings(page: Path) -> list[str]:
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


def anchor(heading: str) -> str:
    """Return what a heading's link is called, as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_option_of_the_command_line_is_documented() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md"))
    for name, command in commands(get_command(app)):
        assert f"`{name}`" in pages, name
        for option in {opt for parameter in command.params for opt in parameter.opts}:
            if option.startswith("--"):
                assert re.search(rf"{option}(?![\w-])", pages), f"{name} {option}"


def test_the_options_of_landing_are_in_the_table_as_they_are() -> None:
    page = (ROOT / "docs/lake.md").read_text(encoding="utf-8")
    section = page.partition("## Options")[2].partition("\n## ")[0]
    rows = [re.findall(r" ([^|]*) (?=\|)", line) for line in section.splitlines() if "`" in line]
    table = {row[0].strip("`"): row[1:] for row in rows if len(row) == 4}
    stated = dict(options_of(LakeOptions))
    assert table.keys() - {"path", "subscribe", "table.source.isolation"} == set(
        map(documented, stated)
    )
    for name, option in stated.items():
        flag, values, text = table[documented(name)]
        formats = ", ".join(map(str.title, formats_with(name)))
        of_formats = "" if formats_with(name) == tuple(FORMATS) else f" ({formats})"
        assert (flag, without_links(text)) == (
            f"`--{name}`".replace("_", "-"),
            option.help + of_formats,
        )
        default = getattr(LakeOptions(), name)
        choices = option.choices or (option.metavar or "").split("|")
        if len(choices) > 1:
            assert values == ", ".join(bold(f"`{choice}`", choice == default) for choice in choices)
        elif default:
            assert values == bold(str(default), True)


def test_no_cell_of_a_table_is_longer_than_can_be_read() -> None:
    long = [
        f"{page.name}: {cell[:60]}"
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for cell in re.split(r"(?<!\\)\|", line)
        if len(cell.strip()) > 200
    ]
    assert long == []


def documented(name: str) -> str:
    key = lake_key(name)
    return f"{key}.*" if isinstance(getattr(LakeOptions(), name), dict) else key


def without_links(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield prefix + name, command


@pytest.mark.parametrize(
    ("page", "keys"), [("producer.md", _PRODUCER_KEYS), ("consumer.md", _CONSUMER_KEYS)]
)
def test_every_key_is_documented(page: str, keys: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert set(keys) == set(
        re.findall(r"^\| `(columnar\.[a-z.]+|fetch\.raw\.bytes)` \|", text, re.MULTILINE)
    )


@pytest.mark.parametrize(
    ("number", "path", "columns", "rest"),
    [
        (0, "/payload", {"id", "city"}, {"schema"}),
        (1, "", {"specversion", "type", "source", "id", "data"}, None),
        (1, "/data", {"id", "total"}, {"specversion", "type", "source", "id"}),
        (2, "", {"before", "after", "source", "op", "ts_ms"}, None),
    ],
)
def test_the_envelopes_have_the_columns_that_their_page_says(
    tmp_path, number: int, path: str, columns: set[str], rest: set[str] | None
) -> None:
    """A record that was null so far is no column yet."""
    sent = json.loads(snippets("json", (ROOT / "docs/envelopes.md").read_text())[number])
    rows = landed(tmp_path, [sent], lenient=Lenient(path=path)).to_pylist()
    left = json.loads(rows[0]["_rest"] or "null")
    assert rows[0].keys() - {"_rest", "_kafka"} == columns - {n for n in sent if sent[n] is None}
    assert (None if left is None else {*left}) == rest
    assert restored(rows[0], path=path) == {n: value for n, value in sent.items() if value}


def test_the_query_of_a_change_log_returns_the_newest_state(tmp_path) -> None:
    page = (ROOT / "docs/envelopes.md").read_text()
    first = json.loads(snippets("json", page)[2])
    row = first["after"]
    changes: list[tuple[str, Any, Any]] = [
        ("c", None, row),
        ("c", None, {"id": 8, "total": 1.0}),
        ("u", row, row | {"total": 13.0}),
        ("d", {"id": 8, "total": 1.0}, None),
    ]
    events = [
        {"op": op, "before": before, "after": after, "source": {"lsn": n}}
        for n, (op, before, after) in enumerate(changes)
    ]
    orders = landed(tmp_path, events, lenient=Lenient())
    assert orders.num_rows == 4
    [query] = snippets("sql", page)
    assert duckdb.sql(query).fetchall() == [(7, 13.0)]


def landed(root: Path, rows: Iterable[Any], **options: Any) -> pa.Table:
    """Land objects as plain messages by a schema that is guessed."""
    messages = [
        SourceMessage(
            topic="t", partition=0, offset=n, headers=None, value=json.dumps(row).encode()
        )
        for n, row in enumerate(rows)
    ]
    table = open_table("delta", str(root / "lake"))
    decoding = Decoding("json", Infer(), **options).decided(table, lambda _: messages)
    rules = Rules(plain="decode", decoding=decoding)
    land(messages, table=table, generations={"t": TopicGeneration("c", "t")}, rules=rules)
    return deltalake.DeltaTable(str(root / "lake")).to_pyarrow_table()
