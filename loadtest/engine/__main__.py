"""The engine as a process; whoever starts it talks to it over its standard input and output."""

import sys

from loadtest.arrivals import run_precisely
from loadtest.engine.process import serve

if __name__ == "__main__":
    sys.exit(run_precisely(serve()))
