"""Converts captured PostgreSQL pairs into the rows that a server would have logged for them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from playhead.querylog.rows import LogRow, NotARow

_US: Final = 1_000_000
_LONGEST_MS: Final = 10**12


def is_pair(found: Mapping[str, Any]) -> bool:
    """Return whether the object is a captured pair of any protocol."""
    return found.get("msgType") == "rrpair"


def row_of_pair(found: Mapping[str, Any]) -> LogRow:
    """Return the row for one pair; raises `NotARow`.

    The session is the connection, identified by its id and time in the capture. There is no line number. An error
    comes from the response; its SQLSTATE is missing if the capture lacks it.
    """
    if found.get("l7protocol") != "postgres":
        raise NotARow("the protocol of the captured pair is not PostgreSQL")
    request = _object(found, "postgres", "request")
    response = _object(found, "postgres", "response")
    duration_ms = found.get("duration") or 0
    if not isinstance(duration_ms, int) or not 0 <= duration_ms < _LONGEST_MS:
        raise NotARow("the duration of the captured pair is not a number of milliseconds")
    began_us = _time_us(found.get("ts"))
    connection = _object(found, "netinfo")
    began = connection.get("startTime")
    session = f"{_time_us(began) // _US:x}.{connection.get('id')}" if began else ""
    if not session:
        raise NotARow("the captured pair has no connection")
    text, detail = _text(request)
    user, database = _login(request)
    row = LogRow(
        began_us + duration_ms * 1_000,
        session,
        "LOG",
        text if text.startswith(("connection", "disconnection")) else _timed(duration_ms, text),
        detail=detail,
        user=user,
        database=database,
        cuts_parameters=False,
    )
    error = _error(response)
    if error is None or not text.startswith(("statement: ", "execute ")):
        return row
    query = text.partition(": ")[2]
    context = f"unnamed portal with {detail}" if detail else None
    return row._replace(
        severity="ERROR",
        message=error[1],
        sqlstate=error[0],
        query=query,
        context=context,
        detail=None,
    )


def _timed(duration_ms: int, text: str) -> str:
    return f"duration: {duration_ms}.000 ms  {text}"


def _object(found: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        found = found.get(name) or {}
        if not isinstance(found, dict):
            raise NotARow(f"the field {name} of the captured pair is not an object")
    return found


def _time_us(text: object) -> int:
    """Parse an RFC 3339 time with up to nine fractional digits, into µs since 1970."""
    if not isinstance(text, str):
        raise NotARow("the captured pair has no time")
    whole, _, fraction = text.rstrip("Z").partition(".")
    try:
        at = datetime.fromisoformat(f"{whole}+00:00")
        return round(at.timestamp()) * _US + int((fraction[:6] or "0").ljust(6, "0"))
    except ValueError:
        raise NotARow(f"{text[:40]!r} is not a time; expected 2024-05-01T12:00:00.000Z") from None


def _text(request: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the text that a server would have logged, and its parameters."""
    if "execute" in request:
        return _execution(_object(request, "execute"))
    if "query" in request:
        sql = request["query"]
        sql = sql.get("query") if isinstance(sql, dict) else sql
        return f"statement: {_is_text(sql)}", None
    if "startup" in request:
        return "connection authorized: by a captured start-up", None
    if "terminate" in request:
        return "disconnection: session time: 0:00:00.000", None
    kind = next(iter(request), "nothing")
    return f"{kind if kind in ('parse', 'bind') else 'other'} <unnamed>: ", None


def _execution(execute: Mapping[str, Any]) -> tuple[str, str | None]:
    bound = _object(execute, "bindRequest")
    parsed = _object(bound, "parseRequest")
    name = parsed.get("name") or "<unnamed>"
    portal = bound.get("portal") or execute.get("portal")
    full_name = f"{name}/{portal}" if portal else name
    values = bound.get("parameters") or []
    if not isinstance(values, list):
        raise NotARow("the parameters of the captured pair are not a list")
    shown = ", ".join(f"${n} = {_value(each)}" for n, each in enumerate(values, 1))
    sql = _is_text(parsed.get("query"))
    return f"execute {full_name}: {sql}", f"parameters: {shown}" if shown else None


def _value(each: object) -> str:
    text = each.get("asString") if isinstance(each, dict) else None
    if text is None:
        return "NULL"
    return "'" + _is_text(text).replace("'", "''") + "'"


def _is_text(found: object) -> str:
    if not isinstance(found, str):
        raise NotARow("the captured pair has no statement text")
    return found


def _login(request: Mapping[str, Any]) -> tuple[str | None, str | None]:
    startup = request.get("startup")
    said = startup.get("parameters", startup) if isinstance(startup, dict) else {}
    if not isinstance(said, dict):
        return None, None
    user, database = said.get("user"), said.get("database")
    return (
        user if isinstance(user, str) else None,
        database if isinstance(database, str) else None,
    )


def _error(response: Mapping[str, Any]) -> tuple[str | None, str] | None:
    """Return SQLSTATE and text of the error in a response; None if there is no error."""
    for part in response.values():
        messages = part.get("messages") if isinstance(part, dict) else None
        for each in messages if isinstance(messages, list) else ():
            error = each.get("error") if isinstance(each, dict) else None
            if isinstance(error, dict):
                code, text = error.get("code"), error.get("message")
                return code if isinstance(code, str) else None, text if isinstance(
                    text, str
                ) else ""
    return None
