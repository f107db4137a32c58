"""Proxies in front of one Kafka node that delay responses or replace them."""

from __future__ import annotations

import io
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

__all__ = ["Api", "Late", "Refusing"]

_NOT_LEADER: Final = 6


class Api(IntEnum):
    """API keys of Kafka's protocol."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9


class Proxy(ABC):
    """Serves on `bootstrap_servers`, one thread for each direction of a connection."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._host, port = bootstrap_servers.split(":")
        self._port = int(port)
        self._server = socket.create_server((self._host, 0))
        self._sockets = [self._server]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self._host}:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        for connection in self._sockets:
            _shut(connection)
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            node = socket.create_connection((self._host, self._port))
            self._sockets += [client, node]
            self._start(self._requests, client, node)
            self._start(self._responses, node, client)

    def _requests(self, client: socket.socket, node: socket.socket) -> None:
        while frame := _frame(client):
            if self._passes(client, frame):
                self._send(node, frame)
        _shut(node)

    def _responses(self, node: socket.socket, client: socket.socket) -> None:
        # Responses say where the node is: replace that by the proxy's address.
        host = self._host.encode()
        real = host + struct.pack(">i", self._port)
        ours = host + struct.pack(">i", self._server.getsockname()[1])
        while frame := _frame(node):
            self._hold(client, frame)
            self._send(client, frame.replace(real, ours))
        _shut(client)

    @abstractmethod
    def _passes(self, client: socket.socket, request: bytes) -> bool:
        """Say whether to pass a client's request on to the node."""

    def _hold(self, client: socket.socket, response: bytes) -> None:  # noqa: B027
        """Block until this response may be passed on."""

    def _send(self, to: socket.socket, frame: bytes) -> None:
        with self._lock:
            try:
                to.sendall(struct.pack(">i", len(frame)) + frame)
            except OSError:
                _shut(to)


class Refusing(Proxy):
    """Answers a partition's first produce request with an error; the node never receives it.

    That imitates a leader that was only just elected, and does not know the producer when the next
    request comes. `refused` counts the requests that the proxy answers: after `wait` seconds, or
    when a second request has come. `behind` counts the second ones.
    """

    def __init__(self, bootstrap_servers: str, *, wait: float) -> None:
        super().__init__(bootstrap_servers)
        self._wait = wait
        self._second = threading.Event()
        self._answering: threading.Thread | None = None
        self.refused = 0
        self.behind = 0

    def _passes(self, client: socket.socket, request: bytes) -> bool:
        (key,) = struct.unpack_from(">h", request)
        if key == Api.PRODUCE and self._answering is None:
            self.refused += 1
            # Answered later: the question is whether the client sends another request meanwhile.
            self._answering = self._start(self._refuse, client, request)
            return False
        if key == Api.PRODUCE and self._answering is not None and self._answering.is_alive():
            self.behind += 1
            self._second.set()
            self._answering.join()
        return True

    def _refuse(self, client: socket.socket, request: bytes) -> None:
        self._second.wait(self._wait)
        self._send(client, _refusal(request))


class Late(Proxy):
    """Delays the responses to some API keys, by `seconds`."""

    def __init__(self, bootstrap_servers: str, seconds: Mapping[Api, float]) -> None:
        super().__init__(bootstrap_servers)
        self._seconds = seconds
        self._due: dict[tuple[socket.socket, int], float] = {}

    def _passes(self, client: socket.socket, request: bytes) -> bool:
        key, _, correlation = struct.unpack_from(">hhi", request)
        if key in self._seconds:
            self._due[client, correlation] = time.monotonic() + self._seconds[key]
        return True

    def _hold(self, client: socket.socket, response: bytes) -> None:
        (correlation,) = struct.unpack_from(">i", response)
        due = self._due.pop((client, correlation), 0)
        time.sleep(max(0, due - time.monotonic()))


def _refusal(request: bytes) -> bytes:
    """Return the answer NOT_LEADER to a ProduceRequest of version 9 to 12, of one partition."""
    reader = io.BytesIO(request)
    _, version, correlation, client = struct.unpack(">hhih", reader.read(10))
    assert 9 <= version <= 12, version  # those with compact names
    reader.read(client)
    assert reader.read(1) == b"\0"  # no tagged fields
    reader.read(max(0, _varint(reader) - 1))  # the transactional id
    reader.read(6)  # acks and timeout
    assert _varint(reader) - 1 == 1
    name = reader.read(_varint(reader) - 1)
    assert _varint(reader) - 1 == 1
    index = reader.read(4)
    partition = index + struct.pack(">hqqq", _NOT_LEADER, -1, -1, -1) + b"\1\0\0"
    topic = bytes([len(name) + 1]) + name + b"\2" + partition + b"\0"
    return struct.pack(">i", correlation) + b"\0" + b"\2" + topic + struct.pack(">i", 0) + b"\0"


def _varint(reader: io.BytesIO) -> int:
    number = shift = 0
    while True:
        (byte,) = reader.read(1)
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number


def _frame(source: socket.socket) -> bytes:
    """Return the next request or response, without its length; empty at the end."""
    head = _exactly(source, 4)
    return _exactly(source, struct.unpack(">i", head)[0]) if head else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            more = source.recv(count - len(data))
        except OSError:
            return b""
        if not more:
            return b""
        data += more
    return data


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
