"""Reads the fields of JSON values as plain values; what is nested, and numbers that no double has, stay texts."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from playhead.records import Records

Row = dict[str, Any]
"""Values by the names of their columns."""
_NAME = re.compile(r'[\s,]*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*')
_DECODER = json.JSONDecoder()


def fields_of(value: bytes | None) -> Row:
    """Return the fields of a JSON object; nested values keep their JSON text."""
    if value is None:
        return {}
    text, read = value.decode(), {"parse_float": number_of, "parse_constant": int}
    fields = json.loads(text, **read)  # type: ignore[arg-type]
    if not isinstance(fields, dict):
        raise ValueError("the value is not a JSON object")  # noqa: TRY004 - a record is refused for it
    if not any(isinstance(field, dict | list) for field in fields.values()):
        return fields
    nested = _nested(text)
    return {n: nested[n] if isinstance(v, dict | list) else v for n, v in fields.items()}


def _nested(text: str) -> dict[str, str]:
    """Return the JSON text of each field that is an object or a list; the text must be valid JSON."""
    nested, at = {}, text.index("{") + 1
    while name := _NAME.match(text, at):
        value, at = _DECODER.raw_decode(text, name.end())
        if isinstance(value, dict | list):
            nested[json.loads(name[1])] = text[name.end() : at]
    return nested


def number_of(text: str) -> float | str:
    """Return a number if a double can hold it exactly, and otherwise its text."""
    number = float(text)
    try:
        is_exact = Decimal(text) == Decimal(repr(number))
    except InvalidOperation:  # Its exponent is beyond those of Decimal.
        return text
    return number if is_exact else text


def sampled_fields(samples: Iterable[Records]) -> Row:
    """Collect the fields of the sampled values, ignoring values that are not JSON objects."""
    fields: Row = {}
    for value in (value for run in samples for value in run.readable):
        with suppress(ValueError, RecursionError):
            fields |= fields_of(value)
    return fields
