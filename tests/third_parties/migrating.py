"""Services whose processes are stock or ours: programs in `services/` that differ in one line."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

FOLDER = Path(__file__).with_name("services")
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "items", "type": {"type": "array", "items": "string"}},
            {"name": "gift", "type": ["null", "string"], "default": None},
        ],
    }
)
SERVICES = {"over_http": "json", "on_faststream": "json", "with_avro": "avro"}
COUNT = 50
"""How many orders come at a time."""
_SECONDS = 120
_PATCH = """
import json, os, columnar_kafka
columnar_kafka.patch_confluent_kafka(
    producer=json.loads(os.environ["PRODUCER"]), consumer=json.loads(os.environ["CONSUMER"])
)
"""


def migrated(source: str) -> str:
    """Return a service's program with our clients: the import is another one, or a call is new."""
    theirs = "\nfrom confluent_kafka import "
    if theirs in source:
        return source.replace(theirs, "\nfrom columnar_kafka import ", 1)
    return _PATCH + source


@dataclass
class Service:
    """A service, whose processes are those of stock or ours."""

    name: str
    topic: str
    servers: str
    registry: str
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    random: random.Random = field(default_factory=lambda: random.Random(5))
    ordered: list[Any] = field(default_factory=list)
    billed: list[Any] = field(default_factory=list)
    started: list[Process] = field(default_factory=list)

    def process(self, role: str, *, ours: bool, group: str | None = None) -> Process:
        """Start a process of the service."""
        source = (FOLDER / f"{self.name}.py").read_text()
        program = self.folder / f"{self.name}_{'ours' if ours else 'stock'}.py"
        program.write_text(migrated(source) if ours else source)
        keys = {"columnar.encoding": "parquet", "columnar.value.format": SERVICES[self.name]}
        producers = keys | {"columnar.schema.topics": {self.topic: AVRO}} | traffic.LINGER
        config: dict[str, Any] = {"bootstrap.servers": self.servers}
        if ours:
            config |= keys if role == "bill" else producers
        if role == "bill":
            config |= {"group.id": group or self.topic, "auto.offset.reset": "earliest"}
            # A process that fails does not leave its group: the next one waits for so long.
            config |= {"enable.auto.commit": False, "session.timeout.ms": 6000}
        process = Process(
            [sys.executable, "-W", "ignore", str(program), role],
            {
                "CONFIG": json.dumps(config),
                "PRODUCER": json.dumps(producers),
                "CONSUMER": json.dumps(keys),
                "TOPIC": self.topic,
                "REGISTRY": self.registry,
                "SCHEMA": AVRO,
            },
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs, as a test has failed."""
        for process in self.started:
            process.kill()

    def orders(self) -> list[dict[str, Any]]:
        """Return new orders. Those in JSON have fields that are absent, null or of no column."""
        orders = []
        for number in itertools.islice(self.numbers, COUNT):
            order = {"id": number, "items": self.random.choices(["tea", "Käse", ""], k=number % 4)}
            order |= self.random.choice([{"gift": None}, {"gift": "card"}])
            if SERVICES[self.name] == "json":
                extra = [{}, {"note": None}, {"price": 1.5}, {"items": "none"}, {"gift": 7}]
                order |= self.random.choice(extra)
                if self.random.random() < 0.3:
                    del order["gift"]
            orders.append(order)
        return orders

    def take_orders(self, *, ours: bool) -> None:
        """Have a process take orders."""
        orders = self.orders()
        with self.process("take_orders", ours=ours) as process:
            if self.name == "over_http":
                client = http.client.HTTPConnection("127.0.0.1", int(process.line()))
                for order in orders:
                    client.request("POST", "/orders", json.dumps(order))
                    assert client.getresponse().read() == b""
                client.close()
            else:
                process.write("".join(f"{json.dumps(order)}\n" for order in orders))
        self.ordered += orders

    def bill(self, *, ours: bool) -> None:
        """Have a process bill what has been ordered and is not billed yet."""
        with self.process("bill", ours=ours) as process:
            self.billed += process.lines(len(self.ordered) - len(self.billed))

    def fail_to_bill(self) -> None:
        """Have a process of stock meet a segment: it ends, and what it had billed is billed."""
        process = self.process("bill", ours=False)
        self.billed += process.all_lines()
        assert process.wait() != 0

    def check(self) -> None:
        """Check that all orders are billed once."""
        assert counted(self.billed) == counted([str(o["id"]), o] for o in self.ordered)


class Process:
    """A process whose output is read in a thread."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if self._process.args[-1] == "bill":
            self._process.send_signal(signal.SIGTERM)
        assert self.wait() == 0
        assert self._lines.get(timeout=_SECONDS) is None, "more was billed than was ordered"

    def write(self, text: str) -> None:
        """Write to the process's input."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)

    def line(self) -> str:
        """Return the next line, which must come."""
        line = self._lines.get(timeout=_SECONDS)
        assert line is not None, "the process has ended"
        return line

    def lines(self, count: int) -> list[Any]:
        """Return the next values, which must come."""
        return [json.loads(self.line()) for _ in range(count)]

    def all_lines(self) -> list[Any]:
        """Return what comes until the process ends."""
        return [json.loads(line) for line in iter(lambda: self._lines.get(timeout=_SECONDS), None)]

    def kill(self) -> None:
        """Kill the process, if it runs."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Close the input, and wait for the end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        return self._process.wait(_SECONDS)


def counted(bills: Iterable[Any]) -> Counter[str]:
    """Count equal bills."""
    return Counter(json.dumps(bill, sort_keys=True) for bill in bills)


class Registry(http.server.BaseHTTPRequestHandler):
    """A schema registry that knows one schema."""

    def do_POST(self) -> None:
        """Register the schema, or look it up."""
        self._answer({"id": 1, "subject": "orders-value", "version": 1, "schema": AVRO})

    def do_GET(self) -> None:
        """Return the schema; no name is associated with the topic's."""
        known = {"schema": AVRO, "id": 1, "subject": "orders-value", "version": 1}
        self._answer([] if "associations" in self.path else known)

    def _answer(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
