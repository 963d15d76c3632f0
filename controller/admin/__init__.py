"""Administration of topics over HTTP: the REST calls of Pulsar 5's admin service, some more, and what they cost.

The idea. Whoever administers topics has tools already: so the paths, the codes and the JSON are those that these tools
send and read. Nothing is decided here. Every call becomes one call of the client, which finds the broker that can
answer; so each broker's service answers everything, and nobody is redirected.

What it promises. A wrong request is a 4xx and a problem (RFC 9457) with the name of the error, whatever is wrong with
it. `/openapi.json` has every path, every body and every code that can be answered. A name may have any characters: each
is one part of the path, and a slash in it is `%2F`. What a request may take of memory and time is bounded (`limits`).

What it refuses. To listen on a network unprotected without being told so. It has no accounts: who has one of the
broker's tokens may do everything here.

    server        `AdminServer`: the port, its beginning and its end; config, limits
    gate          what stands before every request; names: what stands in paths and queries
    application   all routes, wrong requests, the OpenAPI document
    scalable, subscriptions, policies, segments    the routes
    asking        what is asked about topics; the client answers it
    bodies, words, problems    JSON: what it is like, how values become it, what is wrong

Start reading at scalable.py, then gate.py.
"""

from controller.admin.config import AdminConfig, AdminConfigError
from controller.admin.limits import AdminLimits
from controller.admin.server import AdminListenError, AdminServer

__all__ = ["AdminConfig", "AdminConfigError", "AdminLimits", "AdminListenError", "AdminServer"]
