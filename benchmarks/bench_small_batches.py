"""How many records must a segment have to be smaller than the same records as row messages?

Batches of several sizes are sent to an embedded broker, with a flush after each: as segments, as
Avro and as JSON (both in librdkafka's own batches, with zstd). The benchmark counts the bytes that
librdkafka writes to its sockets, which includes those of the protocol.
"""

from __future__ import annotations

from itertools import chain, islice

from columnar_kafka.demo import flights, formats, records
from columnar_kafka.demo.send import Reports, Wire, flush, send
from columnar_kafka.local import EmbeddedKafka

SIZES = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
RECORDS = 30_000
MOST_BATCHES = 100


def bytes_per_record(servers: str, form: formats.Format, size: int) -> float:
    """Send batches of `size` records; return the bytes per record."""
    wire, reports = Wire(), Reports()
    producer = form.producer({"bootstrap.servers": servers} | wire.config)
    topic = f"{form.name.replace(' ', '-')}-{size}"
    if form.columnar:
        producer.set_schema(topic, records.avro_schema())
    encode = form.encoder()
    batches = min(MOST_BATCHES, RECORDS // size)
    table = records.make(flights.load().slice(0, (batches + 1) * size))
    source = chain.from_iterable(records.iterate(table))
    warm_up = islice(source, size)
    send(producer, topic, warm_up, encode=encode, reports=reports, partition=0)
    flush(producer)
    before, _ = wire.settle(producer)
    for _ in range(batches):
        batch = islice(source, size)
        send(producer, topic, batch, encode=encode, reports=reports, partition=0)
        flush(producer)
    after, _ = wire.settle(producer)
    reports.check((batches + 1) * size)
    producer.close()
    return (after - before) / (batches * size)


def main() -> None:
    """Print a line for each size of batch."""
    with EmbeddedKafka() as kafka:
        print("records a batch   " + "".join(f"{each.name:>20}" for each in formats.ALL))
        for size in SIZES:
            sizes = [bytes_per_record(kafka.bootstrap_servers, each, size) for each in formats.ALL]
            print(f"{size:15,}   " + "".join(f"{each:15.1f} B/rec" for each in sizes))


if __name__ == "__main__":
    main()
