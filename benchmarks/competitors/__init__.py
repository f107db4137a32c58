"""Who takes part: one file for each, loaded only in the process that needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.competitors.base import Stock
    from benchmarks.data import Dataset

OURS, ORJSON, READY = "ours", "orjson", "ready bytes"
OURS_AS_IT_IS = "ours, compression.type=none"
OURS_JSON, OURS_AVRO = "ours, JSON", "ours, Avro"
READY_AVRO = "ready bytes, Avro"
FASTAVRO, PYRUHVRO = "fastavro", "pyruhvro"

_CLASSES: Final = {
    OURS: "ours.Ours",
    OURS_AS_IT_IS: "ours.OursAsItIs",
    OURS_JSON: "ours_json.OursJson",
    OURS_AVRO: "in_avro.OursAvro",
    ORJSON: "with_orjson.Orjson",
    READY: "ready.Ready",
    READY_AVRO: "in_avro.ReadyAvro",
    FASTAVRO: "with_fastavro.Fastavro",
    PYRUHVRO: "with_pyruhvro.Pyruhvro",
}


def competitor(name: str, dataset: Dataset) -> Stock:
    """Make a competitor for the rows of a data set. Raises KeyError."""
    module, _, cls = _CLASSES[name].partition(".")
    made: Stock = getattr(import_module(f"benchmarks.competitors.{module}"), cls)(dataset)
    return made
