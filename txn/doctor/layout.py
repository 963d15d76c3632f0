"""Where records are found: keys, partitions and indexes, in a store of ours and in one of Pulsar's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote_plus

from metastore.interface import ALL, Range, exactly
from txn.coordinator.collector import RETENTION_MS
from txn.decoding import pulsar, tidemark
from txn.decoding.fields import Malformed
from txn.decoding.rows import Row
from txn.model import paths
from txn.model.errors import InvalidTxnId
from txn.model.header import TxnState
from txn.model.ids import TxnId


class RecordsKind(Enum):
    """Whose records a store holds."""

    TIDEMARK = "tidemark"
    PULSAR = "pulsar"


@dataclass(frozen=True, slots=True)
class Place:
    """A range of keys, or of an index, in one partition or in all."""

    range: Range = ALL
    index: str | None = None
    partition_key: str | None = None


class Layout(ABC):
    """What differs between the kinds."""

    kind: RecordsKind
    retention_ms: int | None = None
    """How long headers stay after the decision, where that is known."""
    open_headers: Place
    """In the order of their deadlines."""
    operations: tuple[Place, ...]
    """All of them."""
    aborted: Place
    """Of all segments."""

    @abstractmethod
    def decode(self, key: str, value: bytes, created_ms: int, modified_ms: int) -> Row | None:
        """What a record says; the decoder of this kind."""

    @abstractmethod
    def check_id(self, text: str) -> str:
        """The id, if it is one of this kind; InvalidTxnId otherwise."""

    @abstractmethod
    def header(self, txn_id: str) -> tuple[str, str]:
        """The key and the partition of a header."""

    @abstractmethod
    def decided_headers(self, state: TxnState) -> Place:
        """In the order of their decisions."""

    @abstractmethod
    def operations_of(self, txn_id: str, key_sorting: str) -> Place:
        """Those of a transaction."""

    @abstractmethod
    def applied_by(self, txn_id: str, key_sorting: str) -> Place | None:
        """What participants have left behind; None where they leave nothing."""

    @abstractmethod
    def writes_to(self, segment: str) -> Place:
        """Of all transactions."""

    @abstractmethod
    def acknowledgements_of(self, segment: str) -> Place:
        """Those of all its subscriptions."""

    @abstractmethod
    def watermark(self, segment: str) -> tuple[str, str] | None:
        """The key and the partition of the record that says how far a segment may be read, where there is one."""


class TidemarkLayout(Layout):
    """Ours."""

    kind = RecordsKind.TIDEMARK
    retention_ms = RETENTION_MS
    open_headers = Place(index=paths.BY_DEADLINE)
    operations = (Place(index=paths.WRITES_BY_SEGMENT), Place(index=paths.ACKS_BY_SUBSCRIPTION))
    aborted = Place(index=paths.ABORTED_BY_POSITION)

    def decode(self, key: str, value: bytes, created_ms: int, modified_ms: int) -> Row | None:
        return tidemark.decode(key, value, created_ms, modified_ms)

    def check_id(self, text: str) -> str:
        return str(TxnId.parse(text))

    def header(self, txn_id: str) -> tuple[str, str]:
        parsed = TxnId.parse(txn_id)
        return paths.header_key(parsed), paths.partition(parsed)

    def decided_headers(self, state: TxnState) -> Place:
        return Place(_beginning_with(f"{state.value}:"), paths.BY_FINAL_STATE)

    def operations_of(self, txn_id: str, key_sorting: str) -> Place:
        parsed = TxnId.parse(txn_id)
        path = paths.operations_path(parsed)
        return Place(paths.below(path, key_sorting), partition_key=paths.partition(parsed))

    def applied_by(self, txn_id: str, key_sorting: str) -> Place | None:
        parsed = TxnId.parse(txn_id)
        return Place(paths.below(paths.applied_path(parsed), key_sorting), partition_key=paths.partition(parsed))

    def writes_to(self, segment: str) -> Place:
        return Place(exactly(paths.escaped(segment)), paths.WRITES_BY_SEGMENT)

    def acknowledgements_of(self, segment: str) -> Place:
        return Place(paths.subscriptions_of(segment), paths.ACKS_BY_SUBSCRIPTION)

    def watermark(self, segment: str) -> tuple[str, str] | None:
        return None


class PulsarLayout(Layout):
    """Pulsar's. Its secondary keys begin with the path that the record is in."""

    kind = RecordsKind.PULSAR
    open_headers = Place(index="idx:txn-by-deadline")
    operations = (Place(index="idx:ops-by-txn"),)
    aborted = Place(index="idx:txn-aborted-by-position")

    def decode(self, key: str, value: bytes, created_ms: int, modified_ms: int) -> Row | None:
        return pulsar.decode(key, value, created_ms, modified_ms)

    def check_id(self, text: str) -> str:
        try:
            return pulsar.checked_id(text)
        except Malformed as error:
            raise InvalidTxnId(str(error)) from error

    def header(self, txn_id: str) -> tuple[str, str]:
        return f"{pulsar.ROOT}/id/{txn_id}", txn_id

    def decided_headers(self, state: TxnState) -> Place:
        return Place(_beginning_with(f"{pulsar.ROOT}/id/{state.value}:"), "idx:txn-by-final-state")

    def operations_of(self, txn_id: str, key_sorting: str) -> Place:
        return Place(exactly(f"{pulsar.ROOT}/op/{txn_id}"), "idx:ops-by-txn", txn_id)

    def applied_by(self, txn_id: str, key_sorting: str) -> Place | None:
        return None

    def writes_to(self, segment: str) -> Place:
        return Place(exactly(f"{pulsar.ROOT}/op/{quote_plus(segment)}"), "idx:writes-by-segment")

    def acknowledgements_of(self, segment: str) -> Place:
        return Place(_beginning_with(f"{pulsar.ROOT}/op/{quote_plus(segment)}:"), "idx:acks-by-segment-subscription")

    def watermark(self, segment: str) -> tuple[str, str] | None:
        escaped = quote_plus(segment)
        return f"{pulsar.ROOT}/segment-state/watermark/{escaped}", escaped


LAYOUTS: dict[RecordsKind, Layout] = {
    RecordsKind.TIDEMARK: TidemarkLayout(),
    RecordsKind.PULSAR: PulsarLayout(),
}


def _beginning_with(prefix: str) -> Range:
    """The keys that begin so; the prefix ends with a colon, and `;` is the character behind it."""
    assert prefix.endswith(":")
    return Range(prefix, prefix[:-1] + ";")
