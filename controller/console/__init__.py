"""The command line of topics: `tidemark topics`, for people who look after them, and for scripts.

The idea. One operation is one call, or a few, of the client: any broker is asked, and it is found out who can answer.
What people read are tables and pictures; what programs read are JSON objects, one per line, each with its `type`.

    command, arguments, help    operations, options, texts; loads nothing that only an operation needs
    running       from options to a client; errors to exit codes; the question before something is lost
    visit         what every operation works with
    topics, layouts, policies, subscriptions, views, watching
                  the operations
    drawing, svg  the picture of a topic's segments: in characters, and as an image

What it promises. What went wrong is one line, without a traceback; exit codes are those of the whole program. Nothing
that a name has in it is obeyed by a terminal.

What it refuses. It decides nothing, and keeps nothing: what it shows is what a broker has just said.

Start reading at command.py, then layouts.py and drawing.py.
"""
