"""What became of the rows of a replay's entries: they may be gone, and so may the columns they filled."""

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from playhead.ledger import UNREADABLE, Entry, LedgerUnreadable

_COLUMNS = "columns"
"""In an entry's details: the columns that its records filled."""
_WHOLE = ("smallint", "integer", "bigint")
_TEXT = re.compile(r"(?:text|character varying(?:\((\d+)\))?)")
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")


class WrittenRows(NamedTuple):
    """What became of the rows of entries since they were committed."""

    lost: Sequence[str] = ()
    """What says that rows are gone."""
    doubtful: Sequence[str] = ()
    """What makes it possible that rows are gone."""
    altered: Sequence[str] = ()
    """Columns that were written and are gone, are other ones, or may have lost values by another type."""
    unfilled: Sequence[str] = ()
    """Columns into which no entry wrote."""
    lacks: Sequence[str] = ()
    """Columns that are gone, and without which rows cannot be looked up."""


class ColumnThere(NamedTuple):
    """A column that takes values, as far as a later change of it can lose some."""

    number: int
    """The server's own number of the column; 0 if it has none that stays."""
    made_of: str
    """Its type below all names that users give to types."""


def columns_written(columns: Mapping[str, ColumnThere]) -> dict[str, dict[str, list[int | str]]]:
    """Return, for the details of an entry, the columns that its records filled."""
    return {_COLUMNS: {name: list(column) for name, column in columns.items()}}


def columns_filled(entry: Entry) -> set[str]:
    """Return the columns that records of an entry filled; none of an entry that does not say it."""
    columns = entry.details.get(_COLUMNS)
    return {*columns} if isinstance(columns, dict) else set()


def changes_since(
    entries: Iterable[Entry], now: Mapping[str, ColumnThere], table: str
) -> tuple[list[str], list[str]]:
    """Say which columns that the entries wrote are not what they were, and into which none wrote."""
    found: dict[str, None] = {}
    written: set[str] = set()
    is_known = True
    try:
        for entry in entries:
            columns = entry.details.get(_COLUMNS)
            is_known &= columns is not None or not entry.written
            for name, (number, made_of) in (columns or {}).items():
                written.add(name)
                if told := _change(ColumnThere(int(number), str(made_of)), now.get(name)):
                    found[f"the column {name} of {table} {told}"] = None
    except UNREADABLE as exc:
        raise LedgerUnreadable(f"the ledger of {table}", f"{_COLUMNS}: {exc}") from exc
    unfilled = [name for name in now if name not in written] if is_known and written else []
    return [*found], unfilled


def lacking(table: str, key: Collection[str], there: Container[str]) -> list[str]:
    """Return what a table lacks now, without which a row cannot be looked up by its key."""
    if not key:
        return [f"{table} has no primary key any more"]
    return [f"{table} has no column {name} any more" for name in key if name not in there]


def _change(then: ColumnThere, now: ColumnThere | None) -> str | None:
    if now is None:
        return "is gone, or takes no values any more"
    if then.number != now.number:
        return "has another number now: it was dropped and added again, or renamed"
    if not _keeps_values(then.made_of, now.made_of):
        return f"was {then.made_of}, and is {now.made_of} now"
    return None


def _keeps_values(then: str, now: str) -> bool:
    """Return whether a comparison under the second type judges values written under the first as before."""
    if then == now:
        return True
    if then in _WHOLE and now in _WHOLE:
        return _WHOLE.index(then) <= _WHOLE.index(now)
    if (one := _TEXT.fullmatch(then)) and (other := _TEXT.fullmatch(now)):
        return other[1] is None or (one[1] is not None and int(one[1]) <= int(other[1]))
    if (one := _NUMERIC.fullmatch(then)) and (other := _NUMERIC.fullmatch(now)):
        if one[1] is None or other[1] is None:
            return False
        # With another scale, a value that was rounded once is compared with one that is not.
        return one[2] == other[2] and int(one[1]) <= int(other[1])
    return False
