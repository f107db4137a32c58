"""A consumer group's coordinator: its members, and the partitions that each of them owns.

Members rebalance together, by polling: after a change each revokes its partitions, and when all of
them have done so, each is assigned its new ones.
"""

from __future__ import annotations

import re
from itertools import count, cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from columnar_kafka.offsets import Partition

__all__ = ["ConsumerGroup", "Member", "share_by_range", "share_in_turns"]

_Share = dict[str, "list[Partition]"]  # by member id


class Member:
    """One consumer that has subscribed."""

    def __init__(self, member_id: str, topics: Sequence[str]) -> None:
        self.id = member_id
        self.topics = tuple(topics)
        self.generation = -1  # the one it has joined
        self.owned: list[Partition] | None = None  # None: it waits for its share

    def wants(self, topic: str) -> bool:
        """Say whether it has subscribed to a topic; `^` begins a regular expression."""
        return any(
            re.match(pattern, topic) if pattern.startswith("^") else pattern == topic
            for pattern in self.topics
        )


class ConsumerGroup:
    """The coordinator's view. Not thread-safe."""

    def __init__(self, topics: Callable[[], Mapping[str, int]]) -> None:
        """`topics` returns the number of partitions of each topic."""
        self._topics = topics
        self._members: dict[str, Member] = {}
        self._ids = count(1)
        self.generation = 0
        self._shared: dict[str, int] = {}
        self._share: _Share = {}

    def join(self, topics: Sequence[str], *, client: str) -> Member:
        """Add a member."""
        member = Member(f"{client}-{next(self._ids):04}", topics)
        self._members[member.id] = member
        self._rebalance()
        return member

    def resubscribe(self, member: Member, topics: Sequence[str]) -> None:
        """Change what a member has subscribed to."""
        member.topics = tuple(topics)
        self._rebalance()

    def leave(self, member: Member) -> None:
        """Remove a member; do nothing if it has left already."""
        if self._members.pop(member.id, None) is not None:
            self._rebalance()

    def topics_changed(self) -> None:
        """Rebalance if the topics that members subscribe to have changed."""
        if self._wanted() != self._shared:
            self._rebalance()

    def member(self, member_id: str) -> Member | None:
        """Return the member with this id, or None."""
        return self._members.get(member_id)

    def _wanted(self) -> dict[str, int]:
        members = self._members.values()
        topics = self._topics().items()
        return {name: n for name, n in topics if any(member.wants(name) for member in members)}

    def _rebalance(self) -> None:
        self.generation += 1
        self._share = {}

    def to_revoke(self, member: Member) -> list[Partition]:
        """Return the partitions that a member must revoke before anything else."""
        return [] if member.generation == self.generation else list(member.owned or ())

    def joined(self, member: Member) -> bool:
        """Let a member without partitions join this generation; False if it has joined already."""
        if member.generation == self.generation:
            return False
        member.generation, member.owned = self.generation, None
        return True

    def to_assign(self, member: Member, share: Callable[..., _Share]) -> list[Partition] | None:
        """Return a member's new partitions, once; None until all members have joined."""
        members = self._members.values()
        if member.owned is not None or any(m.generation != self.generation for m in members):
            return None
        if not self._share:
            self._shared = self._wanted()
            self._share = share(self._members, self._shared)
        member.owned = self._share.get(member.id, [])
        return list(member.owned)


def share_by_range(members: Mapping[str, Member], topics: Mapping[str, int]) -> _Share:
    """Give each member a range of each topic's partitions."""
    share: _Share = {member: [] for member in members}
    for topic, partitions in sorted(topics.items()):
        wanting = sorted(member.id for member in members.values() if member.wants(topic))
        each_gets, more = divmod(partitions, len(wanting))
        numbers = iter(range(partitions))
        for place, member in enumerate(wanting):
            length = each_gets + (place < more)
            share[member] += [(topic, next(numbers)) for _ in range(length)]
    return share


def share_in_turns(members: Mapping[str, Member], topics: Mapping[str, int]) -> _Share:
    """Give the partitions of all topics to the members round robin."""
    share: _Share = {member: [] for member in members}
    turn = cycle(sorted(members))
    for topic, partitions in sorted(topics.items()):
        for number in range(partitions):
            share[next(member for member in turn if members[member].wants(topic))].append(
                (topic, number)
            )
    return share
