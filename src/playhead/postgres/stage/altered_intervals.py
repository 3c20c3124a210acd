"""Finds the intervals that their columns round or cut: only the server reads all of their spellings."""

from collections.abc import Sequence
from dataclasses import replace

from playhead.postgres.merge_sql import STAGE, named
from playhead.postgres.rows.altered_values import CUT, ROUNDED
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.decode import ORDER, Decoded
from playhead.postgres.session import Session

# In a modifier, where a column keeps seconds, as opposed to `interval year to month`.
_SECONDS = 1 << 16 + 12


def with_altered_intervals(session: Session, decoded: Decoded) -> Decoded:
    """Return the rows with what their columns alter of intervals; the stage has what was written."""
    altered = dict(decoded.altered)
    for name in (ROUNDED, CUT):
        if columns := [each for each in decoded.fields if _alteration(each) == name]:
            altered[name] = altered.get(name, frozenset()) | _altered(session, columns)
    return replace(decoded, altered=altered)


def _alteration(field: Field) -> str | None:
    column = field.column
    if (column.element or column.base) != "interval" or column.base_modifier < 0:
        return None
    return ROUNDED if column.base_modifier & _SECONDS else CUT


def _altered(session: Session, columns: Sequence[Field]) -> frozenset[int]:
    """Return the offsets of rows with another value in one of the columns than their text has."""
    changed = " OR ".join(
        f"{held}::{each.column.base_type} IS DISTINCT FROM {held}::{each.column.type}"
        for each in columns
        for held in [named(each.name)]
    )
    found = session.run(f"SELECT {named(ORDER)} FROM {STAGE} WHERE {changed}")  # noqa: S608
    return frozenset(offset for (offset,) in found)
