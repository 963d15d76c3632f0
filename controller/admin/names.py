"""What stands in paths and queries: names, numbers, kinds. A wrong one is refused before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator

from controller.errors import InvalidRequest
from controller.layout import HashRange, NamespaceName, SegmentName, TopicName
from controller.layout.names import SEGMENT_ID_MAX, Domain

TIME_MS_MAX = (1 << 63) - 1

_ENTITY = r"^[-=:.A-Za-z0-9_]+$"
_decoded = BeforeValidator(unquote)

Tenant = Annotated[str, _decoded, Path(description="The tenant.", pattern=_ENTITY, examples=["public"])]
Namespace = Annotated[str, _decoded, Path(description="The namespace.", pattern=_ENTITY, examples=["default"])]
Topic = Annotated[
    str,
    _decoded,
    Path(description="The topic's local name; a slash in it is sent as %2F.", min_length=1, examples=["orders"]),
]
Descriptor = Annotated[
    str,
    _decoded,
    Path(
        description="The segment's range and number: START-END-ID.",
        pattern=r"^[0-9a-f]{4}-[0-9a-f]{4}-[0-9]{1,19}$",
        examples=["0000-7fff-1"],
    ),
]
Subscription = Annotated[
    str,
    _decoded,
    Path(description="The subscription; a slash in it is sent as %2F.", min_length=1, examples=["billing"]),
]
SegmentId = Annotated[int, Path(description="A segment's number.", ge=0, le=SEGMENT_ID_MAX, examples=[0])]
Timestamp = Annotated[
    int,
    Query(
        description="Milliseconds since the epoch: what was published since then is delivered again.",
        ge=0,
        le=TIME_MS_MAX,
        examples=[1_700_000_000_000],
    ),
]
Properties = Annotated[
    list[str] | None,
    Query(
        alias="property",
        description="KEY=VALUE; any number of times: topics that have all of them.",
        examples=[["team=billing"]],
    ),
]


async def _namespace(tenant: Tenant, namespace: Namespace) -> NamespaceName:
    return NamespaceName(tenant, namespace)


async def _topic(tenant: Tenant, namespace: Namespace, topic: Topic) -> TopicName:
    return TopicName(Domain.TOPIC, NamespaceName(tenant, namespace), topic)


async def _segment(tenant: Tenant, namespace: Namespace, topic: Topic, descriptor: Descriptor) -> SegmentName:
    range, _, number = descriptor.rpartition("-")
    return SegmentName(await _topic(tenant, namespace, topic), HashRange.parse_hex(range), int(number))


OfNamespace = Annotated[NamespaceName, Depends(_namespace)]
"""The namespace that a path names."""
OfTopic = Annotated[TopicName, Depends(_topic)]
"""The topic that a path names."""
OfSegment = Annotated[SegmentName, Depends(_segment)]
"""The segment that a path names."""


def properties_of(pairs: Iterable[str]) -> dict[str, str]:
    """Properties that are looked for."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or found.get(name, value) != value:
            raise InvalidRequest(f"property {pair[:80]!r}: KEY=VALUE is expected, with each key once")
        found[name] = value
    return found
