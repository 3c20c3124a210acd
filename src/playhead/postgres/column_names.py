"""Which field names can be columns of a new table; others are refused, never cut or left out."""

from collections.abc import Iterable
from itertools import islice

from playhead.errors import Refused
from playhead.postgres.rows.column_types import LONGEST_NAME
from playhead.printable import is_unicode
from playhead.tables.columns import EXTRA, METADATA

_MOST_COLUMNS = 1_600
# System columns of every table.
_OF_THE_SERVER = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_OF_OUR_STAGE = "playhead:"
_SHOWN = 3


def refuse_fields(table: str, names: Iterable[str], *, beside: int) -> None:
    """Raise for fields that cannot become columns; `beside` is the number of other columns."""
    names = list(names)
    found = [(name, reason) for name in names if (reason := why_not(name)) is not None]
    if found:
        told = "; ".join(f"{_shown(name)} {reason}" for name, reason in islice(found, _SHOWN))
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise Refused(
            f"table {table} cannot have a column for each field: {told}{more}",
            hint="rename or leave out fields with --select; or create the table yourself, "
            "with a column _extra jsonb for the other fields",
        )
    count = len(names) + beside
    if count > _MOST_COLUMNS:
        raise Refused(
            f"table {table} cannot have {len(names):,} columns: with those for the record "
            f"itself, the maximum is {_MOST_COLUMNS:,}",
            hint="choose fields with --select; or create the table yourself, with a column _extra jsonb",
        )


def refuse_extra_name(table: str, name: str) -> None:
    """Raises where the column for the fields that no other one takes cannot have the name."""
    reason = None if name == EXTRA else why_not(name)
    if reason is not None:
        raise Refused(
            f"no table {table} can be made with --extra-fields {_shown(name)[6:]}: it {reason}",
            hint=f"--extra-fields with another name, such as {EXTRA}",
        )


def why_not(name: str) -> str | None:
    """Return why a name cannot be a column; None if it can."""
    if "\0" in name:
        return "has a character NUL"
    if not is_unicode(name):
        return "has half of a surrogate pair"
    length = len(name.encode())
    if length > LONGEST_NAME:
        return f"has {length} bytes, but the server cuts names after {LONGEST_NAME}"
    if name in _OF_THE_SERVER:
        return "is a system column of every table"
    if name in METADATA or name == EXTRA:
        return "is a column that Playhead fills"
    if name.startswith(_OF_OUR_STAGE):
        return f"begins with {_OF_OUR_STAGE!r}, like Playhead's own names"
    return None


def length_fits(name: str) -> bool:
    """Return whether the server keeps the whole name."""
    return len(name.encode("utf-8", "replace")) <= LONGEST_NAME


def _shown(name: str) -> str:
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    return f"field {shown!r}"
