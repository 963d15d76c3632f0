"""Everything that can go wrong for a caller, as one small tree.

    ClientError
    ├── ConnectionFailed       no server answers there, or the connection broke
    ├── DeadlineExceeded       no answer in time
    ├── Unavailable            the server answers: not now
    │   └── NotReady           ... and has done nothing: not the shard's leader, or not started yet
    ├── AccessDenied           no token, a wrong one, or not enough of a right
    ├── InvalidRequest         the request makes no sense; nothing was sent, or nothing was changed
    ├── LimitReached           the store is full, or a message is larger than the server takes
    ├── NamespaceNotFound      the server has no such namespace
    ├── NotificationsDisabled  the namespace keeps no changes
    ├── KeyNotFound            no such record
    ├── UnexpectedVersion      the record is not at the version that the request was conditional on
    ├── SessionLost            the session has expired or was closed
    └── ServerFailure          the server failed, or answered what it must not

Each message says what happened, to what, and what to do about it.
"""

from __future__ import annotations


class ClientError(Exception):
    """Any operation that did not do what was asked."""


class ConnectionFailed(ClientError):
    """No server answers at the address, or the connection broke on the way."""


class DeadlineExceeded(ClientError):
    """There was no answer in the time given; a write may have taken effect all the same."""


class Unavailable(ClientError):
    """The server cannot serve this at the moment."""


class NotReady(Unavailable):
    """Nothing was done, because the server asked is not the one to do it, or not yet: safe to try again."""


class AccessDenied(ClientError):
    """The server wants another token, or does not allow this to the holder of this one."""


class InvalidRequest(ClientError):
    """The request itself is wrong, and wrong again if repeated."""


class LimitReached(ClientError):
    """One of the server's limits: its store is full, or the message too large."""


class NamespaceNotFound(ClientError):
    """The server has no such namespace."""


class NotificationsDisabled(ClientError):
    """The namespace is configured to keep no changes."""


class KeyNotFound(ClientError):
    """There is no such record."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class UnexpectedVersion(ClientError):
    """The record's version is not the expected one; nothing was changed."""

    def __init__(self, message: str, key: str, expected_version: int | None) -> None:
        super().__init__(message)
        self.key = key
        self.expected_version = expected_version


class SessionLost(ClientError):
    """The session exists no more, and with it went its ephemeral records."""


class ServerFailure(ClientError):
    """The server failed at it, or broke the protocol."""
