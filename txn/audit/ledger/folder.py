"""The files of a ledger. Whatever is added is written aside first, and then is there as a whole, or not at all.

A draft is a folder with the files as they are to lie in the ledger, and the names of those that they replace. It is
renamed to its name, which decides: from then on it is an addition, and its files are moved to their places, now or by
whoever comes next, before he looks at what there is. What remains of it, an empty folder of that name, says that it was
added.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from metastore.commandline import CommandError
from metastore.files import sync_path

DAY = "day"
ADDITIONS = "_additions"
DRAFT = "draft"
REPLACED = "replaced.json"
WRITER, READERS, PLACES = "writer.lock", "readers.lock", "places.lock"


class LedgerBusy(CommandError):
    """Somebody else adds to the ledger."""


class LedgerClosed(CommandError):
    """The ledger's folder, or its file system, is not to be written to."""


class Folder:
    """One ledger's files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._additions = self.path / ADDITIONS

    # -- what there is

    def days(self, view: str) -> list[Path]:
        """The folders of days that have rows of a view."""
        return sorted((self.path / view).glob(f"{DAY}=*"))

    def files(self, view: str) -> list[Path]:
        """The files that have rows of a view."""
        return [file for day in self.days(view) for file in files_in(day)]

    # -- who may do what

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Only one at a time adds; LedgerBusy if somebody else does."""
        with self._locked(WRITER, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_mine:
            if not is_mine:
                raise LedgerBusy(f"another process adds to the ledger {self.path}: wait for its end, or end it")
            with self._in_place():
                pass
            yield

    @contextmanager
    def reading(self, views: Iterable[str]) -> Iterator[Mapping[str, Sequence[Path]]]:
        """The files of views at one moment. None is taken away meanwhile; what is being put together is waited for."""
        with self._locked(READERS, fcntl.LOCK_SH):
            with self._in_place():
                files = {view: self.files(view) for view in views}
            yield files

    @contextmanager
    def unread(self) -> Iterator[bool]:
        """Whether nobody reads, and then nobody begins to meanwhile."""
        with self._locked(READERS, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_mine:
            yield is_mine

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """All of each addition is in its place, and nothing is moved meanwhile. No other lock is waited for here."""
        with self._locked(PLACES, fcntl.LOCK_EX):
            for addition in self._additions.glob("*-*"):
                self._place(addition)
            yield

    @contextmanager
    def _locked(self, name: str, kind: int) -> Iterator[bool]:
        try:
            self._additions.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._additions / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            # Whoever only reads it takes a lock too, which is a file that is written to.
            raise LedgerClosed(f"the ledger {self.path} cannot be written to: {error.strerror}") from error
        try:
            try:
                fcntl.flock(descriptor, kind)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    # -- adding

    def draft(self) -> Path:
        """An empty folder to write files into, below the names that they are to have in the ledger."""
        draft = self._additions / DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        return draft

    def add(self, name: str, replaced: Sequence[Path] = ()) -> None:
        """Adds the draft, under a name `KIND-NUMBER`, instead of some files.

        The name is remembered until the next one of its kind is added.
        """
        kind, _, number = name.rpartition("-")
        assert kind
        assert number
        draft, addition = self._additions / DRAFT, self._additions / name
        (draft / REPLACED).write_text(json.dumps([str(file.relative_to(self.path)) for file in replaced]))
        for file in draft.rglob("*"):
            sync_path(file)
        sync_path(draft)
        with self._in_place():
            draft.rename(addition)
            sync_path(self._additions)
            self._place(addition)
        for other in self._additions.glob(f"{kind}-*"):
            if other != addition:
                other.rmdir()

    def has(self, name: str) -> bool:
        """Whether it was the last one of its kind that was added."""
        return (self._additions / name).exists()

    def _place(self, addition: Path) -> None:
        """Moves what is in an addition to its place; what was moved before is there already."""
        folders: set[Path] = set()
        for file in sorted(addition.rglob("[!._]*.*")):
            if file.is_file() and file.name != REPLACED:
                place = self.path / file.relative_to(addition)
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)
                folders.update(folder for folder in place.parents if folder.is_relative_to(self.path))
        for folder in folders:
            sync_path(folder)
        replaced = addition / REPLACED
        if replaced.exists():
            files = [self.path / name for name in json.loads(replaced.read_text())]
            for file in files:
                file.unlink(missing_ok=True)
            for folder in {file.parent for file in files}:
                sync_path(folder)
            replaced.unlink()
        for left in addition.iterdir():
            shutil.rmtree(left)

    def remove_day(self, day: Path) -> None:
        """Removes all that there is of a view and a day."""
        shutil.rmtree(day)


def files_in(folder: Path) -> list[Path]:
    """The files of Parquet in a folder."""
    return sorted(folder.glob("*.parquet"))
