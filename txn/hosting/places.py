"""Where the logs of segments are kept, and how a place is told from another.

    stored        records of the store itself: every broker serves it
    local:NAME    a directory of a machine: the brokers that have it open serve it, and no others

A local place is named by a file in the directory, not by its path: a path means something else on each machine, and
the directory may be moved. The name is made once, by whoever comes first.
"""

from __future__ import annotations

import os
from pathlib import Path

from metastore.coordination import Pace
from metastore.files import sync_path
from txn.model.errors import RecordDamaged

STORED = "stored"
LOCAL = "local"
LOCATION = "LOCATION"
"""The file with the name of a directory."""
NAME_MAX = 100


def local_place(name: str) -> str:
    """The place that is the directory of that name."""
    return f"{LOCAL}:{name}"


def local_place_of(root: Path, pace: Pace) -> str:
    """The place that a directory is; it gets a name if it has none. Several processes may ask at the same time."""
    path = root / LOCATION
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        _name_once(path, pace.new_mark())
    name = path.read_text(encoding="ascii").strip()
    if not name.isalnum() or len(name) > NAME_MAX:
        raise RecordDamaged(f"{path} is to hold the name of the directory, and says {name[:NAME_MAX]!r}")
    return local_place(name)


def _name_once(path: Path, name: str) -> None:
    """Writes the file, durably, unless somebody else has; never a part of it."""
    new = path.with_name(f"{LOCATION}.{name}")
    with new.open("x", encoding="ascii") as file:
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(new, path)
    except FileExistsError:
        pass  # whoever came first has named it
    finally:
        new.unlink()
    sync_path(path.parent)
