"""The interface of the local Kafka servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class KafkaServers(ABC):
    """Servers that speak Kafka's protocol on 127.0.0.1, for as long as a `with` block lasts."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """The value of a client's `bootstrap.servers`. Raises RuntimeError when not started."""

    @abstractmethod
    def start(self) -> None:
        """Start, and block until clients can use the servers."""

    @abstractmethod
    def close(self) -> None:
        """End every process that was started; may be called twice."""

    @abstractmethod
    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic, and block until clients can see it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
