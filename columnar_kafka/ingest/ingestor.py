"""`Ingestor`: one topic's segments into one table, in one process, until it is stopped.

Reading, staging and committing take turns in one thread. The table's commit comes first, and its
fences decide where reading starts. Kafka's committed offsets are for monitoring; only a start at
the end is kept there, until something has landed.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.config import Arguments, Hidden
from columnar_kafka.errors import LakeError
from columnar_kafka.ingest.group import GroupMember, cluster_key, is_rebalancing
from columnar_kafka.ingest.reader import TopicReader
from columnar_kafka.ingest.recreated_topic import TopicIdentity
from columnar_kafka.ingest.sampling import sampled_messages
from columnar_kafka.ingest.settings import SESSION, IngestSettings, landing_config
from columnar_kafka.ingest.topic_id import admin_client
from columnar_kafka.lake.aside.set_aside import land_staged
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import CommitResult, MayHaveLandedError, NotLandedError
from columnar_kafka.lake.plan import Planner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    from columnar_kafka.lake.aside.decoding import Sample
    from columnar_kafka.lake.model import Fence, PlainMessages, SourceMessage
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = ["IngestStats", "Ingestor"]

_log: Final = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
"""The longest wait for a message: so long may a stop take."""

_REBALANCE_SECONDS: Final = 10.0
"""The longest wait for a rebalance of others: longer than a session, after which one goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestStats:
    """What has landed since `run` began; `rows_before` had landed already and came again.

    `rewritten` counts segments that had to be encoded anew: their types were narrower than the
    table's, or they had rows of several of its partitions. `decoded` counts plain messages that
    have landed as rows; `dead_letters`, `plain_messages` (in a table of their own) and `skipped`
    count others. `newest_timestamp` is the latest time of a message that has landed, in ms since
    1970: now minus that is how far the table is behind. `staged` segments, and plain messages that
    will land, wait for the next commit.
    """

    rows: int = 0
    segments: int = 0
    nbytes: int = 0
    files: int = 0
    commits: int = 0
    rows_before: int = 0
    rewritten: int = 0
    decoded: int = 0
    dead_letters: int = 0
    plain_messages: int = 0
    skipped: int = 0
    newest_timestamp: int | None = None
    staged_segments: int = 0
    staged_nbytes: int = 0

    def plus(self, result: CommitResult, newest_timestamp: int | None) -> IngestStats:
        """Return the counts after a commit of all that was read."""
        return IngestStats(
            newest_timestamp=newest_timestamp,
            rows=self.rows + result.landed.rows,
            segments=self.segments + result.landed.messages - result.decoded,
            nbytes=self.nbytes + result.nbytes,
            files=self.files + len(result.files),
            commits=self.commits + bool(result.files),
            rows_before=self.rows_before + result.landed_before.rows,
            rewritten=self.rewritten + result.rewritten,
            decoded=self.decoded + result.decoded,
            dead_letters=self.dead_letters + result.dead_letters,
            plain_messages=self.plain_messages + result.plain_messages,
            skipped=self.skipped + result.skipped,
        )


class Ingestor:
    """Lands a topic's segments in a table, each once. `run` is for one thread; `stop` for any.

    Several ingestors may land in one table. In a consumer group each lands the partitions that it
    is assigned, and lands what it has staged before it gives them up.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        table: LakeTable,
        settings: IngestSettings | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            config: ``bootstrap.servers`` and other keys of librdkafka's consumer.
            topic: one topic.
            table: where its segments land.
            settings: how to read, and when to commit.

        Raises:
            ConfigError: a key of `config` contradicts what landing needs; or as
                `Rules.check_apart`.
            TypeError: `config` is no dict.
        """
        given, config = Arguments((config,), {}), {}  # which shows passwords
        config = given.mapping()
        self._config = landing_config(config, topic, table)
        self._names_session = bool(SESSION.keys() & config.keys())
        self.topic = topic
        self._settings = settings or IngestSettings()
        self._settings.rules.check_apart(table)
        sample = partial(sampled_messages, self._config, topic)
        self._landing = _Landing(topic, table, self._settings, sample)
        self._is_stopped = False
        self.has_ended = False  # whether `run` has, in whatever way; for any thread

    @property
    def member(self) -> GroupMember | None:
        """Its place in a group, which no other consumer may have; None if it has no fixed one."""
        instance = self._config.get("group.instance.id")  # an empty one is none to librdkafka
        if not instance or self._settings.partitions is not None:
            return None
        return GroupMember(cluster_key(self._config), self._config["group.id"], instance)

    @property
    def stats(self) -> IngestStats:
        """What has landed so far; may be read by any thread."""
        return self._landing.stats

    @property
    def is_assigned(self) -> bool:
        """Whether it knows its partitions, if only that it has none; for any thread."""
        return self._landing.is_assigned

    @property
    def seconds_since_turn(self) -> float:
        """How long it has been busy with one message or commit, or in one call; for any thread."""
        return 0.0 if self.has_ended else time.monotonic() - self._landing.turned_at

    def stop(self) -> None:
        """Have `run` land what was read, and return. May be called by a signal handler."""
        self._is_stopped = True

    def run(self) -> IngestStats:
        """Land segments until `stop`, or until the end by the settings. Blocks. Call it once.

        When it returns, all that was read has landed. After an exception the files staged since
        the last commit are removed, unless they may have landed; the next run reads them again.

        Raises:
            LakeError: a message cannot land, the table cannot be read or written, or Kafka has
                deleted messages that had not landed.
            NotLandedError: the table has refused the files, or another process was faster.
            MayHaveLandedError: the outcome of two commits in a row is not known.
            KafkaException: Kafka cannot be read.
            ConfigError: Kafka does not tell the topic's id, or the settings name no offset of a
                partition.
        """
        try:
            return self._run(self._config)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_SESSION_TIMEOUT or self._names_session:
                raise
            _log.warning(
                "%s: brokers allow no session of %d ms (group.min.session.timeout.ms): taking "
                "librdkafka's, for which a killed process holds up its group",
                self.topic,
                SESSION["session.timeout.ms"],
            )
            return self._run(
                Hidden({key: value for key, value in self._config.items() if key not in SESSION})
            )
        finally:
            self.has_ended = True  # the clients have closed: that may hang

    def _run(self, config: Mapping[str, Any]) -> IngestStats:
        landing, settings = self._landing, self._settings
        with ExitStack() as clients:
            admin = clients.enter_context(admin_client(self._config))
            identity = TopicIdentity(admin, self.topic, settings.topic_generation)
            consumer = clients.enter_context(closing(StockConsumer(dict(config))))
            reader = TopicReader(consumer, self.topic, identity.generation, settings)
            landing.begin(reader, identity)
            try:
                if settings.partitions is None:
                    self._await_rebalance(admin)
                    consumer.subscribe(
                        [self.topic],
                        on_assign=lambda _, partitions: landing.assigned(partitions),
                        on_revoke=lambda *_: landing.revoked(),
                        on_lost=lambda *_: landing.lost(),
                    )
                else:
                    landing.read(settings.partitions)
                while not self._is_stopped:
                    if not landing.is_done:
                        landing.step()
                    elif landing.land(again=True):
                        break
                landing.land(again=False)
            finally:
                landing.discard()
        return landing.stats

    def _await_rebalance(self, admin: AdminClient) -> None:
        """Wait until the group has shared out its partitions, for about 10 s at most.

        Whoever joins meanwhile gets partitions no sooner. But if it is killed, it has become a
        member: one that the broker may elect leader, whose session the others then wait for. So
        processes that are killed and started again every few seconds would keep the others from
        their partitions for as long as that goes on. One with an instance id has a place already.
        """
        until = time.monotonic() + _REBALANCE_SECONDS
        while (
            not self._is_stopped
            and self.member is None
            and time.monotonic() < until
            and is_rebalancing(admin, self._config["group.id"])
        ):
            time.sleep(_POLL_SECONDS)


class _Landing:
    """Owns the files that are staged since the last commit, and commits them. For one thread."""

    def __init__(
        self, topic: str, table: LakeTable, settings: IngestSettings, sample: Sample
    ) -> None:
        self._landed = IngestStats()
        self.turned_at = time.monotonic()
        self.is_assigned = False
        self._topic = topic
        self._table = table
        self._settings = settings
        self._sample = sample
        self._rules = settings.rules
        self._reader: TopicReader
        self._identity: TopicIdentity
        self._stager: Stager | None = None  # None while nothing is staged
        self._segments = self._nbytes = 0  # of what is staged
        self._due_at = 0.0
        self._has_failed = False  # the last commit

    def begin(self, reader: TopicReader, identity: TopicIdentity) -> None:
        """Take what reads the topic, and what tells whether it is still the same topic."""
        self._reader, self._identity = reader, identity

    @property
    def stats(self) -> IngestStats:
        """What has landed, and what is staged."""
        if self._stager is None:
            return self._landed
        return replace(self._landed, staged_segments=self._segments, staged_nbytes=self._nbytes)

    @property
    def is_done(self) -> bool:
        return self._settings.ends and self._reader.is_at_end

    def step(self) -> None:
        """Stage the next message, or many plain ones, and commit if that is due."""
        self.turned_at = time.monotonic()
        self.is_assigned = self._reader.is_assigned
        wait = _POLL_SECONDS
        if self._stager is not None:
            wait = max(0.0, min(wait, self._due_at - time.monotonic()))
        self._reader.read(wait, self)
        self._land_if_due()

    def _land_if_due(self) -> None:
        if self._stager is not None and (
            self._nbytes >= self._settings.roll_bytes or time.monotonic() >= self._due_at
        ):
            self.land(again=True)

    def land(self, *, again: bool) -> bool:
        """Commit what is staged, and return whether it landed; if not, it will be read again.

        Raises the commit's error unless `again`, and where reading it again would not help.
        """
        try:
            self._commit()
        except (NotLandedError, MayHaveLandedError) as error:
            # With fixed partitions somebody else lands them too: leave that to the user.
            is_shared = self._settings.partitions is None
            helps = is_shared or isinstance(error, MayHaveLandedError)
            if self._has_failed or not (again and helps):
                raise
            _log.warning("%s: reading again from where the table ends: %s", self._topic, error)
            self._has_failed = True
            self._reader.restart(self._fences())
            return False
        return True

    def read(self, partitions: tuple[int, ...]) -> None:
        """Read these partitions from where the table ends."""
        self._reader.begin(partitions, self._fences())

    def _fences(self) -> Mapping[str, Fence]:
        """Return where the table ends, once it shows all that has landed.

        A commit that was killed may have left that to the next one, which may be long in coming.
        """
        try:
            return self._table.head().fences
        except OSError as error:
            raise LakeError(f"{self._table}: {error}") from error

    # Rebalance callbacks, which run inside `step`.

    def assigned(self, partitions: list[TopicPartition]) -> None:
        """Read what the group has assigned."""
        self.read(tuple(partition.partition for partition in partitions))

    def revoked(self) -> None:
        """Land what is staged before others read on."""
        try:
            self._commit()
        except (NotLandedError, MayHaveLandedError) as error:
            _log.warning("%s: left to the partitions' next reader: %s", self._topic, error)
        self._reader.end()

    def lost(self) -> None:
        """Give up what is staged: others have read it."""
        self.discard()
        self._reader.end()

    def discard(self) -> None:
        """Remove what is staged."""
        stager, self._stager = self._stager, None
        if stager is not None:
            stager.discard()

    def take(self, message: SourceMessage) -> None:
        """Stage a message."""
        self._begun().add(message)
        self._count(1, len(message.value or b""))

    def take_plain(self, messages: PlainMessages) -> None:
        """Stage plain messages."""
        self._begun().add_plain(messages)
        self._count(len(messages), messages.core.nbytes)

    @property
    def room(self) -> int:
        """See `Landing`."""
        return self._settings.roll_bytes - (0 if self._stager is None else self._nbytes)

    def _count(self, messages: int, nbytes: int) -> None:
        self._segments += messages
        self._nbytes += nbytes
        self._land_if_due()
        self.turned_at = time.monotonic()

    def _begun(self) -> Stager:
        """Return what stages, begun if nothing was staged yet."""
        if self._stager is None:
            planner = Planner(
                fences=self._table.fences(),
                generations={self._topic: self._identity.generation},
                layout=self._settings.layout,
            )
            # Only now: an empty topic tells no schema, and need not.
            self._rules = self._settings.rules.decided(self._table, self._sample)
            self._stager = Stager(table=self._table, planner=planner, rules=self._rules)
            self._segments = self._nbytes = 0
            self._due_at = time.monotonic() + self._settings.roll_seconds
        return self._stager

    def _commit(self) -> None:
        """Commit what is staged: to the table, then to Kafka."""
        if self._stager is None:
            return
        try:
            self._identity.check()  # else what was read could be of two topics
            staged = self._stager.finish(self._reader.ranges())
        except BaseException:
            self.discard()
            raise
        self._stager = None  # from here on the table decides what becomes of the files
        result = land_staged(self._table, [staged], self._rules)
        self._has_failed = False
        self._reader.landed()
        self._landed = self._landed.plus(result, self._reader.newest_timestamp)
        _log.info("%s: %s; so far %s", self._topic, result, self._landed)
        try:
            self._reader.commit()
        except KafkaException as error:
            _log.warning("%s: landed, but not committed to Kafka: %s", self._topic, error)
