"""What znodes hold: records, entries of the change log, the head."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import Range, Version
from metastore.providers.zookeeper.changes import Effect, LogEntry
from metastore.providers.zookeeper.head import Head, Sweep
from metastore.providers.zookeeper.layout import Identity
from metastore.providers.zookeeper.records import Header, Stored

BUDGET = settings(deadline=None, database=None, derandomize=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.integers(0, 1 << 62)
IDENTITY = st.builds(Identity, TEXT, st.none() | TEXT)
VERSION = st.builds(
    Version, NUMBER, NUMBER, NUMBER, NUMBER, st.none() | st.integers(-(1 << 63), (1 << 63) - 1), st.none() | TEXT
)
HEADER = st.builds(Header, IDENTITY, VERSION, st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple))
STORED = st.builds(Stored, HEADER, st.binary(max_size=50))
EFFECT = st.one_of(
    st.builds(Effect, STORED, st.none()),
    st.builds(Effect, st.none() | STORED, HEADER, st.none() | TEXT),
)


@BUDGET
@given(STORED)
def test_a_record_is_read_as_it_was_written(stored: Stored) -> None:
    assert Stored.decode(stored.encode()) == stored


@BUDGET
@given(NUMBER, NUMBER, TEXT, st.lists(EFFECT, max_size=4).map(tuple))
def test_an_entry_is_read_as_it_was_written(
    number: int, time_ms: int, writer: str, effects: tuple[Effect, ...]
) -> None:
    entry = LogEntry(number, time_ms, writer, effects)
    assert LogEntry.decode(entry.encode()) == entry


@BUDGET
@given(NUMBER, NUMBER, NUMBER, NUMBER, st.none() | st.builds(Sweep, st.builds(Range, TEXT, TEXT), st.none() | TEXT))
def test_a_head_is_read_as_it_was_written(
    following: int, version: int, oldest: int, log_bytes: int, sweep: Sweep | None
) -> None:
    head = Head(following, version, oldest, log_bytes, sweep)
    assert Head.decode(head.encode()) == head


def test_a_record_begins_with_a_line_for_people() -> None:
    header = Header(Identity("a\n/é", "p"), Version(3, 1, 10, 20, 7, "me"), (("i", "x"),))
    line, _, value = Stored(header, b"v\nv").encode().partition(b"\n")
    assert line.decode() == (
        '{"key":"a\\n/é","partition":"p","version":3,"modifications":1,"created":10,"modified":20,'
        '"session":7,"identity":"me","indexes":[["i","x"]]}'
    )
    assert value == b"v\nv"
