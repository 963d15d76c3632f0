"""The metadata service as a child process: started, started again when it has died, and ended.

It says on its standard output where it serves, or why it cannot; and it ends when its standard input does, which is
held open by nobody but this process. Its address stays the same when it is started again, so that clients find it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process

from controller.standalone.config import StandaloneConfig
from controller.standalone.relaying import LINE_BYTES_MAX, relay
from metastore.coordination import Backoff, Pace

START_WITHIN_S = 60.0
STOP_WITHIN_S = 10.0
"""Then it is killed, which loses nothing."""
READY = "ready"
QUIET = {"GRPC_VERBOSITY": "NONE"}
"""What is wrong it says in its own words; gRPC would print others in between."""

logger = logging.getLogger("tidemark.standalone")


class MetadataFailed(Exception):
    """The metadata service cannot start; the text says why."""


class MetadataService:
    """One process after another."""

    def __init__(self, config: StandaloneConfig, inherited: int, pace: Pace) -> None:
        self._config = config
        self._inherited = inherited
        self._pace = pace
        self._process: Process | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.address = config.metadata
        self.metrics_address = config.metadata_metrics
        """HOST:PORT; both with their ports, once it serves."""

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Returns when it serves; from then on it is kept alive. MetadataFailed if it cannot serve."""
        await self._start_once()
        self._keeping = asyncio.create_task(self._keep(), name="metadata service")

    async def stop(self) -> None:
        """Ends it; raises what has kept it from being kept alive."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        await self._end()
        if self._keeping is not None and not self._keeping.cancelled():
            self._keeping.result()

    async def _keep(self) -> None:
        pauses = Backoff(self._pace)
        while True:
            if self._process is not None:
                code = await self._process.wait()
                logger.warning("the metadata service ended with code %d; starting it again", code)
                await self._end()
            await pauses.pause()
            try:
                await self._start_once()
            except MetadataFailed as error:
                logger.warning("%s; trying again", error)
            else:
                logger.info("the metadata service is back on %s", self.address)

    async def _start_once(self) -> None:
        try:
            await self._launch()
            async with asyncio.timeout(START_WITHIN_S):
                said = await self._first_words()
            if not said.startswith(READY + " "):
                raise MetadataFailed(f"the metadata service cannot start: {said or 'its log lines may say why'}")
        except TimeoutError:
            await self._end()
            raise MetadataFailed(f"the metadata service did not start within {START_WITHIN_S:.0f} s") from None
        except OSError as error:
            await self._end()
            raise MetadataFailed(f"the metadata service cannot start: {error}") from error
        except BaseException:
            await self._end()
            raise
        _, self.address, self.metrics_address = said.split(" ")

    async def _launch(self) -> None:
        config = self._config
        arguments = [
            *("--public-addr", self.address, "--metrics-addr", self.metrics_address),
            *("--data-dir", str(config.metadata_dir), "--shards", str(config.shards)),
            *(["--insecure"] if config.broker.insecure else []),
            *("--log-json", "--until-stdin-ends"),
        ]
        command = (sys.executable, "-m", "metastore.commandline", "metastore", *arguments)
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            env={**QUIET, **os.environ},
            pass_fds=(self._inherited,),
            start_new_session=True,  # a signal to the whole group is for this process alone: the service ends last
        )
        assert self._process.stderr is not None
        self._relaying = asyncio.create_task(relay(self._process.stderr), name="log of the metadata service")

    async def _first_words(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def _end(self) -> None:
        """Ends the process, if there is one, and all that belongs to it."""
        process, relaying = self._process, self._relaying
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await process.wait()
        except TimeoutError:
            logger.warning("the metadata service does not stop: killing it")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        assert relaying is not None
        await relaying
        self._process = self._relaying = None
