"""Where the story happens: the service, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from metastore.stagecraft import LOOPBACK, Program, free_port


class Service(Program):
    """`tidemark metastore`, as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        address = f"{LOOPBACK}:{free_port()}"
        self.url = f"oxia://{address}"
        own = ("--public-addr", address, "--metrics-addr", f"{LOOPBACK}:0", "--data-dir", str(folder / "data"))
        super().__init__("metadata service", ("metastore", *own))

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
