"""What all methods about topics work with."""

from __future__ import annotations

from dataclasses import dataclass

from controller.broker.limits import BrokerLimits
from controller.layout import TopicName
from controller.leading import Leaders, TopicLeader
from controller.topics import Topics
from controller.topics.policies import StoredPolicies
from controller.watches import NamespaceWatches, StoredOwners, TopicWatches
from metastore.coordination import Pace


@dataclass(frozen=True, slots=True)
class TopicDesk:
    """One for each broker."""

    leaders: Leaders
    topics: Topics
    policies: StoredPolicies
    owners: StoredOwners
    topic_watches: TopicWatches
    namespace_watches: NamespaceWatches
    limits: BrokerLimits
    pace: Pace

    async def leader(self, topic: str) -> TopicLeader:
        """A topic, led here; NotLeader says who else leads it."""
        return await self.leaders.get(named(topic))


def named(topic: str) -> TopicName:
    """The scalable topic of a name, in whatever way it is said."""
    return TopicName.parse(topic).for_use()
