"""Ids of transactions in keys and in options."""

from __future__ import annotations

from metastore.spark import WrongOption
from metastore.spark.views import Selection
from txn.model.errors import InvalidTxnId
from txn.model.ids import TxnId

ID = r"md_(?:0|[1-9][0-9]{0,3})_(?:0|[1-9][0-9]{0,17})"
"""Ids whose numbers fit for certain; longer ones are looked at one by one."""


def transaction_named(selection: Selection) -> TxnId | None:
    """The transaction that was asked for."""
    if selection.transaction is None:
        return None
    try:
        return TxnId.parse(selection.transaction)
    except InvalidTxnId as error:
        raise WrongOption(f'option "transaction": {error}') from None
