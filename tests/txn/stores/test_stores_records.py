"""Operation records on every kind of store: found exactly, whoever's names and numbers begin alike."""

from __future__ import annotations

import json

import pytest
from stores_stage import Fleet, run

from metastore.commandline import EXIT_SUCCESS, main
from metastore.coordination import Pace
from support.stores import Subject
from txn.doctor.command import register
from txn.model import paths
from txn.model.applied import Applied
from txn.model.errors import TxnConflict
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.operations import OperationRecords

SUBSCRIPTIONS = ("s", "s-1", "s/1", "s:1", "ß")


async def two_that_begin_alike(fleet: Fleet) -> tuple[TxnId, TxnId]:
    """Two open transactions, the id of one of which begins with that of the other."""
    begun = [await fleet.begin() for _ in range(20)]
    for one in begun:
        for other in begun:
            if one != other and str(other).startswith(str(one)):
                return one, other
    raise AssertionError(f"none of {begun[0]} to {begun[-1]} begins like another")


async def version_of(fleet: Fleet, txn_id: TxnId) -> int:
    async with Outcomes(fleet.store, Pace()) as outcomes:
        followed = outcomes.follow(txn_id)
        known = await followed.known()
        followed.release()
        return known.version_id


def operations_of(segment: str, number: int) -> list[Operation]:
    """A write, and an acknowledgement in each subscription."""
    at = Position(1, number)
    acks = [Operation(OperationKind.ACK, segment, at, subscription=each) for each in SUBSCRIPTIONS]
    return [Operation(OperationKind.WRITE, segment, at), *acks]


def test_h6_records_are_found_exactly_and_removed_exactly(subject: Subject) -> None:
    async def scenario(fleet: Fleet) -> None:
        names = [f"{fleet.prefix}/{name}" for name in ("a", "a-1", "a1")]
        owners = [OperationRecords(fleet.store, name, "broker", 7, Pace()) for name in names]
        txn_ids = await two_that_begin_alike(fleet)
        versions = {txn_id: await version_of(fleet, txn_id) for txn_id in txn_ids}
        keys = {}
        for txn_id in txn_ids:
            for number, records in enumerate(owners):
                keys[txn_id, number] = await records.put(
                    txn_id, versions[txn_id], operations_of(records.segment, number)
                )
        for txn_id in txn_ids:
            for number, records in enumerate(owners):
                for subscription, key in zip((None, *SUBSCRIPTIONS), keys[txn_id, number], strict=True):
                    [found] = await records.of_transaction(txn_id, subscription)
                    assert (found.key, found.operation.position) == (key, Position(1, number))
        first = owners[0]
        async with first.watch_writes() as writes, first.watch_acks("s") as acks:
            await writes.news()
            await acks.news()
            assert set(writes.records) == {keys[txn_id, 0][0] for txn_id in txn_ids}
            assert set(acks.records) == {keys[txn_id, 0][1] for txn_id in txn_ids}
            one, other = txn_ids
            word = Applied(1, "broker", 7, 1, 1, 1)
            await first.delete_acks(one, "s", keys[one, 0][1:2], word, header_version=versions[one])
            assert await first.of_transaction(one, "s") == []
            assert len(await first.of_transaction(one, "s-1")) == len(await first.of_transaction(other, "s")) == 1
            while keys[one, 0][1] in acks.records:
                await acks.news()
        await fleet.end(one, is_committed=False)
        with pytest.raises(TxnConflict):
            await first.put(one, versions[one], operations_of(first.segment, 9))
        assert len(await first.of_transaction(one)) == 1, "the write of before, and nothing of what came too late"
        await fleet.end(other, is_committed=True)
        for txn_id in txn_ids:  # nobody owns these segments: there are none, so the collector removes the rest
            await fleet.collected(txn_id)

    run(subject, scenario)


def test_the_doctor_reads_them(subject: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> list[dict[str, object]]:
        options = ["--store", subject.url, "--records", "tidemark", "--json"]
        assert main(["txn", *options, *words], [register]) == EXIT_SUCCESS
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    left: list[tuple[str, TxnId]] = []

    async def write(fleet: Fleet) -> None:
        segment = await fleet.create("doctored")
        txn_id = await fleet.begin()
        await fleet.send(segment, "inside", txn_id)
        await fleet.send(segment, "behind")
        left.append((segment, txn_id))
        fleet.segments.clear()

    async def end(fleet: Fleet) -> None:
        fleet.segments.append(segment)
        await fleet.end(txn_id, is_committed=True)
        assert await fleet.read_until(segment, "behind") == ["inside", "behind"]
        await fleet.settled(txn_id)

    run(subject, write)
    [(segment, txn_id)] = left
    [horizon] = told("why", segment)
    assert (horizon["horizon"], horizon["transaction"]) == ("held", str(txn_id))
    assert str(txn_id) in [row["transaction"] for row in told("list", "--segment", segment)]
    header, participant, *_ = told("show", str(txn_id))
    assert (header["state"], participant["segment"], participant["operations"]) == ("OPEN", segment, 1)
    run(subject, end)


def test_ids_of_transactions_are_never_given_twice_whoever_gives_them(subject: Subject) -> None:
    async def scenario(fleet: Fleet) -> None:
        begun = [await fleet.begin() for _ in range(3)]
        await fleet.replace("stop")
        begun += [await fleet.begin() for _ in range(3)]
        assert len(set(begun)) == 6
        for txn_id in begun:
            await fleet.end(txn_id, is_committed=False)
        await fleet.collected(*begun)
        assert (await fleet.begin()) not in begun
        below = paths.below(paths.HEADERS, fleet.store.key_sorting)
        async for key in fleet.store.list(below):
            await fleet.end(paths.txn_id_of_key(key), is_committed=False)

    run(subject, scenario, brokers=2)
