"""What `consume --grep` takes: by RE2, so that no record can make the search take for ever."""

import time

from playhead.cli.records.record_output import RecordFilter
from playhead.traffic.filter.regex import Pattern


def test_a_value_that_is_a_bomb_for_backtracking_is_searched_in_no_time():
    picked = RecordFilter(value=Pattern("^(a+)+$"))
    began = time.process_time()
    assert not picked._fits(None, b"a" * 10_000 + b"!")
    assert time.process_time() - began < 5


def test_keys_and_values_are_searched_and_null_fits_nothing():
    picked = RecordFilter(value=Pattern("RACE"), key=Pattern("^k[0-9]$"))
    assert picked._fits(b"k1", b"\xff\x00 RACE")
    assert not picked._fits(b"k10", b"RACE")
    assert not picked._fits(None, b"RACE")
    assert not picked._fits(b"k1", None)
    assert picked.unlike == 3
