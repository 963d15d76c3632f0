"""The process that holds a point of a directory: `python -m metastore.spark.holder STORE [NAMESPACE]`.

It says the point in one line, and holds it until its standard input ends: with whoever started it, however that ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from metastore.interface import StoreUrl
from metastore.spark.errors import ReadError
from metastore.spark.stores.opening import directory_at


def main(arguments: Sequence[str]) -> int:
    """Holds a point; returns the exit status."""
    store, namespace = (*arguments, None)[:2]
    assert store is not None
    try:
        with ExitStack() as stack:
            print(directory_at(StoreUrl.parse(store), namespace).hold(stack), flush=True)
            sys.stdin.read()
    except ReadError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
