"""The URL that the options mean, for as long as the operation lasts."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from metastore.commandline import CommandError, UsageError

DEFAULT_ADDRESS = "localhost:6648"
DEFAULT_NAMESPACE = "default"
DEFAULT_TIMEOUT_S = 10.0
"""Less than a store's own: somebody sits at the prompt and waits."""

SHORTHAND = (
    "address",
    "namespace",
    "key_sorting",
    "timeout",
    "auth_token",
    "auth_token_file",
    "tls",
    "ca_file",
    "cert_file",
    "key_file",
)
"""What together makes the URL of a server."""
SAME_IN_URL = ("key_sorting", "ca_file", "cert_file", "key_file")


@contextmanager
def store_url(arguments: argparse.Namespace) -> Iterator[str]:
    """The store's URL; it may stand on a file that is gone afterwards."""
    named = {name: getattr(arguments, name) for name in SHORTHAND}
    given = {name: value for name, value in named.items() if value is not None and value is not False}
    if arguments.store is not None:
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise UsageError(f"--store names the store, and {option} is for a server without it: give one of the two")
        yield arguments.store
        return
    if "auth_token" in given and "auth_token_file" in given:
        raise UsageError("two tokens: give --auth-token or --auth-token-file")
    with ExitStack() as undo:
        token_file = given.get("auth_token_file")
        if "auth_token" in given:
            token_file = undo.enter_context(_file_with(given["auth_token"]))
        yield _server_url(given, token_file)


def _server_url(given: dict[str, Any], token_file: Path | None) -> str:
    options = {name: given[name] for name in SAME_IN_URL if name in given}
    if given.get("tls"):
        options["tls"] = "true"
    options["request_timeout"] = f"{given.get('timeout', DEFAULT_TIMEOUT_S):g}s"
    if token_file is not None:
        options["token_file"] = token_file
    address = given.get("address", DEFAULT_ADDRESS)
    namespace = quote(str(given.get("namespace", DEFAULT_NAMESPACE)), safe="")
    query = urlencode({name: str(value) for name, value in options.items()})
    return f"oxia://{address}/{namespace}?{query}"


@contextmanager
def _file_with(token: object) -> Iterator[Path]:
    """A file that only this user can read: providers take tokens from files, which can be replaced while they run."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tidemark-token-", encoding="utf-8") as file:
            file.write(str(token))
            file.flush()
            yield Path(file.name)
    except UnicodeEncodeError as error:
        raise UsageError("--auth-token is no bearer token: it is not UTF-8") from error
    except OSError as error:
        raise CommandError(f"the token cannot be handed over: {error}") from error
