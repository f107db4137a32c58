"""Several topics in one process: an `Ingestor` for each, in a thread of its own."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.ingest.ingestor import Ingestor, IngestStats

__all__ = ["IngestService"]


class IngestService:
    """Ingestors that run together. If one fails, the others land what they have read and end too.

    So whatever starts the process again starts all of them.
    """

    def __init__(self, ingestors: Sequence[Ingestor]) -> None:
        """Take ingestors of different topics, which have not run.

        Raises:
            ConfigError: several have one `group.instance.id` in one group. If two name its cluster
                by other bootstrap servers, they are told by `run`: Kafka fences the first.
        """
        members = Counter(ingestor.member for ingestor in ingestors if ingestor.member is not None)
        for member, count in members.items():
            if count > 1:
                raise ConfigError(
                    f"group.instance.id={member.instance}: each topic has a consumer, of which "
                    f"Kafka admits one by that name in group {member.group!r}. Leave out group.id, "
                    "and each topic has a group of its own"
                )
        self.ingestors = tuple(ingestors)
        self._errors: list[BaseException] = []

    @property
    def stats(self) -> dict[str, IngestStats]:
        """What has landed so far, by topic; may be read by any thread."""
        return {ingestor.topic: ingestor.stats for ingestor in self.ingestors}

    def stop(self) -> None:
        """Have `run` land what was read, and return. May be called by a signal handler."""
        for ingestor in self.ingestors:
            ingestor.stop()

    def run(self) -> dict[str, IngestStats]:
        """Run all until `stop`, or until the ends that their settings name. Blocks. Call it once.

        Raises:
            BaseException: the first error of an ingestor, see `Ingestor.run`, or a library's panic.
                All have ended.
            KeyboardInterrupt, SystemExit: from a signal handler, at once.
        """
        threads = [
            threading.Thread(
                target=self._run,
                args=(ingestor,),
                name=f"columnar-ingest-{ingestor.topic}",
                daemon=True,  # what a signal raises in this thread ends the process
            )
            for ingestor in self.ingestors[1:]
        ]
        for thread in threads:
            thread.start()
        self._run(self.ingestors[0])
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        return self.stats

    def _run(self, ingestor: Ingestor) -> None:
        try:
            ingestor.run()
        except BaseException as error:
            self._errors.append(error)  # `run` raises it when all have ended
            self.stop()
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise  # a signal does not wait for the others
