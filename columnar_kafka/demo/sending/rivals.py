"""Columns against rows: the same records sent as segments, as Avro and as JSON, side by side.

Run as a module it is the process that is measured: nothing else happens in it, and the broker is
elsewhere. The formats take turns, so that a noisy moment of the machine meets all of them.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from columnar_kafka.demo import flights, records
from columnar_kafka.demo.figures import Rival, Run
from columnar_kafka.demo.sending import formats, send
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from columnar_kafka.demo.records import Record
    from columnar_kafka.demo.sending.formats import Format

ROUNDS: Final = 3
_WARM_UP_ROWS: Final = 2_000
_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.1


class MeasuringError(Exception):
    """The measured process ended early; the message is the end of its output."""


def measure(
    bootstrap_servers: str, topics: Mapping[str, str], rows: int, *, advance: Callable[[int], None]
) -> list[Rival]:
    """Send the first `rows` flights once in each format, in a process of its own.

    In each of `ROUNDS` rounds every format sends the next part of them.

    Args:
        bootstrap_servers: where to.
        topics: a topic for each format's name.
        rows: how many records.
        advance: called with 1 after each run.

    Raises:
        MeasuringError: it failed, or did not end within ten minutes.
    """
    with tempfile.TemporaryDirectory(prefix="columnar-kafka-demo-") as scratch:
        log, output = Path(scratch, "log"), Path(scratch, "runs")
        output.touch()
        arguments = [bootstrap_servers, json.dumps(dict(topics)), str(rows), str(output)]
        command = [sys.executable, "-m", "columnar_kafka.demo.sending.rivals", *arguments]
        process = GuardedProcess(command, log=log)
        try:
            runs = _follow(process, output, advance)
        finally:
            process.close()
        if len(runs) != ROUNDS * len(formats.ALL):
            raise MeasuringError(f"the measured process failed:\n{tail(log, lines=5)}")
    return [
        Rival(record_format.name, tuple(run for run in runs if run.format == record_format.name))
        for record_format in formats.ALL
    ]


def _follow(process: GuardedProcess, output: Path, advance: Callable[[int], None]) -> list[Run]:
    """The runs as the process writes them, one line each, until it ends."""
    deadline, done = time.monotonic() + _SECONDS, 0
    while process.running and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        now = output.read_text().count("\n")
        advance(now - done)
        done = now
    return [Run(**json.loads(line)) for line in output.read_text().splitlines()]


def main(bootstrap_servers: str, topics: str, rows: str, output: str) -> None:
    """Measure, and append each run to the file `output` as a line of JSON."""
    table = records.make(flights.load().slice(0, int(rows)))
    prepared = list(chain.from_iterable(records.iterate(table)))
    gc.freeze()  # the rows would be walked again and again, in favour of whoever makes less garbage
    place = json.loads(topics)
    for record_format in formats.ALL:
        run(record_format, bootstrap_servers, place[record_format.name], prepared[:_WARM_UP_ROWS])
    size = -(-len(prepared) // ROUNDS)
    for turn in range(ROUNDS):
        part = prepared[turn * size : (turn + 1) * size]
        for record_format in formats.ALL[turn:] + formats.ALL[:turn]:
            done = run(record_format, bootstrap_servers, place[record_format.name], part)
            with Path(output).open("a") as file:
                file.write(json.dumps(asdict(done)) + "\n")


def run(record_format: Format, bootstrap_servers: str, topic: str, prepared: list[Record]) -> Run:
    """Send the records once; the clocks run from the first `produce` to the last report.

    Raises:
        DeliveryError: a record was not delivered.
    """
    reports, wire, encode = send.Reports(), send.Wire(), record_format.encoder()
    producer = record_format.producer({"bootstrap.servers": bootstrap_servers} | wire.config)
    if record_format.columnar:
        producer.set_schema(topic, records.avro_schema())  # type: ignore[attr-defined]
    else:
        producer.list_topics(topic)  # connected before the clock starts, as the other is
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    send.send(producer, topic, prepared, encode=encode, reports=reports)
    send.flush(producer)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    sent, _ = wire.settle(producer)
    producer.close()
    reports.check(len(prepared))
    return Run(record_format.name, len(prepared), sent, cpu, wall)


if __name__ == "__main__":
    main(*sys.argv[1:])
