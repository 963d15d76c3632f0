"""The application: all routes, what wrong requests are answered with, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from controller.admin.asking import TopicsAsked
from controller.admin.bodies import policy_schema
from controller.admin.policies import policies
from controller.admin.problems import Problem, Refusal, problem_of
from controller.admin.scalable import scalable
from controller.admin.segments import segments
from controller.admin.subscriptions import subscriptions
from controller.client.cursors import Cursors
from controller.client.segments import Segments
from metastore import __version__
from txn.model.errors import TxnError

OPENAPI_PATH = "/openapi.json"
DESCRIPTION = """\
Topics of many segments: made, looked at, changed. The paths and the JSON are those of Pulsar 5's admin service.

A name in a path is one part of it: a slash within a name is sent as `%2F`. Whatever is wrong is answered with a problem
(RFC 9457) that has the name of the error.
"""
ERRORS_SHOWN_MAX = 5


def application(topics: TopicsAsked, owned: Segments, cursors: Cursors) -> FastAPI:
    """The application in front of these."""
    served = FastAPI(
        title="Tidemark",
        summary="Administration of topics.",
        description=DESCRIPTION,
        version=__version__,
        openapi_url=OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        generate_unique_id_function=lambda route: route.name,
    )
    routers = (scalable(topics), subscriptions(topics), policies(topics), segments(owned, cursors))
    routes = [*served.routes, *(route for router in routers for route in router.routes)]
    for router in routers:
        served.include_router(router)
    served.add_exception_handler(RequestValidationError, _invalid)
    served.add_exception_handler(HTTPException, _unrouted(routes))
    served.add_exception_handler(TxnError, _refused)
    served.openapi = _documented(served, served.openapi)  # type: ignore[method-assign]
    return served


async def _refused(request: Request, error: Exception) -> Response:
    return problem_of(error)


async def _invalid(request: Request, error: Exception) -> Response:
    """A value that is not what it should be; a body that is no JSON at all."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    status = HTTPStatus.PRECONDITION_FAILED
    if any(each["type"] == "json_invalid" for each in found):
        status = HTTPStatus.BAD_REQUEST
    return problem_of(Refusal(status, "InvalidRequest", _complaint(found)))


def _complaint(errors: Sequence[Any]) -> str:
    texts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in errors[:ERRORS_SHOWN_MAX]]
    more = len(errors) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def _unrouted(routes: Sequence[BaseRoute]) -> Callable[[Request, Exception], Any]:
    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        methods = _methods(routes, request)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and methods:
            detail = f"{request.method} cannot be done there: {methods} can"
            return problem_of(Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", detail, {"allow": methods}))
        if error.status_code == HTTPStatus.NOT_FOUND:
            detail = f"there is nothing at {request.url.path[:200]!r}; {OPENAPI_PATH} says what there is"
            return problem_of(Refusal(HTTPStatus.NOT_FOUND, "NoSuchPath", detail))
        return problem_of(Refusal(HTTPStatus(error.status_code), "InvalidRequest", str(error.detail)))

    return answer


def _methods(routes: Sequence[BaseRoute], request: Request) -> str:
    """What may be done at the path of a request."""
    found: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found - {"HEAD"}))


def _documented(served: FastAPI, generated: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The document as it is generated, with problems in place of what the framework says of wrong requests."""

    def document() -> dict[str, Any]:
        if served.openapi_schema is None:
            found = generated()
            schemas = found["components"]["schemas"]
            schemas["Problem"] = Problem.model_json_schema()
            schemas["AutoScalePolicy"] = policy_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            found["security"] = [{}, {"token": []}]
            for path in found["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
        assert served.openapi_schema is not None
        return served.openapi_schema

    return document
