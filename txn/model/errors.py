"""The errors of transactions, in the three classes that a caller acts on.

    TxnError
    ├── TxnRetriable                the same call may succeed later, and repeating it does no harm
    │   ├── CoordinatorUnavailable      the coordinator cannot reach its store
    │   ├── TooManyOpenTransactions     a named limit; it passes as others end
    │   └── SegmentUnavailable          the segment is being recovered or has another owner by now
    ├── TxnAbortable                this transaction cannot commit any more: abort it and begin another
    │   ├── TxnConflict                 another transaction holds what this one wants, or it was decided already
    │   ├── TxnTimedOut                 the deadline has passed
    │   ├── TxnHasFailedOperations      one of its sends or acknowledgements failed
    │   └── TooManyOperations           a named limit
    └── TxnFatal                    the call is wrong
        ├── TxnNotFound                 there is no such transaction, or its records are gone
        ├── TxnAlreadyCommitted         abort was asked for, and it was committed
        ├── TxnAlreadyAborted           commit was asked for, and it was aborted
        ├── NotTheOwner                 it belongs to another principal
        ├── InvalidTxnId                not an id, or the id of another kind of transaction
        ├── InvalidTimeout              not a time that a transaction may have
        └── RecordDamaged               a record says something that no version of this code wrote

Each message names the transaction, what happened, and what to do.
"""

from __future__ import annotations


class TxnError(Exception):
    """Whatever a transaction did not do."""


class TxnRetriable(TxnError):
    """The same call may succeed later, and repeating it does no harm."""


class TxnAbortable(TxnError):
    """This transaction cannot commit any more: abort it and begin another."""


class TxnFatal(TxnError):
    """The call is wrong, and wrong again if repeated."""


class CoordinatorUnavailable(TxnRetriable):
    """The coordinator cannot reach its store."""


class TooManyOpenTransactions(TxnRetriable):
    """A named limit; it passes as others end."""


class SegmentUnavailable(TxnRetriable):
    """The segment is being recovered, or has another owner by now."""


class TxnConflict(TxnAbortable):
    """Another transaction holds what this one wants, or this one was decided already."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder
        """The id of the other one, where that is known."""


class TxnTimedOut(TxnAbortable):
    """The deadline has passed."""


class TxnHasFailedOperations(TxnAbortable):
    """One of its sends or acknowledgements failed."""


class TooManyOperations(TxnAbortable):
    """A named limit; a transaction has only so many operations."""


class TxnNotFound(TxnFatal):
    """There is no such transaction, or its records are gone."""


class TxnAlreadyCommitted(TxnFatal):
    """Abort was asked for, and it was committed."""


class TxnAlreadyAborted(TxnFatal):
    """Commit was asked for, and it was aborted."""


class NotTheOwner(TxnFatal):
    """The transaction belongs to another principal."""


class InvalidTxnId(TxnFatal):
    """Not an id, or the id of another kind of transaction."""


class InvalidTimeout(TxnFatal):
    """Not a time that a transaction may have."""


class RecordDamaged(TxnFatal):
    """A record says something that no version of this code wrote."""
