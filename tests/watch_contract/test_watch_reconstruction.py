"""What can have been so is accepted, whoever of several did it; what contradicts every explanation is a lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from watch_contract.legal import Clients, Request, Shard
from watch_contract.verdict import check, names_of, report
from watch_contract.violations import Lie
from watch_contract.writes import Operation, Put, Remove, RemoveRange

HISTORIES = 200
STEPS = 150


@pytest.mark.parametrize("first", range(0, HISTORIES, 50))
def test_whatever_a_store_can_have_done_is_accepted(first: int) -> None:
    for seed in range(first, first + 50):
        findings = check(Clients(seed).run(STEPS))
        assert not findings.violations, f"seed {seed}: {report(findings)}"


class Told:
    """A history that is written down call by call."""

    def __init__(self) -> None:
        self.shard = Shard()

    def asked(self, *operations: Operation, by: str = "w0") -> Request:
        return Request(by, self.shard.next_tick(), operations)

    def done(self, request: Request) -> None:
        self.shard.execute(request)

    def answered(self, request: Request) -> None:
        self.shard.note(request, is_answered=True)

    def given_up(self, request: Request) -> None:
        self.shard.note(request, is_answered=False)

    def whole(self, *operations: Operation, by: str = "w0") -> None:
        """From being asked for to being answered."""
        request = self.asked(*operations, by=by)
        self.done(request)
        self.answered(request)

    def lies(self) -> Sequence[Lie]:
        """Told as it happens, and told late, which says less."""
        early, late = (names_of(check(self.shard.history(is_told_late=each))) for each in (False, True))
        return [*early, *late]


def test_of_two_removals_the_one_that_returned_first_was_first() -> None:
    told = Told()
    told.whole(Put("/k0", b"1"))
    slow, fast = told.asked(Remove("/k0"), by="w1"), told.asked(Remove("/k0"), by="w2")
    told.done(fast)
    told.answered(fast)
    told.whole(Put("/k0", b"2"))
    told.done(slow)
    told.answered(slow)
    assert told.lies() == []


def test_a_removal_without_an_answer_may_have_been_before_one_that_was_answered() -> None:
    """Which expects a version that the record has only once."""
    told = Told()
    told.whole(Put("/k0", b"1"))
    version_id = told.shard.state["/k0"].version.version_id
    unheard, heard = told.asked(Remove("/k0", version_id), by="w1"), told.asked(Remove("/k0"), by="w2")
    told.done(unheard)
    told.given_up(unheard)
    told.whole(Put("/k0", b"2"))
    told.done(heard)
    told.answered(heard)
    assert told.lies() == []


def test_the_end_of_a_session_may_have_been_before_a_removal_that_was_answered() -> None:
    told = Told()
    opened = told.shard.next_tick()
    told.whole(Put("/k0", b"1", session="s"))
    told.shard.end_sessions(["s"])
    told.shard.note_lost("w0", "s", opened)
    lingering = told.asked(Put("/k0", b"2"))
    told.given_up(lingering)
    told.done(lingering)
    told.whole(Remove("/k0"))
    assert told.lies() == []


def test_several_removals_at_one_offset_share_what_they_found() -> None:
    told = Told()
    told.whole(Put("/k0", b"1"), Put("/k1", b"2"), Put("/k2", b"3"))
    told.whole(Remove("/k1"), RemoveRange("/k0", "/k9"))
    assert told.lies() == []


def test_sessions_end_together() -> None:
    told = Told()
    opened = told.shard.next_tick()
    told.whole(Put("/k0", b"1", session="s"), Put("/k1", b"2", session="t"))
    told.whole(Put("/k2", b"3", session="t"))
    told.shard.end_sessions(["s", "t"])
    for each in ("s", "t"):
        told.shard.note_lost("w0", each, opened)
    assert told.lies() == []


def test_what_nobody_can_have_removed_is_a_lie() -> None:
    """Though a removal without an answer would explain either of two."""
    told = Told()
    told.whole(Put("/k0", b"1"))
    unheard = told.asked(Remove("/k0"), by="w1")
    told.done(unheard)
    told.given_up(unheard)
    told.whole(Put("/k0", b"2"))
    nobody = told.asked(Remove("/k0"), by="w2")
    told.done(nobody)
    assert set(told.lies()) == {Lie.INVENTED, Lie.WRONG_SCAN}


def test_who_was_told_that_he_removed_something_did() -> None:
    told = Told()
    told.whole(Put("/k0", b"1"))
    first, second = told.asked(Remove("/k0"), by="w1"), told.asked(Remove("/k0"), by="w2")
    told.done(first)
    told.answered(first)
    told.done(second)
    told.answered(second)
    assert told.lies() == []
    history = told.shard.history()
    writes = [replace(each, answers=(True,)) if each.writer == "w2" else each for each in history.writes]
    assert Lie.LOST_WRITE in names_of(check(replace(history, writes=writes)))


def test_a_session_that_nobody_lost_does_not_end() -> None:
    told = Told()
    told.whole(Put("/k0", b"1", session="s"))
    told.shard.end_sessions(["s"])
    assert set(told.lies()) == {Lie.INVENTED, Lie.WRONG_SCAN}
