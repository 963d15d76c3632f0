"""The files of a log: their names, the chain that their headers form, and what makes both durable."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from metastore.files import UNFINISHED_SUFFIX, sync_path
from metastore.log.errors import LogDamaged
from metastore.log.format import SEGMENT_HEADER_BYTES, decode_segment_header
from metastore.log.segment import Segment
from metastore.log.window import read_exactly

_NAME = re.compile(r"(\d{20})\.log")


def segment_path(directory: Path, first_offset: int) -> Path:
    """Names sort as offsets do."""
    return directory / f"{first_offset:020d}.log"


def make_directory(directory: Path) -> None:
    """Creates the directory, durably, if it is not there."""
    if not directory.is_dir():
        directory.mkdir()
        sync_path(directory.parent)


def list_directory(directory: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """The segments in order, what a dying process left unfinished, and whatever else is there."""
    segments: list[Path] = []
    unfinished: list[Path] = []
    foreign: list[Path] = []
    for path in sorted(directory.iterdir()):
        if not path.is_file():
            foreign.append(path)
        elif _NAME.fullmatch(path.name):
            segments.append(path)
        elif _NAME.fullmatch(path.name.removesuffix(UNFINISHED_SUFFIX)):
            unfinished.append(path)
        else:
            foreign.append(path)
    return segments, unfinished, foreign


def load_segment(path: Path) -> Segment:
    """A segment by its header, which must agree with its name."""
    fd = os.open(path, os.O_RDONLY)
    try:
        data = read_exactly(fd, SEGMENT_HEADER_BYTES, 0)
    finally:
        os.close(fd)
    try:
        header = decode_segment_header(data)
    except ValueError as error:
        raise LogDamaged(path, 0, str(error)) from error
    if path.name != segment_path(path.parent, header.first_offset).name:
        raise LogDamaged(path, 0, f"the name belies the header, which says that it starts at {header.first_offset}")
    return Segment(path, header)


def chain_fault(segment: Segment, successor: Segment) -> LogDamaged | None:
    """What is wrong between two neighbours: each header names its predecessor, and where that one ended."""
    header = successor.header
    if header.previous_first_offset != segment.first_offset or header.previous_end_position == 0:
        return successor.damaged(
            0,
            f"a segment is missing: {header.previous_first_offset} should precede {header.first_offset}, "
            f"but {segment.first_offset} does",
        )
    size = segment.path.stat().st_size
    if size < header.previous_end_position:
        return segment.damaged(size, f"the file is cut short: it had {header.previous_end_position} bytes")
    return None


def load_chain(paths: Sequence[Path]) -> list[Segment]:
    """All segments, found to be one unbroken chain; their frames are judged when they are read."""
    segments = [load_segment(path) for path in paths]
    for segment, successor in pairwise(segments):
        if (fault := chain_fault(segment, successor)) is not None:
            raise fault
    return segments


def cut_spare_space(segments: Sequence[Segment]) -> None:
    """Gives back what older segments had prepared and never used, if a crash came before that was done."""
    for segment, successor in pairwise(segments):
        if segment.path.stat().st_size > successor.header.previous_end_position:
            os.truncate(segment.path, successor.header.previous_end_position)
