"""The notes of an epoch that failed: a failure is planted, and found again in what was kept of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from linearizability.history import Progress
from linearizability.operations import Found, Operation
from linearizability.recording import Ground, record
from soak import epochs, notes
from soak.epochs import Epoch, Epochs, UnderWay
from soak.grounds import Considerate
from soak.judging import tell, verdicts
from soak.long_run import stage
from soak.notes import FILES_MAX, Noted, Notes, NotesTooLarge, load, store
from soak.test_soak import SHORT

INVENTED = 9_999
NOTHING = Notes("an epoch", "nothing", None, None, None)


def with_a_lie(history: Sequence[Operation]) -> list[Operation]:
    """Somebody read a version that nobody wrote."""
    place = next(n for n, each in enumerate(history) if isinstance(each.answer, Found))
    found = history[place].answer
    assert isinstance(found, Found)
    lie = replace(history[place], answer=replace(found, version_id=INVENTED))
    return [*history[:place], lie, *history[place + 1 :]]


class Held(UnderWay):
    """What the watches note is that of the run which was under way: one that begins behind it has nothing yet."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "watches" or name not in vars(self):
            super().__setattr__(name, value)


def have_begun(under_way: UnderWay) -> bool:
    """Whether topics and watches have something to note."""
    topics, watches = under_way.topics, under_way.watches
    if topics is None or watches is None:
        return False
    return bool(topics().book.topics.written and watches().history.witness.events)


@pytest.mark.timeout(240)
def test_a_planted_failure_is_found_again_in_the_notes_of_its_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with stage() as (grounds, cluster):
            running = Epochs(grounds, cluster, tmp_path)

            def record_with_a_lie(
                server: Considerate, number: int, progress: Progress, kills: int, ground: Ground
            ) -> list[Operation]:
                history = record(server, number, progress, kills, ground)
                held = Held(**vars(running.under_way))
                if not have_begun(held):
                    return history
                running.under_way = held
                return with_a_lie(history)

            monkeypatch.setattr(epochs, "record", record_with_a_lie)
            await running.run(Epoch(0, is_calm=False, use=SHORT))

    with pytest.raises(ExceptionGroup, match="unhandled errors") as failed:
        asyncio.run(scenario())
    path = tmp_path / "epoch-0-troubled.notes"
    named = f"its notes are in {path}; to judge them again: make soak-judge NOTES={path}"
    assert named in failed.value.__notes__
    assert named in capsys.readouterr().out

    kept = load(path)
    assert "number=0" in kept.of
    assert kept.topics is not None
    assert kept.topics.book.topics.written, "the topics were under way, and what they had noted is there"
    assert kept.watches is not None
    assert kept.watches.history.witness.events
    wrong = verdicts(kept)["records"]
    assert any(str(INVENTED) in each for each in wrong)
    assert "\n".join(wrong) in str(failed.value.exceptions[0]), "the verdict is the one that the epoch failed with"
    assert tell(path) == 1
    assert str(INVENTED) in capsys.readouterr().out


def test_what_was_not_over_is_kept_and_not_judged(tmp_path: Path) -> None:
    cut_off = replace(NOTHING, records=Noted([], is_over=False))
    path = store(cut_off, "epoch-1-calm", tmp_path)
    assert load(path) == cut_off
    assert verdicts(load(path)) == {}
    assert tell(path) == 0


def test_notes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "BYTES_MAX", 50)
    with pytest.raises(NotesTooLarge, match="where 50 are allowed"):
        store(NOTHING, "epoch-1-calm", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_notes_go_when_there_are_too_many(tmp_path: Path) -> None:
    for number in range(FILES_MAX + 2):
        path = store(NOTHING, f"epoch-{number}-calm", tmp_path)
        os.utime(path, ns=(number, number))
    kept = store(NOTHING, "epoch-again-calm", tmp_path)
    left = {each.name for each in tmp_path.iterdir()}
    assert len(left) == FILES_MAX
    assert kept.name in left
    assert not {"epoch-0-calm.notes", "epoch-1-calm.notes", "epoch-2-calm.notes"} & left
