"""Says which values a selection cannot read: paths into a text that is no JSON are NULL, as if it had no such field.

A replay without a selection refuses such a value. A selection would write a record without its content, so it is
refused as well where a field is a path. In a larger expression, such as `coalesce(value:a, value)`, the NULL may be
meant.
"""

from collections.abc import Iterable

from playhead.transform.tokens import DOCUMENTS
from playhead.transform.transform import Output


def unreadable(outputs: Iterable[Output]) -> str | None:
    """Return SQL for the reason why fields of a record cannot be read, NULL if they can; None without any paths."""
    read = {
        path.column
        for output in outputs
        # Without a new time a record keeps its own, and its content.
        if output.replaces != "timestamp" and (path := output.path) and path.column in DOCUMENTS
    }
    found = [
        f"WHEN {name} IS NOT NULL AND (NOT is_valid_utf8({name}) OR {_is_not_json(name)}) "
        f"THEN 'the {name} is not JSON: no field of it can be selected'"
        for name in sorted(read)
    ]
    return f"CASE {' '.join(found)} END" if found else None


def _is_not_json(name: str) -> str:
    """The engine reads a document and ignores what follows it: in an object within a list, that is an error.

    Only more fields of that object are none, so there must be one.
    """
    within = f"try_parse_json(concat('[{{\"\":', {name}, '}}]'))"
    return f"coalesce(size(try_variant_get({within}, '$[0]', 'map<string,variant>')), 0) <> 1"
