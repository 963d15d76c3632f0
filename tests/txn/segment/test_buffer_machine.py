"""Any sequence of messages, decisions, crashes, trims and a seal, beside a model that is a list."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

import pytest
from buffer_stage import ABORTED, COMMITTED, EVERYTHING, Lacks, Owner, Stage, decide, message, staged, txn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.world import settle
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.buffer import BufferOptions
from txn.segment.entry import Entry
from txn.segment.log import START

OPTIONS = BufferOptions(round_entries_max=3, rounds_under_way_max=2, snapshot_every_entries=4, tail_entries_max=8)
TURNS_MAX = 12
EXAMPLES = int(os.environ.get("TIDEMARK_BUFFER_EXAMPLES", "8"))
STEPS = 20

T = TypeVar("T")


class Sent(NamedTuple):
    """A message that was confirmed."""

    position: Position
    text: str
    txn_id: TxnId | None
    number: int


sends = st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=6)


class BufferMachine(RuleBasedStateMachine):
    """The model: what is in the log, in order, and how transactions were decided."""

    lacks: Lacks
    local: bool

    @initialize()
    def open_first(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.stage: Stage = self.run(self.stack.enter_async_context(staged(self.lacks, local=self.local)))
        self.owner: Owner = self.run(self.stage.own(OPTIONS))
        self.sent: list[Sent] = []
        self.states: dict[TxnId, TxnState] = {}
        self.open: list[TxnId] = []
        self.number = 0
        self.trimmed = START
        self.is_sealed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def _message(self, choice: int | None) -> Entry:
        if choice is None:
            txn_id = None
        else:
            while len(self.open) <= choice:
                txn_id = txn(len(self.states))
                self.run(self.stage.begin(txn_id.sequence))
                self.states[txn_id] = TxnState.OPEN
                self.open.append(txn_id)
            txn_id = self.open[choice]
        self.number += 1
        return message(f"m{self.number}", txn_id, "producer", self.number)

    @rule(choices=sends)
    @precondition(lambda self: not self.is_sealed)
    def publish(self, choices: list[int | None]) -> None:
        entries = [self._message(choice) for choice in choices]

        async def publish() -> None:
            answers = [self.owner.buffer.publish(entry) for entry in entries]
            for entry, answer in zip(entries, await asyncio.gather(*answers), strict=True):
                assert answer.position is not None
                assert not answer.is_duplicate
                self.sent.append(Sent(answer.position, entry.payload.decode(), entry.txn_id, entry.sequence_id))

        self.run(publish())
        assert self.sent == sorted(self.sent), "the order of the calls is the order in the log"

    @rule(choices=sends, turns=st.integers(0, TURNS_MAX))
    @precondition(lambda self: not self.is_sealed)
    def crash_while_publishing(self, choices: list[int | None], turns: int) -> None:
        entries = [self._message(choice) for choice in choices]

        async def crash() -> None:
            answers = [self.owner.buffer.publish(entry) for entry in entries]
            for _ in range(turns):
                await asyncio.sleep(0)
            self.owner = await self.stage.succeed(self.owner, OPTIONS)
            await settle()
            confirmed = {each.result().position for each in answers if each.done() and each.exception() is None}
            for each in answers:
                each.cancel()
            last = self.sent[-1].position if self.sent else START
            for position, entry in await self._logged(last):
                assert entry in entries
                confirmed.discard(position)
                self.sent.append(Sent(position, entry.payload.decode(), entry.txn_id, entry.sequence_id))
            assert not confirmed, "what was confirmed is there"

        self.run(crash())

    async def _logged(self, after: Position) -> list[tuple[Position, Entry]]:
        """What is in the log behind a position."""
        found, log = [], self.owner.log
        at = max(Position(after.ledger, after.entry + 1) if self.sent else START, log.lengths.oldest)
        while piece := await log.read(at, 10, EVERYTHING):
            found += [(position, Entry.decode(data)) for position, data in piece]
            at = Position(piece[-1].position.ledger, piece[-1].position.entry + 1)
        return found

    @rule(state=st.sampled_from([COMMITTED, ABORTED]), choice=st.integers(0, 3), is_settled=st.booleans())
    @precondition(lambda self: self.open)
    def decide(self, state: TxnState, choice: int, is_settled: bool) -> None:
        txn_id = self.open.pop(choice % len(self.open))
        self.states[txn_id] = state
        self.run(decide(self.stage.outside, txn_id, state))
        if is_settled:
            self.run(settle())
        else:
            self.run(asyncio.sleep(0))

    @rule(turns=st.integers(0, TURNS_MAX))
    def crash(self, turns: int) -> None:
        async def crash() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            self.owner = await self.stage.succeed(self.owner, OPTIONS)

        self.run(crash())

    @rule()
    def hand_over(self) -> None:
        async def hand_over() -> None:
            await self.owner.close()
            self.owner = await self.stage.own(OPTIONS)

        self.run(hand_over())

    @rule(choice=st.integers(0, 5))
    @precondition(lambda self: self.sent)
    def send_again(self, choice: int) -> None:
        """The last messages are known as duplicates, unless they were aborted."""

        async def send() -> None:
            await settle()
            sent = self.sent[-1 - choice % min(6, len(self.sent))]
            if sent.txn_id is not None and self.states[sent.txn_id] is ABORTED:
                return
            entry = message(sent.text, sent.txn_id, "producer", sent.number)
            assert (await self.owner.buffer.publish(entry)).is_duplicate

        self.run(send())

    @rule(choice=st.integers(0, 30))
    @precondition(lambda self: self.sent)
    def trim(self, choice: int) -> None:
        self.run(self.owner.buffer.trim(self.sent[choice % len(self.sent)].position))

    @rule()
    @precondition(lambda self: len(self.sent) > 15)
    def seal(self) -> None:
        self.run(self.owner.buffer.seal())
        self.is_sealed = True

    @invariant()
    def readers_see_what_they_may(self) -> None:
        if not hasattr(self, "owner"):
            return
        self.run(settle())
        oldest = self.owner.log.lengths.oldest
        firsts = [each.position for each in self.sent if self._state(each) is TxnState.OPEN]
        kept = [each for each in firsts if each >= oldest]
        end = self.owner.log.lengths.end
        visibility = self.owner.buffer.visibility
        assert min([*firsts, end]) <= visibility.bound <= min([*kept, end]), "the bound is exact"
        wanted = [
            each.text
            for each in self.sent
            if oldest <= each.position < visibility.bound and self._state(each) is COMMITTED
        ]
        assert self.run(self.owner.texts()) == wanted
        assert bool(kept) <= bool(self.owner.buffer.stats.open) <= bool(firsts)
        if not self.open and not self.local:
            assert self.run(self.stage.records()) == []

    def _state(self, sent: Sent) -> TxnState:
        return COMMITTED if sent.txn_id is None else self.states[sent.txn_id]

    def teardown(self) -> None:
        if not hasattr(self, "owner"):
            return

        async def end() -> None:
            for txn_id in self.open:
                await decide(self.stage.outside, txn_id, COMMITTED)
                self.states[txn_id] = COMMITTED
            for _ in range(3):
                await self.stage.world.pass_ms(5_000)
            assert await self.stage.records() == []
            assert self.owner.buffer.stats.in_hand == 0
            oldest = self.owner.log.lengths.oldest
            kept = {each.txn_id for each in self.sent if each.position >= oldest and self._state(each) is ABORTED}
            assert set(await self.stage.aborted()) >= kept

        self.run(end())
        self.open.clear()
        self.readers_see_what_they_may()
        self.run(self.owner.close())
        self.run(self.stack.aclose())
        self.loop.close()


@pytest.mark.parametrize(
    ("lacks", "local"), [((), False), (("transact",), False), ((), True)], ids=["stored", "plain", "local"]
)
def test_a_buffer_does_what_the_model_says(lacks: Lacks, local: bool) -> None:
    machine = type("Machine", (BufferMachine,), {"lacks": lacks, "local": local})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    )
