"""Which topic, and which namespace, a name means."""

from __future__ import annotations

from controller.client.errors import InvalidRequest
from controller.layout import InvalidName, NamespaceName, TopicName


def topic_of(name: str | TopicName) -> TopicName:
    """The topic of a name: `orders`, `TENANT/NAMESPACE/orders`, `topic://…`."""
    if isinstance(name, str) and not name.strip():
        raise InvalidRequest(f"{name!r} is not the name of a topic")
    try:
        return (TopicName.parse(name) if isinstance(name, str) else name).for_use()
    except InvalidName as error:
        raise InvalidRequest(str(error)) from None


def namespace_of(name: str | NamespaceName) -> NamespaceName:
    """The namespace of a name: `TENANT/NAMESPACE`."""
    if isinstance(name, NamespaceName):
        return name
    try:
        return NamespaceName.parse(name)
    except InvalidName as error:
        raise InvalidRequest(str(error)) from None
