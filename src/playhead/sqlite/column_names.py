"""Which field names can be columns of a new table; others are refused in the plan."""

from collections.abc import Collection, Iterable
from itertools import islice

from playhead.errors import Refused

# SQLite has 2,000, and comparing needs some beside those of the table.
_MOST_COLUMNS = 1_990
_SHOWN, _LONGEST_SHOWN = 3, 60


def refuse_fields(table: str, names: Iterable[str], *, beside: Collection[str]) -> None:
    """Raise for fields that cannot become columns; `beside` are the other columns of the table."""
    names = list(names)
    found: list[str] = []
    # SQLite compares names without the case of ASCII letters.
    known = {_folded(name): name for name in beside}
    for name in names:
        reason = _why_not(name, known.setdefault(_folded(name), name))
        if reason is not None:
            found.append(f"{_shown(name)} {reason}")
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise _refused(f"a column for each field: {'; '.join(islice(found, _SHOWN))}{more}", table)
    if len(names) + len(beside) > _MOST_COLUMNS:
        raise _refused(
            f"{len(names):,} columns: with those for the record itself, the maximum is "
            f"{_MOST_COLUMNS:,}",
            table,
        )


def _why_not(name: str, same: str) -> str | None:
    if "\0" in name:
        return "has a character NUL"
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return "has half of a surrogate pair"
    return None if same == name else f"is to SQLite the same name as {same!r}"


def _folded(name: str) -> str:
    return "".join(sign.lower() if sign.isascii() else sign for sign in name)


def _shown(name: str) -> str:
    shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
    return f"field {shown!r}"


def _refused(what: str, table: str) -> Refused:
    return Refused(
        f"table {table} cannot have {what}",
        hint="rename or leave out fields with --select; or create the table yourself, "
        "with a column for the other fields and --extra-fields COLUMN",
    )
