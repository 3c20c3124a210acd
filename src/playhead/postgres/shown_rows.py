"""Shows records as the rows that would be written for them: a plan's samples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from playhead.grammar.instant import show_ms
from playhead.postgres.create_table import NewTable
from playhead.postgres.rows.column_layout import Layout
from playhead.postgres.rows.python_json import Documents, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.records import Records
from playhead.tables.columns import HEADERS, KEY, METADATA, OFFSET, PARTITION, TIMESTAMP, TOPIC

Values = Callable[[bytes], dict[str, Any]]
"""What goes to the columns for a value."""


def rows_of_layout(records: Records, layout: Layout, decode: str) -> Iterator[dict[str, Any]]:
    """Rows of a table that is there."""
    documents = Documents(layout.values)

    def values(value: bytes) -> dict[str, Any]:
        if decode != "json":
            return {each.name: value.decode("utf-8", "replace") for each in layout.values}
        document = read_object(value)
        spelling = documents.spelling(document)
        row = {column: document[name] for column, name in spelling.items()}
        rest = {name: document[name] for name in document if name not in spelling.values()}
        return row | ({layout.extra.name: rest} if layout.extra is not None and rest else {})

    return _rows(records, [each.name for each in layout.metadata], values)


def rows_of_new_table(
    records: Records, table: NewTable, decode: str, extra: str | None
) -> Iterator[dict[str, Any]]:
    """Rows of a table that will be made."""
    names = [name for name, _ in table.columns]
    own = [name for name in names if name not in (*METADATA, extra)]

    def values(value: bytes) -> dict[str, Any]:
        if decode != "json":
            return dict.fromkeys(own[:1], value.decode("utf-8", "replace"))
        document = read_object(value)
        rest = {name: document[name] for name in document if name not in own}
        row = {name: document[name] for name in own if name in document}
        return row | ({extra: rest} if extra is not None and rest else {})

    return _rows(records, [name for name in METADATA if name in names], values)


def _rows(records: Records, metadata: Sequence[str], values: Values) -> Iterator[dict[str, Any]]:
    for index, value in enumerate(records.readable):
        row = _metadata(records, index)
        row = {name: row[name] for name in metadata}
        try:
            yield row | (values(value) if value is not None else {})
        except Bad as bad:
            yield {OFFSET: records.offsets[index], "cannot be written": bad.reason}


def _metadata(records: Records, index: int) -> Mapping[str, Any]:
    key = records.keys[index]
    headers = (
        (name, held and held.decode("utf-8", "replace")) for name, held in records.headers[index]
    )
    return {
        TOPIC: records.topic,
        PARTITION: records.partition,
        OFFSET: records.offsets[index],
        TIMESTAMP: show_ms(records.timestamps_ms[index]),
        KEY: None if key is None else key.decode("utf-8", "replace"),
        HEADERS: [list(each) for each in headers],
    }
