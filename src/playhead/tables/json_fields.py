"""Reads the fields of JSON values as plain values; what is nested, and numbers that no double has, stay texts."""

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import Any

from playhead.json_objects import need_few_values, object_of, texts_of
from playhead.records import Records

Row = dict[str, Any]
"""Values by the names of their columns."""


def fields_of(value: bytes | None) -> Row:
    """Return the fields of a JSON object; nested values keep their JSON text."""
    if value is None:
        return {}
    text = need_few_values(value.decode())
    fields: Row = _READER.decode(text)
    if not isinstance(fields, dict):
        raise ValueError("the value is not a JSON object")  # noqa: TRY004 - a record is refused for it
    if nested := {name for name, field in fields.items() if isinstance(field, dict | list)}:
        fields.update(pair for pair in texts_of(text) if pair[0] in nested)
    return fields


def object_with(value: bytes, names: Collection[str]) -> str:
    """Return these fields of a JSON object as an object of their own, each as it is written there."""
    pairs = sorted(texts_of(value.decode()), key=itemgetter(0))
    fields = ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs if name in names)
    return f"{{{fields}}}"


def number_of(text: str) -> float | str:
    """Return a number if a double can hold it exactly, and otherwise its text."""
    number = float(text)
    try:
        is_exact = Decimal(text) == Decimal(repr(number))
    except InvalidOperation:  # Its exponent is beyond those of Decimal.
        return text
    return number if is_exact else text


_READER = json.JSONDecoder(parse_float=number_of, parse_constant=int, object_pairs_hook=object_of)


def sampled_fields(samples: Iterable[Records]) -> Row:
    """Collect the fields of the sampled values, ignoring values that are not JSON objects."""
    fields: Row = {}
    for value in (value for run in samples for value in run.readable):
        with suppress(ValueError, RecursionError):
            fields |= fields_of(value)
    return fields
