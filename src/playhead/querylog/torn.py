"""The last columns of a row that kreplay's regular expression cut at its commas, put together again."""

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
    """Return the columns as the server wrote them; None where they cannot be known any more.

    The expression divides the rest of a row at its first commas, wherever they stand, and keeps quotes. So the
    pieces with commas between them are the rest of the row again, which has eight columns.
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
