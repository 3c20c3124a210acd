"""Whatever offsets are there, those that are not are exactly the others."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.offset_bitmap import BITS, BitmapWords, missing, pieces
from playhead.record import Slice

TOPIC = "laps"
offsets = st.sets(st.integers(0, 400), max_size=200)
# Runs that are long beside a word, so that full words follow on each other.
long_runs = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 700)), max_size=4)


def words_of(there: Sequence[int] | set[int]) -> list[BitmapWords]:
    """As a server groups them: equal words that follow on as one, with the sign of a 64-bit number."""
    bits: dict[int, int] = {}
    for offset in there:
        bits[offset // BITS] = bits.get(offset // BITS, 0) | 1 << offset % BITS
    found: list[BitmapWords] = []
    for word in sorted(bits):
        signed = bits[word] - (1 << BITS) if bits[word] >> (BITS - 1) else bits[word]
        last = found[-1] if found else None
        if last is not None and last.end == word and last.bits == bits[word]:
            found[-1] = BitmapWords(last.first, word + 1, signed)
        else:
            found.append(BitmapWords(word, word + 1, signed))
    return found


def laid_out(runs: list[tuple[int, int]]) -> set[int]:
    found: set[int] = set()
    at = 0
    for gap, length in runs:
        found |= set(range(at + gap, at + gap + length))
        at += gap + length
    return found


def expected(span: Slice, there: set[int]) -> list[tuple[int, int]]:
    """The slow way, offset by offset."""
    absent = [each for each in range(span.from_offset, span.to_offset) if each not in there]
    edges = [index + 1 for index, (one, other) in enumerate(pairwise(absent)) if other != one + 1]
    cuts = pairwise([0, *edges, len(absent)]) if absent else ()
    return [(absent[start], absent[stop - 1] + 1) for start, stop in cuts]


@given(offsets, st.integers(0, 300), st.integers(1, 200))
def test_any_offsets_leave_exactly_their_complement(there, start, length):
    span = Slice(TOPIC, 3, start, start + length)
    found = missing([span], words_of(there))
    assert [(each.from_offset, each.to_offset) for each in found] == expected(span, there)
    assert {(each.topic, each.partition) for each in found} <= {(TOPIC, 3)}


@given(long_runs, st.integers(0, 200), st.integers(1, 3_000), st.randoms())
def test_long_runs_leave_exactly_their_complement(runs, start, length, random):
    there = laid_out(runs)
    words = words_of(there)
    random.shuffle(words)
    span = Slice(TOPIC, 0, start, start + length)
    found = missing([span], words)
    assert [(each.from_offset, each.to_offset) for each in found] == expected(span, there)
    assert sum(each.offsets() for each in words) == len(there)


@given(offsets, st.sets(st.integers(0, 420), min_size=1))
def test_several_spans_are_looked_at_one_by_one(there, edges):
    cuts = sorted(edges)
    spans = [Slice(TOPIC, 0, start, end) for start, end in pairwise(cuts)][::2]
    found = missing(spans, words_of(there))
    wanted = [run for span in spans for run in expected(span, there)]
    assert [(each.from_offset, each.to_offset) for each in found] == wanted


@given(offsets)
def test_there_are_never_more_runs_than_were_told(there):
    words = words_of(there)
    assert sum(1 for each in words for _ in each.runs()) == pieces(words)


@given(offsets)
def test_the_runs_of_words_are_the_offsets(there):
    runs = [run for each in words_of(there) for run in each.runs()]
    assert [offset for start, end in runs for offset in range(start, end)] == sorted(there)
    assert all(start < end for start, end in runs)


def test_what_is_not_there_at_all_is_missing_as_a_whole():
    span = Slice(TOPIC, 0, 5, 7_000_000_000)
    assert missing([span], []) == [span]
    assert missing([span], [BitmapWords(0, 1 << 40, -1)]) == []


def test_offsets_near_the_last_of_all_fit():
    last = 2**63 - 1
    span = Slice(TOPIC, 0, last - 3, last)
    assert missing([span], words_of({last - 3, last - 1})) == [Slice(TOPIC, 0, last - 2, last - 1)]


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (3, 3), (4, 3)])
def test_words_that_cannot_be_are_refused(first, end):
    with pytest.raises(ValueError, match="Words: found"):
        BitmapWords(first, end, 1)
