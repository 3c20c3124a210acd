"""Removes sensitive data from captured records before they are written.

`$.card.number` is a field of each value that is a JSON document; `key` and `value` are the whole key or
value; `header:NAME` is the value of the headers with that name. If a rule names a field and a value cannot be
parsed, or has very many values, the whole value is removed, because the field may be in it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from json import decoder
from typing import Any, Final

from playhead.capture.decode_records import Document
from playhead.capture.pair_document import partitions_of
from playhead.grammar.cursor import Cursor
from playhead.json_objects import has_more_values

REDACTED: Final = "[redacted]"
# Places and pieces of a field take 300 bytes: a packed request of some 70 KB can have 10 million fields.
_MOST_VALUES: Final = 200_000
FORMS: Final = 'write $.card.number, $.items[*].price, $["odd name"], key, value or header:NAME'
_NAME: Final = re.compile(r"\.([^.\[\]\"'\s]+)")
_BRACKET: Final = re.compile(r"""\[(?:([0-9]{1,9})|(\*)|"([^"]*)"|'([^']*)')\]""")
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_scan: Final[Any] = decoder.scanstring  # type: ignore[attr-defined]

Step = str | int | None
"""A field name, a list index, or None for all elements."""
Steps = tuple[Step, ...]


def parse_rule(text: str) -> "RedactionRule":
    """Parse a redaction rule; see FORMS."""
    phrase = Cursor.of(text, "--redact")
    rule = phrase.text
    if rule in ("key", "value"):
        return RedactionRule(rule, ())
    if rule.startswith("header:") and len(rule) > len("header:"):
        return RedactionRule(rule, ())
    if not rule.startswith("$"):
        raise phrase.refuse("it does not start with $", hint=FORMS)
    at, steps = 1, list[Step]()
    while at < len(rule):
        name, bracket = _NAME.match(rule, at), _BRACKET.match(rule, at)
        if name is not None:
            steps.append(None if name[1] == "*" else name[1])
            at = name.end()
        elif bracket is not None:
            place, star, *names = bracket.groups()
            steps.append(
                int(place) if place else None if star else next(n for n in names if n is not None)
            )
            at = bracket.end()
        else:
            raise phrase.refuse(f"found {phrase.found(at)}, needed a name", at=at, hint=FORMS)
    if not steps:
        raise phrase.refuse("it names no field; a whole value is `value`", hint=FORMS)
    return RedactionRule(rule, tuple(steps))


class RedactionRule:
    """One redaction rule: its text, and its steps."""

    def __init__(self, text: str, steps: Steps) -> None:
        self.text, self.steps = text, steps


class Redaction:
    """Applies redaction rules, and counts the redacted values."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self._paths = [rule.steps for rule in rules if rule.steps]
        self._wholes = {rule.text for rule in rules if rule.text in ("key", "value")}
        self._headers = {
            rule.text.removeprefix("header:") for rule in rules if rule.text.startswith("header:")
        }
        self.fields = 0
        """Fields replaced in JSON documents."""
        self.wholes = 0
        """Values removed as a whole, because they could not be parsed, or were too large to be."""

    @property
    def is_wanted(self) -> bool:
        return bool(self._paths or self._wholes or self._headers)

    def apply(self, document: Document) -> None:
        """Redact a pair in place."""
        if not self.is_wanted:
            return
        for side in document["kafka"].values():
            withhold(side)
        for _, partition in partitions_of(document):
            found = partition.get("records", {})
            withhold(found)
            for record in found.get("records", ()):
                self._apply(record)

    def _apply(self, record: Document) -> None:
        for name in self._wholes:
            _replace(record, name)
        for header in record.get("headers", ()):
            if header.get("keyString") in self._headers:
                _replace(header, "value")
        if self._paths and "value" not in self._wholes:
            self._look_into(record)

    def _look_into(self, record: Document) -> None:
        text = record.get("valueString")
        try:
            if text is not None:
                record["valueString"] = self._without(text)
                return
        except (ValueError, IndexError, RecursionError):
            pass
        if _replace(record, "value"):
            self.wholes += 1

    def _without(self, text: str) -> str:
        if has_more_values(text, _MOST_VALUES):
            raise ValueError
        _DECODER.decode(text)
        begin = _SPACE.match(text).end()  # type: ignore[union-attr]
        spans: list[tuple[int, int]] = []
        _walk(text, begin, self._paths, lambda first, stop: spans.append((first, stop)))
        if not spans:
            return text
        self.fields += len(spans)
        return "".join(_spliced(text, spans))


def withhold(found: Document) -> None:
    """Remove undecodable bytes, which may contain a redacted field."""
    if "undecoded" in found:
        found["undecoded"]["base64"] = REDACTED


def _replace(record: Document, name: str) -> bool:
    was_there = record.pop(name, None) is not None or f"{name}String" in record
    if was_there:
        record[f"{name}String"] = REDACTED
    return was_there


def _spliced(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    at = 0
    for first, stop in spans:
        yield text[at:first]
        yield json.dumps(REDACTED)
        at = stop
    yield text[at:]


def _walk(text: str, at: int, paths: list[Steps], found: Callable[[int, int], None]) -> int:
    """Return the position after a value; calls `found` for each value that a path leads to."""
    if () in paths:
        end = _DECODER.raw_decode(text, at)[1]
        found(at, end)
        return end
    if not paths or text[at] not in "{[":
        return _DECODER.raw_decode(text, at)[1]
    closes = "}" if text[at] == "{" else "]"
    place, at = 0, _past_space(text, at + 1)
    while text[at] != closes:
        step: str | int = place
        if closes == "}":
            step, at = _scan(text, at + 1, True)
            at = _past_space(text, _past_space(text, at) + 1)  # the colon
        below = [path[1:] for path in paths if path[0] is None or path[0] == step]
        at = _past_space(text, _walk(text, at, below, found))
        if text[at] == ",":
            at = _past_space(text, at + 1)
        place += 1
    return at + 1


def _past_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]
