"""Landing without Spark: one process reads a topic and lands its segments in a table.

>>> from columnar_kafka.ingest import Ingestor, IngestSettings

A table is any `LakeTable`; `open_table` makes one of a format's name and a place.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from columnar_kafka.ingest.audit import verify_topic
    from columnar_kafka.ingest.fencing import FenceTable, TableFences
    from columnar_kafka.ingest.health import HealthServer
    from columnar_kafka.ingest.ingestor import Ingestor, IngestStats
    from columnar_kafka.ingest.service import IngestService
    from columnar_kafka.ingest.settings import IngestSettings
    from columnar_kafka.lake.aside.dead_letters import DeadLetters
    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.aside.rules import Rules
    from columnar_kafka.lake.aside.schema_source import Infer, OfTable
    from columnar_kafka.lake.audit.audit import AuditReport
    from columnar_kafka.lake.formats import open_dead_letters, open_table, parse_rules
    from columnar_kafka.lake.landing.replay import replay
    from columnar_kafka.lake.plan import Layout, Mode
    from columnar_kafka.lake.tables.bounds import RepairResult, repair

__all__ = [
    "AuditReport",
    "DeadLetters",
    "Decoding",
    "FenceTable",
    "HealthServer",
    "Infer",
    "IngestService",
    "IngestSettings",
    "IngestStats",
    "Ingestor",
    "Layout",
    "Mode",
    "OfTable",
    "RepairResult",
    "Rules",
    "TableFences",
    "open_dead_letters",
    "open_table",
    "parse_rules",
    "repair",
    "replay",
    "verify_topic",
]

# Spark's workers ask for a topic's id, and load no client.
_MODULE_OF = {
    "AuditReport": "columnar_kafka.lake.audit.audit",
    "DeadLetters": "columnar_kafka.lake.aside.dead_letters",
    "Decoding": "columnar_kafka.lake.aside.decoding",
    "FenceTable": "columnar_kafka.ingest.fencing",
    "HealthServer": "columnar_kafka.ingest.health",
    "Infer": "columnar_kafka.lake.aside.schema_source",
    "IngestService": "columnar_kafka.ingest.service",
    "IngestSettings": "columnar_kafka.ingest.settings",
    "IngestStats": "columnar_kafka.ingest.ingestor",
    "Ingestor": "columnar_kafka.ingest.ingestor",
    "Layout": "columnar_kafka.lake.plan",
    "Mode": "columnar_kafka.lake.plan",
    "OfTable": "columnar_kafka.lake.aside.schema_source",
    "RepairResult": "columnar_kafka.lake.tables.bounds",
    "Rules": "columnar_kafka.lake.aside.rules",
    "TableFences": "columnar_kafka.ingest.fencing",
    "open_dead_letters": "columnar_kafka.lake.formats",
    "open_table": "columnar_kafka.lake.formats",
    "parse_rules": "columnar_kafka.lake.formats",
    "repair": "columnar_kafka.lake.tables.bounds",
    "replay": "columnar_kafka.lake.landing.replay",
    "verify_topic": "columnar_kafka.ingest.audit",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'columnar_kafka.ingest' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
