"""Server reflection, so that grpcurl and its like can ask what this port serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from metastore.server.transport import Call

NO_CONTEXT = cast(grpc.ServicerContext, None)
"""The servicer never looks at its context."""


class ReflectionCall:
    """ServerReflectionInfo: each request is answered by itself."""

    def __init__(self, call: Call, services: Sequence[str]) -> None:
        self._call = call
        self._servicer = reflection.ReflectionServicer(services)

    def on_message(self, message: bytes) -> None:
        """A question about names or descriptors."""
        request = reflection_pb2.ServerReflectionRequest.FromString(message)
        for response in self._servicer.ServerReflectionInfo(iter((request,)), NO_CONTEXT):
            self._call.send(response.SerializeToString())

    def on_half_close(self) -> None:
        """No more questions."""
        self._call.finish()

    def on_drained(self) -> None:
        """Answers are sent as they come."""

    def on_over(self) -> None:
        """Nothing to release."""


def reflection_handlers(services: Sequence[str]) -> dict[str, Callable[[Call], ReflectionCall]]:
    """The reflection method, by path, for these services and itself."""
    names = (*services, reflection.SERVICE_NAME)
    return {f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": lambda call: ReflectionCall(call, names)}
