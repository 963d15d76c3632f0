"""The store that Spark reads in the benchmark: operation records of transactions, ten for each header."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from metastore.directory import DataDirectory, NamespaceConfig, shard_directory
from metastore.engine.operations import Put, PutOptions, WriteBatch
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.log import LogOptions
from txn.model.header import Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.paths import header_key, operations_path, partition
from txn.model.position import Position

OPERATIONS_PER_HEADER = 10
ORPHANS_PER_THOUSAND = 1
"""Transactions without a header, for the join to find."""
SEGMENTS = 256
BATCH_PUTS = 2_000
CREATED_MS = 1_790_000_000_000


def fill(directory: Path, operations: int) -> None:
    """Writes a data directory of one shard."""
    owner = DataDirectory(directory)
    try:
        (namespace,) = owner.namespaces((NamespaceConfig(),))
        options = ShardOptions(log=LogOptions(sync=False), store=StoreOptions())
        with Shard.open(shard_directory(directory, namespace.first_shard), options) as shard:
            records = _records(operations)
            while puts := list(islice(records, BATCH_PUTS)):
                shard.write(WriteBatch(puts=puts))
    finally:
        owner.close()


def _records(operations: int) -> Iterator[Put]:
    for transaction in range(operations // OPERATIONS_PER_HEADER):
        txn_id = TxnId(0, transaction)
        options = PutOptions(partition_key=partition(txn_id).encode())
        if transaction % 1000 >= ORPHANS_PER_THOUSAND:
            header = Header(TxnState.OPEN, CREATED_MS + transaction, CREATED_MS + transaction + 60_000)
            yield header_key(txn_id).encode(), header.encode(), options
        for number in range(1, OPERATIONS_PER_HEADER + 1):
            operation = _operation(transaction, number)
            yield f"{operations_path(txn_id)}/-{number:020}".encode(), operation.encode(), options


def _operation(transaction: int, number: int) -> Operation:
    place = transaction * OPERATIONS_PER_HEADER + number
    return Operation(
        OperationKind.WRITE,
        f"public/default/orders/{place * 2_654_435_761 % SEGMENTS:04x}",
        Position(place % 97, place),
        broker=f"broker-{place % 5}",
        term=place % 11 + 1,
        written_ms=CREATED_MS + place,
    )


def orphans(operations: int) -> int:
    """How many operations belong to transactions without a header."""
    transactions = operations // OPERATIONS_PER_HEADER
    without = sum(each % 1000 < ORPHANS_PER_THOUSAND for each in range(transactions))
    return without * OPERATIONS_PER_HEADER
