"""The data directory: who owns it, and which shards it holds.

    tidemark.json        format, and each namespace with its shards and its order of keys
    LOCK                 held by the process that serves the directory
    shards/0000/log/     the shard's log
    shards/0000/index/   its LMDB environment

The manifest is what clients' routing and every key on disk depend on, so what it says is not changed by a flag:
another number of shards or another order of keys is refused, with the way out.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from metastore.server.config import ConfigError, NamespaceConfig
from metastore.server.host import Namespace

FORMAT = 1
MANIFEST = "tidemark.json"
LOCK = "LOCK"


class DirectoryError(Exception):
    """A data directory that cannot be served; the text says why, and what to do."""


class DataDirectory:
    """A data directory, locked for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryError(f"the data directory {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DirectoryError(f"the data directory {path} is in use by another process") from error

    def namespaces(self, wanted: tuple[NamespaceConfig, ...]) -> list[Namespace]:
        """The namespaces to serve; new ones get their shards, known ones keep theirs."""
        known = {each.name: each for each in self._read()}
        for config in wanted:
            if config.name in known:
                known[config.name] = _same_shape(self.path, known[config.name], config)
            else:
                first = sum(each.shards for each in known.values())
                known[config.name] = Namespace(
                    config.name, first, config.shards, config.key_sorting, config.notifications
                )
        namespaces = list(known.values())
        self._write(namespaces)
        return namespaces

    def _read(self) -> list[Namespace]:
        manifest = self.path / MANIFEST
        if not manifest.exists():
            if (self.path / "shards").exists():
                raise DirectoryError(f"{self.path} is damaged: it has shards but no {MANIFEST}")
            return []
        try:
            content: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
            if content["format"] > FORMAT:
                raise DirectoryError(
                    f"{self.path} has format {content['format']}, and this version reads up to {FORMAT}: "
                    "use the version that wrote it, or a newer one"
                )
            namespaces = [_checked(Namespace(**each)) for each in content["namespaces"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DirectoryError(f"{self.path} is damaged: {MANIFEST} cannot be read: {error!r}") from error
        first = 0
        for each in namespaces:
            if each.first_shard != first:
                raise DirectoryError(f"{self.path} is damaged: {MANIFEST} gives shard {first} to nobody")
            first += each.shards
        return namespaces

    def _write(self, namespaces: list[Namespace]) -> None:
        keys = ("name", "first_shard", "shards", "key_sorting", "notifications_enabled")
        content = {
            "format": FORMAT,
            "namespaces": [{key: getattr(each, key) for key in keys} for each in namespaces],
        }
        temporary = self.path / (MANIFEST + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / MANIFEST)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Lets another process have the directory."""
        os.close(self._lock)


def shard_directory(path: Path, shard_id: int) -> Path:
    """Where a shard keeps its data."""
    return path / "shards" / f"{shard_id:04d}"


def _checked(namespace: Namespace) -> Namespace:
    """A namespace of the manifest, if it can be one."""
    config = NamespaceConfig(
        namespace.name, namespace.shards, namespace.key_sorting, namespace.notifications_enabled
    )
    for value, kind in ((config.shards, int), (namespace.first_shard, int), (config.notifications, bool)):
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not of type {kind.__name__}")
    try:
        config.check()
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return namespace


def _same_shape(path: Path, known: Namespace, config: NamespaceConfig) -> Namespace:
    if config.shards != known.shards:
        raise DirectoryError(
            f"namespace {known.name} in {path} has {known.shards} shards, not {config.shards}: keys are placed by "
            f"the number of shards. Start with --shards {known.shards}, or copy the data with a client into a "
            "new data directory"
        )
    if config.key_sorting != known.key_sorting:
        raise DirectoryError(
            f"namespace {known.name} in {path} is sorted {known.key_sorting}, not {config.key_sorting}: every key "
            f"on disk is stored in this order. Start with --key-sorting {known.key_sorting}, or copy the data "
            "with a client into a new data directory"
        )
    return Namespace(
        known.name, known.first_shard, known.shards, known.key_sorting, config.notifications
    )
