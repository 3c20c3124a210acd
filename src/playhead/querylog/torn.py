"""Joins the last columns of a row that kreplay's regular expression has split at commas."""

import csv
from collections.abc import Mapping
from typing import Any, Final

_COLUMNS: Final = (
    "detail",
    "hint",
    "internal_query",
    "internal_query_pos",
    "context",
    "query",
    "query_pos",
    "location",
)


def joined_columns(found: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the columns as the server wrote them; None if they cannot be restored.

    The expression splits the rest of a row at its first commas, quoted or not, and keeps the quotes. So the parts,
    joined with commas, are the rest of the row again, which has eight columns.
    """
    pieces = [found.get(name, "") for name in _COLUMNS]
    if not all(isinstance(piece, str) for piece in pieces):
        return None
    try:
        rows = [*csv.reader([",".join(pieces)], strict=True)]
    except csv.Error:
        return None
    if len(rows) != 1 or len(rows[0]) != len(_COLUMNS):
        return None
    return dict(zip(_COLUMNS, rows[0], strict=True))
