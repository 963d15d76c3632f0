"""Names of topics and of their segments: reading them, writing them in one form, and where their records are.

    topic://TENANT/NAMESPACE/LOCAL                                a scalable topic; LOCAL may have slashes
    segment://TENANT/NAMESPACE/LOCAL/START-END-ID                 one of its segments
    persistent://TENANT/NAMESPACE/LOCAL[-partition-K]             a topic of the old kind, or a partition of one

A name without a domain is short for one of the old kind: `orders`, or `TENANT/NAMESPACE/orders`. The scalable topic of
that name is its `scalable`. Whatever way a topic is named, it has one identity, and what belongs to it one path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import quote_plus, unquote_plus

from controller.layout.errors import InvalidName
from controller.layout.ranges import HashRange

TOPICS = "/topics"
DEFAULT_TENANT = "public"
DEFAULT_NAMESPACE = "default"
NAME_BYTES_MAX = 4_096
SEGMENT_ID_MAX = (1 << 63) - 1

_ENTITY = re.compile(r"[-=:.A-Za-z0-9_]+")
_DESCRIPTOR = re.compile(r"([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,4})-([0-9]{1,19})")
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_PARTITION_MAX = (1 << 31) - 1


class Domain(Enum):
    """What kind of thing a name names."""

    TOPIC = "topic"
    SEGMENT = "segment"
    PERSISTENT = "persistent"
    NON_PERSISTENT = "non-persistent"


def encoded(name: str) -> str:
    """A name as one part of a key: form encoding, in which letters, digits and `.-*_` stay as they are."""
    return quote_plus(name, safe="*").replace("~", "%7E")


def decoded(part: str) -> str:
    """The name that `encoded` was given."""
    return unquote_plus(part, errors="strict")


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """A tenant's namespace."""

    tenant: str
    namespace: str

    def __post_init__(self) -> None:
        for entity in (self.tenant, self.namespace):
            if not _ENTITY.fullmatch(entity):
                raise InvalidName(
                    f"Invalid named entity: {entity!r}: tenants and namespaces are of letters, digits and -=:._"
                )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}"

    @classmethod
    def parse(cls, text: str) -> NamespaceName:
        """Reads TENANT/NAMESPACE."""
        parts = text.split("/")
        if len(parts) != 2:
            raise InvalidName(f"{text[:80]!r} is no namespace: TENANT/NAMESPACE is expected")
        return cls(*parts)

    @property
    def path(self) -> str:
        """The path below which the records of its topics are."""
        return f"{TOPICS}/{self.tenant}/{self.namespace}"


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A topic's name, of whatever domain but segments'."""

    domain: Domain
    parent: NamespaceName
    local: str

    def __post_init__(self) -> None:
        if not self.local.strip():
            raise InvalidName(f"{self!s}: the topic's local name must not be blank")
        if len(str(self).encode()) > NAME_BYTES_MAX:
            raise InvalidName(f"a topic name of {len(str(self).encode())} bytes: at most {NAME_BYTES_MAX}")

    def __str__(self) -> str:
        return f"{self.domain.value}://{self.parent}/{self.local}"

    @classmethod
    def parse(cls, text: str) -> TopicName:
        """Reads a name with its domain, or a short one of the old kind; a segment's name is refused."""
        domain, parent, local = _taken_apart(text)
        if domain is Domain.SEGMENT:
            raise InvalidName(f"{text[:200]!r} is the name of a segment: that of a topic is expected")
        if domain is not Domain.TOPIC and "/" in local:
            raise InvalidName(f"{text[:200]!r}: only scalable topics (topic://) have slashes in their local name")
        return cls(domain, parent, local)

    @property
    def partition(self) -> int | None:
        """The number behind `-partition-`, where the name ends so."""
        match = _PARTITION.fullmatch(self.local)
        return None if match is None or int(match[2]) > _PARTITION_MAX else int(match[2])

    @property
    def base(self) -> TopicName:
        """The name without the number of a partition."""
        if self.partition is None:
            return self
        return replace(self, local=self.local[: self.local.rindex("-partition-")])

    @property
    def scalable(self) -> TopicName:
        """The scalable topic of this name: the same one for `topic://` and the old kinds, a partition's its topic's.

        A scalable topic whose name ends like a partition's is a topic of its own.
        """
        return self if self.domain is Domain.TOPIC else replace(self.base, domain=Domain.TOPIC)

    def for_use(self) -> TopicName:
        """The scalable topic that whoever names one this way may use.

        Refused are what other brokers would keep nothing of, since here every message is kept, and a partition by
        itself, since what is sent to one would go to all of the topic.
        """
        if self.domain is Domain.NON_PERSISTENT:
            raise InvalidName(f"{self}: non-persistent topics are not supported; {self.scalable} keeps what it is sent")
        if self.domain is not Domain.TOPIC and self.partition is not None:
            raise InvalidName(f"{self} names an individual partition: name the topic, {self.scalable}")
        return self.scalable

    @property
    def path(self) -> str:
        """The key of the topic's record; what belongs to the topic is below it."""
        return f"{self.parent.path}/{encoded(self.scalable.local)}"

    def segment(self, range: HashRange, segment_id: int) -> SegmentName:
        """The name of one of the topic's segments."""
        if self.domain is not Domain.TOPIC:
            raise InvalidName(f"{self!s} has no segments: Parent topic must have domain 'topic'; see `scalable`")
        return SegmentName(self, range, segment_id)

    @property
    def storage(self) -> str:
        """The name of the topic's data where data are stored by name."""
        middle = () if self.domain is Domain.TOPIC else (self.domain.value,)
        return "/".join((str(self.parent), *middle, encoded(self.local)))


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """A segment's name: its topic's, its range, and its number, so that no two segments are ever called alike."""

    topic: TopicName
    range: HashRange
    segment_id: int

    def __post_init__(self) -> None:
        if not 0 <= self.segment_id <= SEGMENT_ID_MAX:
            raise InvalidName(f"segment id {self.segment_id} of {self.topic}: 0 to {SEGMENT_ID_MAX}")

    def __str__(self) -> str:
        return f"{Domain.SEGMENT.value}://{self.topic.parent}/{self.topic.local}/{self.descriptor}"

    @property
    def descriptor(self) -> str:
        """Range and number: START-END-ID."""
        return f"{self.range.hex}-{self.segment_id}"

    @classmethod
    def parse(cls, text: str) -> SegmentName:
        """Reads the form that `str` writes."""
        domain, parent, local = _taken_apart(text)
        if domain is not Domain.SEGMENT:
            raise InvalidName(f"{text[:200]!r}: Expected segment domain, got: {domain.value}")
        topic, slash, descriptor = local.rpartition("/")
        if not slash or not topic:
            raise InvalidName(f"{text[:200]!r}: segment://TENANT/NAMESPACE/TOPIC/START-END-ID is expected")
        return cls(TopicName(Domain.TOPIC, parent, topic), *_read_descriptor(text, descriptor))

    @property
    def storage(self) -> str:
        """The name of the segment's data where data are stored by name."""
        return f"{self.topic.parent}/{Domain.SEGMENT.value}/{encoded(self.topic.local)}/{self.descriptor}"

    @classmethod
    def of_storage(cls, text: str) -> SegmentName:
        """The segment that a `storage` name is that of."""
        parts = text.split("/")
        if len(parts) != 5 or parts[2] != Domain.SEGMENT.value:
            raise InvalidName(f"{text[:200]!r} is no storage name of a segment")
        topic = TopicName(Domain.TOPIC, NamespaceName(parts[0], parts[1]), decoded(parts[3]))
        return cls(topic, *_read_descriptor(text, parts[4]))


def _read_descriptor(text: str, descriptor: str) -> tuple[HashRange, int]:
    match = _DESCRIPTOR.fullmatch(descriptor)
    if match is None:
        raise InvalidName(
            f"{text[:200]!r}: {descriptor[:80]!r} does not describe a segment; START-END-ID is expected, 0000-7fff-1"
        )
    return HashRange(int(match[1], 16), int(match[2], 16)), int(match[3])


def _taken_apart(text: str) -> tuple[Domain, NamespaceName, str]:
    """Domain, namespace and local name."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return Domain.PERSISTENT, *_read_short(text)
    try:
        domain = Domain(scheme.lower())
    except ValueError:
        raise InvalidName(
            f"Invalid topic domain: {scheme[:80]!r}: one of {', '.join(domain.value for domain in Domain)}"
        ) from None
    parts = rest.split("/", 2)
    if len(parts) < 3 or not all(parts):
        raise InvalidName(f"Invalid topic name {text[:200]!r}: {domain.value}://TENANT/NAMESPACE/TOPIC is expected")
    return domain, NamespaceName(parts[0], parts[1]), parts[2]


def _read_short(text: str) -> tuple[NamespaceName, str]:
    parts = text.split("/")
    if len(parts) == 1:
        return NamespaceName(DEFAULT_TENANT, DEFAULT_NAMESPACE), text
    if len(parts) != 3 or not all(parts):
        raise InvalidName(
            f"Invalid short topic name {text[:200]!r}, it should be in the format of TENANT/NAMESPACE/TOPIC or TOPIC"
        )
    return NamespaceName(parts[0], parts[1]), parts[2]
