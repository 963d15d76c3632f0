"""The options of a read, checked: a wrong one is refused with the names of those that there are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from metastore.interface import Range
from metastore.quantities import parse_duration_ms
from metastore.spark.errors import WrongOption
from metastore.spark.stores.point import Point

BOTH = (
    "store",
    "namespace",
    "key",
    "keyStart",
    "keyEnd",
    "index",
    "indexKey",
    "indexStart",
    "indexEnd",
    "segment",
    "transaction",
    "partitionKey",
    "partitions",
    "batchRows",
)
BATCH = (*BOTH, "view", "point", "hold", "consistent", "asOf")
STREAM_ONLY = ("startingOffsets", "maxRowsPerTrigger")
STREAM = (*BOTH, *STREAM_ONLY)
PARTITIONS_PER_CORE = 2
PARTITIONS_MAX = 10_000
BATCH_ROWS = 5_000
BATCH_ROWS_MAX = 100_000
ROWS_PER_TRIGGER_MAX = 1_000_000_000
AS_OF_MS_MAX = 253_402_300_799_999
"""The last year that has four digits."""
HOLD_MS_MAX = 3_600_000
STARTING_OFFSETS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    store: str
    namespace: str | None
    range: Range
    index: str | None
    partition_key: str | None
    view: str | None
    segment: str | None
    transaction: str | None
    point: Point | None
    hold_ms: int
    is_consistent: bool
    partitions: int
    batch_rows: int
    as_of_ms: int | None
    """What the column `as_of` says."""
    starting_offsets: str
    rows_per_trigger: int | None


def parse(given: Mapping[str, str], known: tuple[str, ...]) -> Options:
    """Reads options; their names may be written in any case."""
    by_name = {name.lower(): name for name in known}
    options = {}
    for name, value in given.items():
        if name.lower() not in by_name:
            raise WrongOption(f"unknown option {name!r}: there are {', '.join(known)}")
        options[by_name[name.lower()]] = value
    if not options.get("store"):
        raise WrongOption(
            'option "store" is missing: the URL of a store, as oxia://host:6648 or lmdb:///var/lib/tidemark'
        )
    if options.get("view") is None and (options.get("segment") or options.get("transaction")):
        raise WrongOption('options "segment" and "transaction" need a view: option "view"')
    index = options.get("index")
    if options.get("view") and (index or any(options.get(name) for name in _RANGES)):
        raise WrongOption(f'a view knows where its records are: leave out "index" and {_quoted(_RANGES)}')
    return Options(
        store=options["store"],
        namespace=options.get("namespace"),
        range=_range(options, index),
        index=index,
        partition_key=options.get("partitionKey"),
        view=options.get("view"),
        segment=options.get("segment"),
        transaction=options.get("transaction"),
        point=Point.parse(options["point"]) if "point" in options else None,
        hold_ms=_duration_ms(options, "hold", "10m"),
        is_consistent=_choice(options, "consistent", ("true", "false")) == "true",
        partitions=_number(options, "partitions", PARTITIONS_PER_CORE * (os.cpu_count() or 1), PARTITIONS_MAX),
        batch_rows=_number(options, "batchRows", BATCH_ROWS, BATCH_ROWS_MAX),
        as_of_ms=_number(options, "asOf", 0, AS_OF_MS_MAX) if "asOf" in options else None,
        starting_offsets=options.get("startingOffsets", STARTING_OFFSETS[0]),
        rows_per_trigger=_number(options, "maxRowsPerTrigger", 0, ROWS_PER_TRIGGER_MAX) or None,
    )


_RANGES = ("key", "keyStart", "keyEnd", "indexKey", "indexStart", "indexEnd")


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _range(options: Mapping[str, str], index: str | None) -> Range:
    one, start, end = ("key", "keyStart", "keyEnd") if index is None else ("indexKey", "indexStart", "indexEnd")
    for name in _RANGES:
        if name in options and name not in (one, start, end):
            what = 'goes with an index: give option "index"' if index is None else "is a key, and an index is read"
            raise WrongOption(f'option "{name}" {what}')
    if one not in options:
        return Range(options.get(start, ""), options.get(end, ""))
    if start in options or end in options:
        raise WrongOption(f'option "{one}" is all that is read: leave out "{start}" and "{end}"')
    return Range(options[one], options[one] + "\0")


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise WrongOption(f'option "{name}" is {text!r}: a number from 1 to {most}')
    return int(text)


def _duration_ms(options: Mapping[str, str], name: str, default: str) -> int:
    text = options.get(name, default)
    try:
        found = parse_duration_ms(text)
    except ValueError as error:
        raise WrongOption(f'option "{name}": {error}') from None
    if not 1000 <= found <= HOLD_MS_MAX:
        raise WrongOption(f'option "{name}" is {text!r}: from 1s to 1h')
    return found


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = options.get(name, choices[0]).lower()
    if text not in choices:
        raise WrongOption(f'option "{name}" is {text!r}: {" or ".join(choices)}')
    return text
