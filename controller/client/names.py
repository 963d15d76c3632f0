"""Which segment a topic's name means, and which names there may be."""

from __future__ import annotations

from controller.client.errors import InvalidRequest
from controller.layout.errors import LayoutError
from controller.layout.names import Domain, SegmentName, TopicName
from controller.layout.ranges import FULL

FIRST_SEGMENT_ID = 0
SEGMENT_PREFIX = f"{Domain.SEGMENT.value}://"


def segment_of(topic: str) -> str:
    """The segment of a name: `orders`, `TENANT/NAMESPACE/orders`, `topic://…`, or a segment's own.

    A topic's name means the one segment of a topic that was never split.
    """
    if not topic.strip():
        raise InvalidRequest(f"{topic!r} is not the name of a topic or a segment")
    try:
        if topic.startswith(SEGMENT_PREFIX):
            return str(SegmentName.parse(topic))
        return str(TopicName.parse(topic).for_use().segment(FULL, FIRST_SEGMENT_ID))
    except LayoutError as error:
        raise InvalidRequest(str(error)) from None


def checked_name(what: str, name: str, bytes_max: int) -> str:
    """A subscription's or a producer's name, if it may be one."""
    if not name.strip() or len(name.encode()) > bytes_max:
        raise InvalidRequest(f"{what} {name[:80]!r}: 1 to {bytes_max} bytes, and not only blanks, are expected")
    return name
