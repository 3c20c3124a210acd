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
    nested = _texts(text)
    return {n: nested[n] if isinstance(v, dict | list) else v for n, v in fields.items()}


def object_of(value: bytes, names: Iterable[str]) -> str:
    """Return these fields of a JSON object as an object of their own, each as it is written there."""
    texts = _texts(value.decode())
    return "{" + ", ".join(f"{json.dumps(name)}: {texts[name]}" for name in names) + "}"


def _texts(text: str) -> dict[str, str]:
    """Return the JSON text of each field; the whole must be valid JSON."""
    texts, at = {}, text.index("{") + 1
    while name := _NAME.match(text, at):
        _, at = _DECODER.raw_decode(text, name.end())
        texts[json.loads(name[1])] = text[name.end() : at]
    return texts


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
