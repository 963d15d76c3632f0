"""Dialling: the plumbing of whoever calls servers over gRPC, be it a store's client, a broker's, or a broker.

The idea. A `Dialler` has one channel for each address, made on first use, and every call on it carries what the caller
proves itself with. It knows no protocol: a `Method` says what is asked and answered, in messages or in plain bytes. Nor
does it have errors of its own: whoever dials gives it `Errors`, and its callers meet only those.

What it promises. A server that restarts is found within a second, and one that died without a word is noticed by
pings. A token's file may be replaced at any time. Closing ends every call that is under way, and who waits for one
hears of the closing (`ended_by_close`) and not of a cancellation. Who sends on a stream (`send`) is never left waiting,
however it ends. It sends nothing twice: what may be sent twice is known to those who call.

    security    `Security`: TLS, a certificate, a token, and how options name them; `TokenSource`: the headers of a call
    calls       `Method`; `send`, `is_cancelled`, `ended_by_close`: what gRPC's own calls leave to be wished
    dialler     `Dialler`, `Errors`: the channels

Start reading at dialler.py.
"""

from metastore.dialling.calls import AnswerCall, Method, StreamCall, UnaryCall, ended_by_close, is_cancelled, send
from metastore.dialling.dialler import TLS_PREFIX, Dialler, Errors
from metastore.dialling.security import SECURITY_OPTIONS, TOKEN_RECHECK_S, Headers, Security, TokenSource

__all__ = [
    "SECURITY_OPTIONS",
    "TLS_PREFIX",
    "TOKEN_RECHECK_S",
    "AnswerCall",
    "Dialler",
    "Errors",
    "Headers",
    "Method",
    "Security",
    "StreamCall",
    "TokenSource",
    "UnaryCall",
    "ended_by_close",
    "is_cancelled",
    "send",
]
