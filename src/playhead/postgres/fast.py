"""Decodes JSON values all at once with Arrow's own reader, where that gives what the careful way gives."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from playhead.postgres.careful import Documents, fold, read_object
from playhead.postgres.layout import Field
from playhead.postgres.texts import Bad

# What Arrow reads as a number, and JSON does not know.
_NO_NUMBER = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
_SMALLEST_BLOCK = 1 << 20


def read(values: Sequence[bytes], documents: Documents) -> "tuple[Any, list[int]] | None":
    """A table with one row for each value, and the rows not to be trusted; None when Arrow may not read them.

    Its columns are those that Arrow can fill.
    """
    joined = b"\n".join(values)
    if not _is_plain(joined, len(values)):
        return None
    fields = [field for field in documents.fields if field.is_read]
    try:
        spelling = documents.spelling(read_object(values[0]))
        names = [spelling.get(field.name, field.name) for field in fields]
        table = _read(joined, names, fields)
    except (Bad, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table is None or table.num_rows != len(values):
        return None
    odd: set[int] = set()
    columns: dict[str, Any] = {}
    for field, name in zip(fields, names, strict=True):
        column = table.column(name)
        if column.null_count or name != field.name:
            odd.update(_spelled_otherwise(field, name, column, values, joined))
        if field.route is not None and field.route.finish is not None:
            column, rows = field.route.finish(column)
            odd.update(rows)
        columns[field.name] = column
    return (pa.table(columns) if columns else None), sorted(odd)


def _is_plain(joined: bytes, count: int) -> bool:
    """Whether line n is value n, an object, and holds nothing that Arrow takes and others do not.

    A value that begins and ends in a brace can be the start of no other, nor its end; so when the
    reader then finds as many rows as there are lines, each line is one object. (A line that is
    null would be a row as well; as the first of all, it makes Arrow 26 crash.)
    """
    if not (joined.startswith(b"{") and joined.endswith(b"}")):
        return False
    if not joined.count(b"\n") == joined.count(b"}\n{") == count - 1:
        return False
    if b"\\u0000" in joined:
        return False
    if (b"Inf" in joined or b"NaN" in joined) and _NO_NUMBER.search(joined):
        return False
    if joined.isascii():
        return True
    try:
        joined.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _read(joined: bytes, names: Sequence[str], fields: Sequence[Field]) -> Any:
    if len(set(names)) < len(names):  # one field for two columns, once case is forgotten
        return None
    asked = [
        (name, field.route.read)
        for name, field in zip(names, fields, strict=True)
        if field.route is not None
    ]
    longest_line = max(map(len, joined.split(b"\n"))) if len(joined) > _SMALLEST_BLOCK else 0
    return pj.read_json(
        pa.BufferReader(joined),
        # One thread: the other cores belong to other tasks.
        read_options=pj.ReadOptions(
            use_threads=False, block_size=max(_SMALLEST_BLOCK, 2 * longest_line)
        ),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(asked), unexpected_field_behavior="ignore"
        ),
    )


def _spelled_otherwise(
    field: Field, name: str, column: Any, values: Sequence[bytes], joined: bytes
) -> list[int]:
    """Rows in which the column may have a field of another spelling, that Arrow was not told of."""
    low = b'"' + fold(field.name).encode() + b'"'
    found = joined.lower().count(low)
    if b"\\u" not in joined and found == joined.count(b'"' + name.encode() + b'"'):
        return []
    is_other = name != field.name
    suspects = range(len(values)) if is_other else pc.indices_nonzero(
        pc.is_null(column.combine_chunks())
    ).to_pylist()
    return [i for i in suspects if b"\\u" in values[i] or low in values[i].lower()]
