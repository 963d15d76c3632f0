"""The engine's errors as those of the contract."""

from __future__ import annotations

import lmdb

from metastore.directory import DirectoryError, DirectoryInUse, DirectoryOfOtherShape
from metastore.engine import errors as engine
from metastore.interface import (
    InvalidRequest,
    InvalidUrl,
    LimitExceeded,
    Overloaded,
    SessionLost,
    StoreError,
    StoreFailed,
    StoreFull,
    TokenExpired,
    Unavailable,
)
from metastore.log import LogError
from metastore.watch.errors import OffsetTrimmed, TooManyWatches

STORE_ERRORS = (engine.EngineError, DirectoryError, LogError, lmdb.Error, OSError)
"""What the engine and what it stands on raise; anything else is a defect of the program."""

_BY_KIND: dict[type[Exception], type[StoreError]] = {
    DirectoryOfOtherShape: InvalidUrl,
    TooManyWatches: LimitExceeded,
    engine.InvalidRequest: InvalidRequest,
    engine.SessionNotFound: SessionLost,
    engine.StoreFull: StoreFull,
    engine.Overloaded: Overloaded,
    # Whoever has it lets go of it one day, as the predecessor of a program that is being restarted does: worth waiting.
    engine.StoreInUse: Unavailable,
}


def translated(error: BaseException) -> StoreError:
    """An error of the contract for one of STORE_ERRORS."""
    if isinstance(error, OffsetTrimmed):
        return TokenExpired(f"{error}; begin with a snapshot", error.oldest)
    if isinstance(error, DirectoryInUse):
        return Unavailable(f"{error}: only one process at a time can have it, the others go through a server")
    for kind, of_contract in _BY_KIND.items():
        if isinstance(error, kind):
            return of_contract(str(error))
    return StoreFailed(str(error) if isinstance(error, engine.EngineError | DirectoryError) else repr(error))
