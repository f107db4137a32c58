"""Passwords in a configuration show in no repr, no local variable, no error and no log.

Reports of crashes print the local variables of each frame, and often their attributes.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from typer.testing import CliRunner

import columnar_kafka
import spark_sink
from columnar_kafka import Consumer, DeserializingConsumer, Producer, SerializingProducer
from columnar_kafka.aio import AIOConsumer, AIOProducer
from columnar_kafka.cli.commands import app
from columnar_kafka.cli.ingest import IngestOptions
from columnar_kafka.cli.options import pairs, read_client_config
from columnar_kafka.config import Arguments, Hidden
from columnar_kafka.ingest import (
    Decoding,
    FenceTable,
    Ingestor,
    IngestSettings,
    open_dead_letters,
    open_table,
    parse_rules,
    verify_topic,
)
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.options import LakeOptions
from columnar_kafka.plain import Registry
from columnar_kafka.producing import pipeline
from columnar_kafka.testing import FakeKafka
from spark_sink.columns import MESSAGE
from spark_sink.epochs import EpochMarks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "hunter2"
CONFIG: dict[str, Any] = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "user",
    "sasl.password": SECRET,
}
PARQUET = {**CONFIG, "columnar.encoding": "parquet"}
GROUP = {**PARQUET, "group.id": "g"}
STORAGE = {"aws_region": "x", "aws_access_key_id": "id", "aws_secret_access_key": SECRET}
# SQLAlchemy takes a slash in a password.
CATALOG = {"type": "sql", "uri": f"postgresql://user:a/{SECRET}@host/db", "token": SECRET}
OF_KAFKA = {f"kafka.{key}": str(value) for key, value in CONFIG.items()}
OPTIONS = {"path": "s3://b/t", "table.source.isolation": "read_committed", **OF_KAFKA}
OPTIONS |= {f"table.storage.{key}": value for key, value in STORAGE.items()}
REGISTRY: dict[str, Any] = {"url": f"http://user:{SECRET}@127.0.0.1:9", "max.retries": 0}
VISIT = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
ROWS = StructType().add("n", "long")
OURS = tuple(str(Path(package.__file__).parent) for package in (columnar_kafka, spark_sink))


def options(**more: str) -> CaseInsensitiveDict:
    return CaseInsensitiveDict(OPTIONS | more)


def source(**more: str) -> Any:
    return spark_sink.KafkaSource(CaseInsensitiveDict(OF_KAFKA | more))


async def _aio(cls: Any, config: dict[str, Any]) -> Any:
    async with cls(config) as made:
        return made


async def _with_schema() -> None:
    async with AIOProducer(PARQUET) as made:
        await made.set_schema("t", VISIT, registry=REGISTRY)


async def _credentials() -> None:
    async with AIOProducer(PARQUET) as made:
        await made.set_sasl_credentials("user", SECRET, SECRET)


def lake(table_format: str = "delta", **given: Any) -> Any:
    return open_table(table_format, "s3://bucket/t", storage=STORAGE, **given)


def with_schema(registry: dict[str, Any]) -> Any:
    producer = FakeKafka().Producer(PARQUET)
    producer.set_schema("t", VISIT, registry=registry)
    return producer


MADE: dict[str, Callable[[], Any]] = {
    "producer": lambda: Producer(PARQUET),
    "producer, not encoding": lambda: Producer(CONFIG),
    "serializing producer": lambda: SerializingProducer(PARQUET),
    "consumer": lambda: Consumer(GROUP),
    "consumer, not unwrapping": lambda: Consumer({**CONFIG, "group.id": "g"}),
    "fake producer": lambda: FakeKafka().Producer(PARQUET),
    "fake consumer": lambda: FakeKafka().Consumer(GROUP),
    "aio producer": lambda: asyncio.run(_aio(AIOProducer, PARQUET)),
    "aio consumer": lambda: asyncio.run(_aio(AIOConsumer, GROUP)),
    "ingestor": lambda: Ingestor(CONFIG, "t", lake()),
    "directory": lambda: lake("parquet"),
    "iceberg": lambda: open_table("iceberg", "a.b", storage=STORAGE, catalog=CATALOG),
    "pairs": lambda: pairs([f"sasl.password={SECRET}"], "-X"),
    "client config": lambda: read_client_config("h", None, [f"sasl.password={SECRET}"]),
    "source": lambda: source(subscribe="t"),
    "batch reader": lambda: source(subscribe="t").reader(source(subscribe="t").schema()),
    "stream reader": lambda: source(subscribe="t").streamReader(source(subscribe="t").schema()),
    "topic writer": lambda: source(topic="t").writer(ROWS, overwrite=False),
    "topic stream writer": lambda: source(topic="t", checkpointLocation="/nowhere").streamWriter(
        ROWS, overwrite=False
    ),
    "sink": lambda: spark_sink.LakeSink(options()),
    "lake writer": lambda: spark_sink.LakeSink(options()).writer(MESSAGE, overwrite=False),
    "epochs": lambda: EpochMarks(Hidden(CONFIG), "x"),
    "registry": lambda: Registry(REGISTRY),
    "decoding": lambda: Decoding(registry=REGISTRY),
    "decoder": lambda: PlainDecoder(Decoding(registry=REGISTRY)),
    "producer with a registry": lambda: with_schema(REGISTRY | {"url": f"mock://u:{SECRET}@h"}),
}


@pytest.mark.parametrize("kind", MADE)
def test_nothing_that_is_kept_shows_them(kind: str) -> None:
    made = MADE[kind]()
    for path, kept in reachable(made):
        assert SECRET not in f"{kept!r} {kept}", path
    if "aio" not in kind:  # which is closed
        with suppress(Exception):
            made.close()


def test_the_options_of_a_command_show_none() -> None:
    given = IngestOptions(
        bootstrap_servers="h",
        topic=["t"],
        to="s3://b/t",
        client=[f"sasl.password={SECRET}"],
        lake=LakeOptions(storage={"aws_secret_access_key": SECRET}, catalog={"credential": SECRET}),
    )
    assert SECRET not in f"{given!r} {given}"


def test_a_pickled_copy_shows_them_neither() -> None:
    """Spark's tasks get one."""
    reader = source(subscribe="t").reader(source(subscribe="t").schema())
    pickled = pickle.loads(pickle.dumps(reader._options))  # noqa: SLF001 - what Spark is given
    assert SECRET not in repr(pickled)
    assert pickled.config["sasl.password"] == SECRET


def reachable(start: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object keeps: attributes of our objects, and what containers hold."""
    seen: set[int] = set()
    pending: list[tuple[str, Any]] = [("it", start)]
    while pending:
        path, kept = pending.pop()
        if id(kept) in seen or isinstance(kept, type | str | bytes | int | float):
            continue
        seen.add(id(kept))
        yield path, kept
        if isinstance(kept, Hidden):
            continue  # its values are what it hides
        if isinstance(kept, dict):
            pending += [(f"{path}[{key!r}]", value) for key, value in kept.items()]
        if isinstance(kept, list | tuple | set | frozenset):
            pending += [(f"{path}[{index}]", value) for index, value in enumerate(kept)]
        is_ours = type(kept).__module__.partition(".")[0] in ("columnar_kafka", "spark_sink")
        if is_ours or path == "it":
            slots = {name for cls in type(kept).__mro__ for name in getattr(cls, "__slots__", ())}
            names = {*getattr(kept, "__dict__", {}), *slots} - {"__dict__", "__weakref__"}
            for name in names:
                with suppress(AttributeError):
                    pending.append((f"{path}.{name}", getattr(kept, name)))


def file(text: str) -> str:
    path = Path("given")  # in the test's folder
    path.write_text(text, encoding="latin-1")
    return str(path)


def command(*arguments: str) -> None:
    """Run a command, and raise what ends it."""
    run("verify", "/nowhere/t", "--topic", "t", "--bootstrap-servers", "127.0.0.1:1", *arguments)


def ingest(*arguments: str) -> None:
    given = ("--topic", "t", "--bootstrap-servers", "127.0.0.1:1", "--to", "lake")
    run("ingest", *given, *arguments)


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is not None, result.output
    assert SECRET not in result.output
    raise result.exception


def rules(**given: Any) -> Any:
    stated: dict[str, Any] = {"verify": "pages", "dead_letters": None, "plain": "stop"}
    return parse_rules(**(stated | given), table_format="delta")


class Unlucky:
    """A schema that cannot be read, whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


def lake_at(storage: dict[str, str]) -> Any:
    return open_table("parquet", "s3://b/t", storage=storage)


def catalog(properties: dict[str, str]) -> Any:
    return open_table("iceberg", "a.b", catalog=properties)


URL = f"s3://user:{SECRET}@bucket/t"
FAILS: dict[str, Callable[[], Any]] = {
    "producer, our key": lambda: Producer({**PARQUET, "columnar.nonsense": 1}),
    "producer, our value": lambda: Producer(PARQUET, **{"columnar.linger.ms": "x"}),
    "producer, their key": lambda: Producer({**PARQUET, "no.such.key": 1}),
    "producer, their value": lambda: Producer({**PARQUET, "acks": "many"}),
    "producer, timeouts": lambda: Producer({**PARQUET, "message.timeout.ms": 10}),
    "consumer, our key": lambda: Consumer({**GROUP, "columnar.nonsense": 1}),
    "consumer, their key": lambda: Consumer({**GROUP, "no.such.key": 1}),
    "consumer, no group": lambda: Consumer(PARQUET),
    "share consumer": lambda: columnar_kafka.ShareConsumer(GROUP),
    "serializing producer": lambda: SerializingProducer({**PARQUET, "columnar.nonsense": 1}),
    "aio producer": lambda: asyncio.run(_aio(AIOProducer, {**PARQUET, "no.such.key": 1})),
    "aio consumer": lambda: asyncio.run(_aio(AIOConsumer, {**GROUP, "no.such.key": 1})),
    "fake producer": lambda: FakeKafka().Producer({**PARQUET, "no.such.key": 1}),
    "producer, two dicts": lambda: Producer(PARQUET, PARQUET),
    "producer, no dict": lambda: Producer([PARQUET], **PARQUET),
    "consumer, two dicts": lambda: Consumer(GROUP, GROUP),
    "share consumer, two dicts": lambda: columnar_kafka.ShareConsumer(GROUP, GROUP),
    "fake producer, two dicts": lambda: FakeKafka().Producer(PARQUET, PARQUET),
    "fake consumer, two dicts": lambda: FakeKafka().Consumer(GROUP, GROUP),
    "serializing producer, no dict": lambda: SerializingProducer([PARQUET]),
    "deserializing consumer, no dict": lambda: DeserializingConsumer([GROUP]),
    "aio producer, no dict": lambda: asyncio.run(_aio(AIOProducer, [PARQUET])),
    "aio consumer, no dict": lambda: asyncio.run(_aio(AIOConsumer, [GROUP])),
    "credentials": lambda: Consumer(GROUP).set_sasl_credentials("user", SECRET, SECRET),
    "aio credentials": lambda: asyncio.run(_credentials()),
    "registry, their key": lambda: Registry({**REGISTRY, "nonsense": SECRET}),
    "registry, their value": lambda: Registry({**REGISTRY, "timeout": "x"}),
    "registry, wrong URL": lambda: Registry({"url": f"ftp://user:{SECRET}@h"}),
    "decoding, their key": lambda: Decoding(registry={**REGISTRY, "nonsense": SECRET}),
    "producer, registry that is down": lambda: with_schema(REGISTRY),
    "producer, registry's key": lambda: with_schema({**REGISTRY, "nonsense": SECRET}),
    "aio producer, registry": lambda: asyncio.run(_with_schema()),
    "command, registry": lambda: command(
        *("--registry", f"ftp://u:{SECRET}@h", "--registry-key", f"x={SECRET}")
    ),
    "command, registry's key": lambda: command("--registry-key", SECRET),
    "command, client": lambda: command("-X", f"sasl.password={SECRET}", "-X", "nonsense"),
    "command, wrong client": lambda: command("-X", f"sasl.password:{SECRET}"),
    "command, oauth": lambda: command("-X", f"sasl.password={SECRET}", "-X", "oauth_cb=nonsense"),
    "command, storage": lambda: command("--storage", f"secret={SECRET}", "--storage", "nonsense"),
    "command, catalog": lambda: command("--catalog", f"credential={SECRET}"),
    "command, client file": lambda: command("--client-config", file(f"a={SECRET}\nnonsense")),
    "command, configuration file": lambda: ingest(
        "--config", file(f'nonsense = 1\n[client]\n"sasl.password" = "{SECRET}"')
    ),
    "command, configuration file that is none": lambda: ingest(
        "--config", file(f'[client]\n"sasl.password" = "{SECRET}" x')
    ),
    "command, its own error": lambda: ingest(
        "--config", file(f'[client]\n"sasl.password" = "{SECRET}"'), "-X", "no.such.key=1"
    ),
    "command, client file in another encoding": lambda: command(
        "--client-config", file(f"sasl.password={SECRET}\nx=\xfc")
    ),
    "command, configuration file in another encoding": lambda: ingest(
        "--config", file(f'[client]\n"sasl.password" = "{SECRET}"\nx = "\xfc"')
    ),
    "command, URL": lambda: run(
        "verify", URL, "--topic", "t", "--bootstrap-servers", "127.0.0.1:1"
    ),
    "command, URL of dead letters": lambda: command("--dead-letters", URL),
    "command, ingest": lambda: ingest("--to", URL),
    "command, ingest with a table of plain messages": lambda: ingest("--plain", f"table:{URL}"),
    "command, replay": lambda: run("replay", URL, "--to", "/nowhere/t"),
    "command, replay into": lambda: run("replay", "/nowhere/t", "--to", URL),
    "command, compact": lambda: run("compact", URL),
    "command, repair": lambda: run("repair", URL),
    "command, fence": lambda: run("fence", "show", URL),
    "command, URL in a file": lambda: ingest("--config", file(f'dead-letters = "{URL}"')),
    "schema": lambda: Producer(PARQUET).set_schema("t", Unlucky()),
    "ingestor": lambda: Ingestor({**CONFIG, "enable.auto.commit": True}, "t", lake()),
    "ingestor, session": lambda: Ingestor({**CONFIG, "max.poll.interval.ms": 10}, "t", lake()),
    "running ingestor": lambda: Ingestor(
        {**CONFIG, "no.such.key": 1}, "t", lake("parquet"), IngestSettings(topic_generation="g")
    ).run(),
    "verify": lambda: verify_topic({**CONFIG, "enable.auto.commit": True}, "t", lake("parquet")),
    "object store": lambda: open_table(
        "parquet", "s3://bucket/t", storage={"aws_nonsense": "x", **STORAGE}
    ),
    "object store, client": lambda: open_table(
        "parquet", "s3://bucket/t", storage={"aws_timeout": "x", **STORAGE, "proxy_url": SECRET}
    ),
    "iceberg": lambda: open_table(
        "iceberg", "a.b", storage={**STORAGE, "nonsense": "x"}, catalog=CATALOG
    ),
    "ingestor, no dict": lambda: Ingestor([CONFIG], "t", lake()),  # type: ignore[arg-type]
    "verify, no dict": lambda: verify_topic([CONFIG], "t", lake()),  # type: ignore[arg-type]
    "storage, no dict": lambda: open_table("delta", "s3://b/t", storage=[STORAGE]),  # type: ignore[arg-type]
    "catalog, no dict": lambda: open_table("iceberg", "a.b", catalog=f"token={SECRET}"),
    "rules, no dict": lambda: rules(storage=[STORAGE]),
    "fences, wrong key": lambda: FenceTable(
        "parquet", "s3://b/t", storage={"aws_nonsense": "x", **STORAGE}
    ),
    "dead letters, wrong key": lambda: open_dead_letters(
        "s3://b/t", storage={"aws_nonsense": "x", **STORAGE}
    ),
    "URL of a directory": lambda: open_table("parquet", URL),
    "URL of a Delta table": lambda: open_table("delta", URL),
    "URL as an Iceberg table": lambda: open_table("iceberg", URL, catalog=CATALOG),
    "URL, a slash in the password": lambda: open_table("delta", f"s3://id:a/b{SECRET}@b/t"),
    "URL, no bucket": lambda: open_table("delta", f"s3://id:{SECRET}/t"),
    "URL, @ in the password": lambda: open_table("delta", f"s3://id:{SECRET}@{SECRET}@b/t"),
    "URL, Azure": lambda: open_table("delta", f"abfss://c:{SECRET}@account.dfs.core.windows.net/t"),
    "URL, query": lambda: open_table("delta", f"s3://b/t?secret={SECRET}"),
    "URL, no store": lambda: open_table("parquet", f"https://user:{SECRET}@host/t"),
    "URL, no store, query": lambda: open_table("parquet", f"https://host/t?sig={SECRET}"),
    "URL, rules": lambda: rules(plain=f"table:{URL}"),
    "URL, rules without table:": lambda: rules(plain=URL),
    "URL, rules' dead letters": lambda: rules(dead_letters=URL),
    "URL, fences": lambda: FenceTable("delta", URL),
    "URL, endpoint": lambda: lake_at({"aws_endpoint": f"http://user:{SECRET}@host:1"}),
    "URL, proxy": lambda: lake_at({"proxy_url": f"user:{SECRET}@host:x"}),
    "URL, endpoint of a catalog": lambda: catalog({"s3.endpoint": f"http://user:{SECRET}@host:1"}),
    "URL, warehouse": lambda: catalog({"warehouse": URL}),
    "URL, REST catalog": lambda: catalog({"type": "rest", "uri": f"http://user:{SECRET}@h:1/x"}),
    "URL, sink": lambda: spark_sink.LakeSink(options(path=URL)).writer(MESSAGE, overwrite=False),
    "URL, sink's dead letters": lambda: spark_sink.LakeSink(
        options(**{"table.dead.letters": URL})
    ).writer(MESSAGE, overwrite=False),
    "source, option": lambda: source(nonsense="x").schema(),
    "source, java key": lambda: source(
        subscribe="t", **{"kafka.sasl.jaas.config": f'password="{SECRET}"'}
    ).schema(),
    "source, value": lambda: source(subscribe="t", failOnDataLoss="x").schema(),
    "topic writer": lambda: source(topic="t", nonsense="x").writer(ROWS, overwrite=False),
    "sink": lambda: spark_sink.LakeSink(options(nonsense="x")).writer(MESSAGE, overwrite=False),
    "sink, value": lambda: spark_sink.LakeSink(options(**{"table.gap": "x"})).writer(
        MESSAGE, overwrite=False
    ),
}


@pytest.mark.parametrize("kind", FAILS)
def test_no_error_and_no_frame_of_ours_shows_them(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "_TOPIC_CONFIG_TIMEOUT", 0.01)
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever it is
        FAILS[kind]()
    assert not isinstance(raised.value, AssertionError | NotImplementedError)
    report: Any = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    for error in chained(raised.value):
        assert SECRET not in f"{error!r} {error}"
    while report is not None:
        assert SECRET not in "".join(report.format_exception_only())
        for frame in report.stack:
            if frame.filename.startswith(OURS):
                for name, shown in (frame.locals or {}).items():
                    assert SECRET not in shown, f"{frame.filename}:{frame.lineno} {name}"
        report = report.__cause__ or report.__context__
    assert SECRET not in caplog.text


def chained(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it came from, also where it does not show them."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_arguments_have_no_attribute_that_shows_them() -> None:
    arguments = Arguments((SECRET,), {"password": SECRET})
    for path, kept in reachable(arguments):
        assert SECRET not in f"{kept!r} {kept}", path
    assert arguments.passed_to(lambda *args, **kwargs: (args, kwargs)) == (
        (SECRET,),
        {"password": SECRET},
    )


def test_a_wrong_argument_of_a_command_is_told_without_its_value(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"a=b\nsasl.password {SECRET}\n")
    arguments = ["verify", str(tmp_path), "--topic", "t", "--bootstrap-servers", "h"]
    for more in (["-X", f"sasl.password:{SECRET}"], ["--client-config", str(file)]):
        result = CliRunner().invoke(app, arguments + more)
        assert result.exit_code == 2
        assert SECRET not in result.output
        assert "key=value" in result.output


@pytest.mark.parametrize("option", ["--client-config", "--config"])
def test_a_file_in_another_encoding_is_told_without_what_is_in_it(
    tmp_path: Path, option: str
) -> None:
    path = tmp_path / "given"
    path.write_bytes(f"a = 1\n# {SECRET} \xfc\n".encode("latin-1"))
    given = ["--topic", "t", "--bootstrap-servers", "h", "--to", str(tmp_path)]
    result = CliRunner().invoke(app, ["ingest", *given, option, str(path)], terminal_width=999)
    assert (result.exit_code, SECRET in result.output) == (2, False)
    assert "line 2 is not UTF-8" in " ".join(result.output.replace("│", " ").split())


def test_no_command_prints_local_variables() -> None:
    assert app.pretty_exceptions_enable is False


def test_a_hidden_configuration_is_one() -> None:
    hidden = Hidden(CONFIG)
    copies = [hidden.copy(), hidden | {}, {} | hidden, copy.copy(hidden), copy.deepcopy(hidden)]
    copies.append(hidden)
    copies[-1] |= {}
    for copied in copies:
        assert (type(copied), copied) == (Hidden, CONFIG)
    assert type(Hidden.fromkeys(CONFIG)) is Hidden
    with pytest.raises(TypeError, match="unsupported operand"):
        hidden | 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        1 | hidden  # type: ignore[operator]
    assert repr(hidden) == f"{hidden!s}" == f"<{', '.join(CONFIG)}>"
    assert hidden == CONFIG
    with suppress(KafkaException):
        Producer(hidden).close()
