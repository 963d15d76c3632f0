"""`python -m loadtest.bench`."""

import sys

from loadtest.bench.commandline import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
