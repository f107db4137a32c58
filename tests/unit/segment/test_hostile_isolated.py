"""Decoding in a child: whatever ends it costs one segment, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hostile
import psutil
import pyarrow as pa
import pytest
from hostile import sent
from support import eventually, has_ended

from columnar_kafka import ColumnarError, ConfigError, ForkError, Segment, SegmentError
from columnar_kafka.config import ReadOptions
from columnar_kafka.segment import isolated
from columnar_kafka.segment.isolated import IsolatedDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolated decoding needs Linux")

TABLE = pa.table(
    {
        "n": pa.array(range(5000), pa.int64()),
        "s": ["a", None, "b", "c", "a"] * 1000,
        "l": [["x"], None, [], ["y", None], ["z"]] * 1000,
    }
)
GOOD = sent(TABLE)


@pytest.fixture(scope="module")
def decoder() -> Iterator[IsolatedDecoder]:
    """One for all tests: starting its child takes longer than most of them."""
    shared = IsolatedDecoder()
    yield shared
    shared.close()


def segment(of: hostile.Sent, decoder: IsolatedDecoder) -> Segment:
    return Segment(
        topic="t", partition=3, offset=5, headers=of.headers(), value=of.value, decoder=decoder
    )


def refusal(of: hostile.Sent, decoder: IsolatedDecoder) -> str:
    with pytest.raises(SegmentError) as raised:
        segment(of, decoder).to_table()
    assert raised.value.reason.startswith("segment at t[3]@5: ")
    return raised.value.reason.removeprefix("segment at t[3]@5: ")


def process(decoder: IsolatedDecoder) -> psutil.Process:
    assert decoder.child is not None
    return psutil.Process(decoder.child.process.pid)


HARMS = {
    "abort": "os.abort()",
    "segfault": "ctypes.string_at(0)",
    "exit": "os._exit(3)",
    "disconnect": "os.closerange(3, 1 << 16); time.sleep(1000)",
    "sleep": "time.sleep(1000)",
    "hold the interpreter's lock": (
        "signal.pthread_sigmask(0, range(1, 64)); ctypes.PyDLL(None).sleep(1000)"
    ),
    "grow": "held = [bytearray(1 << 20) for _ in range(1 << 20)]",
}
PROGRAM = f"""
import ctypes, os, signal, sys, time
sys.path[:] = sys.argv[2:]
from columnar_kafka.segment import decoder, isolated
decode = decoder.InlineFile.read
def read(self, columns):
    for name, harm in {HARMS!r}.items():
        if b"bad: " + name.encode() in bytes(self._raw.value):
            exec(harm)
    return decode(self, columns)
decoder.InlineFile.read = read
isolated.serve(int(sys.argv[1]))
"""
"""A child that is harmed by some segments, as a mistake in Arrow might harm it."""


def bad(harm: str) -> hostile.Sent:
    return sent(pa.table({f"bad: {harm}": [1]}))


@pytest.fixture(scope="module")
def fragile_decoder() -> Iterator[IsolatedDecoder]:
    shared = IsolatedDecoder()
    yield shared
    shared.close()


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch, fragile_decoder: IsolatedDecoder) -> IsolatedDecoder:
    """A decoder whose children run `PROGRAM`; it is shared by all tests."""
    monkeypatch.setattr(isolated, "_PROGRAM", PROGRAM)
    return fragile_decoder


# --- what comes back ------------------------------------------------------------------------------


def test_columns_come_back_as_they_are_decoded_here(decoder: IsolatedDecoder) -> None:
    decoded = segment(GOOD, decoder)
    assert decoded.schema.equals(TABLE.schema)
    assert decoded.to_table().equals(TABLE)
    assert decoded.to_table(["s", "n"]).equals(TABLE.select(["s", "n"]))
    assert [record.value["n"] for record in decoded.records(4000)] == list(range(4000, 5000))


def test_one_child_serves_all_segments(decoder: IsolatedDecoder) -> None:
    segment(GOOD, decoder).verify()
    first = process(decoder).pid
    for _ in range(20):
        assert segment(GOOD, decoder).to_table().num_rows == 5000
    assert process(decoder).pid == first


def test_a_child_is_started_for_the_first_segment_only() -> None:
    made = IsolatedDecoder()
    held = segment(GOOD, made)
    assert made.child is None
    held.verify()
    assert process(made).is_running()
    made.close()


def test_a_table_outlives_its_decoder_and_the_child_does_not() -> None:
    made = IsolatedDecoder()
    table = segment(GOOD, made).to_table()
    child = process(made)
    made.close()
    assert not child.is_running()
    assert table.equals(TABLE)


def test_a_child_ends_with_a_decoder_that_is_dropped() -> None:
    made = IsolatedDecoder()
    segment(GOOD, made).verify()
    child = process(made)
    del made
    gc.collect()
    assert not child.is_running()


def test_an_error_is_the_one_that_decoding_here_raises(decoder: IsolatedDecoder) -> None:
    for bomb in hostile.BOMBS.values():
        of = bomb()
        with pytest.raises(SegmentError) as raised:
            Segment(
                topic="t", partition=3, offset=5, headers=of.headers(), value=of.value
            ).to_table()
        assert f"segment at t[3]@5: {refusal(of, decoder)}" == raised.value.reason
    assert segment(GOOD, decoder).to_table().equals(TABLE)


def test_limits_hold_in_the_child() -> None:
    made = IsolatedDecoder(ReadOptions(max_rows=4999))
    assert "columnar.max.rows is 4999" in refusal(GOOD, made)
    made.close()


def test_no_value_at_all_is_an_error(decoder: IsolatedDecoder) -> None:
    of = Segment(
        topic="t", partition=3, offset=5, headers=GOOD.headers(), value=None, decoder=decoder
    )
    with pytest.raises(SegmentError, match="the bytes are damaged"):
        of.verify()


def test_threads_get_each_their_own_answers(decoder: IsolatedDecoder) -> None:
    """Segments taken whole are worked on wherever their user likes."""
    segments = [sent(pa.table({"n": [number]})) for number in range(200)]

    def number(of: hostile.Sent) -> int:
        value: int = segment(of, decoder).to_table()["n"][0].as_py()
        return value

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(number, segments)) == list(range(200))


# --- a child that ends ----------------------------------------------------------------------------


def test_a_question_that_cannot_be_written_leaves_no_file_open() -> None:
    before = psutil.Process().num_fds()
    broken: Any = [b"a part", "no bytes"]
    with pytest.raises(TypeError):
        isolated.anonymous_file(broken)
    assert psutil.Process().num_fds() == before


def test_it_may_be_closed_while_another_thread_begins_to_ask() -> None:
    class Contested(IsolatedDecoder):
        """Has no child any more as soon as somebody has looked for it without the lock."""

        @property
        def child(self) -> Any:  # type: ignore[override]
            child = self.__dict__.get("child")
            if not self._lock.locked():
                self.__dict__["child"] = None
            return child

        @child.setter
        def child(self, child: Any) -> None:
            self.__dict__["child"] = child

    made = Contested()
    try:
        for _ in range(2):
            assert segment(GOOD, made).to_table().equals(TABLE)
    finally:
        made.close()


def test_a_child_that_somebody_killed_is_replaced(decoder: IsolatedDecoder) -> None:
    segment(GOOD, decoder).verify()
    first = process(decoder)
    first.kill()
    assert segment(GOOD, decoder).to_table().equals(TABLE)
    assert not first.is_running()


def test_a_child_that_is_killed_before_it_reads_is_replaced(decoder: IsolatedDecoder) -> None:
    """Its socket then has an error, not an end."""
    segment(GOOD, decoder).verify()
    first = process(decoder)
    first.suspend()
    killer = threading.Timer(0.2, first.kill)
    killer.start()
    assert segment(GOOD, decoder).to_table().equals(TABLE)
    killer.join()
    assert not first.is_running()


def test_a_child_that_somebody_stopped_is_replaced(decoder: IsolatedDecoder) -> None:
    segment(GOOD, decoder).verify()
    first = process(decoder)
    first.suspend()
    assert decoder.child is not None
    decoder.child.seconds = 0.1  # of this child; the next one has 10 s
    assert segment(GOOD, decoder).to_table().equals(TABLE)
    assert not first.is_running()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        ("abort", "the decoding process ended with SIGABRT in both attempts"),
        ("segfault", "the decoding process ended with SIGSEGV in both attempts"),
        ("exit", "the decoding process ended with exit code 3 in both attempts"),
        ("disconnect", "the decoding process ended with SIGKILL in both attempts"),
    ],
)
def test_a_crash_is_the_error_of_that_segment_alone(
    fragile: IsolatedDecoder, harm: str, says: str
) -> None:
    assert segment(GOOD, fragile).to_table().equals(TABLE)
    assert refusal(bad(harm), fragile) == says
    assert segment(GOOD, fragile).to_table().equals(TABLE)


@pytest.mark.parametrize("harm", ["sleep", "hold the interpreter's lock"])
def test_a_hang_is_the_error_of_that_segment_alone(
    monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr(isolated, "_PROGRAM", PROGRAM)
    made = IsolatedDecoder(ReadOptions(max_decode_seconds=0.1))
    assert (
        refusal(bad(harm), made)
        == "the decoding process took more than columnar.max.decode.ms=100 in both attempts"
    )
    made.options = ReadOptions()  # a busy machine may need more than that
    assert segment(GOOD, made).to_table().equals(TABLE)
    made.close()


def test_a_child_that_grows_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "_PROGRAM", PROGRAM)
    made = IsolatedDecoder(ReadOptions(max_decode_seconds=100.0), memory_bytes=400 << 20)
    assert segment(GOOD, made).to_table().equals(TABLE)
    says = refusal(bad("grow"), made)
    assert says.startswith("the decoding process took ")
    assert "more than 419430400 (columnar.max.decoded.bytes and what an idle" in says
    assert segment(GOOD, made).to_table().equals(TABLE)
    made.close()


def test_an_interrupt_leaves_no_answer_behind(
    monkeypatch: pytest.MonkeyPatch, decoder: IsolatedDecoder
) -> None:
    """Or the next segment would get the columns of this one."""
    segment(GOOD, decoder).verify()
    first = process(decoder)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(isolated.Child, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            segment(sent(pa.table({"n": [7]})), decoder).to_table()
    assert not first.is_running()
    assert segment(GOOD, decoder).to_table().equals(TABLE)


def test_a_late_start_names_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """None sets its limit."""
    monkeypatch.setattr(isolated, "_START_SECONDS", 0.0)
    with pytest.raises(ColumnarError, match=r"process took more than 0 s at its start$"):
        segment(GOOD, IsolatedDecoder()).verify()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise SystemExit(7)", "the decoding process ended with exit code 7 at its start"),
        ("import nothing_of_this_name", "the decoding process ended with exit code 1 at its start"),
    ],
)
def test_a_child_that_cannot_start_is_no_segments_error(
    monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    """Nothing is known of the segment: it must not be reported, and so passed over."""
    monkeypatch.setattr(isolated, "_PROGRAM", f"import sys; sys.stderr.close(); {code}")
    made = IsolatedDecoder()
    with pytest.raises(ColumnarError, match=says) as raised:
        segment(GOOD, made).to_table()
    assert not isinstance(raised.value, SegmentError)
    monkeypatch.undo()
    assert segment(GOOD, made).to_table().equals(TABLE)
    made.close()


def test_no_interpreter_is_no_segments_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(ColumnarError, match=r"columnar\.decode=isolated: no process") as raised:
        segment(GOOD, IsolatedDecoder()).to_table()
    assert not isinstance(raised.value, SegmentError)


def test_elsewhere_than_on_linux_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ConfigError, match=r"columnar\.decode=isolated: needs Linux; use inline"):
        IsolatedDecoder()


# --- a parent that ends ---------------------------------------------------------------------------

PARENT = """
import os, sys, time
import pyarrow as pa
import hostile
from columnar_kafka import ForkError, Segment
from columnar_kafka.segment import isolated
from columnar_kafka.config import ReadOptions

def segment(decoder, name="n"):
    of = hostile.sent(pa.table({name: [1]}))
    return Segment(
        topic="t", partition=0, offset=0, headers=of.headers(), value=of.value, decoder=decoder)

decoder = isolated.IsolatedDecoder()
"""


def parent(code: str) -> subprocess.Popen[str]:
    """A process that uses a decoder, and prints its child's process number."""
    paths = [str(path) for path in sys.path if path]
    return subprocess.Popen(
        [sys.executable, "-c", PARENT + textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        text=True,
    )


SHOW = "print(decoder.child.process.pid, flush=True)"


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
def test_nothing_is_left_when_the_parent_ends(end: str) -> None:
    with parent(f"segment(decoder).verify()\n{SHOW}\n{end}") as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    eventually(lambda: has_ended(int(out)))


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    with parent(f"segment(decoder).verify()\n{SHOW}\ntime.sleep(1000)") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
    eventually(lambda: has_ended(child))


def test_nothing_is_left_when_the_parent_is_killed_while_it_waits() -> None:
    """The child hears of nothing while it decodes: its alarm ends it."""
    code = f"""
        isolated._PROGRAM = {PROGRAM!r}
        decoder.options = ReadOptions(max_decode_seconds=0.01)
        wait = isolated.Child._wait
        def told(self, seconds, limit, *, memory_bytes):
            if self.process.pid in shown:
                os.kill(os.getpid(), 9)  # the question is asked
            shown.add(self.process.pid)
            print(self.process.pid, flush=True)
            wait(self, seconds, limit, memory_bytes=memory_bytes)
        shown = set()
        isolated.Child._wait = told
        segment(decoder, "bad: hold the interpreter's lock").to_table()
    """
    with parent(code) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    eventually(lambda: has_ended(int(out)))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_is_refused_while_another_thread_starts_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts, forked = threading.Event(), threading.Event()

    def start(*_: object) -> None:
        starts.set()
        forked.wait(60)
        raise ColumnarError("as a test wants it")

    def use() -> None:
        with suppress(ColumnarError):
            segment(GOOD, decoder).verify()

    monkeypatch.setattr(isolated, "Child", start)
    decoder = IsolatedDecoder()
    thread = threading.Thread(target=use)
    thread.start()
    assert starts.wait(60)
    copy = os.fork()
    if not copy:
        signal.alarm(20)  # it would hang
        try:
            segment(GOOD, decoder).verify()
        except ForkError:
            decoder.close()
            os._exit(0)
        finally:
            os._exit(1)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0


def test_a_fork_is_refused_and_holds_nothing() -> None:
    """The copy does not keep the child alive, nor end it; the parent goes on."""
    code = f"""
        segment(decoder).verify()
        {SHOW}
        closed, close = os.pipe()
        copy = os.fork()
        if not copy:
            try:
                segment(decoder).verify()
            except ForkError as error:
                print(error, flush=True)
            decoder.close()
            os.close(1)
            os.write(close, b".")
            time.sleep(1000)
        os.read(closed, 1)
        segment(decoder).verify()
        {SHOW}
        print(copy, flush=True)
        os._exit(0)
    """
    with parent(code) as process:
        out, _ = process.communicate(timeout=60)
    child, refused, same_child, copy = out.splitlines()
    try:
        assert refused == "a consumer cannot be used in a forked child: make another there"
        assert child == same_child
        eventually(lambda: has_ended(int(child)))
    finally:
        os.kill(int(copy), signal.SIGKILL)
