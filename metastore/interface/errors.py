"""The errors of every store: three branches, by what a caller can do about them.

    StoreError
    ├── Retriable            the same call may succeed later, and repeating it does no harm
    │   ├── Unavailable          nobody serves this at the moment; nothing was done
    │   ├── Overloaded           a queue is full; nothing was done
    │   └── StoreFull            the disk or the quota is exhausted; deletes go on, and writes when there is space
    ├── Abortable            the premise of the call is gone: read anew, then decide
    │   ├── UnexpectedVersion    the record is not at the version that the call was conditional on
    │   ├── ConditionFailed      a condition of `transact` does not hold; nothing was changed
    │   ├── SessionLost          the session has expired or was closed, and its records with it
    │   ├── OutcomeUnknown       the write was sent and its answer lost: it took effect, or will, once or never
    │   └── TokenExpired         what a watch would resume from is no longer kept: begin with a snapshot
    └── Fatal                the same call fails again until somebody changes something
        ├── InvalidRequest       the call itself is wrong
        │   ├── InvalidUrl           the store's URL is
        │   └── InvalidToken         the watch's token is
        ├── LimitExceeded        a named limit; the message says which
        ├── Unsupported          this store cannot do that; `capabilities` says so in advance
        ├── AccessDenied         the token or the certificate does not allow this
        ├── NamespaceNotFound    the server has no such namespace
        ├── StoreClosed          the store object was closed by its owner
        └── StoreFailed          the store is damaged, has stopped, or breaks its protocol

Each message says what happened, to which key or id, and what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass


class StoreError(Exception):
    """Any operation that did not do what was asked."""


class Retriable(StoreError):
    """The same call may succeed later, and repeating it does no harm."""


class Abortable(StoreError):
    """The premise of the call is gone: read anew, then decide."""


class Fatal(StoreError):
    """The same call fails again until somebody changes something."""


class Unavailable(Retriable):
    """Nobody serves this at the moment; nothing was done."""


class Overloaded(Retriable):
    """A queue is full; nothing was done."""


class StoreFull(Retriable):
    """The disk or the quota is exhausted; deletes go on, and writes as soon as there is space."""


class UnexpectedVersion(Abortable):
    """The record is not at the version that the call was conditional on; nothing was changed."""

    def __init__(self, message: str, key: str, expected: int | None) -> None:
        super().__init__(message)
        self.key = key
        self.expected = expected


@dataclass(frozen=True, slots=True)
class FailedCondition:
    """A condition that did not hold: its place among the conditions, and what was found."""

    place: int
    """Counts the conditions first, then the operations that expect a version."""
    key: str
    expected: int
    """A version id, or ABSENT."""
    actual: int
    """A version id, or ABSENT."""


class ConditionFailed(Abortable):
    """Conditions of `transact` do not hold; nothing was changed."""

    def __init__(self, message: str, failed: tuple[FailedCondition, ...]) -> None:
        super().__init__(message)
        self.failed = failed


class SessionLost(Abortable):
    """The session has expired or was closed, and its records with it."""


class OutcomeUnknown(Abortable):
    """The write was sent and its answer lost: it took effect, or will take effect yet, once, or never.

    What a read shows of it is certain; what a read does not show may still come. A write that is conditional on the
    version before it decides the matter: one of the two applies.
    """


class TokenExpired(Abortable):
    """What a watch would resume from is no longer kept: begin with a snapshot."""

    def __init__(self, message: str, oldest_offset: int | None = None) -> None:
        super().__init__(message)
        self.oldest_offset = oldest_offset
        """The oldest offset from which a watch can still resume, where the store knows it."""


class InvalidRequest(Fatal):
    """The call itself is wrong."""


class InvalidUrl(InvalidRequest):
    """The store's URL is wrong."""


class InvalidToken(InvalidRequest):
    """The watch's token was not made by a watch like this one, or not by this store."""


class LimitExceeded(Fatal):
    """A named limit; the message says which."""


class Unsupported(Fatal):
    """This store cannot do that; `MetadataStore.capabilities` says so in advance."""


class AccessDenied(Fatal):
    """The token or the certificate does not allow this."""


class NamespaceNotFound(Fatal):
    """The server has no such namespace."""


class StoreClosed(Fatal):
    """The store object was closed by its owner."""


class StoreFailed(Fatal):
    """The store is damaged, has stopped, or breaks its protocol."""
