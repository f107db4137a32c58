"""A process that forks with records buffered: its child has none of them, and may not touch them.

Each program runs in a process of its own, so that parent and child exit as programs do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from reading import numbers
from support import WITHOUT_PANDAS

from columnar_kafka import Consumer

if TYPE_CHECKING:
    from columnar_kafka.local import EmbeddedKafka

# Python 3.12 and later warn of a fork with threads: librdkafka's and the sender's are there.
BEGINNING = (
    WITHOUT_PANDAS
    + """
import multiprocessing, os, resource, signal, sys, time, warnings
import confluent_kafka
import pyarrow as pa
from columnar_kafka import ForkError, Producer
warnings.simplefilter("ignore", DeprecationWarning)

def make(**config):
    servers = {"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"}
    producer = Producer({**servers, **config})
    producer.set_schema(sys.argv[2], pa.schema([("n", pa.int64())]))
    return producer

def send(producer, numbers, **report):
    for n in numbers:
        producer.produce(sys.argv[2], {"n": n}, **report)

def wait_for(child):
    pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
"""
)


def run(servers: str, topic: str, program: str, *arguments: str) -> str:
    """Run a program to its end, and return its output."""
    code = BEGINNING + textwrap.dedent(program)
    command = [sys.executable, "-c", code, servers, topic, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=280)
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    return output


@pytest.mark.parametrize("first", ["child", "parent", "child, forked in C"])
def test_both_exit_and_what_was_buffered_is_there_once(embedded: EmbeddedKafka, first: str) -> None:
    servers, topic = embedded.bootstrap_servers, f"fork-{len(first)}-first"
    # The child can read when its parent is gone.
    program = """
        if "C" in sys.argv[3]:
            import ctypes
            sys.setswitchinterval(1000)
            os.fork = ctypes.PyDLL(None).fork
        gone, _ = os.pipe()
        producer = make(**{"columnar.linger.ms": 60_000})
        send(producer, range(100))
        child = os.fork()
        if "child" in sys.argv[3] and child:
            wait_for(child)
        elif sys.argv[3] == "parent" and not child:
            os.close(_)
            os.read(gone, 1)
    """
    run(servers, topic, program, first)
    assert numbers(servers, topic) == list(range(100))


USES = {
    "produce": "producer.produce(sys.argv[2], {'n': 1})",
    "produce, plain": "producer.produce(sys.argv[2], b'plain')",
    "produce, no schema": "producer.produce('another', b'plain')",
    "produce_batch": "producer.produce_batch(sys.argv[2], [{'value': {'n': 1}}])",
    "produce_batch, no schema": "producer.produce_batch('another', [{'value': b'plain'}])",
    "produce_arrow": "producer.produce_arrow(sys.argv[2], table)",
    "poll": "producer.poll(1000)",
    "flush": "producer.flush(1000)",
    "len": "len(producer)",
    "set_schema": "producer.set_schema(sys.argv[2], pa.schema([('n', pa.int64())]))",
    "purge": "producer.purge()",
    "close": "producer.close()",
    "with": "exec('with producer: pass')",
    "commit_transaction": "producer.commit_transaction(1000)",
    "abort_transaction": "producer.abort_transaction(1000)",
    "begin_transaction": "producer.begin_transaction()",
    "init_transactions": "producer.init_transactions(1000)",
    "send_offsets_to_transaction": "producer.send_offsets_to_transaction([], metadata, 1000)",
    "list_topics": "producer.list_topics(timeout=1000)",
    "cluster_id": "producer.cluster_id(1000)",
}
"""Ways to use a producer, and what confluent-kafka's would hang or wait in."""

# Each use in a child of its own, three times; it prints how often the thread waited, at best.
IN_CHILDREN = """
    producer = make(**{"columnar.linger.ms": 60_000, "transactional.id": sys.argv[2]})
    producer.init_transactions(120)
    producer.begin_transaction()
    consumer = confluent_kafka.Consumer({"group.id": "g"})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    send(producer, range(100))
    table = pa.table({"n": [1]})
    for use in sys.argv[3:]:
        child = os.fork()
        if child:
            wait_for(child)
            continue
        signal.alarm(240)  # it may hang
        waits = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            try:
                exec(use)
            except ForkError as error:
                assert str(error) == (
                    "this producer was made before os.fork(); make one in the child process")
            else:
                sys.exit(f"{use}: no ForkError")
            waits.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)
        assert producer  # as confluent-kafka's, it is true whatever becomes of it
        print(min(waits), flush=True)
        os._exit(0)
    producer.commit_transaction(120)
"""


# As uWSGI forks: Python is not told. (It keeps the GIL, which `ctypes.CDLL` would give away. And a
# child that is to give it to a thread, which is not there, would wait for ever.)
IN_C = """
import ctypes
sys.setswitchinterval(1000)
os.fork = ctypes.PyDLL(None).fork
"""
# Its sender's thread sends to memory; librdkafka has none.
FAKE = """
from columnar_kafka.testing import FakeKafka
Producer = FakeKafka().Producer
"""


@pytest.mark.parametrize("how", ["os", "C", "C, without the core", "fake"])
def test_every_use_in_the_child_raises_at_once(
    embedded: EmbeddedKafka, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No use waits for anything: the thread gives up its core of its own accord at no time."""
    if "without" in how:
        monkeypatch.setenv("COLUMNAR_KAFKA_NATIVE", "0")
    servers, topic = embedded.bootstrap_servers, "fork-used-" + "".join(filter(str.isalpha, how))
    program = {"o": "", "C": IN_C, "f": FAKE}[how[0]] + textwrap.dedent(IN_CHILDREN)
    output = run(servers, topic, program, *USES.values())
    assert dict(zip(USES, output.split(), strict=True)) == dict.fromkeys(USES, "0")
    if how != "fake":
        assert numbers(servers, topic) == list(range(100))


def test_a_child_forked_in_a_report_runs_none_of_its_parents(embedded: EmbeddedKafka) -> None:
    servers, topic = embedded.bootstrap_servers, "fork-in-report"
    program = """
        producer, reports, children = make(), [], []
        def report(error, message):
            reports.append(os.getpid())
            if len(reports) == 2:
                children.append(os.fork())
        send(producer, range(10), on_delivery=report)
        try:
            producer.poll(200)
        except ForkError:
            assert children == [0]
            print(len(reports), flush=True)
            os._exit(0)
        producer.flush()
        wait_for(children[0])
        print(len(reports))
    """
    assert run(servers, topic, program).split() == ["2", "10"]


CHILDREN = {
    "os.fork": """
        child = os.fork()
        if not child:
            work()
            sys.exit()
        wait_for(child)
    """,
    "os.fork, os._exit": """
        child = os.fork()
        if not child:
            work()
            os._exit(0)
        wait_for(child)
    """,
    "multiprocessing": """
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0, child.exitcode
    """,
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_makes_its_own_producer(embedded: EmbeddedKafka, kind: str) -> None:
    servers, topic = embedded.bootstrap_servers, f"fork-own-{len(kind)}"
    program = """
        producer = make(**{"columnar.linger.ms": 60_000})
        send(producer, range(100))

        def work():
            try:
                producer.produce(sys.argv[2], {"n": -1})
            except ForkError:
                pass
            else:
                sys.exit("no ForkError")
            reports = []
            with make() as own:
                send(own, range(100, 200), on_delivery=lambda e, _: reports.append(e))
            assert reports == [None] * 100, reports
    """
    run(servers, topic, textwrap.dedent(program) + textwrap.dedent(CHILDREN[kind]))
    assert numbers(servers, topic) == list(range(200))


@pytest.mark.parametrize("parents", ["", "made"])
def test_a_worker_that_was_forked_in_c_makes_clients_before_it_uses_any(
    embedded: EmbeddedKafka, parents: str
) -> None:
    """As uWSGI's do in `@postfork`."""
    servers, topic = embedded.bootstrap_servers, f"fork-worker-{parents}"
    program = (
        IN_C
        + """
from columnar_kafka import Consumer
settings = {"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"}
settings |= {"group.id": sys.argv[2], "auto.offset.reset": "earliest"}
before = (make(), Consumer(settings)) if sys.argv[3] else ()
child = os.fork()
if not child:
    with make() as producer, Consumer(settings) as consumer:
        send(producer, range(3))
        producer.flush()
        consumer.subscribe([sys.argv[2]])
        assert [consumer.poll(200).value()["n"] for _ in range(3)] == [0, 1, 2]
    os._exit(0)
wait_for(child)
"""
    )
    run(servers, topic, program, parents)
    assert numbers(servers, topic) == [0, 1, 2]


def test_a_child_that_only_exits_sends_what_its_own_producer_has_and_ends(
    embedded: EmbeddedKafka,
) -> None:
    """Some of ten children would wait for their parent's threads, in its producer's destructor."""
    servers, topic = embedded.bootstrap_servers, "fork-exits"
    program = """
        producer = make(**{"columnar.linger.ms": 60_000})
        send(producer, range(100))
        for number in range(1, 11):
            child = os.fork()
            if child == 0:
                own = make(**{"columnar.linger.ms": 60_000})
                send(own, range(100 * number, 100 * number + 100))
                break
            wait_for(child)
    """
    run(servers, topic, program)
    assert numbers(servers, topic) == list(range(1100))


def test_20_forks_while_the_sender_is_busy(embedded: EmbeddedKafka) -> None:
    """Every tenth child has a producer of its own; each child knows that it is one."""
    servers, topic = embedded.bootstrap_servers, "fork-busy"
    program = """
        producer = make(**{"columnar.segment.rows": 500, "columnar.linger.ms": 5})
        reports = []
        def report(error, message):
            reports.append(error)
        children = []
        for fork in range(20):
            send(producer, range(1000 * fork, 1000 * fork + 1000), on_delivery=report)
            producer.poll(0)
            child = os.fork()
            if not child:
                try:
                    len(producer)
                except ForkError:
                    pass
                else:
                    os._exit(1)
                if fork % 10 == 0:
                    with make() as own:
                        send(own, range(100_000 + fork, 100_000 + fork + 10))
                    os._exit(0)
                sys.exit()
            children.append(child)
        for child in children:
            wait_for(child)
        producer.flush()
        assert reports == [None] * 20_000, len(reports)
    """
    run(servers, topic, program)
    own = [100_000 + fork + i for fork in range(0, 20, 10) for i in range(10)]
    assert numbers(servers, topic) == sorted([*range(20_000), *own])


def test_children_of_multiprocessing_send_what_they_do_not_flush(embedded: EmbeddedKafka) -> None:
    """They end by os._exit; also with a producer of their parent's, and one that was dropped."""
    servers, topic = embedded.bootstrap_servers, "fork-unflushed"
    program = """
        import concurrent.futures
        kept = []
        def work(first):
            kept.append(make(**{"columnar.linger.ms": 60_000}))
            send(kept[-1], range(first, first + 100))
        def drop(first):
            send(make(**{"columnar.linger.ms": 60_000}), range(first, first + 100))
        def fail(first):
            work(first)
            sys.exit(3)

        context = multiprocessing.get_context("fork")
        producer = make(**{"columnar.linger.ms": 60_000})
        send(producer, range(100))
        for first, target, status in (100, work, 0), (200, drop, 0), (300, fail, 3):
            child = context.Process(target=target, args=(first,))
            child.start()
            child.join()
            assert child.exitcode == status, child.exitcode
        with context.Pool(1) as pool:
            pool.map(work, (400, 500))
            pool.close()
            pool.join()
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            list(pool.map(work, (600, 700)))
    """
    run(servers, topic, program)
    assert numbers(servers, topic) == list(range(800))


def test_a_child_of_multiprocessing_sends_what_its_last_thread_produces(
    embedded: EmbeddedKafka,
) -> None:
    """The child waits for its threads after its finalizers; a pool's end only then."""
    servers, topic = embedded.bootstrap_servers, "fork-threads"
    program = """
        import concurrent.futures, multiprocessing.util, threading
        def work():
            producer = make(**{"columnar.linger.ms": 60_000})
            pool = concurrent.futures.ThreadPoolExecutor(1)
            pool.submit(send, producer, range(100)).result()
            def late():
                while not multiprocessing.util._exiting:
                    time.sleep(0.01)
                send(producer, range(100, 200))
            threading.Thread(target=late).start()
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0, child.exitcode
    """
    run(servers, topic, program)
    assert numbers(servers, topic) == list(range(200))


# --- consumers ------------------------------------------------------------------------------------


IN_A_CHILD = """
    from columnar_kafka import Consumer
    with make() as producer:
        send(producer, range(10))
    settings = {"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"}
    consumer = Consumer({**settings, "group.id": sys.argv[2], "auto.offset.reset": "earliest"})
    consumer.subscribe([sys.argv[2]])
    found = [consumer.poll(200).value()["n"] for _ in range(4)]
    if sys.argv[4] == "C":
        import ctypes
        sys.setswitchinterval(1000)
        os.fork = ctypes.PyDLL(None).fork
    child = os.fork()
    if not child:
        for name in sys.argv[5:]:
            try:
                getattr(consumer, name)()
            except ForkError as error:
                assert "make one in the child" in str(error)
            else:
                sys.exit(name + ": no ForkError")
        if sys.argv[3] == "os._exit":
            os._exit(0)
        del consumer
        sys.exit()
    wait_for(child)
    found += [consumer.poll(200).value()["n"] for _ in range(6)]
    assert found == list(range(10)), found
    consumer.close()
"""


@pytest.mark.parametrize("how", ["os", "C"])
@pytest.mark.parametrize("ends", ["sys.exit", "os._exit"])
def test_a_child_has_no_part_in_its_parents_consumer(
    embedded: EmbeddedKafka, ends: str, how: str
) -> None:
    """Each use is refused, at once, and neither is disturbed by the other's end."""
    uses = [name for name in dir(Consumer) if not name.startswith("_")]
    assert "get_watermark_offsets" in uses
    topic = f"fork-consumer-{how}-" + ends.replace(".", "-")
    run(embedded.bootstrap_servers, topic, IN_A_CHILD, ends, how, *uses)


def test_a_child_ends_with_its_copy_of_a_consumer_that_unwraps_nothing(
    embedded: EmbeddedKafka,
) -> None:
    """librdkafka would abort the process: its threads are not there."""
    program = """
        from columnar_kafka import Consumer
        consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2]})
        consumer.subscribe([sys.argv[2]])
        consumer.poll(0.1)
        child = os.fork()
        if not child:
            sys.exit()
        wait_for(child)
        consumer.close()
    """
    run(embedded.bootstrap_servers, "fork-unwraps-nothing", program)
