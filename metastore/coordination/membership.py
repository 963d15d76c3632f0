"""Who is registered in a group: a look, or a live view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Self

from metastore.coordination.pace import Pace
from metastore.coordination.stamps import read_holder
from metastore.coordination.view import View
from metastore.interface import InvalidRequest, MetadataStore, Range, Record, children_of
from metastore.interface.checks import check_key, shown


@dataclass(frozen=True, slots=True)
class Member:
    """One that is registered."""

    name: str
    value: bytes
    identity: str
    """The identity of its session."""


@dataclass(frozen=True, slots=True)
class MembersChange:
    """What has changed in a group since the last time."""

    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    changed: tuple[Member, ...]
    """As they are now."""


def member_key(group: str, member: str) -> str:
    """Where a member's record lies, in the partition of the group's name."""
    _check_group(group)
    if not member or "/" in member:
        raise InvalidRequest(f"a member of {shown(group)} is named {shown(member)}: give a name without slashes")
    key = f"{group}/{member}"
    check_key(key, group)
    return key


async def members(store: MetadataStore, group: str) -> dict[str, Member]:
    """Who is registered in a group now, by name."""
    found = {}
    async for record in store.scan(_range_of(store, group), partition_key=group):
        if _is_member(record.key, group):
            member = _member(record, group)
            found[member.name] = member
    return found


def watch_members(store: MetadataStore, group: str, *, pace: Pace | None = None) -> MembersView:
    """`async with watch_members(store, group) as view: async for change in view`: who is there, then every change."""
    view = View(store, _range_of(store, group), partition_key=group, pace=pace or Pace())
    return MembersView(view, group)


class MembersView:
    """An iterator of what changes in a group, and in `members` the group as it then is.

    The first change is everybody there is. One who leaves and comes back while nobody asks may be told as changed, or
    not at all if nothing else is new.
    """

    def __init__(self, view: View, group: str) -> None:
        self._view = view
        self._group = group
        self._has_told = False
        self._members: dict[str, Member] = {}
        self.members: Mapping[str, Member] = MappingProxyType(self._members)
        """Who is registered, by name."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MembersChange:
        """The next change, waited for. Cancelling the wait loses nothing."""
        while True:
            keys = await self._view.news()
            change = self._apply(sorted(keys))
            if change.joined or change.left or change.changed or not self._has_told:
                self._has_told = True
                return change

    def _apply(self, keys: list[str]) -> MembersChange:
        joined, left, changed = [], [], []
        for key in keys:
            if not _is_member(key, self._group):
                continue
            record = self._view.records.get(key)
            before = self._members.get(_name(key, self._group))
            if record is None:
                if before is not None:
                    del self._members[before.name]
                    left.append(before)
                continue
            member = _member(record, self._group)
            self._members[member.name] = member
            if before is None:
                joined.append(member)
            elif before != member:
                changed.append(member)
        return MembersChange(tuple(joined), tuple(left), tuple(changed))

    async def close(self) -> None:
        """Ends the watch behind it."""
        await self._view.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _check_group(group: str) -> None:
    check_key(group)
    if not group or group.endswith("/"):
        raise InvalidRequest(f"a group is named {shown(group)}: give a name that does not end with a slash")


def _range_of(store: MetadataStore, group: str) -> Range:
    """The range that holds the members, whatever else it holds."""
    _check_group(group)
    # In the natural order the children of a path lie among its grandchildren: `0` is the byte behind the slash.
    return children_of(group) if store.key_sorting == "hierarchical" else Range(f"{group}/", f"{group}0")


def _is_member(key: str, group: str) -> bool:
    name = _name(key, group)
    return key == f"{group}/{name}" and bool(name) and "/" not in name


def _name(key: str, group: str) -> str:
    return key.removeprefix(f"{group}/")


def _member(record: Record, group: str) -> Member:
    _, value = read_holder(record)
    return Member(_name(record.key, group), value, record.version.identity or "")
