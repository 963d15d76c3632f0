"""A state machine that asks the model and another shard the same, and compares all that they say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from metastore.clock import ManualClock
from metastore.pb import oxia_pb2 as pb
from metastore.server.errors import RpcError
from shard_model import strategies
from shard_model.model import ShardModel
from shard_model.order import is_internal
from shard_model.protocol import ShardUnderTest
from shard_model.rules import ModelInvalid

Answer = TypeVar("Answer")
Outcome = tuple[str, Any]
"""The name of a status code, and the answer if it is OK."""

# No sum of fewer than a thousand of them is a multiple of a second: no session is due at the very moment.
CLOCK_STEPS_MS = (1, 1_001, 2_001, 5_001, 30_001)


def outcome(call: Callable[[], Answer]) -> Outcome:
    """What a call comes to; of a refusal only the code, for its text is free."""
    try:
        return "OK", call()
    except ModelInvalid as refusal:
        return refusal.code, None
    except RpcError as refusal:
        return refusal.code.name, None


class ShardMachine(RuleBasedStateMachine):
    """Subclasses say which order the keys have and what is tested."""

    sorting: str

    def open_shard(self, clock: ManualClock) -> ShardUnderTest:
        """A new, empty shard."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model = ShardModel(self.sorting)
        self.shard = self.open_shard(self.clock)
        self.keyspace: Sequence[bytes] = ()

    @initialize(keyspace=strategies.keyspaces())
    def choose_keyspace(self, keyspace: Sequence[bytes]) -> None:
        self.keyspace = keyspace

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # a step that has failed says itself what is wrong
                self.compare_everything()
        finally:
            self.shard.close()

    # ---------------------------------------------------------------- writes

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 3))):
            self._write(data.draw(strategies.write_requests(self._around())))
        if data.draw(st.integers(0, 9)) == 9:
            self._write(data.draw(strategies.ill_formed_writes(self._around())))

    @rule(data=st.data())
    def write_together(self, data: st.DataObject) -> None:
        """Requests that share a round: each sees what those before it did."""
        around = self._around()
        requests = data.draw(st.lists(strategies.write_requests(around), min_size=2, max_size=4))
        expected = [outcome(partial(self._model_write, request)) for request in requests]
        answers = self.shard.write_together([request.SerializeToString() for request in requests])
        actual = [
            (answer.code.name, None) if isinstance(answer, RpcError) else ("OK", pb.WriteResponse.FromString(answer))
            for answer in answers
        ]
        assert actual == expected

    def _write(self, request: pb.WriteRequest) -> None:
        expected = outcome(lambda: self._model_write(request))
        actual = outcome(lambda: pb.WriteResponse.FromString(self.shard.write(request.SerializeToString())))
        assert actual == expected

    def _model_write(self, request: pb.WriteRequest) -> pb.WriteResponse:
        return self.model.write(request, self.clock.wall_ms())

    # ---------------------------------------------------------------- reads

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        request = data.draw(strategies.read_requests(self._around()))
        expected = outcome(lambda: self.model.read(request))
        actual = outcome(
            lambda: [
                get
                for raw in self.shard.read(request.SerializeToString())
                for get in pb.ReadResponse.FromString(raw).gets
            ]
        )
        assert actual == expected

    @rule(data=st.data())
    def list_keys(self, data: st.DataObject) -> None:
        self._list(data.draw(strategies.list_requests(self._around())))

    @rule(data=st.data())
    def range_scan(self, data: st.DataObject) -> None:
        self._range_scan(data.draw(strategies.range_scan_requests(self._around())))

    @rule(prefix=st.sampled_from(strategies.WATCHED_SEQUENCES))
    def watch_sequence(self, prefix: bytes) -> None:
        assert self.shard.highest_sequence_key(prefix) == self.model.highest_sequence_key(prefix)

    @rule(back=st.integers(0, 4))
    def read_notifications(self, back: int) -> None:
        self._compare_notifications(max(-1, self.model.last_offset - back))

    @rule()
    def compare_everything(self) -> None:
        self._list(pb.ListRequest(shard=0))
        self._range_scan(pb.RangeScanRequest(shard=0, include_internal_keys=True))
        for name in set(strategies.INDEX_NAMES):
            highest = "\U0010ffff".encode()
            self._list(pb.ListRequest(shard=0, end_exclusive=highest, secondary_index_name=name))
        self._compare_notifications(-1)

    def _list(self, request: pb.ListRequest) -> None:
        expected = outcome(lambda: self.model.list(request))
        actual = outcome(
            lambda: self._without_own_keys(
                [
                    key
                    for raw in self.shard.list(request.SerializeToString())
                    for key in pb.ListResponse.FromString(raw).keys
                ],
                lambda key: key,
            )
        )
        assert actual == expected

    def _range_scan(self, request: pb.RangeScanRequest) -> None:
        expected = outcome(lambda: self.model.range_scan(request))
        actual = outcome(
            lambda: self._without_own_keys(
                [
                    record
                    for raw in self.shard.range_scan(request.SerializeToString())
                    for record in pb.RangeScanResponse.FromString(raw).records
                ],
                lambda record: record.key,
            )
        )
        assert actual == expected

    def _without_own_keys(self, items: Sequence[Answer], key_of: Callable[[Answer], bytes]) -> Sequence[Answer]:
        """A shard may keep internal keys of its own and show them on request; those are its business."""
        return [item for item in items if key_of(item) in self.model.records or not is_internal(key_of(item))]

    def _compare_notifications(self, after_offset: int) -> None:
        actual = [pb.NotificationBatch.FromString(raw) for raw in self.shard.notifications(after_offset)]
        assert actual == self.model.notifications(after_offset)

    # ---------------------------------------------------------------- sessions and time

    @rule(timeout_ms=strategies.session_timeouts_ms(), identity=st.sampled_from([b"", b"me", b"\xff"]))
    def create_session(self, timeout_ms: int, identity: bytes) -> None:
        expected = outcome(lambda: self.model.create_session(timeout_ms, identity, self.clock.wall_ms()))
        assert outcome(lambda: self.shard.create_session(timeout_ms, identity)) == expected

    @rule(data=st.data())
    def keep_alive(self, data: st.DataObject) -> None:
        self._keep_alive(data.draw(st.sampled_from(self._around().session_ids)))

    def _keep_alive(self, session_id: int) -> None:
        expected = outcome(lambda: self.model.keep_alive(session_id, self.clock.wall_ms()))
        assert outcome(lambda: self.shard.keep_alive(session_id)) == expected

    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        session_id = data.draw(st.sampled_from(self._around().session_ids))
        expected = outcome(lambda: self.model.close_session(session_id, self.clock.wall_ms()))
        assert outcome(lambda: self.shard.close_session(session_id)) == expected

    @rule(step_ms=st.sampled_from(CLOCK_STEPS_MS))
    def advance_clock(self, step_ms: int) -> None:
        self.clock.advance_ms(step_ms)
        due = self.model.due(self.clock.wall_ms())
        if due:
            self.model.expire(due, self.clock.wall_ms())
        self.shard.expire_sessions()
        self._compare_notifications(self.model.last_offset - 1)

    # ---------------------------------------------------------------- the shard's own life

    @rule()
    def settle(self) -> None:
        self.shard.settle()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.shard.restart(clean)
        self.model.restart(self.clock.wall_ms())
        for session_id in self.model.sessions:
            self._keep_alive(session_id)  # changes nothing: each has its full time again
        self.compare_everything()

    def _around(self) -> strategies.Surroundings:
        return strategies.surroundings(self.model, self.keyspace)
