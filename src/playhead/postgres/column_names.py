"""Which names PostgreSQL takes for columns of a new table."""

from playhead.errors import Refused
from playhead.postgres.rows.column_types import LONGEST_NAME
from playhead.tables.column_names import shown_name, why_no_name
from playhead.tables.columns import EXTRA, METADATA

MOST_COLUMNS = 1_600
# System columns of every table.
_OF_THE_SERVER = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_OF_OUR_STAGE = "playhead:"


def refuse_extra_name(table: str, name: str) -> None:
    """Raises where the column for the fields that no other one takes cannot have the name."""
    reason = None if name == EXTRA else why_not(name)
    if reason is not None:
        raise Refused(
            f"no table {table} can be made with --extra-fields {shown_name(name)}: it {reason}",
            hint=f"--extra-fields with another name, such as {EXTRA}",
        )


def why_not(name: str) -> str | None:
    """Return why a name cannot be a column; None if it can."""
    if (reason := why_no_name(name)) is not None:
        return reason
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
