"""One round under way: write requests turned into effects, staged over the store, visible to nobody yet.

A stage sees the durable state under its own changes. Each request becomes one log entry; when the round is durable,
the store takes over the staged generation. Until then throwing the stage away undoes everything.
"""

from __future__ import annotations

from collections.abc import Callable

from metastore.engine.change import Kind
from metastore.engine.effects import Effects
from metastore.engine.errors import ConditionsFailed, FailedCondition, InvalidRequest, SessionNotFound
from metastore.engine.operations import PutResult, Transaction, WriteBatch, WriteResult
from metastore.engine.record import version_id_of
from metastore.engine.sessions import SessionRecord, session_key
from metastore.engine.validate import check_final_keys


class Stage(Effects):
    """The requests of one round."""

    # -- requests, one log entry each

    def write(self, batch: WriteBatch) -> WriteResult:
        """Stages a write request. An `InvalidRequest` leaves no trace of it."""
        if batch.has_sequences:
            return self._undone_if_invalid(batch, self._write)
        return self._write(batch)

    def transact(self, transaction: Transaction) -> WriteResult:
        """Stages a transaction, or raises and leaves no trace of it."""
        found = ((place, key, expected, self._version_of(key)) for place, key, expected in transaction.all_conditions())
        failed = [FailedCondition(*each) for each in found if each[2] != each[3]]
        if failed:
            raise ConditionsFailed(failed)
        for _, _, options in transaction.puts:
            if options is not None and options.session_id is not None and not self.has_session(options.session_id):
                raise SessionNotFound(options.session_id)
        batch = WriteBatch(transaction.puts, transaction.deletes)
        if batch.has_sequences:
            result = self._undone_if_invalid(batch, self._write_sequences_first)
        else:
            result = self._write(batch)
        assert not any(status for status, _, _ in result.puts), "a put of a transaction was refused"
        return result

    def _version_of(self, key: bytes) -> int:
        record = self._get(self._encode(key))
        return -1 if record is None else version_id_of(record)

    def create_session(self, timeout_ms: int, identity: bytes) -> int:
        """Stages a new session and returns its id. Like a put it takes a version id."""
        session_id = self.next_offset + 1
        record = SessionRecord(timeout_ms, identity)
        self.last_version_id += 1
        self._change(Kind.SESSION_PUT, session_key(session_id), record.encode())
        self._end_entry()
        self.sessions_begun.append((session_id, timeout_ms))
        return session_id

    def close_sessions(self, session_ids: list[int]) -> None:
        """Stages the end of sessions and of all their records. Those that ended meanwhile are passed over."""
        for session_id in session_ids:
            if self.has_session(session_id):
                self._end_session(session_id)
        self._end_entry()

    def close_session(self, session_id: int) -> None:
        """Stages the end of one session; refuses one that does not exist."""
        if not self.has_session(session_id):
            raise SessionNotFound(session_id)
        self.close_sessions([session_id])

    # -- the parts of a request

    def _undone_if_invalid(self, batch: WriteBatch, attempt: Callable[[WriteBatch], WriteResult]) -> WriteResult:
        if len(batch.puts) + len(batch.deletes) == 1:
            return attempt(batch)  # one put alone is refused before it has staged anything
        generation, version_id, sequences = self.generation.copy(), self.last_version_id, len(self.sequences)
        try:
            return attempt(batch)
        except InvalidRequest:
            self.generation, self.last_version_id = generation, version_id
            del self.sequences[sequences:]
            self._parts.clear()
            self._previous_bytes = 0
            self.view = self._store.view_with(generation)
            self._bind()
            raise

    def _write_sequences_first(self, batch: WriteBatch) -> WriteResult:
        """Numbers the sequences of a transaction by the state before anything else of it."""
        places = batch.places_sequences_first()
        results = dict(zip(places, self._put_all([batch.puts[place] for place in places]), strict=True))
        puts = [results[place] for place in range(len(results))]
        check_final_keys(batch, puts)
        return self._finish(batch, puts)

    def _write(self, batch: WriteBatch) -> WriteResult:
        return self._finish(batch, self._put_all(batch.puts))

    def _finish(self, batch: WriteBatch, puts: list[PutResult]) -> WriteResult:
        """What comes behind the puts of a request."""
        deletes = [self._delete(key, expected) for key, expected in batch.deletes]
        result = WriteResult(puts, deletes, len(batch.delete_ranges))
        for start, end in batch.delete_ranges:
            self._delete_range(start, end)
        self._end_entry()
        self.puts += len(batch.puts)
        self.deletes += len(batch.deletes)
        self.delete_ranges += len(batch.delete_ranges)
        return result
