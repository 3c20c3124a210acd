"""Fills the columns that say where a record stood: topic, partition, offset, timestamp, key, headers."""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from playhead.postgres.careful import Bad, checked
from playhead.postgres.layout import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC, Field
from playhead.record import Headers
from playhead.records import Records

Refuse = Callable[[int, Bad], None]
_INTEGERS = ("int2", "int4", "int8")
_TEXTS = ("text", "varchar", "bpchar", "name")


def metadata_column(field: Field, records: Records, refuse: Refuse) -> Any:
    """The column's value for every record; null where it was refused."""
    if field.name == TOPIC:
        return pa.repeat(pa.scalar(records.topic, field.arrow), len(records))
    if field.name == PARTITION:
        return _numbers(field, [records.partition] * len(records))
    if field.name == OFFSET:
        return _numbers(field, records.offsets)
    if field.name == TIMESTAMP:
        return _timestamps(field, records.timestamps_ms)
    if field.name == KEY:
        return _bytes(field, records.keys, refuse)
    return pa.array(_texts(headers_text, records.headers, field, refuse), pa.string())


def _numbers(field: Field, numbers: Sequence[int]) -> Any:
    if field.column.base in _INTEGERS:
        return pa.array(numbers, pa.int64()).cast(field.arrow)
    return pa.array(list(map(str, numbers)), pa.string())


def _timestamps(field: Field, timestamps_ms: Sequence[int]) -> Any:
    """-1 is "none": null in a column of times, itself in a column of numbers."""
    if field.column.base not in ("timestamp", "timestamptz"):
        return _numbers(field, timestamps_ms)
    known = [None if ms == -1 else ms * 1000 for ms in timestamps_ms]
    return pa.array(known, pa.int64()).cast(field.arrow)


def _bytes(field: Field, keys: Sequence[bytes | None], refuse: Refuse) -> Any:
    if field.column.base == "bytea":
        return pa.array(keys, pa.binary())
    if not any(key is not None and b"\0" in key for key in keys):
        try:
            return pa.array(keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            pass  # some key is not UTF-8: find out which
    return pa.array(_texts(_key_text, keys, field, refuse), pa.string())


def bytes_text(held: bytes, where: str) -> str:
    """Bytes as text that PostgreSQL can hold."""
    try:
        return checked(held.decode("utf-8"), where)
    except UnicodeDecodeError as exc:
        raise Bad("utf8", f"{where} is not UTF-8: byte {exc.start} is {held[exc.start]:#04x}") from exc


def _key_text(key: bytes | None, field: Field) -> str | None:
    return None if key is None else bytes_text(key, f"the key, for column {field.name},")


def headers_text(headers: Headers, field: Field | None = None) -> str | None:
    """Headers as JSON, in order: name and value; a value that is no text as {"base64": ...}."""
    text = json.dumps([[name, _header_value(value)] for name, value in headers], ensure_ascii=False)
    return text if field is None else checked(text, f"headers, for column {field.name}")


def _header_value(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    return {"base64": base64.b64encode(value).decode()} if "\0" in text else text


def _texts(
    text_of: Callable[[Any, Field], str | None], held: Sequence[Any], field: Field, refuse: Refuse
) -> list[str | None]:
    texts: list[str | None] = []
    for index, each in enumerate(held):
        try:
            texts.append(text_of(each, field))
        except Bad as bad:
            refuse(index, bad)
            texts.append(None)
    return texts
