"""What became of the rows of a replay's entries: they may be gone, and so may the columns they filled."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from playhead.ledger import UNREADABLE, Entry, LedgerUnreadable

_COLUMNS = "columns"
"""In an entry's details: the columns that its records filled, with their types."""
# A server names the schema of a type, or does not, by the search path of the session.
_SCHEMA = re.compile(r'^(?:"(?:[^"]|"")*"|[^"\s.(]+)\.')


class WrittenRows(NamedTuple):
    """What became of the rows of entries since they were committed."""

    lost: Sequence[str] = ()
    """What says that rows are gone."""
    doubtful: Sequence[str] = ()
    """What makes it possible that rows are gone."""
    altered: Sequence[str] = ()
    """Columns that were written and are gone, or have another type."""


def columns_written(columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, for the details of an entry, the columns that were written by name, with their types."""
    return {_COLUMNS: dict(columns)}


def changes_since(entries: Iterable[Entry], now: Mapping[str, str], table: str) -> list[str]:
    """Say which columns that the entries wrote are gone from the table, or have another type."""
    found: dict[str, None] = {}
    try:
        for entry in entries:
            for name, then in entry.details.get(_COLUMNS, {}).items():
                if name not in now:
                    found[f"{table} no longer has the column {name} to compare"] = None
                elif _bare(now[name]) != _bare(then):
                    found[f"the column {name} of {table} was {then}, and is {now[name]} now"] = None
    except UNREADABLE as exc:
        raise LedgerUnreadable(f"the ledger of {table}", f"{_COLUMNS}: {exc}") from exc
    return [*found]


def _bare(type_: str) -> str:
    return _SCHEMA.sub("", type_)
