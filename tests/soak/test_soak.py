"""The soak: as long as SOAK_MINUTES says, by default one short epoch. SOAK_SEED is the number of the first epoch."""

from __future__ import annotations

import asyncio
import os

import pytest

from soak.epochs import Epoch, Epochs
from soak.long_run import soak, stage
from topics_end_to_end.whole_plan import Trouble

MINUTES = float(os.environ.get("SOAK_MINUTES", "0"))
FIRST_EPOCH = int(os.environ.get("SOAK_SEED", "0"))
SHORT = {Trouble.SPLIT: 1, Trouble.MERGE: 1, Trouble.DIE: 1}


@pytest.mark.timeout(300)
def test_a_short_epoch() -> None:
    async def scenario() -> None:
        async with stage() as (grounds, cluster):
            counts = await Epochs(grounds, cluster).run(Epoch(FIRST_EPOCH, is_calm=False, use=SHORT))
        print(dict(counts))
        assert grounds.kills >= 4
        assert counts["topics: committed"] > 0
        assert counts["watches: changes"] > 0
        assert counts["records: operations"] > 0

    asyncio.run(scenario())


if MINUTES:

    @pytest.mark.timeout(60 * MINUTES + 900)
    def test_for_long() -> None:
        soaked = asyncio.run(soak(MINUTES, FIRST_EPOCH))
        print(soaked.report())
        assert not soaked.figures.leaks(), "\n".join(soaked.figures.leaks())
