"""JSON Lines of whole records, as in archives: `consume` writes them, `produce` reads them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from playhead.files.codec import shown_times
from playhead.files.formats.jsonl import bytes_as_json, bytes_from_json, headers_as_json
from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import MS
from playhead.grammar.instant import Instant, read_point
from playhead.json_objects import JsonText
from playhead.kafka.produce.console_lines import BadLine
from playhead.printable import is_unicode, json_text
from playhead.record import Headers
from playhead.records import Records

_IGNORED = ("topic", "offset", "timestamp_type", "decoded_key", "decoded_value")
_KNOWN = ("key", "value", "headers", "timestamp_ms", "timestamp", "partition", *_IGNORED)
_FORM = 'a text, null, or {"base64": "…"}'


def lines(records: Records, decoded: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Return one JSON object for each record; `decoded` adds fields for people, which `produce` ignores."""
    place = f'{{"topic":{json.dumps(records.topic)},"partition":{records.partition}'
    shown = shown_times(records.timestamps_ms)
    for index, offset in enumerate(records.offsets):
        timestamp = "null" if shown[index] is None else f'"{shown[index]}"'
        # Of a record with `--on-error raw`, they may be unreadable.
        headers = "null" if offset in records.undecoded else headers_as_json(records.headers[index])
        more = "".join(f',"{name}":{_dumped(column[index])}' for name, column in decoded.items())
        yield json_text(
            f'{place},"offset":{offset},"timestamp_ms":{records.timestamps_ms[index]},'
            f'"timestamp":{timestamp},"timestamp_type":{records.timestamp_types[index]},'
            f'"key":{bytes_as_json(records.keys[index])},'
            f'"value":{bytes_as_json(records.values[index])},'
            f'"headers":{headers}{more}}}'
        )


def _dumped(decoded: Any) -> str:
    if isinstance(decoded, JsonText):
        return decoded
    text = json.dumps(decoded, ensure_ascii=False)
    # JSON can contain a lone surrogate, UTF-8 cannot.
    return text if is_unicode(text) else json.dumps(decoded)


def read_document(line: bytes, number: int) -> dict[str, Any]:
    """Parse a line into an object with known fields only."""
    try:
        document = json.loads(line)
    except ValueError as exc:
        raise BadLine(number, reason=f"not JSON: {exc}") from exc
    except RecursionError as exc:
        raise BadLine(number, reason="nested too deeply") from exc
    if not isinstance(document, dict):
        raise BadLine(number, reason=f"found {_kind(document)}, needed an object")
    for name in document:
        if name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(_KNOWN)}"
            raise BadLine(number, reason=f"unknown field {name!r}", hint=hint)
    if "value" not in document:
        raise BadLine(number, reason='no field "value"', hint="write null for a tombstone")
    return document


def body(document: Mapping[str, Any], name: str, number: int) -> bytes | None:
    """Return the bytes of a key or a value."""
    return _bytes(document.get(name), name, number)


def headers(document: Mapping[str, Any], number: int) -> Headers:
    """Return pairs of name and value, in their order."""
    said = document.get("headers") or []
    if not isinstance(said, list):
        raise BadLine(number, reason=f"headers: found {_kind(said)}, needed [[name, value], …]")
    found = []
    for pair in said:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise BadLine(number, reason=f"headers: found {pair!r:.60}, needed [name, value]")
        found.append((pair[0], _bytes(pair[1], f"header {pair[0]}", number)))
    return tuple(found)


def timestamp_ms(document: Mapping[str, Any], number: int) -> int | None:
    """Return `timestamp_ms`, or else parse `timestamp` as a time."""
    exact = document.get("timestamp_ms")
    if exact is not None:
        return _whole(exact, "timestamp_ms", number)
    said = document.get("timestamp")
    return None if said is None else ms_of(str(said), "UTC", number)


def ms_of(text: str, zone: str, number: int) -> int:
    """Parse the time of a record, as a line names it."""
    try:
        point = read_point(Cursor.of(text, "timestamp"), zone).point
    except NotUnderstood as exc:
        raise BadLine(number, reason=exc.message, hint=exc.hint) from exc
    if not isinstance(point, Instant):
        raise BadLine(number, reason=f"timestamp {text!r} is not a time")
    return -(-point.ns // MS)


def partition(document: Mapping[str, Any], number: int) -> int | None:
    said = document.get("partition")
    return None if said is None else _whole(said, "partition", number)


def _whole(said: object, name: str, number: int) -> int:
    if type(said) is not int:
        raise BadLine(number, reason=f"{name}: found {said!r:.60}, needed a whole number")
    return said


def _bytes(said: Any, name: str, number: int) -> bytes | None:
    is_base64 = isinstance(said, dict) and list(said) == ["base64"]
    if not (said is None or isinstance(said, str) or is_base64):
        hint = "a JSON document as a value is the text of it, in quotes"
        raise BadLine(number, reason=f"{name}: found {_kind(said)}, needed {_FORM}", hint=hint)
    try:
        return bytes_from_json(said)
    except (ValueError, TypeError) as exc:
        raise BadLine(number, reason=f"{name}: not base64: {exc}") from exc


def _kind(said: object) -> str:
    kinds = {dict: "an object", list: "an array", str: "a text", bool: "true or false"}
    return kinds.get(type(said), "null" if said is None else "a number")
