"""A program whose rows, signals and garbage bring code along, which uses the producer too.

    code_in_values.py ROWS [SEED]

Eight threads produce rows. A signal's handler runs in the main one, and finalizers in any: they
produce, flush, purge, set schemas, sleep, change the row that is being produced, or raise. So do
the zones and objects in the rows. The last line says what became of the records, as JSON.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import zoneinfo
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from types import FrameType

THREADS: Final = 8
LIMIT: Final = 900
"""Seconds after which a program that hangs says where, and ends."""
EVERY: Final = 0.002

ITEM: Final = pa.struct([("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(38, 2))])
SCHEMAS: Final = {
    "money": pa.schema([("price", pa.decimal256(76, 0)), ("more", pa.list_(pa.decimal256(76, 0)))]),
    "times": pa.schema([("at", pa.timestamp("us", "UTC")), ("all", pa.list_(ITEM))]),
    "others": pa.schema(
        [("u", pa.uint64()), ("text", pa.string()), ("map", pa.map_(pa.string(), pa.int64()))]
    ),
}
ZONES: Final = [
    dt.timezone.utc,
    zoneinfo.ZoneInfo("Europe/Berlin"),
    dt.timezone(dt.timedelta(hours=2)),
]


class Interruption(Exception):  # noqa: N818 - as KeyboardInterrupt
    """A handler's."""


class Program:
    """A producer, what it was given, and what it has reported."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.seed = seed
        self.kafka = FakeKafka()
        self.accepted: list[int] = []
        self.doubtful: list[int] = []  # produce was interrupted
        self.reported: list[int] = []
        self.cut: list[int] = []  # a handler's exception ended their reports
        self.unexpected: list[str] = []
        self.may_raise = False
        """Whether the main thread would note it."""
        self.raised: list[list[str]] = []  # by its number, innermost first: where
        self.reached: set[int] = set()
        self._count = 0
        self._numbers = threading.Lock()
        self.inside = threading.local()
        self._made = 0
        for topic in SCHEMAS:
            self.kafka.create_topic(topic, 3)
        settings = {
            "columnar.encoding": "parquet",
            "columnar.linger.ms": 5,
            "queue.buffering.max.kbytes": 4096,
        }
        self.producer: Any = self.kafka.Producer(settings)
        for topic, schema in SCHEMAS.items():
            self.producer.set_schema(topic, schema)

    def reach(self, error: BaseException | None) -> None:
        """Note what reaches the caller: an exception, and those that it has interrupted."""
        while error is not None:
            if isinstance(error, Interruption):
                self.reached.add(error.args[0])
            error = error.__cause__ or error.__context__

    # --- what code does -------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number that no other record has, without a lock: a handler may interrupt one."""
        self._made += 1  # in the thread that has it
        return next(NUMBERS)

    def act(self, rng: random.Random, row: Any = None) -> None:
        """Do something with the producer; not inside such an action."""
        if getattr(self.inside, "acting", False):
            return
        self.inside.acting = True
        try:
            self._act(rng, row)
        except (BufferError, Interruption):
            pass
        except Exception as error:  # noqa: BLE001 - the program is to say so
            self.unexpected.append(f"in an action: {error!r}")
        finally:
            self.inside.acting = False

    def _act(self, rng: random.Random, row: Any) -> None:
        chosen = rng.randrange(100)
        if chosen < 50:
            self.produce(rng, plain=True)
        elif chosen < 60:
            self.producer.flush(0.01)
        elif chosen < 62:
            self.producer.purge()
        elif chosen < 70:
            self.producer.poll(0)
        elif chosen < 75:
            topic = rng.choice([*SCHEMAS])
            self.producer.set_schema(topic, SCHEMAS[topic])
        elif chosen < 80:
            time.sleep(0.001)
        elif chosen < 85:
            print("a line", file=sys.stderr, flush=True)  # noqa: T201
        elif row is not None:
            change(row)

    # --- rows -----------------------------------------------------------------------------------

    def produce(self, rng: random.Random, *, plain: bool = False) -> None:
        """Produce a row; `plain`: without code in it."""
        topic = rng.choice([*SCHEMAS])
        number = self.number()
        try:
            self.producer.produce(
                topic,
                self.row(topic, rng, plain=plain),
                key=rng.choice([None, str(number)]),
                headers=rng.choice([None, [("n", b"%d" % number)]]),
                on_delivery=partial(self.report, number),
            )
        except BufferError:
            self.producer.poll(0.001)
        except (TypeError, ValueError, OverflowError):
            pass  # the row was changed, or is none
        except Interruption:
            self.doubtful.append(number)
            raise
        else:
            self.accepted.append(number)

    def report(self, number: int, _: Any, message: Any) -> None:
        self.reported.append(number)
        if number % 100 == 0:
            message.value()

    def row(self, topic: str, rng: random.Random, *, plain: bool) -> Any:
        row: dict[str, Any] = {}
        act = None if plain or rng.random() < 0.7 else partial(self.act, rng, row)
        if topic == "money":
            numbers = [10 ** rng.randrange(75) for _ in range(rng.randrange(20))]
            row |= {"price": rng.choice([*numbers, decimal.Decimal(2), None]), "more": numbers}
            if act is not None:
                row["price"] = rng.choice([ActingInt(7), ActingDecimal("8")])
                row["price"].act = act
        elif topic == "times":
            zone = rng.choice(ZONES) if act is None else ActingZone(act)
            at = dt.datetime(2026, 1 + rng.randrange(12), 1, tzinfo=zone)
            items = [{"at": at, "price": rng.randrange(10**9)} for _ in range(rng.randrange(10))]
            row |= {"at": at, "all": items}
        else:
            row |= {
                "u": rng.choice([1, 2**64 - 1, 2**64, -1]),
                "text": rng.choice(["a", "é", "𠮷" * 5]),
                "map": {f"k{n}": n for n in range(rng.randrange(5))},
            }
            if act is not None:
                row["text"] = ActingText("acting")
                row["text"].act = act
        return ActingObject(act, row) if act is not None and rng.random() < 0.1 else row


NUMBERS = iter(range(1 << 62))


def change(row: Any) -> None:
    """Take away what a row is made of, while somebody reads it."""
    for value in list(row.values()):
        if isinstance(value, list | dict):
            value.clear()
    row.clear()


class ActingInt(int):
    act: Any

    def __str__(self) -> str:
        self.act()
        return int.__str__(self)


class ActingDecimal(decimal.Decimal):
    act: Any

    def __str__(self) -> str:
        self.act()
        return decimal.Decimal.__str__(self)

    __repr__ = __str__


class ActingText(str):
    __slots__ = ("act",)
    act: Any

    def encode(self, *args: Any) -> bytes:
        self.act()
        return str.encode(self, *args)


class ActingZone(dt.tzinfo):
    def __init__(self, act: Any) -> None:
        self._act = act

    def utcoffset(self, _: Any) -> dt.timedelta:
        self._act()
        return dt.timedelta(hours=1)

    def dst(self, _: Any) -> None:
        return None


@dataclasses.dataclass
class ActingObject:
    """A row that is no row: to look at its fields runs code, and finds none."""

    act: Any
    row: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.act()
        return self.row[name]


class Garbage:
    """Only the collector removes it; its finalizer acts."""

    program: Program

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.self = self

    def __del__(self) -> None:
        self.program.act(self.rng)


def produce_rows(program: Program, thread: int, count: int) -> None:
    """Produce in a thread; the main one's interruptions are counted."""
    rng = random.Random(f"{program.seed} {thread}")
    for n in range(count):
        try:
            try:
                program.may_raise = program.may_raise or thread == 0
                if n % 5 == 0:
                    Garbage(rng)
                program.produce(rng)
                if n % 50 == 0:
                    program.producer.poll(0)
            finally:
                if thread == 0:
                    program.may_raise = False
        except Interruption as error:
            if thread == 0:
                program.may_raise = False  # the line above may have been interrupted
            program.reach(error)


def is_inside(frame: FrameType | None, function: Any) -> bool:
    """Whether a function is running where a frame is."""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def install(program: Program, unraisable: list[str]) -> None:
    """Have signals bring code along, and note what Python itself drops."""
    rng = random.Random(program.seed)
    handling = False

    def dropped(swallowed: Any) -> None:
        """Python drops what is raised in a finalizer."""
        if isinstance(swallowed.exc_value, Interruption):
            program.reach(swallowed.exc_value)
        else:
            unraisable.append(repr(swallowed.exc_value))

    def ended(*error: Any) -> None:
        """Say why the program ends, before the signals end it that go on."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        traceback.print_exception(*error, file=sys.__stderr__)

    def handler(_: int, frame: FrameType | None) -> None:
        nonlocal handling
        if handling or program.inside.__dict__.get("acting"):
            return  # one that interrupts another would take what that is about to raise
        handling = True
        try:
            # Python prints and drops what is raised in its hook, and so what that was to note.
            is_lost = is_inside(frame, dropped)
            if program.may_raise and not is_lost and rng.random() < 0.2:
                program.raised.append(
                    [str(place) for place in traceback.extract_stack(frame)[::-1]]
                )
                if frame is not None and frame.f_code is Program.report.__code__:
                    program.cut.append(frame.f_locals["number"])
                raise Interruption(len(program.raised))
            program.act(rng)
        finally:
            handling = False

    sys.unraisablehook, sys.excepthook = dropped, ended
    signal.signal(signal.SIGALRM, handler)


def main(rows: int, seed: int) -> None:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    program = Program(rows, seed)
    Garbage.program = program
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - what handlers print
    unraisable: list[str] = []
    install(program, unraisable)
    gc.set_threshold(50, 2, 2)
    share = rows // THREADS
    threads = [
        threading.Thread(target=produce_rows, args=(program, index, share))
        for index in range(1, THREADS)
    ]
    for thread in threads:
        thread.start()
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    is_done = False
    while not is_done:
        produce_rows(program, 0, 100)
        if len(program.accepted) >= rows and not any(thread.is_alive() for thread in threads):
            signal.setitimer(signal.ITIMER_REAL, 0)
            is_done = True
    gc.set_threshold(0)
    program.producer.flush()
    gc.collect()
    program.producer.flush()
    program.producer.close()
    print(json.dumps(verdict(program) | {"unraisable": unraisable[:5]}))  # noqa: T201


def verdict(program: Program) -> dict[str, Any]:
    """Return what became of the records, and of what handlers have raised."""
    noted = set(program.reported)
    reports = [*program.reported, *(n for n in program.cut if n not in noted)]
    reported, accepted = Counter(reports), Counter(program.accepted)
    doubtful = set(program.doubtful)
    return {
        "python": sys.version.split()[0],
        "native": native.enabled,
        "rows": len(program.accepted),
        "unreported": len([n for n in accepted if reported[n] != 1]),
        "twice": len([n for n, count in reported.items() if count > 1]),
        "refused and reported": len(set(reported) - set(accepted) - doubtful),
        "doubtful": len(doubtful),
        "reports cut": len(program.cut),
        "raised": len(program.raised),
        "reached": len(program.reached),
        "lost": [at for n, at in enumerate(program.raised, 1) if n not in program.reached][:5],
        "unexpected": program.unexpected[:5],
        "panics": native.core.panic_count() if native.enabled else 0,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
