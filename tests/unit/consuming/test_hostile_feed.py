"""A consumer and its decoder: bad segments are reports, and no decoder means nothing is lost."""

from __future__ import annotations

import itertools
import re
import sys
from typing import TYPE_CHECKING, Any

import confluent_kafka
import hostile
import psutil
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from hostile import sent
from support import places

from columnar_kafka import ColumnarError, ConfigError, SegmentError
from columnar_kafka.config import ReadOptions
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.consuming.settings import ConsumerConfig
from columnar_kafka.segment.decoder import InlineDecoder, RawSegment, SegmentFile
from columnar_kafka.segment.isolated import IsolatedDecoder
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 3
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="isolated decoding needs Linux")


def numbered(offset: int) -> hostile.Sent:
    return sent(pa.table({"n": [10 * offset + row for row in range(ROWS)]}))


class FailingDecoder(InlineDecoder):
    """No child can be started, at some attempts."""

    def __init__(self, *fails: int) -> None:
        super().__init__()
        self._attempts = itertools.count()
        self._fails = fails

    def open(self, raw: RawSegment) -> SegmentFile:
        if next(self._attempts) in self._fails:
            raise ColumnarError("no decoder")
        return super().open(raw)

    def read_records(self, *_: Any) -> None:
        """Read none: each segment is opened."""


def feed(decoder: InlineDecoder, segments: int = 3) -> Feed:
    def messages() -> Iterator[confluent_kafka.Message]:
        for offset in range(segments):
            of = numbered(offset)
            yield confluent_kafka.Message(
                topic="t",
                partition=0,
                offset=offset,
                value=of.value,
                headers=of.headers(),
                timestamp=(confluent_kafka.TIMESTAMP_CREATE_TIME, 5),
            )

    return Feed(hostile.Topic(messages()), OffsetStore(auto_store=True), decoder=decoder)


def numbers(messages: list[Any]) -> list[int]:
    assert [message.error() for message in messages] == [None] * len(messages)
    return [message.value()["n"] for message in messages]


# --- a decoder that does not work -----------------------------------------------------------------


def test_records_taken_before_no_decoder_could_be_started_are_not_lost() -> None:
    """Nor are those of the segment it was for: nothing is known of it."""
    reading = feed(FailingDecoder(1))
    assert numbers(reading.take(100, 0)) == [0, 1, 2]
    assert numbers(reading.take(100, 0)) == [10, 11, 12, 20, 21, 22]


def test_as_long_as_no_decoder_can_be_started_every_call_says_so() -> None:
    reading = feed(FailingDecoder(0, 1))
    for _ in range(2):
        with pytest.raises(ColumnarError, match="no decoder"):
            reading.take(100, 0)
    assert numbers(reading.take(100, 0)) == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_reading_goes_on_at_the_record_at_which_it_was_to_begin() -> None:
    reading = feed(FailingDecoder(0))
    reading.assign([TopicPartition("t", 0, 2**20 - 1)])  # the last record of offset 0
    with pytest.raises(ColumnarError, match="no decoder"):
        reading.next(0)
    assert numbers(reading.take(100, 0)) == [2, 10, 11, 12, 20, 21, 22]


def test_a_whole_segment_is_not_lost_either() -> None:
    reading = feed(FailingDecoder(1))
    first = reading.segment(0)
    with pytest.raises(ColumnarError, match="no decoder"):
        reading.segment(0)
    second = reading.segment(0)
    assert first is not None
    assert second is not None
    assert (first.kafka_offset, second.kafka_offset) == (0, 1)


# --- a consumer's settings ------------------------------------------------------------------------


def consumer(kafka: FakeKafka, **settings: Any) -> Any:
    made = kafka.Consumer(
        {"bootstrap.servers": "", "group.id": "g", "columnar.encoding": "parquet"}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    made.assign([TopicPartition("t", 0, 0)])
    return made


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    """A topic with a good segment, one of 1000 rows, and a good one."""
    with FakeKafka() as servers:
        producer = servers.Producer({"bootstrap.servers": ""})
        for of in (numbered(0), sent(pa.table({"n": range(1000)})), numbered(2)):
            producer.produce("t", value=of.value, headers=of.headers(), partition=0)
        producer.flush()
        yield servers


@pytest.mark.parametrize("decode", ["inline", pytest.param("isolated", marks=LINUX)])
def test_a_consumer_reports_what_is_over_its_limits_and_goes_on(
    kafka: FakeKafka, decode: str
) -> None:
    reading = consumer(kafka, columnar_decode=decode, columnar_max_rows=10)
    before = len(psutil.Process().children())
    messages = reading.consume(7, 30)
    values = [
        message.value()["n"] if message.error() is None else message.error() for message in messages
    ]
    assert values[:3] + values[4:] == [0, 1, 2, 20, 21, 22]
    assert values[3].code() == SegmentError.code
    assert values[3].str() == (
        "segment at t[0]@1: the segment has 1000 rows; columnar.max.rows is 10: "
        "only a consumer can raise it"
    )
    assert len(psutil.Process().children()) == before + (decode == "isolated")
    reading.commit(messages[3])
    reading.close()
    assert len(psutil.Process().children()) == before


@pytest.mark.parametrize("decode", ["inline", pytest.param("isolated", marks=LINUX)])
def test_a_consumer_names_a_type_that_it_does_not_take_and_goes_on(decode: str) -> None:
    kafka = FakeKafka()
    kafka.create_topic("t")
    kind = pa.struct([("x", pa.null())])
    table = pa.table({"n": [7], "a": pa.array([{"x": None}], kind)})
    foreign = sent(table, schema=pa.schema([("n", pa.int64())]), store_schema=True)
    for of in (foreign, numbered(1)):
        kafka.append("t", 0, of.value, headers=of.headers())
    said = (
        "segment at t[0]@0: field 'a.x' has type null, which no segment of version 1 has: its "
        "producer has to store another type; with fetch.raw.bytes=true the consumer hands out the "
        "file as it is"
    )
    reading = consumer(kafka, columnar_decode=decode)
    first, *rest = reading.consume(4, 30)
    assert (first.error().code(), first.error().str()) == (SegmentError.code, said)
    assert [message.value()["n"] for message in rest] == [10, 11, 12]
    reading.seek(TopicPartition("t", 0, 0))
    with pytest.raises(SegmentError, match=re.escape(said)):
        reading.poll_segment(30).to_table()
    reading.seek(TopicPartition("t", 0, 0))
    with pytest.raises(SegmentError, match=re.escape(said)):
        reading.consume_arrow(4, 30)
    assert reading.consume_arrow(3, 30)["n"].to_pylist() == [10, 11, 12]
    reading.close()


def test_limits_are_read_from_the_configuration() -> None:
    keys = {"rows": 1, "values": 2, "decoded.bytes": 3, "footer.bytes": 4, "decode.ms": "5"}
    config, rest = ConsumerConfig.parse({f"columnar.max.{key}": n for key, n in keys.items()})
    assert config.read_options == ReadOptions(
        max_rows=1, max_values=2, max_decoded_bytes=3, max_footer_bytes=4, max_decode_seconds=0.005
    )
    assert rest == {}
    assert ConsumerConfig.parse({})[0].read_options == ReadOptions()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("columnar.max.rows", 2**20 + 1, "must be a whole number from 1 to 1048576"),
        ("columnar.max.values", 0, "must be a whole number from 1 to 1099511627776"),
        ("columnar.max.decoded.bytes", "much", "must be a whole number from 1"),
        ("columnar.max.footer.bytes", True, "must be a whole number from 1"),
        ("columnar.max.decode.ms", 0, "must be a number from 1 to 3.6e+06"),
        ("columnar.decode", "sandboxed", "must be one of inline, isolated"),
    ],
)
def test_a_limit_that_is_none_is_refused(key: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ConsumerConfig.parse({key: value})
    assert str(raised.value).startswith(f"{key}={value!r}: {says}")


@LINUX
@pytest.mark.long
def test_a_hostile_topic_in_a_child_is_a_stream_of_reports() -> None:
    decoder = IsolatedDecoder()
    bombs = list(hostile.BOMBS.values())
    some = places(len(bombs))
    cases = (bombs[place]() for place in some)
    counts = hostile.consume(hostile.ordinary("zstd"), cases, decoder=decoder)
    decoder.close()
    assert counts == {"neighbours": len(some) + 1, "reported": len(some)}
