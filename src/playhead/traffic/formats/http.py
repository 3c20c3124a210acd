"""Parses captured HTTP/1.x requests into records."""

import re
from typing import Final, NamedTuple

from playhead.record import Headers
from playhead.traffic.json_numbers import UnknownShape

_REQUEST_LINE = re.compile(rb"([A-Z][A-Z-]{0,31}) (\S+) HTTP/\d(?:\.\d)?\r?\n")
_FIELD = re.compile(
    rb"(?<![^\r\n])[ \t]*(content-type|content-length|transfer-encoding)[ \t]*:([^\r\n]*)",
    re.IGNORECASE,
)
_KEPT: Final = "content-type"
_MOST_PART: Final = 1 << 31
# Parts of a body with one byte each, which a small archive can have by millions, take minutes.
_MOST_PARTS = 2_000_000


class HttpRequest(NamedTuple):
    """The parts of a request that become a record: no cookie, and no secret of its headers."""

    method: str
    url: str
    content_type: str | None
    body: bytes | None

    def headers(self) -> Headers:
        found = [("http.method", self.method.encode()), ("http.url", self.url.encode())]
        if self.content_type is not None:
            found.append((_KEPT, self.content_type.encode()))
        return tuple(found)


def parse_request(raw: bytes) -> HttpRequest:
    """Parse a request; raises `UnknownShape` if it is not a request or is incomplete."""
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise UnknownShape("the payload is not an HTTP request")
    fields, body = _split(raw[line.end() :])
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = _joined(body)
    elif "content-length" in fields:
        length = fields["content-length"]
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            raise UnknownShape(f"the content length {length[:20]!r} is not a number")
        if int(length) > len(body):
            raise UnknownShape("the body of the request is incomplete")
        body = body[: int(length)]
    has_body = body or fields.get("content-length", "0").strip("0")
    content_type = fields.get(_KEPT)
    url = line[2].decode("utf-8", "backslashreplace")
    return HttpRequest(line[1].decode(), url, content_type, body if has_body else None)


def _split(rest: bytes) -> tuple[dict[str, str], bytes]:
    end = re.compile(rb"\r?\n").match(rest)
    if end is not None:  # no headers at all
        return {}, rest[end.end() :]
    edge = re.compile(rb"\r?\n\r?\n").search(rest)
    if edge is None:
        return _fields(rest), b""
    return _fields(rest[: edge.start()]), rest[edge.end() :]


def _fields(head: bytes) -> dict[str, str]:
    """Return the header fields that describe the body; a list of all lines would take much more memory."""
    return {
        found[1].strip().lower().decode(): found[2].strip().decode("latin-1")
        for found in _FIELD.finditer(head)
    }


def _joined(body: bytes) -> bytes:
    """Return the body of a chunked request."""
    whole = bytearray()  # A list of many short parts would take much more memory.
    at = 0
    for _ in range(_MOST_PARTS):
        end = body.find(b"\n", at)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
            raise UnknownShape("the body of the request is incomplete")
        length = int(size, 16)
        if length == 0:
            return bytes(whole)
        part = body[end + 1 : end + 1 + length]
        if len(part) < length or length > _MOST_PART:
            raise UnknownShape("the body of the request is incomplete")
        whole += part
        at = end + 1 + length
        at = body.find(b"\n", at) + 1 or len(body)
    raise UnknownShape(f"the body of the request has {_MOST_PARTS:,} parts or more")
