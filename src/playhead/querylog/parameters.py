"""Parses the parameters of a logged statement: `parameters: $1 = 'O''Brien', $2 = NULL`."""

import re
from typing import Final

_LABEL: Final = re.compile(r"parameters: ", re.IGNORECASE)
# Possessive quantifiers: backtracking would take memory for every character.
_ONE: Final = re.compile(r"\$([0-9]{1,5}) = (?:NULL|'((?:[^']++|'')*+)')")
_BETWEEN: Final = ", "
_OF_PORTAL: Final = re.compile(
    r"(?:unnamed portal|portal \"(?:[^\"]++|\"\")*+\") with (parameters: .*)", re.DOTALL
)
CUT_END: Final = "..."

Parameters = tuple[str | None, ...]


def read_parameters(detail: str | None) -> Parameters | None:
    """Return the values in a DETAIL, NULL as None; None if the detail has no parameters or is incomplete.

    Versions up to 16 write `parameters:`, later ones `Parameters:`. Quotes in a value are doubled; all other
    characters are unchanged, line ends included.
    """
    if detail is None:
        return None
    label = _LABEL.match(detail)
    if label is None:
        return None
    values: list[str | None] = []
    at = label.end()
    while True:
        found = _ONE.match(detail, at)
        if found is None or int(found[1]) != len(values) + 1:
            return None
        values.append(None if found[2] is None else found[2].replace("''", "'"))
        at = found.end()
        if at == len(detail):
            return tuple(values)
        if not detail.startswith(_BETWEEN, at):
            return None
        at += len(_BETWEEN)


def parameters_of_error(context: str | None) -> Parameters | None:
    """Return the values in an error's context (log_parameter_max_length_on_error)."""
    found = _OF_PORTAL.match(context) if context else None
    return read_parameters(found[1].partition("\n$")[0]) if found else None


def longest_stem(values: Parameters) -> int:
    """Return the length in bytes of the longest possibly truncated value, without its dots; -1 if there is none."""
    stems = (
        len(value.encode("utf-8", "replace")) - len(CUT_END)
        for value in values
        if value is not None and value.endswith(CUT_END)
    )
    return max(stems, default=-1)


def longest_whole(values: Parameters) -> int:
    """Return the length in bytes of the longest certainly complete value; -1 if there is none."""
    sizes = (
        len(value.encode("utf-8", "replace"))
        for value in values
        if value is not None and not value.endswith(CUT_END)
    )
    return max(sizes, default=-1)
