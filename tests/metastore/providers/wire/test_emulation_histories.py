"""The emulated watch under anything that may happen: what it tells is held against the history of a model."""

from __future__ import annotations

import pytest
from emulation_model import Delete, DeleteRange, Put
from emulation_plot import BORDERS, NAMES, SECONDARY_KEYS, SHARDS, WATCHED, Plot, random_plot
from hypothesis import given, settings
from hypothesis import strategies as st

names, borders = st.sampled_from(NAMES), st.sampled_from(BORDERS)
indexes = st.lists(st.tuples(st.just("i"), st.sampled_from(SECONDARY_KEYS)), max_size=2).map(tuple)
puts = st.builds(Put, names, indexes, st.booleans())
deletes = st.builds(Delete, names)
some_writes = st.lists(
    st.one_of(puts, puts, deletes, deletes, st.builds(DeleteRange, borders, borders)), min_size=1, max_size=3
)
shards = st.integers(0, SHARDS - 1)
written = st.tuples(st.just("write"), shards, some_writes, st.integers(0, 12))
rare = st.one_of(
    st.tuples(st.just("commit"), shards, some_writes),
    st.tuples(st.just("fail"), shards),
    st.tuples(st.just("end session"), shards),
    st.tuples(st.just("trim"), shards),
    st.tuples(st.just("kill"), shards, st.integers(0, 5)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("turns"), st.integers(1, 30)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.2, 3.0])),
    st.tuples(st.just("resume")),
    st.tuples(st.just("begin"), st.booleans()),
)
steps = st.one_of(written, written, written, st.tuples(st.just("read"), st.integers(1, 5)), rare, rare)


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    watched, index = draw(st.sampled_from(WATCHED))
    return Plot(
        draw(st.integers(0, 2**32)),
        watched,
        index,
        has_previous_values=draw(st.booleans()),
        is_eager=draw(st.booleans()),
        batches_max=draw(st.sampled_from([1, 3, 256])),
        script=draw(st.lists(steps, max_size=30)),
    )


@settings(max_examples=100, deadline=None)
@given(plots())
def test_what_is_told_is_what_happened(plot: Plot) -> None:
    plot.play()


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_long_histories_are_told(first: int) -> None:
    """What the search above seldom comes upon: much happens between two breaks."""
    for seed in range(first, first + 100):
        random_plot(seed).play()
