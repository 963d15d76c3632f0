"""Candidates, faults and time in any order: at most one holder by its own clock, and writes in the order of terms."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from coordination_world import ROLE, campaign, election_of, keeper_of, pass_sessions
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from metastore.coordination import Grant, GuardedRecord
from metastore.coordination.stamps import read_fence
from metastore.interface import Abortable, OutcomeUnknown, StoreError, TokenExpired, Unavailable
from metastore.providers.memory import Gate, Part
from support.world import Process, World, settle

CANDIDATES = 3
COUNTERS = (ROLE, "/another/partition")
LOG_ENTRIES_MAX = 100_000

FAULTS: list[tuple[str, StoreError, bool]] = [
    ("put", Unavailable("down"), False),
    ("put", OutcomeUnknown("lost"), False),
    ("put", OutcomeUnknown("lost"), True),
    ("transact", OutcomeUnknown("lost"), True),
    ("delete", OutcomeUnknown("lost"), True),
    ("get", Unavailable("down"), False),
    ("watch", TokenExpired("trimmed"), False),
    ("open_session", Unavailable("down"), True),
    ("close_session", Unavailable("down"), False),
]
LEADER = -1
"""Whoever holds the grant, or the first if nobody does: faults are of most interest there."""
victims = st.sampled_from([LEADER, LEADER, *range(CANDIDATES)])


@dataclass(frozen=True)
class Read:
    """A holder of this term has read a counter before this offset: from there on no earlier one writes it."""

    partition_key: str
    term: int
    offset: int


class Candidate:
    """A process that campaigns, and while it leads counts in guarded records: read, one more, write."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.keeper = keeper_of(process)
        self.campaign: asyncio.Task[Grant] | None = None
        self.grant: Grant | None = None
        self.records: dict[str, GuardedRecord] = {}
        self.work: set[asyncio.Task[None]] = set()
        self.gates: list[Gate] = []
        self.is_suspended = False

    def see(self) -> None:
        """Takes what the campaign has won."""
        if self.campaign is not None and self.campaign.done():
            self.grant, self.campaign = self.campaign.result(), None
            self.records = {each: self.grant.guard(f"{each}/counter", partition_key=each) for each in COUNTERS}

    async def count(
        self, partition_key: str, is_writing: bool, reads: list[Read], acknowledged: list[tuple[str, int]]
    ) -> None:
        assert self.grant is not None
        term, record = self.grant.term, self.records[partition_key]
        try:
            value = int(await record.read() or b"0") + 1
            shard = self.process.store.data.shard_of(partition_key)
            reads.append(Read(partition_key, term, shard.next_offset))
            if not is_writing:
                return
            await record.write(str(value).encode())
        except (Unavailable, Abortable):
            return
        acknowledged.append((partition_key, value))


class ElectionMachine(RuleBasedStateMachine):
    """Steps of candidates and of what befalls them."""

    lacks: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World(self.lacks)
        self.candidates = [Candidate(self.world.process()) for _ in range(CANDIDATES)]
        self.acknowledged: list[tuple[str, int]] = []
        self.reads: list[Read] = []
        self.terms: set[int] = set()

    def settle(self) -> None:
        self.loop.run_until_complete(settle())
        for candidate in self.candidates:
            candidate.see()
            if candidate.grant is not None:
                self.terms.add(candidate.grant.term)

    def start(self, candidate: Candidate, work: Any) -> asyncio.Task[Any]:
        async def begin() -> asyncio.Task[Any]:
            return candidate.process.start(work)

        return self.loop.run_until_complete(begin())

    def victim(self, number: int) -> Candidate:
        if number != LEADER:
            return self.candidates[number]
        holders = [each for each in self.candidates if each.grant is not None and each.grant.is_held]
        return (holders or self.candidates)[0]

    @initialize()
    def begin(self) -> None:
        self.all_stand()

    @rule()
    def all_stand(self) -> None:
        """Whoever leads no more, or never did, campaigns."""
        for candidate in self.candidates:
            if candidate.campaign is None and (candidate.grant is None or not candidate.grant.is_held):
                candidate.grant = None
                election = election_of(candidate.process, keeper=candidate.keeper)
                candidate.campaign = self.start(candidate, election.campaign())
        self.settle()

    @rule(number=victims, turns=st.integers(0, 12))
    def give_up(self, number: int, turns: int) -> None:
        campaign = self.victim(number).campaign
        if campaign is not None:
            for _ in range(turns):
                self.loop.run_until_complete(asyncio.sleep(0))
            if campaign.cancel():
                self.victim(number).campaign = None
            self.settle()

    @rule()
    def resign(self) -> None:
        grant = self.victim(LEADER).grant
        if grant is not None:
            self.start(self.victim(LEADER), grant.release())
            self.settle()

    @rule(partition_key=st.sampled_from(COUNTERS), is_writing=st.booleans())
    def count(self, partition_key: str, is_writing: bool = True) -> None:
        """All who have a grant try, whether they still hold it or not."""
        for candidate in self.candidates:
            if candidate.grant is not None and not candidate.work:
                work = self.start(candidate, candidate.count(partition_key, is_writing, self.reads, self.acknowledged))
                candidate.work.add(work)
                work.add_done_callback(candidate.work.discard)
        self.settle()

    @rule(
        number=victims,
        method=st.sampled_from(["put", "transact", "delete", "get"]),
        prefix=st.sampled_from(["", *COUNTERS]),
        is_after=st.booleans(),
    )
    def hold(self, number: int, method: str, prefix: str, is_after: bool) -> None:
        candidate = self.victim(number)
        candidate.gates.append(candidate.process.script.hold(method, prefix=prefix, after=is_after))

    @rule()
    def let_go(self) -> None:
        for candidate in self.candidates:
            for gate in candidate.gates:
                gate.release()
        self.settle()

    @rule(number=victims, fault=st.sampled_from(FAULTS), skip=st.integers(0, 2))
    def fail(self, number: int, fault: tuple[str, StoreError, bool], skip: int) -> None:
        method, error, is_after = fault
        self.victim(number).process.script.fail(method, error, after=is_after, skip=skip)

    @rule(number=victims, parts=st.sampled_from([(), (Part.CALLS,), (Part.HEARTBEATS,), (Part.WATCHES,)]))
    def cut(self, number: int, parts: tuple[Part, ...]) -> None:
        self.victim(number).process.store.line.cut(*parts)
        self.settle()

    @rule(number=victims)
    def suspend(self, number: int) -> None:
        """The whole machine stands still, its clock too: it cannot know how long it was away."""
        candidate = self.victim(number)
        candidate.is_suspended = True
        candidate.process.store.line.cut(Part.HEARTBEATS, Part.WATCHES)

    @rule(
        method=st.sampled_from(["put", "transact", "get"]),
        is_after=st.booleans(),
        partition_key=st.sampled_from(COUNTERS),
        sees_it_before=st.booleans(),
        is_written_meanwhile=st.booleans(),
    )
    def suspend_in_the_middle_of_a_write(
        self, method: str, is_after: bool, partition_key: str, sees_it_before: bool, is_written_meanwhile: bool
    ) -> None:
        """The leader stops between two steps of a write and goes on when another has read, or written."""
        if sees_it_before:
            self.count(partition_key)
        self.hold(LEADER, method, partition_key, is_after)
        self.count(partition_key)
        self.suspend(LEADER)
        self.pass_long_time()
        self.count(partition_key, is_written_meanwhile)
        self.let_go()
        self.count(partition_key)

    @rule()
    def mend(self) -> None:
        for candidate in self.candidates:
            candidate.process.store.line.mend()
            candidate.is_suspended = False
        self.settle()

    @rule(milliseconds=st.sampled_from([100, 1_500, 4_000, 8_900, 9_000, 10_000]))
    def pass_time(self, milliseconds: int) -> None:
        frozen = tuple(each.process for each in self.candidates if each.is_suspended)
        self.loop.run_until_complete(self.world.pass_ms(milliseconds, frozen=frozen))
        self.settle()

    @rule()
    def pass_long_time(self) -> None:
        for _ in range(3):
            self.pass_time(4_000)

    @invariant()
    def at_most_one_holds_by_its_own_clock(self) -> None:
        held = [
            candidate.grant
            for candidate in self.candidates
            if candidate.grant is not None and candidate.grant.is_held and not candidate.is_suspended
        ]
        assert len(held) <= 1
        if held:
            assert held[0].term == max(self.terms)

    @invariant()
    def counters_grow_by_one_in_the_order_of_terms(self) -> None:
        for partition_key in COUNTERS:
            terms, values = [0], [0]
            shard = self.world.data.shard_of(partition_key)
            reads = [read for read in self.reads if read.partition_key == partition_key]
            for entry in shard.entries_from(0, LOG_ENTRIES_MAX):
                for effect in entry.effects:
                    if effect.key != f"{partition_key}/counter" or effect.after is None:
                        continue
                    stamp, value = read_fence(effect.after.as_record())
                    fences = [read.term for read in reads if read.offset <= entry.offset]
                    assert stamp.term >= max([terms[-1], *fences])
                    count = int(value or b"0")
                    assert count in (values[-1], values[-1] + 1)
                    terms.append(stamp.term)
                    values.append(count)
            told = [value for key, value in self.acknowledged if key == partition_key]
            assert len(set(told)) == len(told), "one count was told twice"
            assert set(told) <= set(values)

    def teardown(self) -> None:
        """When everything works again and time passes, somebody can lead, and nothing is left behind."""

        async def end() -> None:
            for candidate in self.candidates:
                candidate.process.script.clear()
                candidate.process.store.line.mend()
                if candidate.campaign is not None:
                    candidate.campaign.cancel()
            await pass_sessions(self.world)
            for candidate in self.candidates:
                if candidate.grant is not None:
                    await candidate.grant.release()
            await pass_sessions(self.world)
            grant = await campaign(self.world.process())
            assert all(grant.term > term for term in self.terms)
            await grant.release()
            for candidate in self.candidates:
                await candidate.keeper.close()
            left = [key for key in await self.world.keys() if not key.endswith("/counter")]
            assert left == []
            for process in self.world.processes:
                await process.store.close()

        self.loop.run_until_complete(end())
        self.loop.close()


class PlainElectionMachine(ElectionMachine):
    """The same on a store that can only do what every store can."""

    lacks = ("transact", "every_change")


@pytest.mark.parametrize("machine", [ElectionMachine, PlainElectionMachine])
def test_elections_keep_their_promises_whatever_happens(machine: type[ElectionMachine]) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=checks
        ),
    )
