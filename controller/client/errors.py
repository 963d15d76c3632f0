"""The errors that clients have of their own, in the tree of txn/model/errors.py; what a broker raises comes as itself.

BrokersUnavailable (retriable)  no broker answered in time
ClientBusy (retriable)          a named limit on what waits in this client; nothing was done
AckUnconfirmed (retriable)      whether it is acknowledged is not known; acknowledging again does no harm
SendUnconfirmed (abortable)     whether the message is stored is not known; sending it anew might double it
AckTooLate (abortable)          a broker's too: what was to be acknowledged is delivered again, here or elsewhere
EndReached (fatal)              nothing more comes: the segment is sealed and read, or this was all there is now
MessageTooLarge (fatal)         a named limit; nothing was sent
ClientClosed (fatal)            the client, the producer or the consumer was closed by its owner
BrokerFailed (fatal)            the broker breaks its protocol, or is none
"""

from __future__ import annotations

from controller.errors import InvalidRequest
from txn.model.errors import TxnAbortable, TxnFatal, TxnRetriable
from txn.segment.subscription.errors import AckTooLate

__all__ = [
    "AckTooLate",
    "AckUnconfirmed",
    "BrokerFailed",
    "BrokersUnavailable",
    "ClientBusy",
    "ClientClosed",
    "EndReached",
    "InvalidRequest",
    "MessageTooLarge",
    "SendUnconfirmed",
]


class BrokersUnavailable(TxnRetriable):
    """No broker answered in time."""


class ClientBusy(TxnRetriable):
    """A named limit on what waits in this client; nothing was done."""


class AckUnconfirmed(TxnRetriable):
    """Whether it is acknowledged is not known; acknowledging again does no harm."""


class SendUnconfirmed(TxnAbortable):
    """Whether the message is stored is not known; sending it anew might double it."""


class EndReached(TxnFatal):
    """Nothing more comes: the segment is sealed and read, or this was all there is now."""


class MessageTooLarge(TxnFatal):
    """A named limit; nothing was sent."""


class ClientClosed(TxnFatal):
    """The client, the producer or the consumer was closed by its owner."""


class BrokerFailed(TxnFatal):
    """The broker breaks its protocol, or is none."""
