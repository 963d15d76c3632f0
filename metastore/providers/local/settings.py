"""What a URL says: `lmdb:///var/lib/x?shards=4`, or `lmdb://./beside` for a relative path. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from metastore.directory import DEFAULT_NAMESPACE, Namespace, NamespaceConfig
from metastore.engine.shard import ShardOptions
from metastore.interface import InvalidUrl, StoreUrl
from metastore.log import LogOptions
from metastore.quantities import parse_duration_ms, parse_size_bytes

OPTIONS = ("namespace", "shards", "key_sorting", "sync", "retention", "quota")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a URL says. What it leaves out is as the directory has it, or the default of a new one."""

    path: Path
    namespace: str
    shards: int | None
    key_sorting: str | None
    options: ShardOptions

    @classmethod
    def of(cls, url: StoreUrl) -> Settings:
        """Raises InvalidUrl."""
        url.check_options(OPTIONS)
        shards = _option(url, "shards", _count, None)
        options = ShardOptions(
            retention_ms=_option(url, "retention", parse_duration_ms, ShardOptions().retention_ms),
            quota_bytes=_option(url, "quota", _quota, None),
            log=LogOptions(sync=_option(url, "sync", _flag, True)),
        )
        namespace, key_sorting = url.options.get("namespace", DEFAULT_NAMESPACE), url.options.get("key_sorting")
        settings = cls(_path(url), namespace, shards, key_sorting, options)
        with _refusing(url):
            settings.shape(None).check()
        return settings

    def shape(self, known: Namespace | None) -> NamespaceConfig:
        """The namespace that is asked for, where the directory has this one, or none."""
        default = NamespaceConfig(self.namespace)
        if known is not None:
            default = NamespaceConfig(known.name, known.shards, known.key_sorting, known.notifications_enabled)
        shards = default.shards if self.shards is None else self.shards
        return NamespaceConfig(self.namespace, shards, self.key_sorting or default.key_sorting, default.notifications)


def _path(url: StoreUrl) -> Path:
    if url.port is not None or url.more_servers or url.host not in ("", ".", ".."):
        raise InvalidUrl(
            f"{url.text!r} names a host, and lmdb:// is a directory of this machine: write lmdb:///absolute/path, "
            "lmdb://./relative/path or lmdb://../relative/path"
        )
    if not url.path.strip("/") or "\0" in url.path:
        raise InvalidUrl(f"{url.text!r} names no directory: write lmdb:///absolute/path or lmdb://./relative/path")
    return Path(url.host + url.path)


def _option(url: StoreUrl, name: str, parse: Callable[[str], T], default: T) -> T:
    if name not in url.options:
        return default
    with _refusing(url):
        return parse(url.options[name])


@contextmanager
def _refusing(url: StoreUrl) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InvalidUrl(f"{url.text!r}: {error}") from error


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no number of shards")
    return int(text)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"sync must be true or false, got {text!r}")
    return text == "true"


def _quota(text: str) -> int:
    size_bytes = parse_size_bytes(text)
    if not size_bytes:
        raise ValueError("the quota must be positive")
    return size_bytes
