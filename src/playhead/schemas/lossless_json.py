"""Lossless JSON of decoded values: decimals are numbers with all their digits, bytes are base64."""

import base64
import json
import re
from decimal import Decimal
from typing import Any
from uuid import uuid4

from playhead.schemas.plain_forms import finite

# Python's JSON encoder has no decimals. They are written as unique texts, whose quotes are removed
# afterwards.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


def dumped(value: Any) -> bytes:
    """Encode as UTF-8, on one line."""
    try:
        text = _JSON.encode(value)
    except ValueError:  # JSON has no NaN.
        text = _JSON.encode(_finite(value))
    if _MARK in text:
        text = _MARKED.sub(r"\1", text)
    return text.encode()


def _other(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{_MARK}{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    shown = getattr(value, "isoformat", None)
    return shown() if shown is not None else str(value)


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_other)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return finite(value) if isinstance(value, float) else value
