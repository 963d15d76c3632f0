"""The files of a ledger: an addition is there as a whole or not at all, wherever it was cut off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txn.audit.ledger import LedgerBusy
from txn.audit.ledger.folder import Folder, LedgerClosed

DAY = "day=2026-01-01"


class Cut(BaseException):
    """The end of a process."""


def draft(folder: Folder, *names: str) -> None:
    """Files to add."""
    place = folder.draft() / "headers" / DAY
    place.mkdir(parents=True)
    for name in names:
        (place / name).write_text(name)
    (place / ".crc").write_text("not of the ledger")
    (place.parent / "_SUCCESS").write_text("")


def names(folder: Folder) -> list[str]:
    """What there is."""
    return [file.name for file in folder.files("headers")]


def calls_of(path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: int | None) -> int:
    """Adds two files in place of two, cut off before a call that changes files; how many such calls there were."""
    folder, count = Folder(path), 0
    with folder.writing():
        draft(folder, "a.parquet", "b.parquet")
        folder.add("batch-1")
    real = {name: getattr(Path, name) for name in ("replace", "rename", "unlink", "rmdir")}

    def counted(name: str) -> object:
        def call(self: Path, *arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == cut_at:
                raise Cut
            return real[name](self, *arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for name in real:
            patch.setattr(Path, name, counted(name))
        try:
            with folder.writing():
                draft(folder, "c.parquet", "d.parquet")
                folder.add("batch-2", folder.files("headers"))
        except Cut:
            pass
    return count


@pytest.mark.parametrize("comes_next", ["writer", "reader"])
def test_whatever_it_is_cut_off_at_whoever_comes_next_finds_all_of_it_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_next: str
) -> None:
    calls = calls_of(tmp_path / "whole", monkeypatch, None)
    assert calls > 5
    assert names(Folder(tmp_path / "whole")) == ["c.parquet", "d.parquet"]
    outcomes = []
    for cut_at in range(1, calls + 1):
        path = tmp_path / str(cut_at)
        calls_of(path, monkeypatch, cut_at)
        folder = Folder(path)
        with folder.writing() if comes_next == "writer" else folder.reading(["headers"]):
            is_added = folder.has("batch-2")
            assert names(folder) == (["c.parquet", "d.parquet"] if is_added else ["a.parquet", "b.parquet"])
            assert folder.has("batch-1") or is_added
        outcomes.append(is_added)
    assert outcomes == sorted(outcomes)
    assert {True, False} == set(outcomes)


def test_where_nothing_can_be_written_one_sentence_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    folder = Folder(tmp_path / "file" / "ledger")
    with pytest.raises(LedgerClosed, match=r"cannot be written to: Not a directory$"), folder.reading(["headers"]):
        pass


def test_one_writes_at_a_time_and_what_is_read_is_not_taken_away(tmp_path: Path) -> None:
    folder, other = Folder(tmp_path), Folder(tmp_path)
    with folder.writing():
        with pytest.raises(LedgerBusy, match="another process adds"), other.writing():
            pass
        with other.reading([]), other.reading([]), folder.unread() as is_unread:
            assert not is_unread
        with folder.unread() as is_unread:
            assert is_unread
    with other.writing():
        assert os.listdir(tmp_path) == ["_additions"]
