"""Views: records read as typed columns, by whoever knows what they mean. The contract, and how views are found.

The data source knows keys, values and versions. A package that has records of its own registers a `View` for them as
an entry point of the group `tidemark.spark.views` (name -> a `View`, or a function without arguments that returns one),
and `option("view", NAME)` reads them. A view is used in the processes of Spark: it must be importable there, quick to
import, and free of state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from metastore.interface import ALL, Range
from metastore.spark.errors import WrongOption

if TYPE_CHECKING:
    import pyarrow

    from metastore.spark.records import Records

GROUP = "tidemark.spark.views"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be read: a range of keys, or with an index of its secondary keys."""

    range: Range = ALL
    index: str | None = None
    partition_key: str | None = None
    """All that is wanted lies in this partition, so that one shard need be asked."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What the reader asked for beside the view."""

    key_sorting: str
    """The store's order of keys: `hierarchical` or `natural`."""
    segment: str | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns made of records."""

    columns: Mapping[str, pyarrow.Array[Any]]
    """Those that were asked for, of one length, of exactly the types that the schema says."""
    rows: Any = None
    """Which record each row is of: numbers that ascend, as a numpy array of int64. None: one row for each record. So a
    view leaves out records that are none of its own, or makes several rows of one."""


@dataclass(frozen=True, slots=True)
class View:
    """How records of one kind are found and read."""

    schema: str
    """Its own columns, as DDL (`txn_id STRING, state STRING, created TIMESTAMP`); the source adds `COMMON_SCHEMA`
    behind them and makes all nullable. Times are TIMESTAMP: in Arrow, microseconds in UTC."""
    scopes: Callable[[Selection], Sequence[Scope]]
    """Where the records are. Scopes must not overlap. WrongOption for a selection that the view cannot make; what a
    scope has too much, `decode` leaves out."""
    decode: Callable[[Records, Sequence[str], Selection], Decoded]
    """The columns asked for, which are some of its own, of a batch of records (`metastore.spark.records`). Asked for
    none, it says at least which records are rows. It does not raise for what others may have written: such a record is
    left out, or shown in columns made for that."""
    is_of_keys: bool = False
    """Its scopes are of indexes, and it asks records for nothing but their keys and secondary keys: they need not be
    read, and where they are not, an entry is seen whether it leads to a record or not."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Records that belong to something, together with those of other kinds: to what, their keys say."""

    path: str
    """Their keys are `PATH/NAME`, or ..."""
    levels: int = 1
    """... with 2, `PATH/NAME/ANYTHING`."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where else records of a name may be than among those that one task reads."""

    is_divided: bool
    """Whether there are other shards, on which some may have gone astray."""
    are_home: Callable[[Any], Any]
    """Whether records of names (which are partitions; as Arrow strings) belong on this shard: bools of numpy."""
    bounds: Sequence[str]
    """The names at which this task's records begin and end. Of two names of which one begins with the other, kinds
    differ in which comes first: of a name that is so related to a bound some records may be in another task."""


@dataclass(frozen=True, slots=True)
class JointView:
    """How records of several kinds are read together, name by name, so that what belongs together is in one task.

    Of a name whose records are on several shards, or at the edge of what a task reads, some may come to one task and
    some to another. Who decodes is told what there may be elsewhere.
    """

    schema: str
    """Its columns, as DDL; the source adds `shard` behind them and makes all nullable."""
    kinds: Sequence[Kind]
    decode: Callable[[Sequence[Iterator[Records]], Sequence[str], Surroundings], Iterator[Mapping[str, Any]]]
    """Of the records of each kind, in the order of their keys, the columns asked for: arrays of one length."""
    batch_rows: int
    """So many records of a kind at a time."""


@dataclass(frozen=True, slots=True)
class Views:
    """Several views as one: rows of each, with the columns of all. It is planned once, however many they are."""

    named: Mapping[str, View]


COMMON_COLUMNS = ("shard", "key", "version_id")
COMMON_SCHEMA = "shard INT, key STRING, version_id BIGINT"
JOINT_SCHEMA = "shard INT"
VIEW = "view"
"""The column that says of which view a row is, where several are read."""


def view_named(name: str) -> View:
    """The view of that name, which is read record by record; as changes are, for one."""
    found = _registered(name)
    if not isinstance(found, View):
        raise WrongOption(f"view {name!r} puts records together: it is there for batch reads only, and by itself")
    return found


def any_view_named(name: str) -> View | JointView | Views:
    """The view that is registered under a name, or several with commas between; WrongOption says which there are."""
    names = name.split(",")
    return _registered(name) if len(names) == 1 else Views({each: view_named(each) for each in names})


def _registered(name: str) -> View | JointView:
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted(points)) or "none is installed"
        raise WrongOption(f"view {name!r} is unknown: {known}")
    found = points[name].load()
    view = found if isinstance(found, View | JointView) else found()
    assert isinstance(view, View | JointView), f"the entry point {name!r} of {GROUP} is no view"
    return view


def levels_below(path: str, levels: int, key_sorting: str) -> Range:
    """The range of the keys that are so many levels below a path: of `/a` and 2, `/a/b/c`.

    In the natural order those of other levels lie among them. A level whose name begins with a zero byte is not found.
    """
    assert path
    assert not path.endswith("/"), f"{path!r} is to have no slash at its end"
    assert levels >= 1
    if key_sorting != "hierarchical":
        return Range(f"{path}/", f"{path}0")
    # A key's level is the number of its slashes, so the bounds have as many. A slash sorts behind all else: what
    # follows the keys below `/txn-op` begins with `/txn-oq`.
    following = path[:-1] + chr(ord(path[-1]) + 1)
    return Range(f"{path}/" + "\0/" * (levels - 1), following + "\0/" * levels)
