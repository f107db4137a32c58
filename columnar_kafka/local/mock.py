"""The process behind `EmbeddedKafka`: librdkafka's mock cluster, told what to do by its stdin.

It writes the cluster's bootstrap servers as its first line. Then each line it reads, a topic name
and its number of partitions with a space between, creates that topic and is answered by `ok` or by
the reason why not. It ends at the end of its stdin: when its starter closes it or is gone.
Started by file path, so that nothing of this package but this file is imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from confluent_kafka import cimpl

_PRODUCER = 0


def main(brokers: int) -> None:
    """Serve until the end of stdin."""
    librdkafka = _librdkafka()
    reason = ctypes.create_string_buffer(512)
    config = librdkafka.rd_kafka_conf_new()
    librdkafka.rd_kafka_conf_set(config, b"log_level", b"0", None, 0)
    client = librdkafka.rd_kafka_new(_PRODUCER, config, reason, len(reason))
    cluster = client and librdkafka.rd_kafka_mock_cluster_new(client, brokers)
    if not cluster:
        sys.exit(f"librdkafka has no mock cluster for us: {reason.value.decode()}")
    # Admin calls go to the controller; without one each would wait for its whole timeout.
    if hasattr(librdkafka, "rd_kafka_mock_set_controller_id"):  # since 2.15.1
        librdkafka.rd_kafka_mock_set_controller_id(ctypes.c_void_p(cluster), 1)
    _answer(librdkafka.rd_kafka_mock_cluster_bootstraps(cluster).decode())
    for line in sys.stdin:
        name, partitions = line.split()
        error = librdkafka.rd_kafka_mock_topic_create(
            cluster, name.encode(), int(partitions), min(3, brokers)
        )
        _answer(librdkafka.rd_kafka_err2str(error).decode() if error else "ok")
    os._exit(0)  # its threads have nothing to save


def _librdkafka() -> ctypes.CDLL:
    """The librdkafka that confluent-kafka is linked to, wherever its wheel keeps it."""
    library = ctypes.CDLL(cimpl.__file__)
    text, pointer, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    signatures: list[tuple[Any, Any, list[Any]]] = [
        (library.rd_kafka_conf_new, pointer, []),
        (library.rd_kafka_conf_set, number, [pointer, text, text, text, ctypes.c_size_t]),
        (library.rd_kafka_new, pointer, [number, pointer, text, ctypes.c_size_t]),
        (library.rd_kafka_err2str, text, [number]),
        (library.rd_kafka_mock_cluster_new, pointer, [pointer, number]),
        (library.rd_kafka_mock_cluster_bootstraps, text, [pointer]),
        (library.rd_kafka_mock_topic_create, number, [pointer, text, number, number]),
    ]
    for function, result, arguments in signatures:
        function.restype, function.argtypes = result, arguments
    return library


def _answer(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
