"""gRPC connections to brokers."""

from __future__ import annotations

from contextlib import AbstractContextManager

from controller.client.errors import ClientClosed, InvalidRequest
from metastore import dialling
from metastore.clock import Clock
from metastore.dialling import Dialler, Errors, Security

CLOSED = "this client was closed: open another one"


def _closed() -> ClientClosed:
    return ClientClosed(CLOSED)


def ended_by_close() -> AbstractContextManager[None]:
    """Around a wait for gRPC: says ClientClosed where the call was ended by closing its channel."""
    return dialling.ended_by_close(_closed)


class Connections(Dialler):
    """The connections of one client, on its event loop."""

    def __init__(self, security: Security, clock: Clock) -> None:
        super().__init__(security, clock, Errors(_closed, InvalidRequest))
