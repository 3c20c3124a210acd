"""Reads the JSON documents of a file with their positions, and reports all other lines."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from playhead.json_objects import has_more_values
from playhead.traffic.snapshot import LONGEST, SECTION

_BOM = b"\xef\xbb\xbf"
_MOST_VALUES = 4 << 20
"""In a document; as many empty arrays take 256 MB."""
_MOST_WIDE: Final = LONGEST // 4
"""Longest document with a character beyond U+FFFF: because of it, each character takes four bytes."""
_TOO_WIDE: Final = f"a document of more than {_MOST_WIDE >> 20} MB with a character beyond U+FFFF"
_WIDE: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_WIDE_IN_TEXT: Final = re.compile(r"[\U00010000-\U0010ffff]|\\u[dD][89abAB]")
_INTERNAL, _JSON = b"### INTERNAL", b"json: "


@dataclass(slots=True)
class Document:
    """One JSON object, on one line or on several."""

    line: int
    start: int
    """Position in bytes of the decompressed file."""
    raw: bytes
    held: dict[str, Any]
    lines: int = 1


@dataclass(slots=True)
class Unread:
    """Lines that are not a document, and the reason; an empty line has no reason."""

    line: int
    reason: str | None
    lines: int = 1


def documents(
    file: BinaryIO, *, start: int = 0, end: int | None = None
) -> Iterator[Document | Unread]:
    """Yield the documents that begin in `[start, end)` of a file positioned at `start`, the beginning of a line.

    A pretty-printed document begins with a line that contains only `{`, and ends with a line that begins with
    `}`. A file that begins with a Markdown section has one document: the line `json: {…}` of its section
    INTERNAL.
    """
    lines = _Lines(file, start)
    while end is None or lines.at < end:
        number, at = lines.number, lines.at
        raw = lines.next()
        if raw is None:
            return
        text = raw.strip()
        if at == 0 and text.startswith(_BOM):
            text = text.removeprefix(_BOM).strip()
        if at == 0 and text.startswith(SECTION):
            lines.put_back(raw)
            yield from _markdown(lines)
            return
        if lines.is_too_long:
            yield Unread(number, _too_long())
        elif not text:
            yield Unread(number, None)
        elif text == b"{":
            yield _pretty(lines, number, at, raw)
        else:
            yield _single(number, at, raw, text)


class _Lines:
    """Yields lines with their positions; a line that is too long is skipped."""

    def __init__(self, file: BinaryIO, at: int) -> None:
        self._file, self.at, self.number = file, at, 1
        self._before, self._again = at, b""
        self.is_too_long = False
        """Whether the last line was longer than what was read of it."""

    def put_back(self, raw: bytes) -> None:
        """Return the last line again from the next call of `next`."""
        self._again = raw
        self._before, self.at = self.at, self._before
        self.number -= 1

    def next(self) -> bytes | None:
        self.is_too_long = False
        if self._again:
            raw, self._again = self._again, b""
            self._before, self.at = self.at, self._before
        else:
            raw, self._before = self._file.readline(LONGEST), self.at
            self.at += len(raw)
            if len(raw) == LONGEST and not raw.endswith(b"\n"):
                self._skip_rest()
        self.number += bool(raw)
        return raw or None

    def _skip_rest(self) -> None:
        while more := self._file.readline(1 << 20):
            self.is_too_long = True
            self.at += len(more)
            if more.endswith(b"\n"):
                return


def _too_long() -> str:
    return f"a line longer than {LONGEST >> 20} MB"


def _markdown(lines: _Lines) -> Iterator[Document | Unread]:
    """Yield the pair of a recording. A body may look like the section INTERNAL; the last section counts."""
    is_internal, pair, is_too_long = False, None, False
    while True:
        number, at = lines.number, lines.at
        raw = lines.next()
        if raw is None:
            break
        if raw.startswith(SECTION):
            is_internal = raw.startswith(_INTERNAL)
        elif is_internal and raw.startswith(_JSON):
            if pair is not None:
                yield Unread(
                    pair[0], "an INTERNAL section that is not the last section of its file", 0
                )
            pair, is_internal = (number, at + len(_JSON), raw.removeprefix(_JSON)), False
            is_too_long = lines.is_too_long
    count = lines.number - 1
    if pair is None:
        yield Unread(1, "there is no section INTERNAL with the pair as JSON", count)
        return
    found = Unread(pair[0], _too_long()) if is_too_long else _single(*pair, pair[2].strip())
    found.lines = count
    yield found


def _single(number: int, at: int, raw: bytes, text: bytes) -> Document | Unread:
    held = parsed(text)
    if isinstance(held, str):
        is_cut = not raw.endswith(b"\n") and text[:1] == b"{"
        return Unread(number, f"the last line is cut off: {held}" if is_cut else held)
    return Document(number, at, raw, held)


def _pretty(lines: _Lines, number: int, at: int, first: bytes) -> Document | Unread:
    whole, count = bytearray(first), 1  # A list of many short lines would take much more memory.
    while len(whole) < LONGEST:
        raw = lines.next()
        if raw is None:
            return Unread(number, "the document has no end", count)
        if raw[:1] == b"{":  # a new document; the previous one is incomplete
            lines.put_back(raw)
            return Unread(number, "the document has no end", count)
        whole += raw
        count += 1
        if lines.is_too_long:
            return Unread(number, _too_long(), count)
        if raw[:1] == b"}":
            break
    held = parsed(bytes(whole.strip().removesuffix(b",")))
    if isinstance(held, str):
        return Unread(number, held, count)
    return Document(number, at, bytes(whole), held, count)


def loaded(data: bytes, encoding: str = "utf-8") -> Any:
    """Return the parsed document; raises ValueError if it would take much more memory than its bytes."""
    if len(data) > _MOST_WIDE and _WIDE.search(data):
        raise ValueError(_TOO_WIDE)
    return _loaded(data.decode(encoding))


def loaded_text(text: str) -> Any:
    """Return the parsed document, as `loaded` does."""
    if len(text) > _MOST_WIDE and _WIDE_IN_TEXT.search(text):
        raise ValueError(_TOO_WIDE)
    return _loaded(text)


def _loaded(text: str) -> Any:
    if has_more_values(text, _MOST_VALUES):
        raise ValueError(f"a document of more than {_MOST_VALUES:,} values")
    return json.loads(text)


def parsed(text: bytes) -> dict[str, Any] | str:
    """Return the object, or the reason why the text is not an object."""
    try:
        held = loaded(text)
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as exc:
        return f"not valid JSON: {exc.msg} at character {exc.pos + 1}"
    except ValueError as exc:
        # Of a number with thousands of digits, Python also says how a program would allow it.
        return f"not valid JSON: {str(exc).partition(';')[0]}"
    except RecursionError:
        return "the JSON is nested too deeply"
    if not isinstance(held, dict):
        return f"JSON, but not an object: {type(held).__name__}"
    return held
