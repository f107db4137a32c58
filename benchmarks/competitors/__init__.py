"""Who takes part: one file for each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.competitors.ours import Ours
from benchmarks.competitors.ready import Ready
from benchmarks.competitors.with_fastavro import Fastavro
from benchmarks.competitors.with_msgspec import MsgspecJson, MsgspecMessagePack
from benchmarks.competitors.with_orjson import Orjson
from benchmarks.competitors.with_protobuf import Protobuf
from benchmarks.competitors.with_pyruhvro import Pyruhvro

if TYPE_CHECKING:
    from benchmarks.competitors.base import Stock

ALL: Final[dict[str, type[Stock]]] = {
    each.name: each
    for each in (
        Ours,
        Orjson,
        MsgspecJson,
        MsgspecMessagePack,
        Fastavro,
        Protobuf,
        Pyruhvro,
        Ready,
    )
}
OURS, ORJSON, READY = Ours.name, Orjson.name, Ready.name
FASTAVRO, PYRUHVRO = Fastavro.name, Pyruhvro.name
MSGSPEC_JSON, MSGSPEC_PACK, PROTOBUF = MsgspecJson.name, MsgspecMessagePack.name, Protobuf.name
