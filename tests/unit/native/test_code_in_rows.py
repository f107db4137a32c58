"""Signal handlers, finalizers and zones run code: none of it in the middle of a row."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import gc
import itertools
import signal
import subprocess
import sys
import threading
import time
import types
import zoneinfo
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from columnar_kafka.errors import RowError
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENCODED = {"columnar.encoding": "parquet"}
ITEM = pa.struct([("price", pa.decimal128(20, 2))])
MONEY = pa.schema(
    [
        ("n", pa.int64()),
        ("price", pa.decimal128(38, 2)),
        ("more", pa.list_(pa.decimal256(76, 0))),
        ("items", pa.list_(ITEM)),
    ]
)
DIGITS = 10**74
"""Python's own text of it takes so many steps that it looks for signals on the way."""


@dataclasses.dataclass
class Item:
    """To look at its fields makes a dict."""

    price: Any


def money(n: int, number: Callable[[int], Any] = int) -> dict[str, Any]:
    items = [Item(number(n)) for _ in range(3)]
    return {
        "n": n,
        "price": number(10**35 + n),
        "more": [number(DIGITS + n)] * 20,
        "items": items,
    }


NUMBERS = pytest.mark.parametrize("number", [int, decimal.Decimal])


@contextmanager
def handled(handle: Callable[[], None], after: float = 0.0003) -> Iterator[None]:
    """Have a signal's handler run again and again, not inside itself."""
    is_over = False

    def handler(*_: Any) -> None:
        handle()
        if not is_over:  # or the next signal would meet the handler from before, and end Python
            signal.setitimer(signal.ITIMER_REAL, after)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def call_in_c(function: Callable[..., Any], arguments: Iterator[Any]) -> None:
    """Call it with each of them in a loop of C's, where no handler runs between two calls."""
    collections.deque(itertools.starmap(function, arguments), maxlen=0)


class Reports(list[Any]):
    """Delivery reports: the values that were delivered; an error is an assertion's."""

    def __call__(self, error: Any, message: Any) -> None:
        assert error is None
        self.append(message.value())


@NUMBERS
def test_a_handler_that_produces_flushes_or_purges_does_so_between_two_rows(
    number: Callable[[int], Any],
) -> None:
    """Wherever it runs; on Python before 3.12 only handlers, from then on finalizers too."""
    kafka, reports, errors, nested = FakeKafka(), Reports(), [], itertools.count()
    kafka.create_topic("money", 1)
    kafka.create_topic("other", 1)
    with kafka.Producer(ENCODED | {"columnar.linger.ms": 5, "on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)
        producer.set_schema("other", pa.schema([("other", pa.int64())]))

        def handle() -> None:
            try:
                n = next(nested)
                producer.produce("other", {"other": n})
                producer.produce("money", money(-1 - n))
                if n % 10 == 0:
                    producer.flush()
            except Exception as error:  # noqa: BLE001 - whatever a handler must not see
                errors.append(error)

        producer.produce("money", money(20_000, number))  # pyarrow imports pandas
        with handled(handle):
            for start in range(0, 20_000, 100):
                rows = range(start, start + 100)
                call_in_c(producer.produce, (("money", money(n, number)) for n in rows))
                producer.poll(0)
        producer.flush()
    produced = next(nested)
    assert errors == []
    assert produced > 20
    numbers = [value["n"] for value in reports if "n" in value]
    assert sorted(numbers) == [*range(-produced, 0), *range(20_001)]
    assert sorted(value["other"] for value in reports if "other" in value) == [*range(produced)]


@NUMBERS
def test_a_handler_that_sets_schemas_does_so_between_two_rows(
    number: Callable[[int], Any],
) -> None:
    kafka, reports, errors, calls = FakeKafka(), Reports(), [], itertools.count()
    kafka.create_topic("money", 1)
    with kafka.Producer(ENCODED | {"columnar.linger.ms": 5, "on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)

        def handle() -> None:
            try:
                n = next(calls)
                producer.set_schema(f"other{n % 10}", pa.schema([("n", pa.int64())]))
                producer.set_schema("money", MONEY)
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error)

        with handled(handle):
            for n in itertools.count():
                call_in_c(producer.produce, (("money", money(n, number)) for _ in range(100)))
                if next(calls) > 100:
                    break
        producer.flush()
    assert errors == []
    assert [value["n"] for value in reports] == [
        index for index in range(n + 1) for _ in range(100)
    ]


@NUMBERS
def test_another_topic_takes_rows_of_another_thread_while_a_handler_waits(
    number: Callable[[int], Any],
) -> None:
    """It lets go of the GIL, wherever it runs."""
    kafka, reports, errors, ended = FakeKafka(), Reports(), [], threading.Event()
    waits, produced = 0, 0
    for topic in ("money", "other"):
        kafka.create_topic(topic, 1)
    with kafka.Producer(ENCODED | {"columnar.linger.ms": 5, "on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)
        producer.set_schema("other", pa.schema([("other", pa.int64())]))

        def produce() -> None:
            nonlocal produced
            try:
                while not ended.is_set():
                    producer.produce("other", {"other": produced})
                    produced += 1
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error)

        def handle() -> None:
            nonlocal waits
            before, until = produced, time.monotonic() + 0.05
            while produced == before and time.monotonic() < until:  # it may have the queue's lock
                time.sleep(0)
            waits += produced > before

        other = threading.Thread(target=produce)
        other.start()
        count = itertools.count()
        with handled(handle):
            while waits < 30 and not errors:
                call_in_c(producer.produce, (("money", money(next(count), number)) for _ in "ab"))
        ended.set()
        other.join()
        producer.flush()
    assert errors == []
    assert [value["n"] for value in reports if "n" in value] == [*range(next(count))]
    assert [value["other"] for value in reports if "other" in value] == [*range(produced)]


@NUMBERS
def test_a_handler_may_clear_the_row_that_is_produced(
    number: Callable[[int], Any],
) -> None:
    kafka, reports, cleared = FakeKafka(), Reports(), []
    kafka.create_topic("money", 1)
    many: list[Any] = []

    def handler(*_: Any) -> None:
        cleared.append(len(many))
        many.clear()

    with kafka.Producer(ENCODED | {"on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)
        before = signal.signal(signal.SIGALRM, handler)
        try:
            for n in range(100):
                many[:] = [number(DIGITS + index) for index in range(2_000)]
                row = {"n": n, "price": None, "more": many, "items": None}
                signal.setitimer(signal.ITIMER_REAL, 0.0001)
                call_in_c(producer.produce, iter([("money", row)]))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        producer.flush()
    assert len(cleared) > 50
    assert [value["n"] for value in reports] == [*range(100)]


class Interruption(Exception):  # noqa: N818 - as KeyboardInterrupt
    """A handler's."""


def test_what_a_handler_raises_while_a_row_is_appended_reaches_the_caller() -> None:
    kafka, raised, reached, accepted = FakeKafka(), [], [], 0
    kafka.create_topic("money", 1)
    reports = Reports()
    with kafka.Producer(ENCODED | {"on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)

        def handler(*_: Any) -> None:
            raised.append(1)
            raise Interruption

        row = {"n": 1, "price": 1, "more": [DIGITS] * 20_000, "items": []}
        producer.produce("money", row)
        before = signal.signal(signal.SIGALRM, handler)
        try:
            for _ in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0001)
                    producer.produce("money", row)
                    accepted += 1
                    while not raised or len(raised) == len(reached):
                        pass  # if it has run, it is counted by now
                except Interruption:
                    reached.append(1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        while producer.flush():
            pass
    assert len(reached) == len(raised) == 60


class Cycle:
    """Only the garbage collector removes it; it runs `finalize` then."""

    finalize: Callable[[], None]

    def __init__(self) -> None:
        self.self = self

    def __del__(self) -> None:
        self.finalize()


@contextmanager
def collected(finalize: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Have the collector run all the time, and yield what makes garbage with a finalizer."""
    Cycle.finalize = staticmethod(finalize)  # type: ignore[method-assign]
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield Cycle  # type: ignore[misc]
    finally:
        gc.set_threshold(*threshold)
        gc.collect()


@pytest.mark.parametrize("refused", [{"u": -1}, {"u": 2**64}])
def test_a_finalizer_may_produce_while_a_row_is_refused_in_an_except_block(
    refused: dict[str, Any],
) -> None:
    """An exception object that is made there holds another one, and is made in Python's way."""
    kafka, reports, errors, made = FakeKafka(), Reports(), [], itertools.count()
    kafka.create_topic("t", 1)
    kafka.create_topic("other", 1)
    with kafka.Producer(ENCODED | {"on_delivery": reports}) as producer:
        producer.set_schema("t", pa.schema([("u", pa.uint64())]))
        producer.set_schema("other", pa.schema([("other", pa.int64())]))
        producer.produce("t", {"u": 1})

        def finalize() -> None:
            try:
                producer.produce("other", {"other": next(made)})
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error)

        with collected(finalize) as garbage:
            for _ in range(300):
                try:
                    int("no number")
                except ValueError:
                    try:
                        garbage()
                        producer.produce("t", refused)
                    except RowError:
                        pass
        producer.flush()
    assert errors == []
    produced = next(made)
    assert produced > 100
    assert sorted(value["other"] for value in reports if "other" in value) == [*range(produced)]


@NUMBERS
def test_finalizers_may_produce_while_numbers_become_decimals(
    number: Callable[[int], Any],
) -> None:
    """From Python 3.12 on the collector runs where signals are looked for."""
    kafka, reports, errors, made = FakeKafka(), Reports(), [], itertools.count()
    kafka.create_topic("money", 1)
    with kafka.Producer(ENCODED | {"columnar.linger.ms": 5, "on_delivery": reports}) as producer:
        producer.set_schema("money", MONEY)

        def finalize() -> None:
            try:
                producer.produce("money", money(-1 - next(made)))
                producer.flush()
            except Exception as error:  # noqa: BLE001 - as above
                errors.append(error)

        with collected(finalize) as garbage:
            for n in range(500):
                garbage()
                producer.produce("money", money(n, number))
        producer.flush()
    produced = next(made)
    assert errors == []
    numbers = sorted(value["n"] for value in reports)
    assert numbers == [*range(-produced, 0), *range(500)]


def test_a_class_that_is_named_like_pythons_own_zones_is_none() -> None:
    """Its code runs, so it has to run before the row begins: it may change the row."""

    def utcoffset(zone: Any, _: dt.datetime | None) -> dt.timedelta:
        zone.row["times"].clear()
        zone.row["times"] += [object() for _ in range(100)]
        return dt.timedelta(hours=1)

    named = type("zoneinfo.ZoneInfo", (dt.tzinfo,), {"utcoffset": utcoffset})
    kafka, reports = FakeKafka(), Reports()
    kafka.create_topic("t", 1)
    with kafka.Producer(ENCODED | {"on_delivery": reports}) as producer:
        producer.set_schema("t", pa.schema([("times", pa.list_(pa.timestamp("us", "UTC")))]))
        producer.produce("t", {"times": []})
        for _ in range(20):
            zone: Any = named()
            row = {"times": [dt.datetime(2026, 1, 1, tzinfo=zone) for _ in range(50)]}
            zone.row = row
            producer.produce("t", row)
            del zone.row
        producer.flush()
    at = dt.datetime(2025, 12, 31, 23, tzinfo=dt.timezone.utc)
    assert [value for value in reports if value["times"]] == [{"times": [at] * 50}] * 20


@pytest.mark.parametrize(
    ("cls", "method"),
    [
        (dt.timezone, "utcoffset"),
        (zoneinfo.ZoneInfo, "utcoffset"),
        (decimal.Decimal, "__str__"),
    ],
)
def test_what_a_row_calls_is_written_in_c_and_nobody_can_replace_it(cls: type, method: str) -> None:
    descriptor = vars(cls)[method]
    assert type(descriptor) in (types.MethodDescriptorType, types.WrapperDescriptorType)
    with pytest.raises(TypeError, match="immutable"):
        setattr(cls, method, descriptor)


DAEMONS = """
import itertools, threading
import pyarrow as pa
from columnar_kafka.testing import FakeKafka

class Row(dict):
    pass

def produce():
    for n in itertools.count():
        try:
            row = {"n": n} if n % 2 else Row(n=n)
            producer.produce("t", row, on_delivery=lambda *_: works.set())
            producer.poll(0)
        except (BufferError, RuntimeError):
            pass

works = threading.Event()
kafka = FakeKafka()
producer = kafka.Producer({"columnar.encoding": "parquet", "columnar.linger.ms": 5})
producer.set_schema("t", pa.schema([("n", pa.int64())]))
for _ in range(4):
    threading.Thread(target=produce, daemon=True).start()
works.wait()
"""


def test_daemon_threads_that_go_on_producing_do_not_keep_a_program_from_ending_well() -> None:
    """Up to Python 3.13 such a thread ends where it asks for the GIL, wherever that is."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", DAEMONS], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
