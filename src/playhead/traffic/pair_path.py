"""Evaluates dotted paths in a captured pair: names, indexes, `#` and `*`, also in base64 and JSON strings."""

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from playhead.grammar.cursor import Cursor
from playhead.traffic.json_documents import loaded_text

_EACH: Final = ("#", "*")


class _Missing:
    """The result of a path without a value; differs from null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Path:
    """A path: its text, and its steps."""

    written: str
    steps: tuple[str, ...]

    @classmethod
    def parse(cls, written: str, where: str = "--path") -> "Path":
        """Parse `a.b.0.c`; a leading dot is ignored, and `\\.` is a dot in a name."""
        phrase = Cursor(written, where, 0, len(written))
        start = 1 if written.startswith(".") else 0
        steps: list[str] = []
        step: list[str] = []
        at = start
        while at < len(written):
            sign = written[at]
            if sign == "\\" and at + 1 < len(written):
                at += 1
                step.append(written[at])
            elif sign == ".":
                steps.append(_named(step, phrase, at))
                step = []
            else:
                step.append(sign)
            at += 1
        steps.append(_named(step, phrase, at))
        return cls(written, tuple(steps))

    def of(self, pair: Any) -> Any:
        """Return the value at the path; MISSING if there is none."""
        found = reach(pair, self.steps)
        if self.steps == ("uuid",) and isinstance(found, str):
            return canonical_uuid(found)
        return found


def _named(step: list[str], phrase: Cursor, at: int) -> str:
    if not step:
        raise phrase.refuse(
            f"found {phrase.found(at)}, needed a name or an index",
            at=at,
            hint="such as kafka.request.ProduceRequest.topics.0.name",
        )
    return "".join(step)


def reach(value: Any, steps: Sequence[str]) -> Any:
    """Follow the steps; a string on the way is decoded from JSON or from base64 of JSON."""
    for index, step in enumerate(steps):
        if isinstance(value, str):
            value = _opened(value)
        if isinstance(value, dict):
            if step in value:
                value = value[step]
            elif step == "*":
                return _each(value.values(), steps[index + 1 :])
            else:
                return MISSING
        elif isinstance(value, list):
            if step in _EACH:
                rest = steps[index + 1 :]
                return len(value) if step == "#" and not rest else _each(value, rest)
            if not (step.isascii() and step.isdigit() and len(step) < 19):
                return MISSING
            if int(step) >= len(value):
                return MISSING
            value = value[int(step)]
        else:
            return MISSING
    return value


def _each(values: Iterable[Any], rest: Sequence[str]) -> Any:
    found = [each for value in values if (each := reach(value, rest)) is not MISSING]
    return found or MISSING


def _opened(text: str) -> Any:
    """Return the document that a string contains, for the next step of a path."""
    inside = _document(text)
    if inside is not MISSING:
        return inside
    try:
        return _document(base64.b64decode(text, validate=True).decode())
    except (NotBase64, ValueError):
        return MISSING


def _document(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return MISSING
    try:
        return loaded_text(text)
    except (ValueError, RecursionError):
        return MISSING


def canonical_uuid(text: str) -> str:
    """Return the canonical UUID for base64 of its 16 bytes; other text is returned unchanged."""
    try:
        return str(UUID(bytes=base64.b64decode(text, validate=True)))
    except (NotBase64, ValueError):
        return text


def shown(value: Any) -> str:
    """Return the cell for a value: text unchanged, other values as JSON, null as an empty cell."""
    if isinstance(value, str):
        return value
    if value is None or value is MISSING:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
