"""confluent-kafka with msgspec: JSON and MessagePack, each with an encoder that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from benchmarks.competitors.base import Stock

if TYPE_CHECKING:
    from benchmarks.data import Dataset


class MsgspecJson(Stock):
    """JSON by msgspec."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        self.encode, self.decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class MsgspecMessagePack(Stock):
    """MessagePack by msgspec."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder().decode
