"""Which names of fields can be columns of a table that is made; the others are refused, never cut or left out."""

from collections.abc import Iterable
from itertools import islice

from playhead.errors import Refused
from playhead.postgres.rows.column_layout import EXTRA, METADATA
from playhead.postgres.rows.column_types import LONGEST_NAME

_MOST_COLUMNS = 1_600
# Every table has them already, as what the server itself knows of a row.
_OF_THE_SERVER = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_OF_OUR_STAGE = "playhead:"
_SHOWN = 3


def refuse_fields(table: str, names: Iterable[str], *, beside: int) -> None:
    """Raises for fields of which no column can be made; `beside` is how many columns there are without them."""
    names = list(names)
    found = [(name, reason) for name in names if (reason := why_not(name)) is not None]
    if found:
        told = "; ".join(f"{_shown(name)} {reason}" for name, reason in islice(found, _SHOWN))
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise Refused(
            f"no table {table} can be made with a column for each field: {told}{more}",
            hint="--select gives fields other names, or leaves them out; or make the table yourself, and "
            "a column _extra jsonb takes what has no column of its own",
        )
    count = len(names) + beside
    if count > _MOST_COLUMNS:
        raise Refused(
            f"no table {table} can be made: the sampled records have {len(names):,} fields, and with "
            f"what is known of each record a table has at most {_MOST_COLUMNS:,} columns",
            hint="--select takes those that are needed; or make a table with a column _extra jsonb",
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
    """What is wrong with a name; None where it can be a column's."""
    if "\0" in name:
        return "has a character NUL"
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "has half of a surrogate pair"
    if length > LONGEST_NAME:
        return f"has {length} bytes, and the server cuts a name after {LONGEST_NAME}"
    if name in _OF_THE_SERVER:
        return "is a column that the server itself has in every table"
    if name in METADATA or name == EXTRA:
        return "is a column that Playhead fills with what it knows of the record"
    if name.startswith(_OF_OUR_STAGE):
        return f"begins with {_OF_OUR_STAGE!r}, as names of Playhead's own do"
    return None


def length_fits(name: str) -> bool:
    """Whether the server keeps all of a name."""
    return len(name.encode("utf-8", "replace")) <= LONGEST_NAME


def _shown(name: str) -> str:
    shown = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    return f"field {shown!r}"
