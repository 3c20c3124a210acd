"""An offset map made of few acknowledgements is never wrong, and says when it is not whole."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from playhead.kafka.write.offset_map import MOST_RUNS, MapMaker, OffsetMap, spans


def laid_out(steps: list[tuple[int, int]], piece_sizes: list[int]):
    """Records with gaps before them on both sides, sent in pieces: the truth, and the map."""
    truth: dict[int, int] = {}
    source = target = 0
    for source_gap, target_gap in steps:
        source, target = source + source_gap + 1, target + target_gap + 1
        truth[source] = target
    offsets, maker = list(truth), MapMaker()
    sizes, start = [1, *piece_sizes], 0
    while start < len(offsets):
        size = sizes[0] if len(sizes) == 1 else sizes.pop(0)
        piece = maker.piece("copy", 2, offsets[start : start + size])
        piece.acknowledge(truth[piece.offsets[-1]])
        start += size
    return truth, maker.finish()


def named_by(map_: OffsetMap) -> dict[int, int]:
    found: dict[int, int] = {}
    for run in map_.runs:
        pairs = {run.source_offset + n: run.target_offset + n for n in range(run.length)}
        assert not found.keys() & pairs.keys()
        found |= pairs
    return found


GAPS = st.integers(0, 9).map(lambda n: max(0, n - 6))
PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=9)


@given(st.lists(st.tuples(GAPS, GAPS), min_size=1, max_size=60), PIECES)
def test_it_is_never_wrong(steps, sizes) -> None:
    truth, map_ = laid_out(steps, sizes)
    named = named_by(map_)
    assert named.items() <= truth.items()
    if map_.exact:
        assert named == truth
    [end] = map_.ends
    assert (end.first, end.last, end.length) == (
        min(truth.values()),
        max(truth.values()),
        len(truth),
    )


@given(st.lists(GAPS, min_size=1, max_size=60), PIECES)
def test_it_is_whole_when_nobody_wrote_between(gaps, sizes) -> None:
    truth, map_ = laid_out([(gap, 0) for gap in gaps], sizes)
    assert map_.exact
    assert named_by(map_) == truth
    for one, other in pairwise(map_.runs):
        assert one.source_offset + one.length < other.source_offset, "two runs that are one"


@given(st.lists(st.tuples(GAPS, GAPS), min_size=1, max_size=30), PIECES)
def test_it_survives_the_ledger(steps, sizes) -> None:
    _, map_ = laid_out(steps, sizes)
    assert OffsetMap.from_details(json.loads(json.dumps(map_.as_details()))) == map_


def test_several_topics_survive_too() -> None:
    maker = MapMaker()
    for topic, partition in (("b", 0), ("a", 1), ("a", 0)):
        maker.piece(topic, partition, [5]).acknowledge(7)
    map_ = maker.finish()
    assert [(run.topic, run.partition) for run in map_.runs] == [("a", 0), ("a", 1), ("b", 0)]
    assert OffsetMap.from_details(json.loads(json.dumps(map_.as_details()))) == map_


def test_too_many_runs_are_thinned_and_the_ends_kept() -> None:
    truth, map_ = laid_out([(1, 0)] * 200_000, [2_000])
    assert not map_.exact
    assert len(map_.runs) <= MOST_RUNS + 1
    assert named_by(map_).items() <= truth.items()
    assert (map_.runs[0].source_offset, map_.runs[-1].source_offset) == (min(truth), max(truth))
    assert len(json.dumps(map_.as_details())) < 100_000


def test_nothing_was_sent() -> None:
    map_ = MapMaker().finish()
    assert map_.exact
    assert map_.runs == map_.ends == ()
    assert OffsetMap.from_details(map_.as_details()) == map_


@given(st.sets(st.integers(0, 50)))
def test_spans_hold_the_offsets(offsets) -> None:
    found = spans(sorted(offsets))
    assert {n for first, count in found for n in range(first, first + count)} == offsets
