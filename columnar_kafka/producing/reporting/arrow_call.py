"""One `produce_arrow`, until all of its records are stored or have failed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.reporting.report import Callback

__all__ = ["ArrowCall", "CallPart"]


class ArrowCall:
    """One `produce_arrow`: many records, one report. Any thread may call it."""

    def __init__(self, topic: str, records: int, callback: Callback) -> None:
        self.topic = topic
        self.records = records
        self.callback = callback
        self.failed = 0
        self.error: KafkaError | None = None
        self.partition = -1
        self.offset: int | None = None
        self._outstanding = records
        self._lock = threading.Lock()  # guards all but the first three, until the last part is done

    def part_done(self, part: CallPart) -> bool:
        """Count some of the records; the same part counts once, however often it is passed.

        Returns:
            Whether this was the last part, so that its caller has to report the call now.
        """
        with self._lock:
            if not part.counted:  # no call from here on: a signal's exception may come with it
                part.counted = True
                self._outstanding -= part.records
                if part.error is not None:
                    self.failed += part.records
                    self.error = self.error or part.error
                elif part.offset is not None:
                    self.partition, self.offset = part.partition, part.offset
                part.last = not self._outstanding
            return part.last


@dataclass(slots=True, eq=False)
class CallPart:
    """Some of a call's records that are stored or have failed; `offset` is the last's position."""

    records: int
    error: KafkaError | None
    partition: int
    offset: int | None
    counted: bool = False
    last: bool = False
