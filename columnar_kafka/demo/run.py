"""The demo's steps: produce, read back, land, land more, and measure the savings."""

from __future__ import annotations

import os
import platform
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import confluent_kafka

import columnar_kafka
from columnar_kafka.demo import compare, consume, flights, records, servers
from columnar_kafka.demo.figures import Results, Stage
from columnar_kafka.demo.landing.land import land
from columnar_kafka.demo.page import report
from columnar_kafka.demo.screen import Clock
from columnar_kafka.demo.sending import formats, rivals, sweep
from columnar_kafka.demo.story import Story
from columnar_kafka.local import find_java

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.demo.screen import Screen

PARTITIONS: Final = 4
MORE_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line."""

    bootstrap_servers: str | None
    broker: servers.Broker | None
    rows: int | None
    report: Path


def run(options: Options, screen: Screen) -> Results:
    """Run the whole demo and write its page; every process and folder is gone at the end.

    Differences are part of the results and do not stop the run.

    Raises:
        Exception: a step could not do its work.
    """
    with ExitStack() as stack:
        with screen.progress("starting Kafka (the first time it is fetched, about a minute)"):
            cluster = stack.enter_context(
                servers.running(options.bootstrap_servers, options.broker, say=screen.say)
            )
        screen.say(f"Kafka is {cluster.name} at {cluster.bootstrap_servers}")
        story = _begin(cluster, screen, options.rows)
        story.produce(story.expected, "produced, a delivery report of success for each")
        read_back(story)
        land(story)
        measure_formats(story)
        measure_sizes(story)
    report.write(story.results, options.report)
    return story.results


def _begin(cluster: servers.Cluster, screen: Screen, rows: int | None) -> Story:
    table = flights.load()
    first = table.slice(0, rows)
    return Story(
        cluster=cluster,
        screen=screen,
        results=Results(broker=cluster.name, environment=environment(cluster)),
        topic=cluster.topic("flights", PARTITIONS),
        partitions=PARTITIONS,
        expected=records.make(first),
        more=records.make(table.slice(0, MORE_ROWS), first_row=first.num_rows),
    )


def read_back(story: Story) -> None:
    """Kafka → reader, as records.

    Raises:
        KafkaException, TimeoutError: the records could not be read.
    """
    clock, expected = Clock(), story.expected
    with story.screen.progress("reading back", expected.num_rows) as advance:
        try:
            table = consume.read_back(
                story.cluster.bootstrap_servers, story.topic, story.partitions, advance=advance
            )
            seconds, comparison = clock(), compare.compare(expected, table)
        except records.UnexpectedError as error:
            seconds, comparison = clock(), compare.refused(expected, 0, str(error))
    story.done(Stage("read back as records", comparison.found, seconds, "", comparison))


def measure_formats(story: Story) -> None:
    """The same records as segments, as Avro and as JSON.

    Raises:
        MeasuringError: not all records could be sent.
    """
    topics = {
        record_format.name: story.cluster.topic(f"format-{number}", PARTITIONS)
        for number, record_format in enumerate(formats.ALL)
    }
    total = rivals.ROUNDS * len(formats.ALL)
    with story.screen.progress("the same records, three ways", total) as advance:
        story.results.rivals += rivals.measure(
            story.cluster.bootstrap_servers, topics, story.expected.num_rows, advance=advance
        )
    story.screen.rivals(story.results.rivals)


def measure_sizes(story: Story) -> None:
    """Size against rows per segment.

    Raises:
        DeliveryError: a record was not delivered.
    """
    total = len(formats.ALL) * len(sweep.sizes(story.expected.num_rows))
    with story.screen.progress("size against rows per segment", total) as advance:
        story.results.sweep += sweep.sweep(story.cluster, story.expected, advance=advance)


def environment(cluster: servers.Cluster) -> dict[str, str]:
    """The versions and the machine that the figures belong to."""
    versions = {
        "columnar-kafka": columnar_kafka.__version__,
        "Broker": cluster.name,
        "confluent-kafka": f"{version('confluent-kafka')} (librdkafka "
        f"{confluent_kafka.libversion()[0]})",
        "Arrow": version("pyarrow"),
        "fastavro, orjson": f"{version('fastavro')}, {version('orjson')}",
        "polars": version("polars"),
        "Python": platform.python_version(),
        "Machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }
    if servers.has_java():
        versions["Java"] = find_java().version
    return versions
