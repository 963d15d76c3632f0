"""The judges accept good histories and find every kind of lie in spoiled ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import BatchKind, Record
from watch_contract.lies import WAYS, batch_at, places, with_batch
from watch_contract.recorded import SEEDS, recorded
from watch_contract.sightings import Event, Expired, Failed, Opened, Sighting, Told
from watch_contract.tokens import offsets_of, with_offsets
from watch_contract.verdict import History, check, names_of, report
from watch_contract.violations import Findings, Lie
from watch_contract.writes import Fate, Put, Remove, Write

EXAMPLES = 12
"""Of each way to spoil a history; all of them are the same each time."""
SPOILED = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)


def lies_of(history: History, watcher: Sighting, events: Sequence[Event]) -> Sequence[Lie]:
    """What is found if one watcher's notes were these."""
    spoiled = replace(watcher, events=[*events])
    return names_of(check(replace(history, watchers=[spoiled])))


def where(name: str) -> Sequence[tuple[History, Sighting, int]]:
    """All places in all histories where a way to spoil them fits."""
    histories = [recorded(seed) for seed in range(SEEDS)]
    return [
        (history, watcher, place)
        for history in histories
        for watcher in history.watchers
        for place in places(watcher)
        if WAYS[name].fits(watcher.events, place)
    ]


def test_good_histories_are_accepted() -> None:
    together = Findings()
    for seed in range(SEEDS):
        findings = check(recorded(seed))
        assert not findings.violations, report(findings)
        together.merge(findings)
    assert together.counts["changes"] > 1000
    assert together.counts["resumes"] >= 10
    assert together.counts["snapshots"] >= 4 * SEEDS


@pytest.mark.parametrize("name", WAYS)
def test_every_kind_of_lie_is_found(name: str) -> None:
    found = where(name)
    assert found, "the histories have no place for this lie"

    @given(st.sampled_from(found))
    @SPOILED
    def spoil(chosen: tuple[History, Sighting, int]) -> None:
        history, watcher, place = chosen
        assert WAYS[name].lie in lies_of(history, watcher, WAYS[name].spoil(watcher.events, place))

    spoil()


@given(st.integers(0, SEEDS - 1), st.data())
@SPOILED
def test_what_the_witness_does_not_tell_is_missed(seed: int, data: st.DataObject) -> None:
    """It tells the order, and is not believed: what it leaves out was acknowledged."""
    history = recorded(seed)
    place = data.draw(st.sampled_from([*places(history.witness)]))
    events = history.witness.events
    dropped = with_batch(events, place, kind=BatchKind.PROGRESS, changes=())
    lies = names_of(check(replace(history, witness=replace(history.witness, events=dropped))))
    assert Lie.LOST_WRITE in lies


@given(st.integers(0, SEEDS - 1), st.data())
@SPOILED
def test_an_order_that_contradicts_the_answers_is_found(seed: int, data: st.DataObject) -> None:
    """The witness and everybody else agree; but the writers were told otherwise."""
    history = recorded(seed)
    writes = [write for write in history.writes if write.must_show and isinstance(write.operations[0], Put)]
    chosen = data.draw(st.sampled_from(writes))
    refused = replace(chosen, fate=Fate.REFUSED, answers=())
    assert Lie.REFUSED_WRITE in lies_with(history, refused)
    put = chosen.operations[0]
    assert isinstance(put, Put)
    other = replace(chosen, operations=(replace(put, expected=1 << 40), *chosen.operations[1:]))
    assert Lie.BROKEN_ORDER in lies_with(history, other)
    assert Lie.LOST_WRITE in lies_with(history, replace(chosen, number=len(history.writes), operations=(
        Put("/lost", b"nobody was ever told this"),), answers=chosen.answers[:1]))  # fmt: skip


def lies_with(history: History, write: Write) -> Sequence[Lie]:
    """What is found if a writer had noted this."""
    writes = [write if each.number == write.number else each for each in history.writes]
    if write.number == len(writes):
        writes.append(write)
    return names_of(check(replace(history, writes=writes)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_write_that_had_returned_is_not_told_behind_one_that_began_later(seed: int) -> None:
    history = recorded(seed)
    last = max((each for each in history.writes if each.must_show), key=lambda each: each.invoked)
    assert Lie.BROKEN_ORDER in lies_with(history, replace(last, invoked=0, returned=0))


def test_a_removal_without_an_answer_may_have_happened_or_not() -> None:
    """Whichever it was, the histories without the answers of removals are good ones."""
    for seed in range(SEEDS):
        history = recorded(seed)
        writes = [
            replace(write, fate=Fate.UNKNOWN, answers=(), returned=None)
            if write.fate is Fate.DONE and all(isinstance(each, Remove) for each in write.operations)
            else write
            for write in history.writes
        ]
        findings = check(replace(history, writes=writes))
        assert not findings.violations, report(findings)
        assert findings.counts["unanswered writes that happened"] > 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_last_scan_has_to_agree(seed: int) -> None:
    history = recorded(seed)
    assert history.final
    stale = replace(history.final[0], value=b"stale")
    for final in (history.final[1:], [stale, *history.final[1:]], [*history.final, stale]):
        assert Lie.WRONG_SCAN in names_of(check(replace(history, final=final)))


def snapshots() -> Sequence[tuple[History, Sighting, int]]:
    """The batches of records."""
    return [
        (history, watcher, place)
        for history in map(recorded, range(SEEDS))
        for watcher in history.watchers
        for place, event in enumerate(watcher.events)
        if isinstance(event, Told) and event.batch.kind is BatchKind.SNAPSHOT and end_of_snapshot(watcher, place)
    ]


def end_of_snapshot(watcher: Sighting, place: int) -> int | None:
    """The place of its last batch; None if the watch was closed before that."""
    for at, event in enumerate(watcher.events[place:], place):
        if isinstance(event, Told) and event.batch.kind is BatchKind.SNAPSHOT_END:
            return at
        if isinstance(event, Opened):
            return None
    return None


@given(st.data())
@SPOILED
def test_a_snapshot_is_one_state(data: st.DataObject) -> None:
    history, watcher, place = data.draw(st.sampled_from(snapshots()))
    first, *others = batch_at(watcher.events, place).records
    for records in spoiled_records(first, others):
        spoiled = with_batch(watcher.events, place, records=tuple(records))
        assert Lie.WRONG_SNAPSHOT in lies_of(history, watcher, spoiled)


def spoiled_records(first: Record, others: Sequence[Record]) -> Sequence[Sequence[Record]]:
    """Without a record, with one twice, with an older one, with one of another key."""
    older = replace(first, version=replace(first.version, version_id=first.version.version_id - 1))
    return [others, [first, first, *others], [older, *others], [replace(first, key="/other"), *others]]


@given(st.data())
@SPOILED
def test_a_snapshot_with_the_token_of_another_time_is_found(data: st.DataObject) -> None:
    """What was acknowledged before the watch began is no news."""
    history, watcher, place = data.draw(st.sampled_from([*filter(is_behind_writes, snapshots())]))
    end = end_of_snapshot(watcher, place)
    assert end is not None
    token = batch_at(watcher.events, end).token
    assert token is not None
    early = with_batch(watcher.events, end, token=with_offsets(token, [0] * len(offsets_of(token))))
    assert Lie.TOKEN_TOO_EARLY in lies_of(history, watcher, early)


def is_behind_writes(chosen: tuple[History, Sighting, int]) -> bool:
    """Whether something had been acknowledged when the watch was opened."""
    history, watcher, place = chosen
    opened = max(event.tick for event in watcher.events[:place] if isinstance(event, Opened))
    return any(
        w.must_show and w.shard in watcher.scope.shards and w.returned is not None and w.returned < opened
        for w in history.writes
    )


def tokens_before_further_writes() -> Sequence[tuple[History, Sighting, int]]:
    """The batches with a token behind which something more was written to a shard of the watch."""
    return [
        (history, watcher, place)
        for history in map(recorded, range(SEEDS))
        for watcher in [history.witness, *history.watchers]
        for place, event in enumerate(watcher.events)
        if isinstance(event, Told)
        and event.batch.token is not None
        and any(w.must_show and w.shard in watcher.scope.shards and w.invoked > event.tick for w in history.writes)
    ]


@given(st.data())
@SPOILED
def test_a_mark_ahead_of_what_is_yet_to_come_is_found(data: st.DataObject) -> None:
    """Also where nothing follows that would show it."""
    history, watcher, place = data.draw(st.sampled_from(tokens_before_further_writes()))
    token = batch_at(watcher.events, place).token
    assert token is not None
    ahead = with_batch(watcher.events, place, token=with_offsets(token, [1 << 40] * len(offsets_of(token))))
    assert Lie.TOKEN_TOO_LATE in lies_of(history, watcher, ahead[: place + 1])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_second_snapshot_is_out_of_place(seed: int) -> None:
    history = recorded(seed)
    watcher = next(each for each in history.watchers if [*places(each)])
    place = next(places(watcher))
    begin = with_batch(watcher.events, place, kind=BatchKind.SNAPSHOT_BEGIN, changes=(), token=None)
    assert Lie.BAD_SHAPE in lies_of(history, watcher, begin)


def test_a_watch_ends_only_where_changes_were_trimmed() -> None:
    """With a retention, what is said to be lost has to be old, and to be needed."""
    history = recorded(0)
    watcher = next(each for each in history.watchers if each.scope.shards == (0, 1) and [*places(each)])
    token = batch_at(watcher.events, next(places(watcher))).token
    assert token is not None
    newest = [offset + 1 for offset in offsets_of(token)]

    def lies(expired: Expired, retention_ms: int | None) -> Sequence[Lie]:
        ended = [Opened(10**6, with_offsets(token, [1, 1])), expired, *watcher.events]
        return lies_of(replace(history, retention_ms=retention_ms), watcher, ended)

    late_ms = 1 << 50
    assert not lies(Expired(10**6, late_ms, min(newest)), retention_ms=1000)
    for wrong in (Expired(10**6, 0, min(newest)), Expired(10**6, late_ms, 1), Expired(10**6, late_ms, None)):
        assert Lie.WRONGLY_EXPIRED in lies(wrong, retention_ms=1000)
    assert Lie.WRONGLY_EXPIRED in lies(Expired(10**6, late_ms, min(newest)), retention_ms=None)


def test_a_watch_does_not_end_with_an_error() -> None:
    history = recorded(0)
    watcher = history.watchers[0]
    assert Lie.WRONGLY_ENDED in lies_of(history, watcher, [*watcher.events, Failed(10**6, "Unavailable()")])
