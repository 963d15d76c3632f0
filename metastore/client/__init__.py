"""`tidemark client`: the contract of a store at a shell prompt, for any store that has a URL.

The idea. Each operation is one call of the contract, and the output says what came of it: for people in aligned
columns that no terminal obeys, with `--json` in one object per line for programs. `--store URL` names the store;
`--address` and its companions are the short way to write the URL of a server. There is no client library here: that is
`metastore.interface`, and the providers behind it.

What it promises. Exit code 0 if it was done, 1 if it failed, 2 if the call made no sense, 130 and 143 if it was
interrupted; one line on standard error says why. Where nobody serves it says so at once. What lasts ends cleanly when
it is interrupted: the session is closed, the lock released, the directory free for the next one. Nothing is tried again
that the contract would not.

What it refuses. It keeps no state between calls and reads no configuration. It has no operation that the contract
has not, so what it shows can be had by any program.

    parser        operations, options, help; loads nothing that only an operation needs
    help          the texts of that
    options, record_options, lasting_options
                  the options of all operations, of those on records, of those that last
    running       from options to an open store; errors and signals to exit codes
    connection    the URL that the options mean
    opening       an open store, or word at once that nobody listens there
    records       put, get, delete, delete-range, list, range-scan
    following     watch, notifications, sequence-updates
    holding       session, elect, lock; child, the command that runs meanwhile
    ranges        what a prefix is in the order of keys
    output, values
                  what is printed; what is read

Start reading at parser.py, then records.py. Nothing is imported here, so that `tidemark` lists its commands without
loading a store.
"""
