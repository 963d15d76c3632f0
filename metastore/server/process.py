"""One server process: its shards, its port, its threads, from start to stop."""

from __future__ import annotations

import gc
import logging
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector

from metastore.addresses import join_address
from metastore.allocation import keep_freed_memory
from metastore.clock import Clock, SystemClock
from metastore.directory import Namespace, shard_directory
from metastore.engine.errors import EngineError
from metastore.engine.shard import Shard, ShardOptions
from metastore.faults import Faults
from metastore.log import LogOptions
from metastore.metrics_server import MetricsServer
from metastore.server.config import ServerConfig, split_address
from metastore.server.health import HealthService
from metastore.server.host import Host, ShardHost
from metastore.server.housekeeper import Housekeeper
from metastore.server.metrics import ShardCollector
from metastore.server.reflection import reflection_handlers
from metastore.server.router import OWN_SERVICE_NAME, SERVICE_NAMES, MakeHandler, Router
from metastore.server.security import Authenticator, TokenAuthenticator
from metastore.server.transport import GrpcServer, TransportError
from metastore.tokens import SecurityError, server_credentials

RECEIVE_BYTES_MAX = 256 << 20
PING_INTERVAL_MS_MIN = 5_000
"""Clients may ping this often, with or without calls under way."""
KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS = 60_000, 20_000
"""A client that vanished without a word is noticed after so long, and its streams are freed."""
POLLERS_MAX = 8
STOP_GRACE_S = 1.0
"""For open calls, when the process stops."""
FEED_AT_STOP_S = 2.0
"""For LMDB to catch up, when the process stops; the log has what is missing."""
COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""Requests are freed as they are done with; looking for cycles among them every 700 objects costs 15 % of a batch."""
SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter that another one wants: the feeder is one of those that want it."""

GRPC_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", PING_INTERVAL_MS_MIN),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)

START_ERRORS = (EngineError, SecurityError, TransportError, OSError)
"""What may keep a process from serving; the texts are meant for whoever started it."""

logger = logging.getLogger("tidemark.metastore")


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Which part of a service one process serves."""

    index: int
    workers: int
    namespaces: tuple[Namespace, ...]
    public_addr: str
    metrics_addr: str
    ports: tuple[int, ...]
    """The public ports of all workers; empty where this process is the only one."""
    identity: str = ""
    """Of the data directory."""

    def shard_namespaces(self) -> list[tuple[int, Namespace]]:
        """The shards of this process."""
        return [
            (shard_id, namespace)
            for namespace in self.namespaces
            for shard_id in namespace.shard_ids
            if shard_id % self.workers == self.index
        ]


def leaders(config: ServerConfig, plan: WorkerPlan) -> dict[int, str]:
    """Where clients find each shard. A single process that is told nothing names the address it was called by."""
    if plan.workers == 1 and config.advertise is None:
        return {}
    host, own_port = split_address("public-addr", plan.public_addr)
    host = config.advertise or host
    ports = plan.ports or (own_port,)
    scheme = "tls://" if config.is_tls else ""
    return {
        shard_id: scheme + join_address(host, ports[shard_id % plan.workers])
        for namespace in plan.namespaces
        for shard_id in namespace.shard_ids
    }


def report(where: str, error: BaseException) -> None:
    """An error that nobody foresaw: logged with its trace."""
    logger.error("%s: %s", where, error, exc_info=error)


class ServerProcess:
    """A process that serves some shards."""

    def __init__(self, config: ServerConfig, plan: WorkerPlan, faults: Faults, clock: Clock | None = None) -> None:
        self._config = config
        self._plan = plan
        self._faults = faults
        self._clock = clock or SystemClock()
        self._running = ExitStack()
        self.public_port = 0
        self.metrics_port = 0

    def start(self) -> None:
        """Opens the shards and serves them; what was begun is undone if it fails."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        with ExitStack() as undo:
            self._start(undo)
            self._running = undo.pop_all()
        gc.collect()
        keep_freed_memory()
        gc.freeze()
        gc.set_threshold(*COLLECTOR_THRESHOLDS)

    def _start(self, undo: ExitStack) -> None:
        shards: dict[int, ShardHost] = {}
        undo.callback(self._close_shards, shards)
        for shard_id, namespace in self._plan.shard_namespaces():
            shards[shard_id] = ShardHost(shard_id, namespace, self._open_shard(shard_id, namespace))
        host = Host(
            list(self._plan.namespaces),
            shards,
            leaders(self._config, self._plan),
            self._plan.identity,
            self._config.retention_ms,
        )
        undo.callback(host.turns.close)
        undo.callback(host.bulk_turns.close)
        hosts = tuple(shards.values())
        health = HealthService(lambda: all(each.shard.rounds.failure is None for each in hosts))
        services = (*SERVICE_NAMES, OWN_SERVICE_NAME, "grpc.health.v1.Health")
        others: dict[str, MakeHandler] = {**health.handlers(), **reflection_handlers(services)}
        router = Router(host, self._authenticator(), report, others)
        housekeeper = Housekeeper(hosts, router, health, self._config.retention_ms, self._clock, report)
        housekeeper.start()
        undo.callback(housekeeper.stop)
        metrics_host, metrics_port = split_address("metrics-addr", self._plan.metrics_addr)
        registry = CollectorRegistry()
        registry.register(ShardCollector(hosts, router.method_counts))
        ProcessCollector(registry=registry)
        metrics = MetricsServer(metrics_host, metrics_port, registry)
        undo.callback(metrics.close)
        self.metrics_port = metrics.port
        self._serve(undo, router, health, hosts)  # last: who finds it healthy finds all of it

    def _open_shard(self, shard_id: int, namespace: Namespace) -> Shard:
        options = ShardOptions(
            key_sorting=namespace.key_sorting,
            retention_ms=self._config.retention_ms,
            quota_bytes=self._config.quota_bytes,
            log=LogOptions(sync=self._config.sync_data),
        )
        directory = shard_directory(Path(self._config.data_dir), shard_id)
        return Shard.open(directory, options, self._clock, self._faults)

    def _close_shards(self, shards: dict[int, ShardHost]) -> None:
        end_s = self._clock.monotonic_s() + FEED_AT_STOP_S
        for host in shards.values():
            host.close(max(0.0, end_s - self._clock.monotonic_s()))

    def _authenticator(self) -> Authenticator:
        if self._config.tokens_file is None:
            return Authenticator()
        return TokenAuthenticator(self._config.tokens_file, self._clock, report)

    def _serve(self, undo: ExitStack, router: Router, health: HealthService, hosts: tuple[ShardHost, ...]) -> None:
        config, credentials = self._config, None
        if config.tls_cert_file is not None and config.tls_key_file is not None:
            credentials = server_credentials(config.tls_cert_file, config.tls_key_file, config.tls_client_ca_file)
        pollers = min(len(hosts) + 2, POLLERS_MAX)
        server = GrpcServer(router, pollers=pollers, options=GRPC_OPTIONS, on_error=report)
        self.public_port = server.add_port(self._plan.public_addr, credentials)
        for host in hosts:
            host.shard.rounds.schedule = server.defer
        server.start()
        undo.callback(server.stop, STOP_GRACE_S)
        undo.callback(router.shut_down)
        undo.callback(health.begin_stopping)

    def stop(self) -> None:
        """Ends everything in the order opposite to its start."""
        began_s = time.monotonic()
        self._running.close()
        logger.info("stopped in %.1f s", time.monotonic() - began_s)
