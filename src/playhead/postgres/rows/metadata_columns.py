"""Fills the columns with a record's origin: topic, partition, offset, timestamp, key, headers."""

import base64
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.postgres.rows.altered_values import (
    ROUNDED,
    alterations_of_text,
    is_kept,
    may_alter,
    rounded_rows,
    unit_of_times,
)
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.column_types import INTEGERS, JSONS, TEXTS, TIMES, where_true
from playhead.postgres.rows.python_json import read_json
from playhead.postgres.rows.text_format import Bad, checked, checked_for, text_for
from playhead.record import Headers, Record
from playhead.records import Records
from playhead.tables.columns import KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC

Refuse = Callable[[int, Bad], None]
_NO_TIME_MS = -1
# From the server's first time to the last that Arrow can express in microseconds.
_FIRST_MS, _LAST_MS = -210_866_803_200_000, (1 << 63) // 1000 - 1


def metadata_column(field: Field, records: Records, refuse: Refuse) -> Any:
    """Return the column for every record, ready to be copied; null where a record was refused."""
    if field.name == TOPIC:
        return _topics(field, records, refuse)
    if field.name == PARTITION:
        return _numbers(field, [records.partition] * len(records), refuse)
    if field.name == OFFSET:
        return _numbers(field, records.offsets, refuse)
    if field.name == TIMESTAMP:
        return _timestamps(field, records.timestamps_ms, refuse)
    if field.name == KEY:
        return _keys(field, records.keys, refuse)
    return _packed(field, _texts(field, _headers_text, records.headers, refuse))


def text_of_own(field: Field, record: Record) -> str:
    """Return the text of a record's topic, partition or key for its column, which names rows of other records, too."""
    if field.name == TOPIC:
        return checked_for(field.column, record.topic, field.name)
    if field.name == PARTITION:
        return _number_text(field, record.partition)
    if record.key is None:
        raise Bad("no_key", "a tombstone without a key does not identify a row")
    if field.column.base == "bytea":
        return f"\\x{record.key.hex()}"
    as_text = _key_json if field.column.base in JSONS else _key_text
    return as_text(field, record.key) or ""


def _topics(field: Field, records: Records, refuse: Refuse) -> Any:
    try:
        checked_for(field.column, records.topic, field.name)
    except Bad as bad:
        for index in range(len(records)):
            refuse(index, bad)
    return pa.repeat(pa.scalar(records.topic, pa.string()), len(records))


def _numbers(field: Field, numbers: Sequence[int], refuse: Refuse) -> Any:
    if field.column.base not in INTEGERS:
        return _packed(field, _texts(field, _number_text, numbers, refuse))
    bits = int(field.column.base[3:]) * 8 - 1
    fitting: list[int | None] = list(numbers)
    if numbers and not -(1 << bits) <= min(numbers) <= max(numbers) < 1 << bits:
        for index, number in enumerate(numbers):
            if not -(1 << bits) <= number < 1 << bits:
                refuse(index, Bad("out_of_reach", f"{field.name}: {number} does not fit"))
                fitting[index] = None
    return pa.array(fitting, pa.int64()).cast(field.arrow)


def _number_text(field: Field, number: int) -> str:
    """Return a number that the column keeps exactly: rows are found by it."""
    if not is_kept(field.column, number):
        raise Bad("out_of_reach", f"{field.name}: {number} would be rounded")
    return checked_for(field.column, str(number), field.name)


def _timestamps(field: Field, timestamps_ms: Sequence[int], refuse: Refuse) -> Any:
    """-1 means no time: null in a column of times, itself in a column of numbers."""
    if field.column.base not in TIMES:
        return _numbers(field, timestamps_ms, refuse)
    microseconds, far = microseconds_of(timestamps_ms)
    for index in far:
        ms = timestamps_ms[index]
        refuse(index, Bad("out_of_reach", f"{field.name}: {ms} ms since 1970 is out of range"))
    return microseconds.cast(field.arrow)


def altered_metadata(
    metadata: Sequence[Field], records: Records
) -> Iterator[tuple[int, Collection[str]]]:
    """Yield what columns do not keep of the times and the keys of records, each with the record's index."""
    yield from ((index, (ROUNDED,)) for index in rounded_times(metadata, records))
    for field in metadata:
        if field.name == KEY and may_alter(field.column):
            for index, key in enumerate(records.keys):
                if key is not None:
                    # Keys that are not UTF-8 are refused.
                    yield index, alterations_of_text(field.column, key.decode(errors="replace"))


def rounded_times(metadata: Sequence[Field], records: Records) -> set[int]:
    """Return the indexes of records of which a column of times rounds the timestamp."""
    units = [unit_of_times(each.column) for each in metadata if each.name == TIMESTAMP]
    if not units or units[0] is None:
        return set()
    microseconds, _ = microseconds_of(records.timestamps_ms)
    return set(rounded_rows(microseconds, units[0]))


def microseconds_of(timestamps_ms: Sequence[int]) -> tuple[Any, list[int]]:
    """Return times in microseconds, null for none, and the indexes out of range, also null."""
    ms = pa.array(timestamps_ms, pa.int64())
    reach = pc.min_max(ms).as_py()
    if timestamps_ms and reach["min"] > _NO_TIME_MS and reach["max"] <= _LAST_MS:
        return pc.multiply(ms, 1000), []
    is_far = pc.or_(pc.less(ms, _FIRST_MS), pc.greater(ms, _LAST_MS))
    known = pc.if_else(pc.or_(is_far, pc.equal(ms, _NO_TIME_MS)), None, ms)
    return pc.multiply(known, 1000), where_true(is_far)


def _keys(field: Field, keys: Sequence[bytes | None], refuse: Refuse) -> Any:
    if field.column.base == "bytea":
        return pa.array(keys, pa.binary())
    if field.column.base in JSONS:
        return _packed(field, _texts(field, _key_json, keys, refuse))
    is_plain = field.column.base in TEXTS and field.column.base != "name"
    if is_plain and not any(key is not None and b"\0" in key for key in keys):
        try:
            return pa.array(keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            pass  # A key is not UTF-8: find out which.
    return pa.array(_texts(field, _key_text, keys, refuse), pa.string())


def bytes_text(held: bytes, what: str) -> str:
    """Return bytes as text that PostgreSQL can store."""
    try:
        return checked(held.decode("utf-8"), what)
    except UnicodeDecodeError as exc:
        raise Bad(
            "utf8", f"{what} is not UTF-8: byte {exc.start} is {held[exc.start]:#04x}"
        ) from exc


def _key_text(field: Field, key: bytes | None) -> str | None:
    if key is None:
        return None
    what = f"the key, which goes to {field.name},"
    return checked_for(field.column, bytes_text(key, what), what)


def _key_json(field: Field, key: bytes | None) -> str | None:
    if key is None:
        return None
    return text_for(field.column, read_json(key, f"the key, which goes to {field.name},"))


def _headers_text(field: Field, headers: Headers) -> str:
    """Return pairs in order; a value that is not text becomes {"base64": ...}."""
    if any("\0" in name for name, _ in headers):
        raise Bad("nul", "the name of a header contains a NUL")
    pairs = [[name, _header_value(value)] for name, value in headers]
    return checked(json.dumps(pairs, ensure_ascii=False), field.name)


def _header_value(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    return {"base64": base64.b64encode(value).decode()} if "\0" in text else text


def _packed(field: Field, texts: Sequence[str | None]) -> Any:
    if field.route is not None and field.route.pack is not None:
        return field.route.pack(texts)
    return pa.array(texts, pa.string())


def _texts(
    field: Field,
    text_of: Callable[[Field, Any], str | None],
    held: Sequence[Any],
    refuse: Refuse,
) -> list[str | None]:
    texts: list[str | None] = []
    for index, each in enumerate(held):
        try:
            texts.append(text_of(field, each))
        except Bad as bad:
            refuse(index, bad)
            texts.append(None)
    return texts
