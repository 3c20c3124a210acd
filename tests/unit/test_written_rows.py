"""Which changes of a column are noticed: those by which a value that was written may be another one."""

from dataclasses import replace
from itertools import pairwise

import pytest

from playhead.ledger import Entry
from playhead.record import Slice
from playhead.tables.compare import excuses
from playhead.written_rows import ColumnThere, changes_since, columns_written

ENTRY = Entry(Slice("t", 0, 0, 5), 5, 5, absences={})
NAMES = {
    "smallint|integer|bigint": True,
    "bigint|integer": False,
    "real|double precision": False,
    "double precision|real": False,
    "text|character varying(9)": False,
    "character varying(3)|character varying(9)|character varying|text": True,
    "character varying(9)|character varying(3)": False,
    "numeric(5,2)|numeric(9,2)": True,
    "numeric(9,2)|numeric(5,2)": False,
    "numeric(5,2)|numeric(9,4)": False,
    "numeric(5,2)|numeric": False,
    "numeric|numeric(5,2)": False,
    "jsonb|text": False,
}


def written(kind: str, number: int = 1) -> Entry:
    return replace(ENTRY, details=columns_written({"c": ColumnThere(number, kind)}))


@pytest.mark.parametrize(("kinds", "is_kept"), NAMES.items())
def test_a_column_may_be_widened_and_nothing_else(kinds: str, *, is_kept: bool) -> None:
    for then, now in pairwise(kinds.split("|")):
        changes, _ = changes_since([written(then)], {"c": ColumnThere(1, now)}, "t")
        assert changes == ([] if is_kept else [f"the column c of t was {then}, and is {now} now"])


def test_another_column_of_the_same_name_is_noticed() -> None:
    [told] = changes_since([written("text", 1)], {"c": ColumnThere(2, "text")}, "t")[0]
    assert "has another number now" in told


def test_columns_that_no_entry_wrote_are_named_only_if_all_entries_say_what_they_wrote() -> None:
    now = {"c": ColumnThere(1, "text"), "d": ColumnThere(2, "text")}
    assert changes_since([written("text")], now, "t") == ([], ["d"])
    assert changes_since([written("text"), ENTRY], now, "t") == ([], [])


def test_refused_records_beyond_those_that_an_entry_lists_are_excused_by_their_number() -> None:
    entry = Entry(Slice("t", 0, 0, 9), 9, 4, skipped=3, dead=2, details={"refused": [1, 2]})
    assert excuses(entry) == ({1, 2}, 3)
    dropping = replace(entry, details={"refused": [1, 2, 3, 4, 5], "dropped": 2})
    assert excuses(dropping) == ({1, 2, 3, 4, 5}, 2)
