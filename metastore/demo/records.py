"""Records: what they are, how the store numbers and indexes them, and how they go with a session."""

from __future__ import annotations

from pathlib import Path

from metastore.interface import BlockingStore, Comparison, UnexpectedVersion, children_of
from metastore.stagecraft import begin_chapter, say


def show_records(store: BlockingStore) -> None:
    """Versions, conditions, and the order of keys."""
    begin_chapter("Records, with versions")
    first = store.put("/config/colour", b"blue").version
    second = store.put("/config/colour", b"green", expected=first.version_id).version
    say(f"put /config/colour twice: version {first.version_id}, then {second.version_id}")
    try:
        store.put("/config/colour", b"red", expected=first.version_id)
    except UnexpectedVersion as error:
        say(f"a third put that expects the first version is refused: {error}")
    record = store.get("/config/colour")
    assert record is not None
    say(f"get /config/colour: {record.value!r}, overwritten {record.version.modifications} time")
    for key in ("/config", "/config/size", "/config/size/default"):
        store.put(key, b"x")
    say(f"the children of /config, and nothing below them: {list(store.list(children_of('/config')))}")


def show_sequences_and_indexes(store: BlockingStore) -> None:
    """Keys that the store makes, and a second order."""
    begin_chapter("Keys numbered by the store, and a secondary index")
    for name in ("sweep", "wash", "cook"):
        job = store.put(
            "/jobs/job", name.encode(), partition_key="jobs", sequence_deltas=[1], indexes=[("by-name", name)]
        )
        say(f"put {name!r} as {job.key}")
    found = store.get("s", index="by-name", comparison=Comparison.CEILING)
    assert found is not None
    say(f"the first name from 's' on, by index: {found.secondary_key!r} -> {found.key}")
    say(f"all of them by name: {[record.value for record in store.scan(index='by-name')]}")


def show_a_session(store: BlockingStore) -> None:
    """Ephemeral records."""
    begin_chapter("A session, and a record that goes with it")
    with store.open_session(5_000, identity="worker-7") as session:
        store.put("/workers/7", b"here", session=session)
        record = store.get("/workers/7")
        assert record is not None
        say(f"/workers/7 is there, and {record.version.identity} put it")
    say(f"the session is closed, and the children of /workers are {list(store.list(children_of('/workers')))}")


def show_it_embedded(folder: Path) -> None:
    """The same contract without a service."""
    begin_chapter("The same store embedded: another URL, and nothing to start")
    with BlockingStore.open(f"lmdb://{folder}/embedded") as store:
        say(f"put /here in this process: version {store.put('/here', b'and now').version.version_id}")
