"""Looks at the store, as nobody else can: at every topic's record the moment it changes, and at what is left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import unquote

from controller.layout import HashRange, TopicName
from controller.topics import paths
from metastore.interface import ALL, Environment
from metastore.providers.memory import MemoryStore
from metastore.providers.memory.shard import Stored
from support.commits import listen_to_commits
from support.world import World
from topics_simulation.topic_notes import Gone, Part, Shape, TopicNotes
from txn.model import paths as txn_paths
from txn_histories.recorder import Recorder

TRANSIENT = tuple(f"{each}/" for each in (txn_paths.HEADERS, txn_paths.OPERATIONS, txn_paths.APPLIED))
"""Below these paths nothing is left when nothing goes on any more."""


class Observer:
    """Notes the layouts of topics."""

    def __init__(self, world: World, recorder: Recorder, notes: TopicNotes, *, has_transact: bool) -> None:
        self._is_whole = has_transact
        self._world = world
        self._recorder = recorder
        self._notes = notes
        self._operations: dict[str, str] = {}
        """By key: the mark of the operation that is written down."""
        self._done: set[str] = set()
        """Marks of operations whose records were removed."""
        listen_to_commits(world.data, self._hear)

    def _hear(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key.endswith("/operation"):
                self._hear_operation(key)
            if key.endswith("/controller") and self._find(key) is not None:
                self._notes.counts["leaders"] += 1
            if paths.is_topic_key(key):
                topic = paths.topic_of_key(key)
                found = self._find(key)
                tick = self._recorder.tick()
                if found is None or not found.value:
                    self._notes.gone.append(Gone(tick, str(topic)))
                else:
                    self._notes.shapes.append(shape(tick, topic, found.value))

    def _find(self, key: str) -> Stored | None:
        return self._world.data.shard_of(paths.partition(paths.topic_of_key(key))).find(key)

    def _hear_operation(self, key: str) -> None:
        found = self._find(key)
        before = self._operations.pop(key, None)
        if found is not None:
            self._operations[key] = json.loads(found.value or b"{}")["mark"]
        elif before is not None:
            self._done.add(before)

    async def leftovers(self) -> list[str]:
        """The keys of what belongs to no topic, segment or subscription that is there."""
        async with MemoryStore(self._world.data, Environment(self._world.clock)) as store:
            keys = [key async for key in store.list(ALL)]
        return [key for key in keys if self._is_left(key, keys)]

    def _is_left(self, key: str, keys: Sequence[str]) -> bool:
        last = self._last()
        if key.startswith(TRANSIENT):
            return self._is_whole or not self._is_late(key)
        if key.startswith((f"{txn_paths.SEGMENTS}/", f"{txn_paths.OWNERS}/")):
            names = {part.name for each in last.values() for part in each.parts.values()}
            return unquote(key.split("/")[2]) not in names and (self._is_whole or not self._is_late(key))
        if not key.startswith("/topics/"):
            return False
        found = last.get(str(paths.topic_of_key(key)))
        if key.endswith("/operation"):
            return self._is_whole or self._operations[key] not in self._done
        if found is None:
            return True
        parts = key.split("/")
        if len(parts) > 6 and parts[5] == "segments":
            owner = "/".join([*parts[:5], "subscriptions", *parts[8:9]])
            return int(parts[6]) not in found.parts or (len(parts) == 9 and owner not in keys)
        return len(parts) == 9 and "/".join(parts[:7]) not in keys

    def _is_late(self, key: str) -> bool:
        """Without `transact` what was held up on its way may come when that is gone which it belongs to.

        A participant's word of a transaction; entries of a log, which nobody reads whose owner has lost the segment. An
        operation that was done, and is written down once more (`_done`), whoever changes the topic next ends first.
        """
        return key.startswith(f"{txn_paths.APPLIED}/") or (key.startswith(f"{txn_paths.SEGMENTS}/") and "/log/" in key)

    def _last(self) -> dict[str, Shape]:
        gone = {each.topic: each.tick for each in self._notes.gone}
        return {each.topic: each for each in self._notes.shapes if each.tick > gone.get(each.topic, 0)}


def shape(tick: int, topic: TopicName, value: bytes) -> Shape:
    """What a topic's record says, taken as it stands there."""
    fields = json.loads(value)
    parts = {
        int(each["segmentId"]): Part(
            int(each["segmentId"]),
            str(topic.segment(HashRange(each["hashRange"]["start"], each["hashRange"]["end"]), each["segmentId"])),
            each["hashRange"]["start"],
            each["hashRange"]["end"],
            each["state"] == "ACTIVE",
            tuple(each["parentIds"]),
        )
        for each in fields["segments"].values()
    }
    return Shape(tick, str(topic), fields["epoch"], parts)
