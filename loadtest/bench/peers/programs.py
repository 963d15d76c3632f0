"""How the peers are started: as they come, with durable writes, and what is said where one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadtest.bench.model import BenchError
from loadtest.bench.peers import jute
from loadtest.bench.peers.work import SESSION_TIMEOUT_MS
from loadtest.bench.servers import Program
from loadtest.bench.workload import Probe
from loadtest.pb import etcd_pb2

JAR_VARIABLE = "ZOOKEEPER_JAR"
DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
JAVA = ("java", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
"""As much memory as is usual for a small ensemble, and the collector that Java takes on servers."""
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
ETCD_QUOTA_BYTES = 8 * 1024**3
"""Its greatest recommended one: at the default of 2 GiB a run would end its writes."""
VERSION_LIMIT_S = 30.0
INSTALL = "apt-get install etcd-server libzookeeper-java default-jre-headless"

ETCD_PROBE = Probe("/etcdserverpb.KV/Range", etcd_pb2.RangeRequest(key=b"/bench/probe").SerializeToString())
ZOOKEEPER_PROBE = Probe("", jute.framed(jute.connect_request(SESSION_TIMEOUT_MS)), jute.CONNECTED)
"""A session: to the four letters `ruok` it answers before it serves."""

CONFIGURATION = """\
dataDir={folder}/snapshots
dataLogDir={folder}/log
clientPortAddress={host}
clientPort={port}
tickTime=2000
maxClientCnxns=0
admin.enableServer=false
forceSync=yes
"""


def etcd() -> Program:
    """One member, its log synced, as it comes but for its quota."""

    def command(address: str, peer_address: str, folder: Path) -> list[str]:
        peer = f"http://{peer_address}"
        return [
            "etcd",
            "--name=bench",
            f"--data-dir={folder / 'data'}",
            f"--listen-client-urls=http://{address}",
            f"--advertise-client-urls=http://{address}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=bench={peer}",
            f"--quota-backend-bytes={ETCD_QUOTA_BYTES}",
            "--log-level=error",
        ]

    return Program("etcd", command, ETCD_PROBE)


def zookeeper(jar: Path) -> Program:
    """Standalone, log synced, snapshots and log in folders of their own on the same disk."""

    def command(address: str, _metrics_address: str, folder: Path) -> list[str]:
        host, _, port = address.rpartition(":")
        configuration = folder / "zoo.cfg"
        configuration.write_text(CONFIGURATION.format(folder=folder, host=host, port=port))
        return [*JAVA, "-cp", f"{jar.parent}/*", MAIN_CLASS, str(configuration)]

    return Program("zookeeper", command, ZOOKEEPER_PROBE)


def zookeeper_jar(environment: Mapping[str, str]) -> Path:
    """Where ZooKeeper's jar is, beside those that it needs."""
    return Path(environment.get(JAR_VARIABLE, DEBIAN_JAR))


def missing_peers(environment: Mapping[str, str]) -> list[str]:
    """What is not there of etcd and ZooKeeper."""
    missing = [name for name in ("etcd", "java") if shutil.which(name) is None]
    jar = zookeeper_jar(environment)
    return missing if jar.is_file() else [*missing, str(jar)]


def peers_here(environment: Mapping[str, str] = os.environ) -> tuple[Program, Program]:
    """etcd and ZooKeeper; BenchError says what to install where one is missing."""
    missing = missing_peers(environment)
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}; {INSTALL}, or name the jar in {JAR_VARIABLE}")
    return etcd(), zookeeper(zookeeper_jar(environment))


def peer_versions(environment: Mapping[str, str]) -> dict[str, str]:
    """Versions by name, as the programs tell them, and how Java is run."""
    jar = zookeeper_jar(environment)
    server = ["java", "-cp", f"{jar.parent}/*", "org.apache.zookeeper.version.VersionInfoMain"]
    return {
        "etcd": _told(["etcd", "--version"], "etcd Version:"),
        "zookeeper": _told(server, "Apache ZooKeeper, version").partition(" ")[0],
        "java": _told(["java", "-version"], "openjdk version").partition(" ")[0].strip('"'),
        "java_options": " ".join(JAVA[1:]),
    }


def _told(command: list[str], prefix: str) -> str:
    """What stands behind a prefix in a program's words."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERSION_LIMIT_S)
    lines = (ended.stdout + ended.stderr).splitlines()
    found = (line.removeprefix(prefix).strip() for line in lines if line.startswith(prefix))
    return next(found, "unknown")
