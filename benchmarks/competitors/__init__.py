"""Who takes part: one file for each, loaded only in the process that needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.competitors.base import Stock
    from benchmarks.data import Dataset

OURS, ORJSON, READY = "ours", "orjson", "ready bytes"
OURS_IN_ZSTD = "ours, compression.type=zstd"
FASTAVRO, PYRUHVRO, PROTOBUF = "fastavro", "pyruhvro", "Protobuf"
MSGSPEC_JSON, MSGSPEC_PACK = "msgspec JSON", "msgspec MessagePack"

_CLASSES: Final = {
    OURS: "ours.Ours",
    OURS_IN_ZSTD: "ours.OursInZstd",
    ORJSON: "with_orjson.Orjson",
    READY: "ready.Ready",
    MSGSPEC_JSON: "with_msgspec.MsgspecJson",
    MSGSPEC_PACK: "with_msgspec.MsgspecMessagePack",
    FASTAVRO: "with_fastavro.Fastavro",
    PYRUHVRO: "with_pyruhvro.Pyruhvro",
    PROTOBUF: "with_protobuf.Protobuf",
}


def competitor(name: str, dataset: Dataset) -> Stock:
    """Make a competitor for the rows of a data set. Raises KeyError."""
    module, _, cls = _CLASSES[name].partition(".")
    made: Stock = getattr(import_module(f"benchmarks.competitors.{module}"), cls)(dataset)
    return made
