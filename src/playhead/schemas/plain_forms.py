"""Forms that need no schema, as Kafka's own serializers write them."""

import base64
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from playhead.json_objects import JsonText, need_few_values

_UUID: Final = re.compile(
    r"(?:urn:uuid:)?(\{)?[0-9a-f]{8}(-?)(?:[0-9a-f]{4}\2){3}[0-9a-f]{12}(?(1)\})",
    re.ASCII | re.IGNORECASE,
)


def finite(number: float) -> float | str:
    """Return the number, or its name if JSON has no such number."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def as_json(value: Any) -> Any:
    """Convert a decoded value for JSON: bytes as `{"base64": …}`, times and decimals as text."""
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return finite(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    shown = getattr(value, "isoformat", None)
    return shown() if shown is not None else str(value)


def _number(form: str) -> Callable[[bytes], float | str]:
    packed = struct.Struct(form)

    def read(data: bytes) -> float | str:
        if len(data) != packed.size:
            raise ValueError(f"found {len(data)} bytes, needed {packed.size}")
        (number,) = packed.unpack(data)
        return finite(number)

    return read


def _string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ValueError(f"not UTF-8 at byte {exc.start}") from exc


def uuid_of(text: str) -> uuid.UUID:
    """Parse the text of a UUID; Python alone takes `_`, spaces and hyphens in any place for no part of it."""
    if _UUID.fullmatch(text) is None:
        raise ValueError("badly formed UUID")
    return uuid.UUID(text)


def _uuid(data: bytes) -> str:
    """Parse a UUID: Kafka writes its text; other programs often write its 16 bytes."""
    if len(data) == 16:
        return str(uuid.UUID(bytes=data))
    if len(data) != 36:
        raise ValueError(f"found {len(data)} bytes, needed 36 of text, or 16")
    return str(uuid_of(_string(data)))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _json(data: bytes) -> str:
    """Return a string as it is, and every other value as its text."""
    text = need_few_values(_string(data))
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return value if isinstance(value, str) else JsonText.of(text)


FORMS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "string": _string,
    "int": _number(">i"),
    "long": _number(">q"),
    "short": _number(">h"),
    "float": _number(">f"),
    "double": _number(">d"),
    "uuid": _uuid,
    "json": _json,
    "base64": lambda data: base64.b64encode(data).decode(),
    "hex": bytes.hex,
}
