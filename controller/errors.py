"""The errors of a broker: those of transactions, segments and topics, some of its own, and all as names for the wire.

What a broker raises a client raises again: the same type, with the same text. So these are in the same tree, and a
name leads to its type and back.

    BrokerStopping (retriable)      it is about to end: others take over what it owns
    TooManyStreams (retriable)      a named limit of this broker
    StoreUnavailable (retriable)    the broker cannot reach its store, or had no answer from it
    StoreRefused (fatal)            the store does not do this, and will not if asked again
    InvalidRequest (fatal)          the request makes no sense, or exceeds a named limit
    Unauthenticated (fatal)         no principal is known by this token
    WindowExceeded (fatal)          a producer has more without an answer than its window allows
    PermitsExceeded (fatal)         a consumer has given more permits than it may
    ProducerReplaced (fatal)        a producer of the same name came on another stream
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from controller.autoscale import config as autoscale_errors
from controller.layout import errors as layout_errors
from controller.leading import errors as leading_errors
from controller.operations import errors as operation_errors
from controller.subscriptions import errors as topic_subscription_errors
from controller.topics import errors as topic_errors
from controller.topics.errors import NotLeader
from controller.watches import errors as watch_errors
from txn.hosting import errors as hosting_errors
from txn.hosting.errors import OwnedElsewhere
from txn.model import errors as model_errors
from txn.model.errors import SegmentUnavailable, TxnAbortable, TxnError, TxnFatal, TxnRetriable
from txn.model.position import Position
from txn.segment import errors as segment_errors
from txn.segment.errors import EntriesTrimmed
from txn.segment.subscription import errors as subscription_errors


class BrokerStopping(SegmentUnavailable):
    """The broker is about to end: others take over what it owns."""


class TooManyStreams(TxnRetriable):
    """A named limit of this broker; other brokers may have room."""


class StoreUnavailable(TxnRetriable):
    """The broker cannot reach its store, or had no answer from it."""


class StoreRefused(TxnFatal):
    """The store does not do this, and will not if asked again."""


class InvalidRequest(TxnFatal):
    """The request makes no sense, or exceeds a named limit."""


class Unauthenticated(TxnFatal):
    """No principal is known by this token."""


class WindowExceeded(TxnFatal):
    """A producer has more without an answer than its window allows."""


class PermitsExceeded(TxnFatal):
    """A consumer has given more permits than it may."""


class ProducerReplaced(TxnFatal):
    """A producer of the same name came on another stream."""


BRANCHES: Mapping[str, type[TxnError]] = MappingProxyType(
    {"retriable": TxnRetriable, "abortable": TxnAbortable, "fatal": TxnFatal}
)
"""The three classes, by the names that they have on the wire."""


def branch_of(error: TxnError) -> str:
    """The class of an error: what its caller can do."""
    return next(name for name, branch in BRANCHES.items() if isinstance(error, branch))


def metadata_of(error: TxnError) -> dict[str, str]:
    """What an error says beside its text."""
    if isinstance(error, OwnedElsewhere):
        return {"broker": error.broker, "address": error.address, "term": str(error.term)}
    if isinstance(error, EntriesTrimmed):
        return {"oldest": str(error.oldest)}
    if isinstance(error, NotLeader) and error.leader is not None:
        return {"address": error.leader}
    return {}


def error_of(name: str, branch: str, message: str, metadata: Mapping[str, str]) -> TxnError:
    """The error that a broker has told of. One that this version does not know is at least of the class it says."""
    kind = ERRORS.get(name) or BRANCHES.get(branch, TxnFatal)
    if issubclass(kind, OwnedElsewhere):
        term = int(metadata.get("term", "0"))
        return kind(message, metadata.get("broker", ""), metadata.get("address", ""), term)
    if issubclass(kind, EntriesTrimmed):
        return kind(message, Position.parse(metadata.get("oldest", "0:0")))
    if issubclass(kind, NotLeader):
        return kind(message, metadata.get("address"))
    return kind(message)


_MODULES = (
    model_errors,
    segment_errors,
    subscription_errors,
    hosting_errors,
    layout_errors,
    autoscale_errors,
    topic_errors,
    operation_errors,
    topic_subscription_errors,
    leading_errors,
    watch_errors,
)


def _all_errors() -> Iterator[type[TxnError]]:
    for module in (*_MODULES, sys.modules[__name__]):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, TxnError):
                yield kind


ERRORS: Mapping[str, type[TxnError]] = MappingProxyType({kind.__name__: kind for kind in _all_errors()})
"""Every error by its name."""
assert set(ERRORS.values()) == set(_all_errors()), "two errors have the same name"
