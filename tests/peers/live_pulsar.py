"""A real Pulsar whose metadata is in a store of ours: a bookie, a broker that may be killed, and applications.

Maven brings them from where it finds what is released, and compiles the two small programs of `pulsar_live` against
them: `PulsarServer` is Pulsar's own standalone, `PulsarApplications` does what it is told, line by line.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from support.ports import LOOPBACK, free_port

PROJECT = Path(__file__).parent / "pulsar_live"
PACKAGE = "tidemark.peers"
BUILT_WITHIN_S = 600
"""The first build fetches a quarter of a gigabyte."""
ENDED_WITHIN_S = 30.0
LOG_TAIL_CHARACTERS = 4_000
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=256m")

SETTINGS: Mapping[str, object] = {
    "clusterName": "standalone",
    "advertisedAddress": LOOPBACK,
    "bindAddress": LOOPBACK,
    "metadataStoreSessionTimeoutMillis": 6_000,
    "loadBalancerEnabled": "false",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.NoopLoadManager",
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
    "transactionCoordinatorEnabled": "true",
    # One bookie for one broker, both small, on a disk that may be almost full.
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "managedLedgerCacheSizeMB": 16,
    "bookkeeperNumberOfChannelsPerBookie": 1,
    "numIOThreads": 2,
    "numHttpServerThreads": 8,
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage",
    "listeningInterface": socket.if_indextoname(1),  # loopback
    "allowLoopback": "true",
    "journalSyncData": "false",
    "diskUsageThreshold": 0.999,
    "diskUsageWarnThreshold": 0.99,
}
WITH_A_PART = ("--no-functions-worker", "--no-stream-storage")


def built(folder: Path) -> str:
    """The class path of what Maven builds in a folder; skips the test where there is no Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("there is no Maven")
    project = shutil.copytree(PROJECT, folder / "java")  # Maven builds beside the sources
    command = [maven, "--batch-mode", "--quiet", "compile", "dependency:build-classpath"]
    run = subprocess.run(
        command,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILT_WITHIN_S,
        check=False,
    )
    assert run.returncode == 0, f"{run.stdout[-LOG_TAIL_CHARACTERS:]}\n{run.stderr[-LOG_TAIL_CHARACTERS:]}"
    target = project / "target"
    return os.pathsep.join([str(target / "classes"), (target / "classpath").read_text().strip()])


class Program:
    """A process of Java: what it prints are answers, the rest is its log."""

    def __init__(self, classpath: str, name: str, log: Path, memory_mb: int) -> None:
        self._command = [*JAVA, f"-Xmx{memory_mb}m", "-cp", classpath, f"{PACKAGE}.{name}"]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> None:
        """It may have been started before."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._log.parent,
            )

    def ask(self, *words: str) -> None:
        """Gives it a line."""
        assert self._process is not None, "it was started"
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[str]:
        """Waits for its next line."""
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        assert line, f"it ended; its log ends with:\n{self._log.read_text()[-LOG_TAIL_CHARACTERS:]}"
        return line.rstrip("\n").split("\t")

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is None:
            return
        with self._process as process:  # which closes its pipes
            process.kill()
            process.wait(ENDED_WITHIN_S)
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class LivePulsar:
    """A bookie, a broker and applications; all of them keep what they know of each other in the store at a URL."""

    def __init__(self, store: str, classpath: str, folder: Path, settings: Mapping[str, object]) -> None:
        self._store = store
        self._folder = folder
        self._settings = {
            **SETTINGS,
            "metadataStoreUrl": store,
            "configurationMetadataStoreUrl": store,
            "brokerServicePort": free_port(),
            "webServicePort": free_port(),
            **settings,
        }
        self._bookie = Program(classpath, "PulsarServer", folder / "bookie.log", memory_mb=256)
        self._broker = Program(classpath, "PulsarServer", folder / "broker.log", memory_mb=384)
        self._applications = Program(classpath, "PulsarApplications", folder / "applications.log", memory_mb=128)
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for program in (self._bookie, self._broker, self._applications):
                starting.enter_context(program)
            only = ("--no-broker", "--metadata-url", self._store, "--bookkeeper-dir", str(self._folder / "bookie"))
            self._serve(self._bookie, *only)
            self.start_broker()
            service, admin = self._settings["brokerServicePort"], self._settings["webServicePort"]
            self._applications.start(f"pulsar://{LOOPBACK}:{service}", f"http://{LOOPBACK}:{admin}")
            self._running = starting.pop_all()
        return self

    def start_broker(self, **settings: object) -> None:
        """Returns when it serves, with other settings from now on if there are any."""
        self._settings.update(settings)
        self._serve(self._broker, "--only-broker")

    def kill_broker(self) -> None:
        """SIGKILL."""
        self._broker.kill()

    def tell(self, *words: str) -> list[str]:
        """Has the applications do something; what they have to say."""
        self._applications.ask(*words)
        how, *said = self._applications.answer()
        assert how == "ok", f"{words}: {said}"
        return said

    def _serve(self, program: Program, *arguments: str) -> None:
        configuration = self._folder / "pulsar.conf"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        program.start("--config", str(configuration), *WITH_A_PART, *arguments)
        assert program.answer() == ["ready"]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()
