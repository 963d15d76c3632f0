"""Keys, partitions and indexes of topics' records. All that belongs to a topic is in the partition of its path.

    /topics/TENANT/NAMESPACE/TOPIC                                the topic's record
    …/controller                                                  who leads it
    …/operation                                                   what is being done to its layout
    …/claim                                                       who alone may produce
    …/subscriptions/SUBSCRIPTION                                  a subscription: its kind, and who reads what
    …/subscriptions/SUBSCRIPTION/consumers/CONSUMER               a consumer's session
    …/segments/ID/load                                            what a segment's owner measured
    …/segments/ID/drained/SUBSCRIPTION                            that a subscription has read it to its end

Every part that users name is encoded, so that no name runs into another.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.layout.errors import InvalidName
from controller.layout.names import NAME_BYTES_MAX, TOPICS, Domain, NamespaceName, TopicName, decoded, encoded
from metastore.interface import Index, Range, children_of

BY_PROPERTY = "topics-by-property"
"""Of topics' records: a namespace's topics that have a property with a value."""
TOPICS_BY_PATH = "topics"
"""Of topics' records, and of operations: all topics there are, or are to be, or are on their way out."""
LEADERS_BY_TOPIC = "topic-leaders"
"""Of leaders' grants: who leads which topic."""
REPORTS_BY_TOPIC = "topic-reports"
"""Of what owners of segments report: a topic's loads, and what is drained."""


def partition(topic: TopicName) -> str:
    """The partition key of all that belongs to a topic."""
    return topic.path


def topic_of_key(key: str) -> TopicName:
    """The topic that a key belongs to."""
    parts = key.split("/")
    if len(parts) < 5 or parts[1] != TOPICS[1:]:
        raise InvalidName(f"{key[:200]!r} is not the key of a topic")
    return TopicName(Domain.TOPIC, NamespaceName(parts[2], parts[3]), decoded(parts[4]))


def is_topic_key(key: str) -> bool:
    """Whether it is the key of a topic's record, and not of something below it."""
    return key.startswith(TOPICS + "/") and key.count("/") == 4


def topics_of(namespace: NamespaceName, key_sorting: str) -> Range:
    """A range that has the records of a namespace's topics, and in the natural order what is below them as well."""
    return children_of(namespace.path) if key_sorting == "hierarchical" else below(namespace.path)


def below(path: str) -> Range:
    """In the natural order all that is below a path, however deep: `0` is the byte behind the slash."""
    return Range(path + "/", path + "0")


def controller_key(topic: TopicName) -> str:
    """The role of the topic's leader."""
    return f"{topic.path}/controller"


def operation_key(topic: TopicName) -> str:
    """What is being done to the topic's layout."""
    return f"{topic.path}/operation"


def claim_key(topic: TopicName) -> str:
    """Who has the exclusive right to produce, or had it last."""
    return f"{topic.path}/claim"


def subscriptions_path(topic: TopicName) -> str:
    """The path below which the subscriptions are."""
    return f"{topic.path}/subscriptions"


def subscription_key(topic: TopicName, subscription: str) -> str:
    """A subscription of the topic."""
    return f"{subscriptions_path(topic)}/{checked(subscription, 'subscription')}"


def subscription_of_key(key: str) -> str:
    """The subscription that a key below `subscriptions_path` belongs to."""
    return decoded(key.split("/")[6])


def consumers_path(topic: TopicName, subscription: str) -> str:
    """The path below which a subscription's consumers are."""
    return f"{subscription_key(topic, subscription)}/consumers"


def consumer_key(topic: TopicName, subscription: str, consumer: str) -> str:
    """A consumer's session."""
    return f"{consumers_path(topic, subscription)}/{checked(consumer, 'consumer')}"


def consumer_of_key(key: str) -> str:
    """The consumer whose session a key is that of."""
    return decoded(key.rpartition("/")[2])


def loads_path(topic: TopicName) -> str:
    """The path below which there is a path for each segment."""
    return f"{topic.path}/segments"


def load_key(topic: TopicName, segment_id: int) -> str:
    """What the owner of a segment measured."""
    return f"{loads_path(topic)}/{segment_id}/load"


def drained_key(topic: TopicName, segment_id: int, subscription: str) -> str:
    """That a subscription has acknowledged all of a sealed segment."""
    return f"{loads_path(topic)}/{segment_id}/drained/{checked(subscription, 'subscription')}"


def segment_id_of_key(key: str) -> int:
    """The segment whose load, or of which something else below `loads_path`, a key is that of."""
    return int(key.split("/")[6])


def drained_of_key(key: str) -> str | None:
    """The subscription that has read a segment to its end; None if the key says something else of the segment."""
    parts = key.split("/")
    return decoded(parts[8]) if len(parts) == 9 and parts[7] == "drained" else None


def report_indexes(topic: TopicName) -> tuple[Index, ...]:
    """The index entries of what is reported of a topic's segments."""
    return ((REPORTS_BY_TOPIC, topic.path),)


def property_key(namespace: NamespaceName, name: str, value: str) -> str:
    """The secondary key of a topic with a property."""
    return f"{namespace.tenant}/{namespace.namespace}/{encoded(name)}={encoded(value)}"


def indexes(topic: TopicName, properties: Mapping[str, str]) -> tuple[Index, ...]:
    """The index entries of a topic's record."""
    by_property = ((BY_PROPERTY, property_key(topic.parent, name, value)) for name, value in sorted(properties.items()))
    return ((TOPICS_BY_PATH, topic.path), *by_property)


def operation_indexes(topic: TopicName) -> tuple[Index, ...]:
    """The index entries of an operation's record: while there is one somebody has to lead the topic."""
    return ((TOPICS_BY_PATH, topic.path),)


def checked(name: str, what: str) -> str:
    """A name that users give, as a part of a key."""
    if not name.strip() or len(name.encode()) > NAME_BYTES_MAX:
        raise InvalidName(f"{name[:80]!r} cannot be the name of a {what}: 1 to {NAME_BYTES_MAX} bytes, not all blank")
    return encoded(name)
