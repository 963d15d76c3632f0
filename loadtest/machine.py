"""Describes where a run took place: machine, file system, and the versions of what was measured."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path

import lmdb

MEBIBYTE = 1024 * 1024
DIGEST_CHARACTERS = 12
DISTRIBUTIONS = ("tidemark", "grpcio", "protobuf", "lmdb")
VOLATILE_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


def describe_machine(directory: Path) -> dict[str, str | int | float]:
    """Processor, cores, memory, kernel, file system, and the load it had at the start."""
    return {
        "processor": processor_name(Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MEBIBYTE,
        "kernel": platform.release(),
        "file_system": file_system_of(directory, Path("/proc/mounts").read_text()),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def describe_versions(oxia_binary: Path | None) -> dict[str, str]:
    """Versions by name. An Oxia binary tells no version of itself, so its digest stands for it."""
    versions = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        versions[name] = _version_of(name)
    versions["liblmdb"] = ".".join(map(str, lmdb.version()))
    if oxia_binary is not None:
        with oxia_binary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        versions["oxia"] = f"sha256:{digest[:DIGEST_CHARACTERS]}"
    return versions


def processor_name(cpuinfo: str) -> str:
    """The model name of the first processor, or the architecture's where the kernel tells none."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def file_system_of(directory: Path, mounts: str) -> str:
    """The type of the file system that holds a directory: that of the longest mount point above it."""
    resolved = directory.resolve()
    best = (Path("/"), "unknown")
    for line in mounts.splitlines():
        _device, point, kind, *_ = line.split()
        mount = Path(point.replace("\\040", " "))
        if resolved.is_relative_to(mount) and len(mount.parts) >= len(best[0].parts):
            best = (mount, kind)
    return best[1]


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
