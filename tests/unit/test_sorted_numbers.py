"""Numbers are sorted as a list would be, whatever the number of runs; a column takes any number of 64 bits."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.queries import sorted_numbers as module
from playhead.queries.column import Column
from playhead.queries.sorted_numbers import sorted_numbers


@given(keys=st.lists(st.integers(0, 9), max_size=40), run=st.integers(1, 8))
def test_numbers_are_sorted_by_their_keys_and_equal_keys_keep_their_order(keys, run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RUN", run)
        found = [*sorted_numbers(range(len(keys)), keys.__getitem__)]
    assert found == sorted(range(len(keys)), key=keys.__getitem__)


def test_all_numbers_are_read_before_the_first_is_returned() -> None:
    given_numbers = iter([3, 1, 2])
    found = sorted_numbers(given_numbers, key=int)
    assert [*given_numbers] == []
    assert [*found] == [1, 2, 3]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20), st.integers(0, 19))
def test_a_column_takes_numbers_of_every_size_and_keeps_those_before(numbers, at):
    column = Column()
    for each in numbers:
        column.append(each)
    assert [*column] == numbers
    if at < len(numbers):
        column[at] = 1 << 62
        assert column[at] == 1 << 62
        assert [*column] == [*numbers[:at], 1 << 62, *numbers[at + 1 :]]


def test_a_column_of_small_numbers_takes_four_bytes_for_each() -> None:
    column = Column()
    for each in range(1_000):
        column.append(each)
    assert column._items.itemsize == array("i").itemsize == 4


def test_a_column_of_bytes_stays_one() -> None:
    column = Column("B")
    with pytest.raises(OverflowError):
        column.append(256)
