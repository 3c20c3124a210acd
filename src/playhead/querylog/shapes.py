"""Parses log rows from bytes of any supported shape, which is detected for each row separately."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from playhead.errors import MissingPiece
from playhead.querylog.log_time import time_us
from playhead.querylog.pairs import is_pair, row_of_pair
from playhead.querylog.rows import MOST_LINE, LogRow, NotARow
from playhead.querylog.stderr_prefix import KNOWN_PREFIXES, prefix_of

_COLUMNS: Final = (
    "detail",
    "hint",
    "internal_query",
    "internal_query_pos",
    "context",
    "query",
    "query_pos",
    "location",
)

_WIDTHS: Final = (23, 24, 26)
_IN_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_NO_TEXT: Final = "it contains NUL or an incomplete character, which no server writes"
_LONGEST: Final = 1 << 30
_WRAPPED: Final = (("event", "original"), ("event.original",), ("message",), ("log",))
"""Fields in which shippers keep the original row."""


def read_row(value: bytes, *, prefixes: Sequence[str] = KNOWN_PREFIXES, place: int = 0) -> LogRow:
    """Return the row in the bytes of one record; raises `NotARow`.

    Supported shapes: a row of a csvlog, of a jsonlog, or of stderr with one of the prefixes; such a row in a
    shipper's JSON object; maps of fluentd or kreplay with column names; all of these as msgpack.
    """
    if not value:
        raise NotARow("it is empty")
    if value[0] >= 0x80 and value[0] != 0xEF:
        row = _from_map(_unpacked(value), prefixes)
    else:
        text = _decoded(value)
        if _is_csv(text):
            if "\0" in text:
                raise NotARow(_NO_TEXT)
            return from_csv(text, place)
        row = _from_text(text, prefixes)
    if any(isinstance(each, str) and _IN_NO_TEXT.search(each) for each in row):
        raise NotARow(_NO_TEXT)
    return row._replace(place=place)


def _is_csv(text: str) -> bool:
    return text[10:11] == " " and "," in text[:40] and text[0] != "{"


def _from_text(text: str, prefixes: Sequence[str]) -> LogRow:
    if text.startswith("{"):
        return _from_map(_json(text), prefixes)
    if _is_csv(text):
        return from_csv(text)
    complaint = "it is not a row of a csvlog, a jsonlog or a stderr log"
    for prefix in prefixes:
        try:
            return prefix_of(prefix).read(text.rstrip("\n"))
        except NotARow as exc:
            complaint = str(exc) if len(prefixes) == 1 else complaint
    raise NotARow(complaint)


def _decoded(value: bytes) -> str:
    try:
        return value.decode("utf-8-sig" if value.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError:
        raise NotARow("it is not UTF-8; a database has another encoding") from None


# --- csvlog


def from_csv(text: str, place: int = 0) -> LogRow:
    """Return the row in the text of one row of a csvlog."""
    csv.field_size_limit(_LONGEST)
    try:
        rows = [*csv.reader([text.removesuffix("\n")], strict=True)]
    except csv.Error as exc:
        raise NotARow(f"it is not valid CSV: {exc}") from None
    if len(rows) != 1:
        raise NotARow("it is more or less than one row")
    row = rows[0]
    if len(row) not in _WIDTHS and len(row) < _WIDTHS[-1]:
        raise NotARow(f"it has {len(row)} columns; a row of a csvlog has 23, 24 or 26")
    return LogRow(
        time_us(row[0]),
        row[5],
        row[11],
        row[13],
        _number(row[6]),
        row[14] or None,
        row[18] or None,
        row[19] or None,
        row[7] or None,
        row[12] or None,
        row[1] or None,
        row[2] or None,
        row[22] or None,
        row[23] or None if len(row) > 23 else None,
        row[9] or None,
        len(row) > 23,
        place=place,
    )


def _number(found: object) -> int | None:
    if found is None or found == "":
        return None
    if isinstance(found, str):
        digits = found.isascii() and found.isdecimal() and len(found) < 19
        found = int(found) if digits else None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < MOST_LINE:
        raise NotARow("the line number is not a number")
    return found


# --- maps


_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "severity": ("error_severity",),
    "line": ("session_line_num", "line_num"),
    "tag": ("command_tag", "ps"),
    "sqlstate": ("sql_state_code", "state_code"),
    "user": ("user_name", "user"),
    "database": ("database_name", "dbname"),
    "application": ("application_name",),
    "backend": ("backend_type",),
    "virtual_transaction": ("virtual_transaction_id", "vxid"),
    "detail": ("detail",),
    "context": ("context",),
}


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NotARow("it starts with `{` but is not valid JSON") from None
    if not isinstance(found, dict):
        raise NotARow("it is JSON, but not an object")
    return found


def _unpacked(value: bytes) -> Mapping[str, Any]:
    try:
        import msgpack
    except ImportError:
        raise MissingPiece(
            "msgpack",
            needed_for="reading fluentd's records",
            hint="pip install 'playhead[queries]'",
        ) from None
    try:
        # Names are texts: times as names, with hashes chosen to be equal, take time by the square.
        found = msgpack.unpackb(value, raw=False, strict_map_key=True)
    except Exception as exc:  # noqa: BLE001  # its errors have no other common class
        raise NotARow(f"it is neither text nor msgpack: {type(exc).__name__}") from None
    if not isinstance(found, dict):
        raise NotARow("it is msgpack, but not a map")
    return {_named(key): each for key, each in found.items()}


def _named(key: object) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _from_map(found: Mapping[str, Any], prefixes: Sequence[str]) -> LogRow:
    if is_pair(found):
        return row_of_pair(found)
    if "session_id" in found:
        at = found.get("log_time", found.get("timestamp"))
        if "statement" in found and "message" not in found:
            return _of_kreplay(found, at)
        return _by_names(found, at)
    for path in _WRAPPED:
        inner = _at(found, path)
        if isinstance(inner, str) and inner:
            return _from_text(inner, prefixes)
    raise NotARow("the object has neither session_id nor a row in event.original or message")


def _at(found: object, path: Sequence[str]) -> object:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _by_names(found: Mapping[str, Any], at: object) -> LogRow:
    """Return the row of a jsonlog object, or of a map with the column names of a csvlog."""
    is_json = "line_num" in found
    query = found.get("statement") if is_json or "query" not in found else found["query"]
    return _named_row(found, at, {"message": found.get("message"), "query": query})


def _of_kreplay(found: Mapping[str, Any], at: object) -> LogRow:
    """Return the row of kreplay's map, in which quotes are still doubled and the last columns are split at commas."""
    undone = {name: _undone(each) for name, each in found.items()}
    columns = joined_columns(found)
    message = undone.get("statement")
    if found.get("duration"):
        message = f"duration: {undone['duration']} ms  statement: {message}"
    own = dict.fromkeys(("detail", "context", "query")) if columns is None else columns
    row = _named_row({**undone, **own}, at, {"message": message, "query": own["query"]})
    return row._replace(cuts_parameters=False, is_torn=columns is None)


def _undone(each: object) -> object:
    if not isinstance(each, str):
        return each
    if len(each) > 1 and each[0] == each[-1] == '"':
        each = each[1:-1]
    return "" if each == '"' else each.replace('""', '"')


def _named_row(found: Mapping[str, Any], at: object, own: Mapping[str, object]) -> LogRow:
    def text(name: str, each: object) -> str | None:
        if each is None or each == "":
            return None
        if not isinstance(each, str):
            raise NotARow(f"the field {name} is not a string")
        return each

    known = {
        name: own[name] if name in own else _first(found, names) for name, names in _NAMES.items()
    }
    line = _number(known.pop("line"))
    texts: dict[str, Any] = {name: text(name, each) for name, each in known.items()}
    severity, session = texts.pop("severity"), text("session_id", found["session_id"])
    if severity is None or session is None:
        raise NotARow("it has no severity or no session")
    return LogRow(
        time_us=time_us(text("time", at) or ""),
        session=session,
        severity=severity,
        message=text("message", own["message"]) or "",
        line=line,
        query=text("query", own["query"]),
        **texts,
    )


def _first(found: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((found[name] for name in names if name in found), None)


def joined_columns(found: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the columns as the server wrote them; None if they cannot be restored.

    The expression splits the rest of a row at its first commas, quoted or not, and keeps the quotes. So the parts,
    joined with commas, are the rest of the row again, which has eight columns.
    """
    pieces = [found.get(name, "") for name in _COLUMNS]
    if not all(isinstance(piece, str) for piece in pieces):
        return None
    try:
        rows = [*csv.reader([",".join(pieces)], strict=True)]
    except csv.Error:
        return None
    if len(rows) != 1 or len(rows[0]) != len(_COLUMNS):
        return None
    return dict(zip(_COLUMNS, rows[0], strict=True))
