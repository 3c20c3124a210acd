"""Matches the beginning of a log line that has names of any text in it, without trying all combinations of them.

A line can be cut into the names of `%u %d %a` at any of its spaces. A regular expression would try every place
of one name with every place of the others, and clients choose the names.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class AnyText(NamedTuple):
    """A field of any text up to a length; its value is not kept without a name."""

    name: str | None
    longest: int


class Beginning(NamedTuple):
    """The matched beginning of a line."""

    end: int
    fields: dict[str, str | None]


class LinePattern:
    """Regular expressions with a field of any text between each two; every field is as short as possible."""

    def __init__(self, between: Sequence[str], fields: Sequence[AnyText]) -> None:
        self._between = [re.compile(each) for each in between]
        self._fields = tuple(fields)
        # Almost all lines match with the first place of each field, which this decides for good.
        quick = between[0]
        for field, after in zip(fields, between[1:], strict=True):
            name = "?:" if field.name is None else f"?P<{field.name}>"
            quick += rf"(?>({name}.{{0,{field.longest}}}?){after})"
        self._quick = re.compile(quick)

    def match(self, text: str) -> Beginning | None:
        """Match the beginning of a text; fields do not go beyond its first line."""
        found = self._quick.match(text)
        if found is not None:
            return Beginning(found.end(), found.groupdict())
        return self._searched(text) if len(self._fields) > 1 else None

    def _searched(self, text: str) -> Beginning | None:
        """Try all places, each once: from the ones that a field can begin at to those of the next field."""
        first = self._between[0].match(text)
        if first is None:
            return None
        line_end = text.find("\n")
        line_end = len(text) if line_end < 0 else line_end
        starts: list[int] = [first.end()]
        ways: list[dict[int, tuple[int, re.Match[str]]]] = []
        for field, after in zip(self._fields, self._between[1:], strict=True):
            tried: set[int] = set()
            # In the order of preference, so the first way to a place is the best one.
            way: dict[int, tuple[int, re.Match[str]]] = {}
            for start in starts:
                for at in range(start, min(start + field.longest, line_end) + 1):
                    if at not in tried:
                        tried.add(at)
                        if (found := after.match(text, at)) is not None:
                            way.setdefault(found.end(), (start, found))
            ways.append(way)
            starts = [*way]
        return self._along(text, first, ways, starts[0]) if starts else None

    def _along(
        self,
        text: str,
        first: re.Match[str],
        ways: Sequence[dict[int, tuple[int, re.Match[str]]]],
        end: int,
    ) -> Beginning:
        fields: dict[str, str | None] = {}
        at = end
        for field, way in zip(reversed(self._fields), reversed(ways), strict=True):
            start, after = way[at]
            fields |= after.groupdict()
            if field.name is not None:
                fields[field.name] = text[start : after.start()]
            at = start
        return Beginning(end, fields | first.groupdict())
