"""Decoding in a child process, for topics whose producers are not to be trusted.

Arrow is C++ that reads foreign bytes. A file that crashes it, exhausts memory or never ends costs a
child process here, and only that segment is lost. The parent sends bytes and receives columns.

A consumer owns its `IsolatedDecoder`. A thread that polls, or reads one of the consumer's segments,
waits for the child. The child is a new interpreter (nothing is forked, and the user's main module
is not imported), started for the first segment. In both directions the data is in an anonymous
file whose descriptor is sent over a socket. The parent maps the columns: nothing is pickled or
copied.

====================================  ============================================================
The child dies, is slow or large      It is killed, and a new one decodes the segment again, which
                                      may not be the cause. The second time is a SegmentError.
It cannot be started                  ColumnarError: the segment may be good.
An exception while it works (Ctrl-C)  It is killed: its answer would be read as the next one's.
The parent closes, ends, is dropped   It is killed and waited for.
The parent is killed                  Its socket ends, and it exits; while decoding, by its alarm.
The parent forks                      The copy closes the socket, and must not be used.
====================================  ============================================================

This is no sandbox: a child under an attacker's control can send any answer.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import pyarrow as pa

from columnar_kafka.config import ReadOptions
from columnar_kafka.errors import ColumnarError, ConfigError, ForkError, SegmentError
from columnar_kafka.segment.avro_layout import said_of
from columnar_kafka.segment.decoder import InlineDecoder, RawSegment, SegmentFile
from columnar_kafka.segment.headers import SegmentHeader

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["IsolatedDecoder", "serve"]

_START_SECONDS: Final = 60.0
_WATCH_SECONDS: Final = 0.01
_BASE_BYTES: Final = 256 << 20  # idle it takes 100 MB
_REASON_BYTES: Final = 4096
_OPTIONS_BYTES: Final = 1 << 16
_READY, _COLUMNS, _REFUSED = b"+", b"=", b"!"

_Task = Literal["schema", "scan", "decode", "read"]

_PROGRAM = """
import sys
sys.path[:] = sys.argv[2:]
from columnar_kafka.segment.isolated import serve
serve(int(sys.argv[1]))
"""


class _LostError(Exception):
    """The child has ended or must be killed; the text says why."""


class IsolatedDecoder:
    """Decodes in a child process, one segment at a time: a `Decoder`, for any thread."""

    def __init__(
        self, options: ReadOptions | None = None, *, memory_bytes: int | None = None
    ) -> None:
        """Start no child yet.

        Args:
            options: how to read, here and in the child.
            memory_bytes: the most memory of the child; by default 256 MiB more than the columns may
                take by `options`.

        Raises:
            ConfigError: the system is not Linux.
        """
        if not hasattr(os, "memfd_create"):
            raise ConfigError("columnar.decode=isolated: needs Linux; use inline")
        self.options = options or ReadOptions()
        self._memory_bytes = memory_bytes or _BASE_BYTES + self.options.max_decoded_bytes
        self._lock = threading.Lock()  # guards _child, which answers one question at a time
        self.child: Child | None = None
        self._owner: int | None = None  # the process that has used it first

    @property
    def _is_copy(self) -> bool:
        """Whether this is a forked process's copy. Another thread may have had the lock then."""
        return self._owner not in (None, os.getpid())

    def open(self, raw: RawSegment) -> SegmentFile:
        """Return the file at once; everything is checked when it is first used."""
        return _IsolatedFile(self, raw)

    def read_records(self, *_: Any) -> None:
        """Read none: foreign bytes are decoded in the child, which sends tables."""

    def close(self) -> None:
        """Kill the child; a segment that is used later starts another."""
        if self._is_copy:
            self._end_child()
            return
        with self._lock:
            self._end_child()

    def _end_child(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None

    def ask(self, raw: RawSegment, task: _Task, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a segment if the task is to read it, else an empty table.

        Raises:
            SegmentError: as `SegmentFile`; or the segment has ended two children.
            ColumnarError: no child could be started.
            ForkError: this is a forked copy of the process that used the decoder first.
        """
        question = {
            "header": raw.header._asdict(),
            "crc32": raw.crc32,
            "columns": None if columns is None else list(columns),
            "task": task,
        }
        text = json.dumps(question).encode()
        parts = (len(text).to_bytes(8, "little"), text, memoryview(raw.value or b""))
        if self._is_copy:
            raise ForkError("a consumer cannot be used in a forked child: make another there")
        self._owner = os.getpid()
        with self._lock:
            try:
                return self._try(parts)
            except _LostError:  # another cause is possible
                return self._try_again(parts)

    def _try_again(self, parts: Sequence[bytes | memoryview]) -> pa.Table:
        try:
            return self._try(parts)
        except _LostError as error:
            raise SegmentError(f"the decoding process {error} in both attempts") from error

    def _try(self, parts: Sequence[bytes | memoryview]) -> pa.Table:
        if self.child is None:
            self.child = Child(self.options, self._memory_bytes)
        try:
            return self.child.ask(parts)
        except SegmentError:
            raise
        except BaseException:  # its late answer would be read as the next one's
            self._end_child()
            raise


class _IsolatedFile:
    """A `SegmentFile` that a child opens again for every question."""

    def __init__(self, decoder: IsolatedDecoder, raw: RawSegment) -> None:
        self._decoder = decoder
        self._raw = raw
        self._described: tuple[pa.Schema, Mapping[bytes, bytes]] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return self._describe()[0]

    @property
    def said(self) -> Mapping[bytes, bytes]:
        """What the footer says of the values of records."""
        return self._describe()[1]

    def _describe(self) -> tuple[pa.Schema, Mapping[bytes, bytes]]:
        if self._described is None:
            schema = self._decoder.ask(self._raw, "schema").schema
            metadata, said = dict(schema.metadata or {}), said_of(schema.metadata)
            for key in said:
                del metadata[key]
            self._described = schema.with_metadata(metadata or None), said
        return self._described

    def statistics(self, columns: Collection[str]) -> None:
        """Return None: a child decodes for producers that are not trusted."""

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Return all rows, dictionaries expanded."""
        return self._decoder.ask(self._raw, "read", columns)

    def check(self, *, decode: bool) -> None:
        """Check all pages."""
        self._decoder.ask(self._raw, "decode" if decode else "scan")


# --- the parent's side of one child ---------------------------------------------------------------


class Child:
    """One child process, and the parent's end of its socket."""

    _all: Final[weakref.WeakSet[Child]] = weakref.WeakSet()

    def __init__(self, options: ReadOptions, memory_bytes: int) -> None:
        """Start the process and wait until it is ready: half a second.

        Raises:
            ColumnarError: it could not be started.
        """
        self._memory_bytes = memory_bytes
        self.seconds = options.max_decode_seconds
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                # Arguments can be seen by all users of the machine, this only by the child.
                self._socket.send(pickle.dumps(options))
                self.process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-c", _PROGRAM),
                        str(theirs.fileno()),
                        *(folder or os.getcwd() for folder in sys.path),  # noqa: PTH109
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the parent
                )
        except OSError as error:
            self._socket.close()
            raise ColumnarError(
                f"columnar.decode=isolated: no process could be started: {error}"
            ) from error
        self._finish = weakref.finalize(self, _end, self.process, self._socket, self._owner)
        Child._all.add(self)
        try:
            self._wait(_START_SECONDS, f"{_START_SECONDS:g} s", memory_bytes=1 << 62)
            try:
                is_ready = self._socket.recv(1) == _READY
            except OSError:  # it has ended without a look at its options
                is_ready = False
            if not is_ready:
                self._lost()
        except _LostError as error:
            self.end()
            raise ColumnarError(
                f"columnar.decode=isolated: the decoding process {error} at its start"
            ) from error
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Kill the process and wait for it; further calls do nothing."""
        self._finish()

    def ask(self, parts: Sequence[bytes | memoryview]) -> pa.Table:
        """Send a question and return the answer."""
        question = anonymous_file(parts)
        try:
            socket.send_fds(self._socket, [b"?"], [question])
        except OSError:
            self._lost()
        finally:
            os.close(question)
        limit = f"columnar.max.decode.ms={1000 * self.seconds:g}"
        self._wait(self.seconds, limit, memory_bytes=self._memory_bytes)
        try:
            answer, descriptors, _, _ = socket.recv_fds(self._socket, 1 + _REASON_BYTES, 1)
        except OSError:
            self._lost()
        if answer == _COLUMNS and descriptors:
            return pa.ipc.open_stream(pa.py_buffer(_mapped(descriptors[0]))).read_all()
        if not answer.startswith(_REFUSED):
            self._lost()
        raise SegmentError(answer[1:].decode(errors="replace"))

    def _wait(self, seconds: float, limit: str, *, memory_bytes: int) -> None:
        """Wait for an answer or the end of the process, within these seconds and bytes."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        deadline = time.monotonic() + seconds
        while True:
            if (nbytes := self._resident_bytes()) > memory_bytes:
                raise _LostError(
                    f"took {nbytes} bytes of memory, more than {memory_bytes} "
                    "(columnar.max.decoded.bytes and what an idle process takes)"
                )
            left = deadline - time.monotonic()
            if poll.poll(1000 * max(0.0, min(left, _WATCH_SECONDS))):
                return
            if left <= 0:
                raise _LostError(f"took more than {limit}")

    def _resident_bytes(self) -> int:
        try:
            with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:  # noqa: PTH123
                pages = file.read().split()[1]
        except (OSError, IndexError):  # it has ended; its socket will say so
            return 0
        return int(pages) * mmap.PAGESIZE

    def _lost(self) -> NoReturn:
        """Raise how the process ended, after its socket did."""
        self.process.kill()  # in case only the socket has ended
        code = self.process.wait()
        raise _LostError(
            f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        )

    @classmethod
    def forked(cls) -> None:
        """Close the sockets in a forked copy: children must notice when their parent ends."""
        for child in list(cls._all):
            child._socket.close()  # noqa: SLF001 - its own class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Child.forked)


def _end(process: subprocess.Popen[bytes], ours: socket.socket, owner: int) -> None:
    ours.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()


# --- the child ------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Answer questions until the parent has ended; this is the child's main function."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whatever the parent has set
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    with socket.socket(fileno=descriptor) as parent:
        options: ReadOptions = pickle.loads(parent.recv(_OPTIONS_BYTES))  # noqa: S301 - the parent's
        decoder = InlineDecoder(options)
        parent.send(_READY)
        while True:
            _, descriptors, _, _ = socket.recv_fds(parent, 1, 1)
            if not descriptors:
                return
            # A living parent kills in time; without one the alarm does.
            signal.setitimer(signal.ITIMER_REAL, 2 * options.max_decode_seconds + 1)
            _answer(parent, decoder, descriptors[0])
            signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(parent: socket.socket, decoder: InlineDecoder, descriptor: int) -> None:
    try:
        table = _decoded(decoder, _mapped(descriptor))
    except SegmentError as error:
        parent.send(_REFUSED + error.reason.encode()[:_REASON_BYTES])
        return
    columns = os.memfd_create("columns")
    with open(columns, "wb") as sink:  # noqa: PTH123 - a descriptor
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        sink.flush()
        socket.send_fds(parent, [_COLUMNS], [columns])


def _decoded(decoder: InlineDecoder, question: mmap.mmap) -> pa.Table:
    size = 8 + int.from_bytes(question[:8], "little")
    asked: dict[str, Any] = json.loads(question[8:size])
    header = SegmentHeader(**asked["header"])
    opened = decoder.open(RawSegment(header, asked["crc32"], memoryview(question)[size:]))
    task: _Task = asked["task"]
    if task == "read":
        return opened.read(asked["columns"])
    if task != "schema":
        opened.check(decode=task == "decode")
    schema = opened.schema
    if opened.said:  # no metadata of the user's have such names
        schema = schema.with_metadata({**(schema.metadata or {}), **opened.said})
    return schema.empty_table()


# --- both -----------------------------------------------------------------------------------------


def anonymous_file(parts: Sequence[bytes | memoryview]) -> int:
    """Return the descriptor of a new anonymous file with these bytes."""
    descriptor = os.memfd_create("segment")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.writelines(parts)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mapped(descriptor: int) -> mmap.mmap:
    """Map an anonymous file, and close its descriptor."""
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
