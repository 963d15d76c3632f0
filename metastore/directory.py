"""The data directory: who owns it, and which shards it holds.

It is the same for a server and for a program with the engine in its own process, so that each can open what the other
one has written.

    tidemark.json        format, the directory's identity, and each namespace with its shards and its order of keys
    LOCK                 held by the process that serves the directory
    shards/0000/log/     the shard's log
    shards/0000/index/   its LMDB environment

The manifest is what clients' routing and every key on disk depend on, so what it says is not changed by a flag:
another number of shards or another order of keys is refused, with the way out.
"""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastore.files import lock_file, replace_file

FORMAT = 1
MANIFEST = "tidemark.json"
LOCK = "LOCK"
DEFAULT_NAMESPACE = "default"
SHARDS_MAX = 1024
KEY_SORTINGS = ("hierarchical", "natural")

_NAMESPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_IDENTITY_BITS = 128
_IDENTITY = re.compile(r"[0-9a-f]{32}")


class DirectoryError(Exception):
    """A data directory that cannot be served; the text says why, and what to do."""


class DirectoryInUse(DirectoryError):
    """Another process serves the data directory."""


class DirectoryOfOtherShape(DirectoryError):
    """A namespace has another number of shards, or another order of keys, than it was asked for with."""

    def __init__(self, message: str, known: Namespace) -> None:
        super().__init__(message)
        self.known = known


def is_namespace_name(name: str) -> bool:
    """Whether a namespace may be called so."""
    return bool(_NAMESPACE_NAME.fullmatch(name)) and ".." not in name


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """A namespace as it is asked for."""

    name: str = DEFAULT_NAMESPACE
    shards: int = 1
    key_sorting: str = "hierarchical"
    notifications: bool = True

    def check(self) -> None:
        """Refuses what cannot be: ValueError."""
        if not is_namespace_name(self.name):
            raise ValueError(f"namespace {self.name!r}: letters, digits and _.- are allowed")
        if not 1 <= self.shards <= SHARDS_MAX:
            raise ValueError(f"shards of namespace {self.name} must be between 1 and {SHARDS_MAX}, got {self.shards}")
        if self.key_sorting not in KEY_SORTINGS:
            allowed = ", ".join(KEY_SORTINGS)
            raise ValueError(f"key_sorting of namespace {self.name} must be one of {allowed}, got {self.key_sorting!r}")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as it is configured, and the shards that it got."""

    name: str
    first_shard: int
    shards: int
    key_sorting: str
    notifications_enabled: bool

    @property
    def shard_ids(self) -> range:
        """Its shards; ids are unique over all namespaces."""
        return range(self.first_shard, self.first_shard + self.shards)


class DataDirectory:
    """A data directory, locked for this process."""

    def __init__(self, path: Path, randomness: random.Random | None = None) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = lock_file(path / LOCK)
        except BlockingIOError as error:
            raise DirectoryInUse(f"the data directory {path} is in use by another process") from error
        except OSError as error:
            raise DirectoryError(f"the data directory {path} cannot be used: {error.strerror}") from error
        self.identity = f"{(randomness or random.SystemRandom()).getrandbits(_IDENTITY_BITS):032x}"
        """By which a directory is told from another one that came in its place."""
        self._is_identified = False
        try:
            self._namespaces = self._read()
        except BaseException:
            os.close(self._lock)
            raise

    def namespace(self, name: str) -> Namespace | None:
        """A namespace that the directory has already."""
        return next((each for each in self._namespaces if each.name == name), None)

    def namespaces(self, wanted: tuple[NamespaceConfig, ...]) -> list[Namespace]:
        """The namespaces to serve; new ones get their shards, known ones keep theirs."""
        known = {each.name: each for each in self._namespaces}
        for config in wanted:
            if config.name in known:
                known[config.name] = _same_shape(self.path, known[config.name], config)
            else:
                first = sum(each.shards for each in known.values())
                known[config.name] = Namespace(
                    config.name, first, config.shards, config.key_sorting, config.notifications
                )
        shaped = list(known.values())
        if shaped != self._namespaces or not self._is_identified:
            self._write(shaped)
            self._namespaces, self._is_identified = shaped, True
        return shaped

    def _read(self) -> list[Namespace]:
        identity, namespaces = read_manifest(self.path)
        if identity is not None:
            self.identity, self._is_identified = identity, True
        return namespaces

    def _write(self, namespaces: list[Namespace]) -> None:
        keys = ("name", "first_shard", "shards", "key_sorting", "notifications_enabled")
        content = {
            "format": FORMAT,
            "identity": self.identity,
            "namespaces": [{key: getattr(each, key) for key in keys} for each in namespaces],
        }
        replace_file(self.path / MANIFEST, json.dumps(content, indent=2).encode())

    def close(self) -> None:
        """Lets another process have the directory."""
        os.close(self._lock)


def read_manifest(path: Path) -> tuple[str | None, list[Namespace]]:
    """What a data directory says of itself: its identity, if it has one, and its namespaces. It need not be ours."""
    manifest = path / MANIFEST
    identity: str | None = None
    if not manifest.exists():
        if (path / "shards").exists():
            raise DirectoryError(f"{path} is damaged: it has shards but no {MANIFEST}")
        return None, []
    try:
        content: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
        if content["format"] > FORMAT:
            raise DirectoryError(
                f"{path} has format {content['format']}, and this version reads up to {FORMAT}: "
                "use the version that wrote it, or a newer one"
            )
        if "identity" in content:  # the first directories had none
            identity = _checked_identity(content["identity"])
        namespaces = [_checked(Namespace(**each)) for each in content["namespaces"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DirectoryError(f"{path} is damaged: {MANIFEST} cannot be read: {error!r}") from error
    first = 0
    for each in namespaces:
        if each.first_shard != first:
            raise DirectoryError(f"{path} is damaged: {MANIFEST} gives shard {first} to nobody")
        first += each.shards
    return identity, namespaces


def shard_directory(path: Path, shard_id: int) -> Path:
    """Where a shard keeps its data."""
    return path / "shards" / f"{shard_id:04d}"


def _checked(namespace: Namespace) -> Namespace:
    """A namespace of the manifest, if it can be one."""
    config = NamespaceConfig(namespace.name, namespace.shards, namespace.key_sorting, namespace.notifications_enabled)
    for value, kind in ((config.shards, int), (namespace.first_shard, int), (config.notifications, bool)):
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not of type {kind.__name__}")
    config.check()
    return namespace


def _checked_identity(identity: str) -> str:
    if not _IDENTITY.fullmatch(identity):
        raise ValueError(f"{identity!r} is no identity")
    return identity


def _same_shape(path: Path, known: Namespace, config: NamespaceConfig) -> Namespace:
    if config.shards != known.shards:
        raise DirectoryOfOtherShape(
            f"namespace {known.name} in {path} has {known.shards} shards, not {config.shards}: keys are placed by "
            f"the number of shards. Ask for {known.shards} shards, or copy the data with a client into a "
            "new data directory",
            known,
        )
    if config.key_sorting != known.key_sorting:
        raise DirectoryOfOtherShape(
            f"namespace {known.name} in {path} is sorted {known.key_sorting}, not {config.key_sorting}: every key "
            f"on disk is stored in this order. Ask for the order {known.key_sorting}, or copy the data with a "
            "client into a new data directory",
            known,
        )
    return Namespace(known.name, known.first_shard, known.shards, known.key_sorting, config.notifications)
