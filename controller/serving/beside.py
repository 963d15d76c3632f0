"""The admin service of a broker: it asks the broker beside it, as any client would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.admin import AdminConfig, AdminConfigError, AdminListenError, AdminServer
from controller.broker import Broker, BrokerConfig
from controller.client.client import connected
from controller.client.settings import Settings
from metastore.commandline import CommandError, UsageError
from metastore.coordination import Pace


def admin_config(config: BrokerConfig) -> AdminConfig | None:
    """What a broker's settings say of its admin service; None if it has none."""
    if config.admin is None:
        return None
    return AdminConfig(
        config.admin,
        tokens_file=config.tokens_file,
        tls_cert_file=config.tls_cert_file,
        tls_key_file=config.tls_key_file,
        tls_client_ca_file=config.tls_client_ca_file,
        insecure=config.insecure,
    ).check()


@asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[AdminServer | None]:
    """The admin service of a broker, where it is to have one."""
    config = admin_config(broker.config)
    if config is None:
        yield None
        return
    settings = Settings((broker.address,), broker.config.peer_security)
    async with await connected(settings, Pace()) as client, AdminServer(config, client) as admin:
        yield admin


@asynccontextmanager
async def administered(broker: Broker) -> AsyncIterator[str]:
    """The same for a command: says where the service is."""
    try:
        async with admin_of(broker) as admin:
            yield "" if admin is None else f", admin service at {admin.url}"
    except AdminConfigError as error:
        raise UsageError(str(error)) from error
    except AdminListenError as error:
        raise CommandError(str(error)) from error
