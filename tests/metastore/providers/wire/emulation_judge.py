"""Follows an emulated watch, and holds every batch against the history of the model."""

from __future__ import annotations

from collections.abc import Sequence

from emulation_model import ModelShard, ModelShards, State

from metastore.interface import BatchKind, Change, ChangeKind, Range, Record, WatchBatch
from metastore.providers.tokens import TokenForm
from metastore.providers.wire.plain import NotificationKind, WatchRequest

IN_RANGE_BEFORE = {ChangeKind.MODIFIED, ChangeKind.DELETED, ChangeKind.LEFT}


class Judge:
    """What a reader of one watch over the model's shards knows, and whether it may."""

    def __init__(self, shards: ModelShards, range: Range, index: str | None, has_previous_values: bool) -> None:
        self.state: dict[str, Record] = {}
        self.token: str | None = None
        self.changes: list[Change] = []
        self.is_unclear = False
        """Begun without a snapshot, at a place that nobody can tell: what follows cannot be judged."""
        self._shards = shards
        self._range = range
        self._index = index
        self._has_previous_values = has_previous_values
        self._tokens = TokenForm("model", range, index, None, len(shards.shards))
        self._offsets: list[int] | None = None
        self._begun: list[int] = []
        self._told = [-1] * len(shards.shards)

    def request(self, has_snapshot: bool, is_resumed: bool) -> WatchRequest:
        """The watch that this judge follows; resumed, from where the last one has got to."""
        numbers = tuple(range(len(self._shards.shards)))
        resume = None if not is_resumed or self.token is None else tuple(self._tokens.read(self.token))
        if resume is None:
            self.token = self._offsets = None
            self.is_unclear = False
        return WatchRequest(
            self._range, self._index, self._tokens, numbers, resume, has_snapshot, self._has_previous_values
        )

    # -- what is told

    def take(self, batch: WatchBatch) -> None:
        if batch.kind is BatchKind.SNAPSHOT_BEGIN:
            assert self._offsets is None
            self.state.clear()
        for record in batch.records:
            assert record.key not in self.state, "a record comes once"
            self.state[record.key] = record
        for change in batch.changes:
            self._take_change(change)
        for shard in {change.shard for change in batch.changes}:
            self._told[shard] = max(change.offset for change in batch.changes if change.shard == shard)
        self.changes += batch.changes
        if batch.token is not None:
            self._take_token(batch.token, self._offsets is None, batch.kind is BatchKind.SNAPSHOT_END)

    def _take_change(self, change: Change) -> None:
        assert self._offsets is not None
        assert change.offset > self._told[change.shard], "the offsets of a shard go up"
        before = self.state.get(change.key)
        assert (before is not None) == (change.kind in IN_RANGE_BEFORE), change
        shard = self._shards.shards[change.shard]
        truth = shard.states[change.offset]
        record = None if change.record is None else _plain(change.record)
        if shard.understated is not None and record != _record(truth, change.key):
            truth = shard.states[shard.known_place(change.offset)]  # it does not know its own place
        in_range = shard.within(truth, self._range, self._index)
        if change.kind is ChangeKind.DELETED:
            assert change.record is None
            assert change.key not in truth
            del self.state[change.key]
        else:
            assert change.record is not None
            assert _plain(change.record) == _record(truth, change.key)
            assert (change.key in in_range) == (change.kind is not ChangeKind.LEFT), change
            assert change.time_ms == change.record.version.modified_ms
            assert before is None or change.record.version.version_id > before.version.version_id
            if change.kind is ChangeKind.LEFT:
                del self.state[change.key]
            else:
                self.state[change.key] = change.record
        if change.kind is ChangeKind.ENTERED:
            assert change.record is not None
            assert change.record.version.modifications > 0 or change.previous is not None
        if change.kind is ChangeKind.CREATED and change.record is not None:
            created = shard.offset_at(change.record.version.created_ms)
            assert created >= self._offsets[change.shard], "what is created was not there before"
        self._check_previous(change, before)

    def _check_previous(self, change: Change, before: Record | None) -> None:
        if not self._has_previous_values:
            assert change.previous is None
        elif before is not None:
            assert change.previous is not None
            assert _plain(change.previous) == _plain(before)
        else:
            assert (change.previous is None) == (change.kind is ChangeKind.CREATED)

    # -- what a token stands for

    def _take_token(self, token: str, is_first: bool, has_snapshot: bool) -> None:
        offsets = self._tokens.read(token)
        assert self._offsets is None or all(new >= old for new, old in zip(offsets, self._offsets, strict=True))
        self.token, self._offsets = token, offsets
        if is_first:
            self._begun = offsets
        if is_first and not has_snapshot:
            self.state = self._truth()  # it is as if a snapshot had been read
        for shard, offset, begun in zip(self._shards.shards, offsets, self._begun, strict=True):
            known = {key: record.version for key, record in self.state.items() if self._shards.owner(key) is shard}
            place = shard.known_place(offset - 1)
            is_unsure = offset <= begun or shard.understated is not None
            if not is_unsure or known != shard.versions_within(place, self._range, self._index):
                self._check_state(shard, offset - 1, is_exact=is_first)

    def _check_state(self, shard: ModelShard, offset: int, is_exact: bool) -> None:
        truth = shard.within(shard.states[offset], self._range, self._index)
        known = {key: record for key, record in self.state.items() if self._shards.owner(key) is shard}
        assert known.keys() == truth.keys(), f"at offset {offset}"
        for key, record in known.items():
            if record.version != truth[key].version:
                assert not is_exact
                assert record.version.version_id < truth[key].version.version_id
                later = [shard.states[number].get(key) for number in range(offset + 1, shard.committed + 1)]
                assert any(each is None or each.record.version != truth[key].version for each in later), (
                    f"{key} at offset {offset} was passed over, and nothing follows"
                )

    def _truth(self) -> dict[str, Record]:
        """The range at the token."""
        assert self._offsets is not None
        found: dict[str, Record] = {}
        for shard, offset in zip(self._shards.shards, self._offsets, strict=True):
            self.is_unclear = self.is_unclear or shard.known_place(offset - 1) >= offset
            found |= shard.within(shard.states[offset - 1], self._range, self._index)
        return found

    @property
    def is_up_to_date(self) -> bool:
        """Whether everything was told."""
        return self._offsets is not None and {key: _plain(record) for key, record in self.state.items()} == {
            key: record
            for shard in self._shards.shards
            for key, record in shard.within(shard.states[shard.committed], self._range, self._index).items()
        }

    # -- what may not be possible

    def may_have_expired(self, token: str) -> bool:
        """Whether a watch that was resumed at this token has to give up."""
        offsets = self._tokens.read(token)
        return any(
            self._cannot_go_on(shard, offset) for shard, offset in zip(self._shards.shards, offsets, strict=True)
        )

    def _cannot_go_on(self, shard: ModelShard, offset: int) -> bool:
        if not offset:
            return False  # before the first write: whatever is there has been created since
        is_forgotten = offset - 1 < shard.oldest or offset - 1 not in shard.batches
        return is_forgotten or any(
            self._says_too_little(shard, number) for number in range(offset, shard.committed + 1)
        )

    def _says_too_little(self, shard: ModelShard, offset: int) -> bool:
        batch = shard.batches.get(offset)
        kinds: Sequence[NotificationKind] = [] if batch is None else [each.kind for each in batch.notifications]
        is_unknown = any(kind is not NotificationKind.CREATED for kind in kinds)
        return NotificationKind.RANGE_DELETED in kinds or (self._index is not None and is_unknown)


def _record(state: State, key: str) -> Record | None:
    return state[key].record if key in state else None


def _plain(record: Record) -> Record:
    """A record as it is read by its key."""
    return Record(record.key, record.value, record.version)
