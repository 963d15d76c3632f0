"""What is answered when something is wrong: a problem (RFC 9457), with the name of the error.

Every error of the broker has a status here, those of Pulsar's admin service where that has one for the case: 412 for a
value that cannot be, 409 for what is in the way of it. Its clients show the member `reason`, which is the detail again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from pydantic import BaseModel, Field
from starlette.responses import Response

from controller.client import BrokersUnavailable, ClientBusy, ClientClosed
from controller.errors import InvalidRequest, TooManyStreams, Unauthenticated
from controller.layout import LayoutError, SegmentNotFound
from controller.operations import OperationFailed
from controller.subscriptions import LimitReached, WrongKind
from controller.topics import InvalidTopic, OperationUnderWay, SubscriptionNotFound, TopicExists, TopicNotFound
from controller.watches import TooManyWatches
from txn.hosting.errors import NoSuchSegment, SegmentExists
from txn.model.errors import NotTheOwner, RecordDamaged, TxnError, TxnRetriable
from txn.segment.errors import SegmentSealed

logger = logging.getLogger("tidemark.admin")

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
"""What a client is told who came at a bad time."""

_Kinds = tuple[type[TxnError], ...]
STATUSES: tuple[tuple[_Kinds, HTTPStatus], ...] = (
    ((Unauthenticated,), HTTPStatus.UNAUTHORIZED),
    ((NotTheOwner,), HTTPStatus.FORBIDDEN),
    ((TopicNotFound, SubscriptionNotFound, SegmentNotFound, NoSuchSegment), HTTPStatus.NOT_FOUND),
    ((TopicExists, SegmentExists, WrongKind, OperationUnderWay, SegmentSealed), HTTPStatus.CONFLICT),
    ((LimitReached, TooManyWatches, TooManyStreams, ClientBusy), HTTPStatus.TOO_MANY_REQUESTS),
    ((InvalidTopic, InvalidRequest), HTTPStatus.PRECONDITION_FAILED),
    ((RecordDamaged,), HTTPStatus.INTERNAL_SERVER_ERROR),
    ((LayoutError,), HTTPStatus.PRECONDITION_FAILED),
    ((BrokersUnavailable, OperationFailed, ClientClosed, TxnRetriable), HTTPStatus.SERVICE_UNAVAILABLE),
)
"""The first that fits; whatever else a broker refuses for good is 409."""

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class Problem(BaseModel):
    """Why a request was not done."""

    type: str = Field(description="urn:tidemark:problem: and the name of the error.")
    title: str = Field(description="The name of the error in words.")
    status: int = Field(ge=400, le=599, description="The status code once more.")
    detail: str = Field(description="What is wrong, and what is allowed.")
    error: str = Field(description="The name of the error, as brokers and clients call it.")
    reason: str = Field(description="The detail once more, under the name that Pulsar's tools know.")


class Refusal(Exception):
    """A request that is not even passed on."""

    def __init__(self, status: HTTPStatus, error: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.error = error
        self.headers = dict(headers or {})


def status_of(error: TxnError) -> HTTPStatus:
    """The status code of an error."""
    for kinds, status in STATUSES:
        if isinstance(error, kinds):
            return status
    return HTTPStatus.CONFLICT


def problem_of(error: Exception) -> Response:
    """An error as it is answered."""
    if isinstance(error, Refusal):
        return problem(error.status, error.error, str(error), error.headers)
    if isinstance(error, TxnError):
        return problem(status_of(error), type(error).__name__, str(error))
    logger.error("a request failed", exc_info=error)
    detail = "it failed in a way that nobody foresaw; the log says how"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", detail)


def problem(status: HTTPStatus, error: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The response."""
    body = Problem(
        type=f"urn:tidemark:problem:{error}",
        title=_WORD.sub(" ", error).capitalize(),
        status=status.value,
        detail=detail,
        error=error,
        reason=detail,
    )
    return Response(
        json.dumps(body.model_dump(), ensure_ascii=False).encode("utf-8", "backslashreplace"),
        status.value,
        {**_headers(status), **(headers or {})},
        PROBLEM_TYPE,
    )


def _headers(status: HTTPStatus) -> dict[str, str]:
    if status is HTTPStatus.UNAUTHORIZED:
        return {"www-authenticate": "Bearer"}
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        return {"retry-after": str(RETRY_AFTER_S)}
    return {}


MEANINGS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The body is broken JSON, or the path no encoded text.",
    HTTPStatus.UNAUTHORIZED: "No token, or one that nobody knows.",
    HTTPStatus.FORBIDDEN: "It belongs to somebody else.",
    HTTPStatus.NOT_FOUND: "There is no such topic, segment or subscription.",
    HTTPStatus.CONFLICT: "Something is in the way: it exists already, or the layout is just being changed.",
    HTTPStatus.PRECONDITION_FAILED: "A value that cannot be; the detail names it and what is allowed.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.REQUEST_URI_TOO_LONG: "The path is too long.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another type than JSON.",
    HTTPStatus.TOO_MANY_REQUESTS: "A named limit; try again later.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Nobody foresaw it, or a record is damaged; the log says more.",
    HTTPStatus.SERVICE_UNAVAILABLE: "No broker could do it in time; try again.",
    HTTPStatus.GATEWAY_TIMEOUT: "It takes too long; it may yet be done.",
}
EVERYWHERE = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.PRECONDITION_FAILED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.REQUEST_URI_TOO_LONG,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""What every request may be answered with."""


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, object]]:
    """The problems that one call may be answered with, as its documentation: those of all calls, and these."""
    return {each.value: _documented(each) for each in sorted({*EVERYWHERE, *statuses})}


def _documented(status: HTTPStatus) -> dict[str, object]:
    headers = {name: {"schema": {"type": "string"}, "required": True} for name in _header_names(status)}
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    documented: dict[str, object] = {"description": MEANINGS[status], "content": content}
    return {**documented, "headers": headers} if headers else documented


def _header_names(status: HTTPStatus) -> Iterable[str]:
    return ("WWW-Authenticate" if name == "www-authenticate" else "Retry-After" for name in _headers(status))
