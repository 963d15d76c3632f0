"""What an index of headers shows: whose record it is, and what it says. What cannot be read is left out, and logged.

One damaged record must not keep all other transactions from ending.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from metastore.interface import Record
from txn.model import paths
from txn.model.errors import InvalidTxnId, RecordDamaged
from txn.model.header import Header
from txn.model.ids import TxnId

logger = logging.getLogger("tidemark.coordinator")


class Sighting(NamedTuple):
    """A header as the index has it."""

    txn_id: TxnId
    header: Header | None
    """None: it is not in the index any more."""
    version_id: int


def sightings(keys: Iterable[str], records: Mapping[str, Record]) -> Iterator[Sighting]:
    """What became of these keys; damaged ones are not among it."""
    for key in keys:
        record = records.get(key)
        try:
            txn_id = paths.txn_id_of_key(key)
            if record is None:
                yield Sighting(txn_id, None, 0)
            else:
                yield Sighting(txn_id, Header.decode(record.value or b""), record.version.version_id)
        except (RecordDamaged, InvalidTxnId) as error:
            logger.error("%s is left out: %s", key, error)
