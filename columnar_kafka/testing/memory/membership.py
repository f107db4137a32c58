"""A consumer's membership in its group: it subscribes, rebalances, and leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from columnar_kafka.testing.memory.group import share_by_range, share_in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from columnar_kafka.offsets import Partition
    from columnar_kafka.testing.memory.cluster import MemoryKafka
    from columnar_kafka.testing.memory.group import ConsumerGroup, Member

__all__ = ["Membership"]

_SHARES: Final = {"range": share_by_range, "roundrobin": share_in_turns}

Partitions = list[TopicPartition]


class Membership:
    """One consumer's membership in its group; false while it is no member.

    Callbacks run without the cluster's lock. The consumer's `assign` sets `has_assigned`.
    """

    def __init__(
        self,
        kafka: MemoryKafka,
        group: str,
        *,
        client: str,
        strategy: str,
        assign: Callable[[Partitions], None],
    ) -> None:
        self._kafka = kafka
        self._name = group
        self._client = client
        self._share = _SHARES[strategy]
        self._assign = assign
        self._lock, self._changed = kafka.lock, kafka.changed  # guards everything below
        self._member: Member | None = None
        self._callbacks: dict[str, Callable[[Partitions], object]] = {}
        self.has_assigned = False
        self.lost = False

    def __bool__(self) -> bool:
        return self._member is not None

    @property
    def id(self) -> str | None:
        """The member's id; None outside the group."""
        return None if self._member is None else self._member.id

    def metadata(self) -> bytes:
        """Return the group metadata for `MemoryProducer.send_offsets`."""
        with self._lock:
            member = self._member
            identity = ("", -1) if member is None else (member.id, member.generation)
        return "\0".join((self._name, identity[0], str(identity[1]))).encode()

    @property
    def group(self) -> ConsumerGroup:
        """The group that it is, or was, a member of."""
        return self._kafka.group(self._name)

    def subscribe(
        self,
        topics: Sequence[str],
        callbacks: Mapping[str, Callable[[Partitions], object] | None],
    ) -> None:
        """Join the group, or change the subscription."""
        with self._lock:
            self._callbacks = {
                name: callback for name, callback in callbacks.items() if callback is not None
            }
            if self._member is None:
                self._member = self.group.join(topics, client=self._client)
            else:
                self.group.resubscribe(self._member, topics)
            self._changed.notify_all()

    def unsubscribe(self) -> None:
        """Drop the subscription; the next steps revoke the partitions and leave the group."""
        with self._lock:
            if self._member is not None:
                self.group.resubscribe(self._member, ())
                self._changed.notify_all()

    def leave(self) -> None:
        """Revoke the partitions and leave the group, now."""
        with self._lock:
            owned = [] if self._member is None else list(self._member.owned or ())
        try:
            if owned:
                self._give_back("revoke", owned)
        finally:
            with self._lock:
                if self._member is not None:
                    self.group.leave(self._member)
                    self._member = None
                    self._changed.notify_all()

    def expel(self) -> None:
        """Let the group remove this member, which notices in its next step."""
        with self._lock:
            if self._member is not None:
                self.group.leave(self._member)
                self.lost = True
                self._changed.notify_all()

    def step(self) -> Callable[[], None] | None:
        """Return the next step of a rebalance, to be called without the lock, or None."""
        member, group = self._member, self.group
        if member is None:
            return None
        owned = list(member.owned or ())
        if self.lost:
            return lambda: self._lose(member, owned)
        if group.to_revoke(member):
            return lambda: self._revoke(member, owned)
        if not member.topics:
            group.leave(member)
            self._member = None
            self._changed.notify_all()
            return None
        if group.joined(member):
            self._changed.notify_all()  # others wait for this member
        share = group.to_assign(member, self._share)
        return None if share is None else lambda: self._take(share)

    def _revoke(self, member: Member, owned: list[Partition]) -> None:
        try:
            self._give_back("revoke", owned)
        finally:
            with self._lock:
                self.group.joined(member)
                self._changed.notify_all()

    def _lose(self, member: Member, owned: list[Partition]) -> None:
        try:
            self._give_back("lost" if "lost" in self._callbacks else "revoke", owned)
        finally:
            with self._lock:
                self.lost = False
                self._member = self.group.join(member.topics, client=self._client)

    def _give_back(self, name: str, owned: list[Partition]) -> None:
        try:
            if name in self._callbacks:
                self._callbacks[name](_partitions(owned))
        finally:
            self._assign([])

    def _take(self, share: list[Partition]) -> None:
        self.has_assigned = False
        try:
            if "assign" in self._callbacks:
                self._callbacks["assign"](_partitions(share))
        finally:
            if not self.has_assigned:
                self._assign(_partitions(share))


def _partitions(keys: Sequence[Partition]) -> Partitions:
    return [TopicPartition(*key) for key in keys]
