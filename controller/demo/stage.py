"""Where the story happens: a store and a broker, processes of their own; and `tidemark standalone`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from metastore.stagecraft import COMMAND_LINE, LOOPBACK, Program, free_port

COMMAND_WITHIN_S = 30.0


class Stage:
    """One store, one broker."""

    def __init__(self, folder: Path) -> None:
        store, broker = free_port(), free_port()
        self.store_url = f"oxia://{LOOPBACK}:{store}"
        self.url = f"tidemark://{LOOPBACK}:{broker}"
        self._store = Program(
            "metadata service",
            [
                *("metastore", "--public-addr", f"{LOOPBACK}:{store}", "--metrics-addr", f"{LOOPBACK}:0"),
                *("--data-dir", str(folder / "store")),
            ],
        )
        self.broker = Program(
            "broker",
            [
                *("broker", "--store", self.store_url, "--listen", f"{LOOPBACK}:{broker}", "--metrics-port", "0"),
                *("--data-dir", str(folder / "segments"), "--session-timeout-ms", "2000"),
            ],
        )

    def __enter__(self) -> Stage:
        try:
            self._store.start()
            self.broker.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()
        self._store.kill()

    def run(self, *arguments: str) -> str:
        """What a command of `tidemark txn` prints."""
        command = [*COMMAND_LINE, "txn", "--store", self.store_url, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=True)
        return ended.stdout


class Everything(Program):
    """`tidemark standalone`, as long as the block lasts."""

    def __init__(self, folder: Path, *options: str) -> None:
        address, any_port = f"{LOOPBACK}:{free_port()}", f"{LOOPBACK}:0"
        self.url = f"tidemark://{address}"
        places = ("--listen", address, "--admin", any_port, "--metadata", any_port)
        ports = ("--metrics-port", "0", "--metadata-metrics-port", "0")
        data = ("--data-dir", str(folder / "standalone"))
        super().__init__("standalone", ("standalone", *places, *ports, *data, *options))

    def __enter__(self) -> Everything:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
