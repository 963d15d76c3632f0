"""The errors of coordination: leaves of the store's own tree, so that one `except Abortable` covers them."""

from __future__ import annotations

from metastore.interface import Abortable, InvalidRequest


class Deposed(Abortable):
    """The grant is no longer held, and another may hold it: nothing was written. Stop, then campaign again."""


class NotGranted(Abortable):
    """The grant was not to be had within the time that the caller gave; nothing is left behind."""


class ForeignRecord(InvalidRequest):
    """A record lies where one of coordination's belongs, and is none: the key is used for something else."""
