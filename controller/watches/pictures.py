"""A topic as it is told to those who watch it, and how it follows from news of it: immutable values.

News may come late: a watch that was cut off begins anew with a snapshot of a store that lags. What is older than what
is known already changes nothing. Records are compared by their versions, which grow over all lives of a topic;
epochs begin anew with each life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.layout import Layout, TopicName, TopicRecord
from controller.watches.lives import is_same_life
from metastore.interface import ABSENT, Version
from txn.hosting import Owner


@dataclass(frozen=True, slots=True)
class TopicGone:
    """There is no such topic: none yet, or it was deleted. Another one of that name begins at epoch 0."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """All there is to know of a topic."""

    topic: TopicName
    """Its name as a scalable topic, however it was asked for."""
    record: TopicRecord
    version_id: int
    """Of that record, ABSENT if the store has none. It grows with every change, over all lives of the topic."""
    leader: Owner | None = None
    """Who leads the topic; None while nobody does."""
    owners: Mapping[int, Owner] = field(default_factory=dict)
    """Who serves its segments, by their ids; one that is missing has no owner at the moment."""

    @property
    def layout(self) -> Layout:
        """Its segments."""
        return self.record.layout


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known of a topic, and whether it is still the same one."""

    topic: TopicName
    record: TopicRecord | None = None
    version: Version | None = None
    """Of the newest record that was ever seen, whether or not it is there."""
    life: int = 0
    """How many topics of this name were seen one after another."""
    leader: Owner | None = None
    term: int = 0
    """The greatest of a leader that was ever seen."""
    owners: Mapping[int, Owner] = field(default_factory=dict)

    @property
    def version_id(self) -> int:
        """Of the newest record that was ever seen; ABSENT without one."""
        return ABSENT if self.version is None else self.version.version_id

    @property
    def state(self) -> TopicState | None:
        """What is told of it; None while there is no topic."""
        if self.record is None:
            return None
        return TopicState(self.topic, self.record, self.version_id, self.leader, self.owners)

    def with_record(self, record: TopicRecord, version: Version) -> Picture:
        """The topic's record is this, unless that is an older one."""
        if version.version_id < self.version_id:
            return self
        is_new = self.record is None or self.version is None or not is_same_life(self.version, version)
        return replace(self, record=record, version=version, life=self.life + is_new)

    def without_record(self) -> Picture:
        """There is no such topic."""
        return replace(self, record=None)

    def with_leader(self, leader: Owner | None) -> Picture:
        """This one leads it, unless a later one is known to."""
        if leader is None:
            return replace(self, leader=None)
        return self if leader.term < self.term else replace(self, leader=leader, term=leader.term)

    def with_owners(self, owners: Mapping[int, Owner]) -> Picture:
        """These own its segments."""
        return replace(self, owners=owners)
