"""Schemas that nobody has set: inferred from the first values in JSON, and grown by later ones.

The values of a topic wait (`sending.unsettled`), for a linger at most. Then the sender's thread
settles the schema: that of the topic's newest segments, and what the values that wait add to it. So
`produce` waits for nothing, and producers agree that do not begin an empty topic at once. For those
that do, segments say that their schema is a guess: readers and lakes let none of them fail.

Names that are new later go to the rest. What a sealed batch has there becomes columns, once a
minute at most.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Message

from columnar_kafka.errors import SchemaError
from columnar_kafka.producing.newest_schema import newest_schema
from columnar_kafka.schema import FILLED, RecordSchema
from columnar_kafka.schema.inference import Inference
from columnar_kafka.schema.leading import led_by, number_of_columns
from columnar_kafka.schema.unknown_fields import columns_of_unknown, nested_names
from columnar_kafka.segment.segment import decoded_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from columnar_kafka.broker.base import ProducerBroker, TopicLimits
    from columnar_kafka.producing.engine.base import TopicFormat
    from columnar_kafka.producing.segment_limits import SegmentLimits
    from columnar_kafka.producing.sending.messages import EncodedSegment
    from columnar_kafka.producing.settings import ProducerConfig
    from columnar_kafka.producing.topic_formats import TopicFormats

    Tell = Callable[[Callable[[], object]], object]

__all__ = ["SAMPLE", "Answer", "Inferring"]

_log: Final = logging.getLogger(__name__)

SAMPLE: Final = 10_000
"""So many values settle a schema, if there are as many within a linger: as for `infer`."""
_NEWEST: Final = 8
"""The last offsets of each partition that are looked at: markers and plain messages among them."""
_LOOK_SECONDS: Final = 3.0
_CONFIG_SECONDS: Final = 2.0
_BETWEEN_CHANGES: Final = 60.0
_BETWEEN_LOOKS: Final = 1.0
_LOOKED_AT: Final = 1000
"""The most rows of a segment that tell new names: the others' come with a later one."""

_NOTHING: Final = RecordSchema(pa.schema([]))


class Answer(NamedTuple):
    """What Kafka tells of a topic: the limits, and its newest messages."""

    config: TopicLimits
    messages: Sequence[Message]


class Inferring:
    """Settles and grows the schemas of a producer's topics that have none.

    `begun` and `counts` are for any thread, the other methods for the sender's.
    """

    def __init__(
        self,
        formats: TopicFormats,
        settings: ProducerConfig,
        announce: Callable[[TopicFormat], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put schemas into `formats`, and `announce` them to the sender."""
        self._formats = formats
        self._announce = announce
        self._infers = settings.infers
        self._max_columns = settings.max_columns
        self._rest = settings.rest_column
        self._reserved = {*FILLED, settings.rest_column}
        self._clock = clock
        self._begun: dict[str, TopicFormat] = {}
        self._counts: dict[str, int] = {}
        self.looks: dict[str, float] = {}
        self._told: set[str] = set()

    def begun(self, topic: str) -> TopicFormat | None:
        """Return the format of a topic whose schema is to be inferred; None: no schema is."""
        if not self._infers:
            return None
        known = self._begun.get(topic)
        if known is None:
            known = self._begun.setdefault(topic, self._formats.awaiting(topic))
        return known

    def counts(self, topic_format: TopicFormat) -> bool:
        """Count one more value that waits; return whether there are enough to settle a schema."""
        count = self._counts[topic_format.topic] = self._counts.get(topic_format.topic, 0) + 1
        return count == SAMPLE

    # --- the first schema -----------------------------------------------------------------------

    def ask(self, topic: str, broker: ProducerBroker, tell: Tell) -> Answer:
        """Ask Kafka about a topic; blocks for a few seconds at most. `tell` gets what logs."""
        config, messages = broker.limits(topic, _CONFIG_SECONDS), list[Message]()
        if not config.compacted:
            try:
                messages += broker.newest(topic, _NEWEST, _LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, the values go on
                text = "topic %r: its segments could not be read for their columns, which are "
                text += "inferred from its first values alone: %s"
                tell(partial(_log.warning, text, topic, error))
        return Answer(config, messages)

    def settle(
        self, topic: str, values: Iterable[bytes | None], answer: Answer, tell: Tell
    ) -> TopicFormat:
        """Return the format of a topic from now on; `values` are the first ones."""
        if answer.config.compacted:
            text = "topic %r is compacted: its messages are sent as they are, without a schema"
            tell(partial(_log.warning, text, topic))
            made = self._formats.plain(topic, answer.config)
        else:
            try:
                made = self._settled(topic, values, answer, tell)
            except Exception as error:  # noqa: BLE001 - as above: the rest takes any of them
                text = "topic %r: no columns could be inferred"
                tell(partial(_log.error, text, topic, exc_info=error))
                made = self._formed(topic, _NOTHING, self._formats.limits(answer.config), tell)
        return self._formats.replaced(None, made, self._announce)

    def _settled(
        self, topic: str, values: Iterable[bytes | None], answer: Answer, tell: Tell
    ) -> TopicFormat:
        limits = self._formats.limits(answer.config)
        newest = newest_schema(answer.messages, self._max_columns)
        if newest is not None:
            with suppress(SchemaError):  # a set schema may have the rest's column, say
                return self._formed(topic, self._inferred(values, newest), limits, tell)
        return self._formed(topic, self._inferred(values, _NOTHING), limits, tell)

    def _formed(
        self, topic: str, records: RecordSchema, limits: SegmentLimits, tell: Tell
    ) -> TopicFormat:
        made = self._formats.inferred(topic, records, limits)
        tell(partial(_log.info, "topic %r: inferred columns: %s", topic, _shown(records)))
        return made

    def _inferred(self, values: Iterable[bytes | None], leading: RecordSchema) -> RecordSchema:
        """Return the leading columns, and those that values add to them."""
        left = self._max_columns - number_of_columns(leading.arrow)
        if left <= 0:
            return leading
        inference = Inference(max_columns=left, reserved=self._reserved, json_texts=False)
        for value in values:
            if value is not None:
                inference.add_json(value)
            if inference.rows >= SAMPLE:
                break
        try:
            records, _ = inference.result()
        except SchemaError:  # nothing is known of them
            return leading
        return led_by(records, leading)

    # --- more columns ---------------------------------------------------------------------------

    def look_at(self, segment: EncodedSegment, tell: Tell) -> None:
        """Have the names that a segment has in its rest be columns from now on. Raises anything."""
        topic_format, topic, now = segment.topic_format, segment.topic, self._clock()
        if self._formats.get(topic) is not topic_format or now < self.looks.get(topic, now):
            return
        self.looks[topic] = now + _BETWEEN_LOOKS
        wider = self._grown(segment, tell)
        if wider is None:
            return
        made = self._formats.inferred(topic, wider, topic_format.limits)
        self.looks[topic] = now + _BETWEEN_CHANGES
        self._formats.replaced(topic_format, made, self._announce)
        text = "topic %r: columns for new fields: %s"
        tell(partial(_log.info, text, topic, _shown(wider)))

    def _grown(self, segment: EncodedSegment, tell: Tell) -> RecordSchema | None:
        """Return a schema with more columns, if the segment tells any."""
        records = segment.topic_format.users_records
        rows = _with_rest(segment, records.arrow, self._rest)
        if not rows.num_rows:
            return None
        left = self._max_columns - number_of_columns(records.arrow)
        if left <= 0:
            if segment.topic not in self._told:
                self._told.add(segment.topic)
                text = "topic %r has %d columns, columnar.schema.max.columns: what else is new in "
                text += "its values goes to the rest"
                tell(partial(_log.warning, text, segment.topic, self._max_columns))
            return None
        told = columns_of_unknown(
            rows,
            records.arrow,
            self._rest,
            max_columns=left,
            reserved=self._reserved,
            json_texts=False,
        )
        if told is None:
            return None
        wider = led_by(told, records)
        return None if wider.arrow == records.arrow else wider


def _with_rest(segment: EncodedSegment, columns: pa.Schema, rest: str) -> pa.Table:
    """Return some of a segment's rows that have a rest, with their nested columns."""
    table = decoded_columns(segment.read(), [*nested_names(columns), rest])
    return table.filter(table[rest].is_valid()).slice(0, _LOOKED_AT)


def _shown(records: RecordSchema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in records.arrow) or "none yet"
