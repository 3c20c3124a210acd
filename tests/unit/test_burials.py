"""Which records lie among the dead letters is known offset by offset, in little space, and never forgotten."""

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.kafka.burials import DETAIL, Burials, packed, unpacked
from playhead.ledger import Entry
from playhead.record import Slice

offsets = st.sets(st.integers(0, 60))


def entry(slice_: Slice, written: int, details: dict) -> bytes:
    return Entry(slice_, written, written, details=details).as_json().encode()


def said(slice_: Slice, buried: set[int]) -> bytes:
    return entry(slice_, len(buried), {DETAIL: packed(buried)})


@given(st.sets(st.integers(0, 2**62), max_size=50) | offsets)
def test_offsets_come_out_as_they_went_in(given_: set[int]) -> None:
    runs = unpacked(packed(given_))
    assert [offset for run in runs for offset in run] == sorted(given_)
    assert all(one.stop < other.start for one, other in pairwise(runs))


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_the_offsets_of_a_large_slice_fit_into_an_entry(share: float) -> None:
    chosen = random.Random(1)
    assert len(packed(at for at in range(200_000) if chosen.random() < share)) < 300_000


@pytest.mark.parametrize("text", ["?", "AAAA"])
def test_what_is_no_such_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="offsets of dead letters"):
        unpacked(text)


@given(st.lists(st.tuples(offsets, st.booleans()), max_size=6), offsets)
def test_missing_is_who_was_never_buried(
    before: list[tuple[set[int], bool]], now: set[int]
) -> None:
    burials, there = Burials(), set[int]()
    for number, (buried, is_own) in enumerate(before):
        if not buried:
            continue
        slice_ = Slice("laps", 0, min(buried), max(buried) + 1)
        if is_own:
            burials.add(slice_, buried)
        else:
            burials.take_in({b"%d" % number: said(slice_, buried)})
        there |= buried
    whole = Slice("laps", 0, 10, 50)
    letters = {at for at in now if at in whole}
    assert set(burials.missing(whole, letters)) == letters - there
    assert burials.others(whole, letters) == len({at for at in there if at in whole} - letters)


def test_burials_of_before_are_known_by_the_map_of_their_copies() -> None:
    burials = Burials()
    map_ = {"topics": ["dlq"], "offsets": [[3, 0, 70, 2], [9, 0, 72, 1]], "ends": [], "exact": True}
    burials.take_in({b"one": entry(Slice("laps", 0, 0, 10), 3, map_)})
    burials.take_in({b"none": entry(Slice("laps", 0, 10, 20), 0, {})})
    whole = Slice("laps", 0, 0, 20)
    assert burials.missing(whole, [2, 3, 4, 9, 15]) == [2, 15]
    assert burials.others(whole, [3]) == 2


def test_a_map_of_before_that_is_not_exact_may_hold_anybody() -> None:
    burials = Burials()
    map_ = {"topics": ["dlq"], "offsets": [[3, 0, 70, 1]], "ends": [], "exact": False}
    burials.take_in({b"one": entry(Slice("laps", 0, 0, 10), 5, map_)})
    assert burials.missing(Slice("laps", 0, 0, 20), [2, 3, 15]) == [15]


def test_the_text_is_json() -> None:
    assert json.loads(said(Slice("laps", 0, 0, 9), {1, 5}))["details"][DETAIL]
