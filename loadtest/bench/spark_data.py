"""The store that Spark reads in the benchmark: open transactions, each with ten operations in two segments.

Segments are put as brokers put them. Transactions are too many for that: their records, the same byte for byte, go
straight into the index of the store, while nobody serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from metastore.directory import DataDirectory, NamespaceConfig, shard_directory
from metastore.engine.change import Table
from metastore.engine.index_keys import entry_keys
from metastore.engine.keys import KeyOrder, key_order
from metastore.engine.record import Extras, encode_record, fixed64, pack_extras, pack_indexes
from metastore.engine.store import Applied, Store, StoreOptions
from metastore.engine.tree import Item
from metastore.interface import Index, open_store
from txn.audit.planting import TERM, Planter
from txn.model.header import Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.paths import header_key, operation_sequence, partition
from txn.model.position import Position

OPERATIONS_PER_HEADER = 10
ORPHANS_PER_THOUSAND = 1
"""Transactions without a header, for the join and the audit to find."""
PLANTED_RULE = "operations-without-header"
"""The rule that finds them."""
SEGMENTS = 64
FIRST_TRANSACTION = 100_000_000
"""Ids of as many digits are in the order of their numbers."""
BATCH_TRANSACTIONS = 10_000
AGE_MS = 100_000
"""Old enough to be judged, and not so old that a transaction should have ended."""
TIMEOUT_MS = 3_600_000


def fill(directory: Path, operations: int, now_ms: int) -> None:
    """Writes a data directory of one shard; all in it has just been written."""
    asyncio.run(_plant_segments(directory, now_ms))
    owner = DataDirectory(directory)
    try:
        (namespace,) = owner.namespaces((NamespaceConfig(),))
        store = Store(shard_directory(directory, namespace.first_shard) / "index", StoreOptions())
        try:
            _plant_transactions(store, key_order(namespace.key_sorting), operations, now_ms)
        finally:
            store.close()
    finally:
        owner.close()


async def _plant_segments(directory: Path, now_ms: int) -> None:
    async with await open_store(f"lmdb://{directory}") as store:
        planter = Planter(store, now_ms, elsewhere=str)
        await planter.plant_segments()
        for number in range(SEGMENTS):
            await planter.put_segment(_segment(number))


def _segment(number: int) -> str:
    return f"segment://public/default/orders/{number % SEGMENTS:04x}"


def _plant_transactions(store: Store, order: KeyOrder, operations: int, now_ms: int) -> None:
    numbers = iter(range(operations // OPERATIONS_PER_HEADER))
    version_id = store.applied.last_version_id
    while batch := list(islice(numbers, BATCH_TRANSACTIONS)):
        writer = _Writer(order, version_id, now_ms)
        for number in batch:
            _put_transaction(writer, number, now_ms - AGE_MS)
        version_id = writer.version_id
        with store.environment.begin(write=True) as transaction:
            store.trees[Table.RECORDS].put_all(transaction, sorted(writer.records))
            store.trees[Table.INDEXES].put_all(transaction, sorted(writer.entries))
            store.write_applied(transaction, Applied(store.applied.next_offset, version_id))


class _Writer:
    """Makes records and index entries as the engine does."""

    def __init__(self, order: KeyOrder, version_id: int, now_ms: int) -> None:
        self.version_id = version_id
        self.records: list[Item] = []
        self.entries: list[Item] = []
        self._order = order
        self._now = fixed64(now_ms)

    def put(self, key: str, value: bytes, partition_key: bytes, indexes: Sequence[Index]) -> None:
        """A record that was not there."""
        self.version_id += 1
        primary = key.encode()
        pairs = tuple((name.encode(), secondary.encode()) for name, secondary in indexes)
        extras = pack_extras(Extras(None, partition_key, pack_indexes(pairs)))
        _, record = encode_record(self.version_id, 0, self._now, self._now, extras, value, primary)
        encoded = self._order.encode(primary)
        self.records.append((encoded, record))
        self.entries += ((entry, primary) for entry in entry_keys(self._order, pairs, primary))


def _put_transaction(writer: _Writer, number: int, begun_ms: int) -> None:
    txn_id = TxnId(0, FIRST_TRANSACTION + number)
    partition_key = partition(txn_id).encode()
    if number % 1000 >= ORPHANS_PER_THOUSAND:
        header = Header(TxnState.OPEN, begun_ms, begun_ms + TIMEOUT_MS)
        writer.put(header_key(txn_id), header.encode(), partition_key, header.indexes())
    sequence = operation_sequence(txn_id)
    for place, operation in enumerate(_operations(number, begun_ms), 1):
        writer.put(f"{sequence}-{place:020}", operation.encode(), partition_key, operation.indexes())


def _operations(number: int, begun_ms: int) -> Iterator[Operation]:
    for place in range(OPERATIONS_PER_HEADER):
        yield Operation(
            OperationKind.WRITE,
            _segment(number * 2_654_435_761 + 2 * place // OPERATIONS_PER_HEADER),
            Position(TERM, number * OPERATIONS_PER_HEADER + place),
            broker=f"broker-{number % 5}",
            term=TERM,
            written_ms=begun_ms + place,
        )


def orphans(operations: int) -> int:
    """How many operations belong to transactions without a header."""
    transactions = operations // OPERATIONS_PER_HEADER
    without = sum(each % 1000 < ORPHANS_PER_THOUSAND for each in range(transactions))
    return without * OPERATIONS_PER_HEADER
