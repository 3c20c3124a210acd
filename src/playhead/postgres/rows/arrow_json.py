"""Decodes many JSON values at once with Arrow's reader, where it gives the same result as the Python one."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from playhead.json_objects import MOST_VALUES, has_more_values
from playhead.postgres.rows.altered_values import (
    longest_text,
    rounded_rows,
    too_long_rows,
    unit_of_times,
)
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.column_types import rows_with_zero
from playhead.postgres.rows.python_json import Documents, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.tables.column_names import fold

# What Arrow reads as a number, but JSON does not allow.
_NO_NUMBER = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
# A number with more decimals than 38: Arrow looks for a power of ten beyond the end of its list of them, and
# the process is killed, or another number is written. Decimals may also be in a text, with escapes.
_FAR_DECIMALS = re.compile(
    rb"""[:\[,"\s][-+]?[0-9]*(?:\.[0-9]*)?e-0*[1-9][0-9]+["\s,}\]]"""
    rb"""|\.[0-9]{29}|\\u00(?:3[0-9]|[46]5|2[bde])"""
)
# Only values with one of these signs can match it. Each sign begins with a fixed character, so that the search
# for them takes a tenth of the time.
_SIGNS_OF_FAR = tuple(
    map(re.compile, (rb"""e-[0-9]{2,}["\s,}\]]""", rb"\.[0-9]{29}", rb"\\u00[2346]"))
)
# A number that may be nearer to 0 than a floating-point column can be.
# The sign before it keeps names such as `node-01` from being one; a value may have a million digits.
_NEAR_ZERO = re.compile(rb"[:,\[]\s*+-?[0-9]++(?:\.0{35}|(?:\.[0-9]++)?[eE]-[0-9]{2})")
_SMALLEST_BLOCK = 1 << 20
# JSON can spell these characters of a name by a backslash and one letter or sign, without `\u`.
_SHORT_ESCAPES = re.compile(r'["\\/\x08\f\n\r\t]')


class JsonLines:
    """Values as the lines of one text."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.values = values
        self.joined = b"\n".join(values)

    @cached_property
    def lowered(self) -> bytes:
        return self.joined.lower()

    def has(self, part: bytes) -> bool:
        """Return whether a part occurs; looking for its first byte alone is many times faster."""
        return part[:1] in self.joined and part in self.joined

    @property
    def are_plain(self) -> bool:
        """Return whether line n is value n, an object, without anything that only Arrow accepts.

        A value that begins and ends with a brace is not the start or end of another value. So if the reader finds
        as many rows as lines, each line is one object. (A null line would be a row too; as the first line it
        makes Arrow 26 crash.)
        """
        joined, breaks = self.joined, len(self.values) - 1
        if not (joined.startswith(b"{") and joined.endswith(b"}")):
            return False
        if not joined.count(b"\n") == joined.count(b"}\n{") == breaks or self.has(b"\\u0000"):
            return False
        if (self.has(b"Inf") or self.has(b"NaN")) and _NO_NUMBER.search(joined):
            return False
        return joined.isascii() or _is_utf8(joined)

    def table(self, names: Sequence[str], types: Sequence[Any], *, others: str) -> Any:
        """What Arrow's reader makes of them; `others` is what it does with fields of other names."""
        return pj.read_json(
            pa.BufferReader(self.joined),
            # One thread: the other cores belong to other tasks. A block contains whole lines.
            read_options=pj.ReadOptions(
                use_threads=False,
                block_size=max(_SMALLEST_BLOCK, 2 + max(map(len, self.values))),
            ),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(zip(names, types, strict=True))),
                unexpected_field_behavior=others,
            ),
        )


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Values as Arrow has read them."""

    table: Any
    """One row for each value; its columns are those that Arrow can fill."""
    odd: list[int]
    """Rows not to be trusted."""
    rounded: list[int]
    """Rows with a time that its column rounds."""
    cut: list[int]
    """Rows with a text whose spaces its column cuts off, or which the server refuses."""
    is_complete: bool
    """Whether it is certain that no value has a field beside the columns."""


def without_many_values(
    live: Sequence[int], readable: Sequence[Any]
) -> tuple[Sequence[int], list[int]]:
    """Return the records that Arrow may read, and those with more values than Python reads, which are refused."""
    many = [
        i
        for i in live
        if len(readable[i]) > MOST_VALUES
        and has_more_values(readable[i].decode("utf-8", "replace"), MOST_VALUES)
    ]
    if not many:
        return live, []
    unread = set(many)
    return [i for i in live if i not in unread], many


def without_far_decimals(
    live: Sequence[int], readable: Sequence[Any], documents: Documents
) -> tuple[Sequence[int], list[int]]:
    """Return the records that Arrow may read, and those with decimals that may be far beyond a column's."""
    routes = (field.route for field in documents.fields if field.route and field.is_read)
    if not any(pa.types.is_decimal(route.read) for route in routes):
        return live, []
    suspects = [live[n] for n in _suspects([readable[i] for i in live])]
    far = [i for i in suspects if _FAR_DECIMALS.search(readable[i].lower() + b"\n")]
    if not far:
        return live, []
    unread = set(far)
    return [i for i in live if i not in unread], far


def _suspects(values: Sequence[bytes]) -> list[int]:
    """Return the places of the values with a sign of far decimals, by one search through all of them."""
    whole = b"\n".join(values).lower() + b"\n"
    hits = [hit.start() for sign in _SIGNS_OF_FAR for hit in sign.finditer(whole)]
    if not hits:
        return []
    ends = list(accumulate(len(value) + 1 for value in values))
    return sorted({bisect_right(ends, hit) for hit in hits})


def read(
    values: Sequence[bytes], documents: Documents, *, has_others: bool = False
) -> ArrowRows | None:
    """None when Arrow may not read them; `has_others` where it is known that values have other fields, too."""
    fields = [(field, field.route) for field in documents.fields if field.route and field.is_read]
    lines = JsonLines(values)
    if not fields or not lines.are_plain:
        return None
    try:
        spelling = documents.spelling(read_object(values[0]))
        names = [spelling.get(field.name, field.name) for field, _ in fields]
        if len(set(names)) < len(names):  # One field for two columns that differ only in case.
            return None
        types = [route.read for _, route in fields]
        table, is_complete = _read_strictly(lines, names, types, has_others=has_others)
    except (Bad, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(values):
        return None
    odd: set[int] = set()
    rounded: set[int] = set()
    cut: set[int] = set()
    columns: dict[str, Any] = {}
    for (field, route), name in zip(fields, names, strict=True):
        column = table.column(name)
        if column.null_count or name != field.name:
            odd.update(_spelled_otherwise(field, name, column, lines))
        if route.finish is not None:
            column, rows = route.finish(column)
            odd.update(rows)
        if pa.types.is_floating(getattr(route.read, "value_type", route.read)):
            zeros = rows_with_zero(column)
            odd.update(row for row in zeros if _NEAR_ZERO.search(values[row]))
        columns[field.name] = column
        if (most := longest_text(field.column)) is not None:
            cut.update(too_long_rows(column, most))
        if (unit := unit_of_times(field.column)) is not None:
            rounded.update(rounded_rows(column, unit))
    altered = sorted(rounded - odd), sorted(cut - odd)
    return ArrowRows(pa.table(columns), sorted(odd), *altered, is_complete)


def _read_strictly(
    lines: JsonLines, names: Sequence[str], types: Sequence[Any], *, has_others: bool
) -> tuple[Any, bool]:
    """The table, and whether there is nothing but these fields: to be sure of that costs nothing while it is so."""
    if not has_others:
        try:
            return lines.table(names, types, others="error"), True
        except pa.ArrowInvalid as exc:
            if "unexpected field" not in str(exc):
                raise
    return lines.table(names, types, others="ignore"), False


def _is_utf8(held: bytes) -> bool:
    try:
        held.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _spelled_otherwise(field: Field, name: str, column: Any, lines: JsonLines) -> list[int]:
    """Return the rows in which a field may have another spelling that Arrow was not told of."""
    low, asked = (b'"' + each.encode() + b'"' for each in (fold(field.name), name))
    escape = b"\\" if _SHORT_ESCAPES.search(field.name) else b"\\u"
    if escape not in lines.joined and lines.lowered.count(low) == lines.joined.count(asked):
        return []
    values = lines.values
    nulls = pc.indices_nonzero(pc.is_null(column.combine_chunks())).to_pylist()
    suspects = nulls if name == field.name else range(len(values))
    return [i for i in suspects if escape in values[i] or low in values[i].lower()]
