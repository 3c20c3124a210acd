"""Which fields can be columns of a new table; others are refused in the plan, never cut or left out."""

from collections.abc import Callable, Iterable

from playhead.errors import Refused
from playhead.printable import is_unicode

_SHOWN, _LONGEST_SHOWN = 3, 63


def refuse_fields(
    table: str,
    names: Iterable[str],
    why_not: Callable[[str], str | None],
    *,
    beside: int,
    most: int,
    instead: str,
) -> None:
    """Raise for fields that cannot become columns, and for too many; `beside` counts the other columns.

    `why_not` says why a name cannot be a column, and `instead` which column can take the other fields.
    """
    names = list(names)
    found = [f"field {shown_name(name)} {reason}" for name in names if (reason := why_not(name))]
    what = ""
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        what = f"a column for each field: {'; '.join(found[:_SHOWN])}{more}"
    elif len(names) + beside > most:
        what = f"{len(names):,} columns: with those for the record itself, the maximum is {most:,}"
    if what:
        way_out = "rename or leave out fields with --select; or create the table yourself"
        raise Refused(f"table {table} cannot have {what}", hint=f"{way_out}, with {instead}")


def why_no_name(name: str) -> str | None:
    """Return why no database can have a column of this name; None if one can."""
    if "\0" in name:
        return "has a character NUL"
    return None if is_unicode(name) else "has half of a surrogate pair"


def fold(name: str) -> str:
    """Fold a name like SQL: ASCII letters to lower case."""
    if name.isascii():
        return name.lower()
    return "".join(each.lower() if each.isascii() else each for each in name)


def shown_name(name: str) -> str:
    """Return a name in quotes, cut if it is very long."""
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")
