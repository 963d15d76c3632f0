"""The contract of a metadata store: what transactions, controllers and applications know of it, and all they know.

The idea: one small asynchronous interface that an embedded store, a service on the network and somebody else's server
can all keep, so that what stands on it moves from one to another by changing a URL. It has what metadata needs beyond
a map: versions to be conditional on, partitions, sequences, secondary indexes, sessions, and a watch over a range of
keys or of an index that never misses anything and can be resumed.

    store      `MetadataStore`, `Session` and `Watch`: the contract, in prose
    values     what goes in and comes out
    errors     the tree of errors: retriable, abortable, fatal
    urls       `open_store(url)`, and how providers are found
    opening    `open_promptly(url)`: the same for somebody at a prompt, told at once where nobody listens
    blocking   the same for scripts and notebooks, without `await`

What it promises. Every provider passes the same suite of tests (tests/conformance/store). What a provider cannot do it
says in `capabilities` and refuses with `Unsupported`; it never does it by halves.

What it refuses. There are no transactions over several partitions, no locks (see `metastore.coordination`), no time
to live other than a session's, and no reads of the past. Values are bytes; what they mean is their owner's.

Start reading at store.py. To add a provider, see docs/providers.md.
"""

from metastore.interface.blocking import BlockingSession, BlockingStore, BlockingWatch
from metastore.interface.errors import (
    Abortable,
    AccessDenied,
    ConditionFailed,
    FailedCondition,
    Fatal,
    InvalidRequest,
    InvalidToken,
    InvalidUrl,
    LimitExceeded,
    NamespaceNotFound,
    OutcomeUnknown,
    Overloaded,
    Retriable,
    SessionLost,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    TokenExpired,
    Unavailable,
    UnexpectedVersion,
    Unsupported,
)
from metastore.interface.opening import open_promptly
from metastore.interface.store import DEFAULT_SESSION_TIMEOUT_MS, MetadataStore, Session, Watch
from metastore.interface.urls import Environment, Provider, StoreUrl, open_store, schemes
from metastore.interface.values import (
    ABSENT,
    ALL,
    BatchKind,
    Capabilities,
    Change,
    ChangeKind,
    Comparison,
    Condition,
    Delete,
    Index,
    Operation,
    Put,
    PutResult,
    Range,
    Record,
    Version,
    WatchBatch,
    children_of,
    exactly,
)

__all__ = [
    "ABSENT",
    "ALL",
    "DEFAULT_SESSION_TIMEOUT_MS",
    "Abortable",
    "AccessDenied",
    "BatchKind",
    "BlockingSession",
    "BlockingStore",
    "BlockingWatch",
    "Capabilities",
    "Change",
    "ChangeKind",
    "Comparison",
    "Condition",
    "ConditionFailed",
    "Delete",
    "Environment",
    "FailedCondition",
    "Fatal",
    "Index",
    "InvalidRequest",
    "InvalidToken",
    "InvalidUrl",
    "LimitExceeded",
    "MetadataStore",
    "NamespaceNotFound",
    "Operation",
    "OutcomeUnknown",
    "Overloaded",
    "Provider",
    "Put",
    "PutResult",
    "Range",
    "Record",
    "Retriable",
    "Session",
    "SessionLost",
    "StoreClosed",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "StoreUrl",
    "TokenExpired",
    "Unavailable",
    "UnexpectedVersion",
    "Unsupported",
    "Version",
    "Watch",
    "WatchBatch",
    "children_of",
    "exactly",
    "open_promptly",
    "open_store",
    "schemes",
]
