"""Notes are put together as they were taken, and what nobody told is unknown."""

from __future__ import annotations

import json

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.notes import AckOf, Begun, Delivery, Ending, Fate, Looked, Nacked, Trimming
from txn_histories.recorder import Recorder, history_of, written


def test_lines_become_a_history_in_whatever_order_they_are_heard() -> None:
    recorder = Recorder("1")
    recorder.note("begun", txn="x", deadline_ms=50)
    send = recorder.call("send", message="m", segment="s", producer="p", sequence_id=3, txn="x", count=2)
    send.end(fate="done", position="1:4", is_duplicate=True)
    sighting = recorder.open("s", "sub", start=Position(1, 0), term=1)
    since = recorder.tick()
    recorder.shown(sighting, since, [(Position(1, 4), "m", (1,))])
    acks = [AckOf(Position(1, 4), True, (0, 1), Position(1, 2))]
    recorder.call("ack", segment="s", subscription="sub", acks=written(acks), txn="x").end(fate="refused")
    recorder.note("nack", segment="s", subscription="sub", positions=["1:4"])
    recorder.call("look", txn="x").end(state="OPEN")
    recorder.call("ending", txn="x", wanted="COMMITTED", at_ms=7).end(outcome="ABORTED", is_deadline=True, at_ms=9)
    recorder.note("trim", segment="s", before="1:2")
    heard = [json.loads(json.dumps(line)) for line in reversed(recorder.lines)]
    history = history_of(heard)
    assert history.begun == [Begun("x", 1, 50)]
    (sent,) = history.sends
    assert (sent.fate, sent.position, sent.is_duplicate, sent.count) == (Fate.DONE, Position(1, 4), True, 2)
    (seen,) = history.sightings
    assert (seen.subscription, seen.start, seen.term) == ("sub", Position(1, 0), 1)
    assert seen.deliveries == [Delivery(Position(1, 4), "m", since, since + 1, (1,))]
    (acked,) = history.acks
    assert (acked.acks, acked.fate, acked.returned) == (tuple(acks), Fate.REFUSED, acked.invoked + 1)
    assert history.nacks == [Nacked("s", "sub", (Position(1, 4),), acked.invoked + 2)]
    (look,) = history.looks
    assert look == Looked("x", TxnState.OPEN, look.invoked, look.invoked + 1)
    (ending,) = history.endings
    told = (TxnState.COMMITTED, ending.invoked, ending.invoked + 1, TxnState.ABORTED, True, 7, 9)
    assert ending == Ending("x", *told)
    assert history.trimmings == [Trimming("s", Position(1, 2), ending.invoked + 2)]


def test_a_call_whose_end_nobody_told_is_unknown() -> None:
    recorder = Recorder()
    recorder.call("send", message="m", segment="s", producer="p", sequence_id=1, txn=None)
    recorder.call("ack", segment="s", subscription="sub", acks=[], txn=None)
    recorder.call("ending", txn="x", wanted="COMMITTED")
    recorder.call("look", txn="x")
    history = history_of(recorder.lines)
    assert [send.fate for send in history.sends] == [Fate.UNKNOWN]
    assert [ack.fate for ack in history.acks] == [Fate.UNKNOWN]
    assert [ending.outcome for ending in history.endings] == [None]
    assert history.looks == []
