"""The lines of `produce` as records: the format that the options choose, and the content of each line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from playhead.cli.options import Run
from playhead.cli.records import jsonl
from playhead.cli.time_option import instant_ms
from playhead.errors import BadValue, PlayheadError, UsageError
from playhead.kafka.produce.console_lines import (
    BEFORE_THE_VALUE,
    BadLine,
    LineReader,
    Outgoing,
    Separators,
)
from playhead.record import Headers

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
_STAMP = re.compile(rb"(CreateTime:|LogAppendTime:)?(-?[0-9]+)")
_MS_DIGITS = 13
_MOST_DIGITS = 19  # Kafka's types that count something.
_UNITS = {10: "seconds", 16: "microseconds", 19: "nanoseconds"}
_SHOWN_COMPLAINTS = 5
_PARSE = re.compile(r"parse\.(key|headers)=(true|false)")
_PROPERTIES = {
    "key.separator": "separator",
    "headers.delimiter": "separator",
    "headers.separator": "headers_separator",
    "headers.key.separator": "header_separator",
    "null.marker": "null",
}


@dataclass(slots=True)
class Reading:
    """Converts lines to records, and counts them."""

    lines: LineReader | None
    """None for JSON Lines."""
    key: bytes | None = None
    """Of all records, whatever they say."""
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    by_key: bool = False
    """Ignore the partition in the line, and choose it by key."""
    timezone: str = "UTC"
    partitions: int = 1
    read: int = 0
    bad: int = 0
    complaints: list[str] = field(default_factory=list)
    _units: set[str] = field(default_factory=set)

    def record(self, line: bytes, number: int) -> Outgoing:
        """Return the record of a line."""
        self.read = number
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        found = self._of_line(line, number) if self.lines else self._of_json(line, number)
        if found.partition is not None and not 0 <= found.partition < self.partitions:
            raise BadLine(
                number,
                reason=f"partition {found.partition} is outside the topic's 0 to {self.partitions - 1}",
                hint="--partition auto chooses it by key",
            )
        return found

    def skip(self, exc: PlayheadError) -> None:
        """Count a line that is skipped."""
        self.bad += 1
        if len(self.complaints) < _SHOWN_COMPLAINTS:
            self.complaints.append(exc.message)

    def notes(self) -> list[str]:
        """Yield notes about how the lines were read."""
        return [
            f"some timestamps were in {unit}, judging by their digits; they were converted to milliseconds"
            for unit in sorted(self._units)
        ]

    def _of_line(self, line: bytes, number: int) -> Outgoing:
        assert self.lines is not None  # noqa: S101  asked by the caller
        parts = self.lines.read(line, number)
        stamp, place = self.timestamp_ms, None
        if parts.timestamp not in (None, b"", b"NO_TIMESTAMP"):
            stamp = self._time(parts.timestamp or b"", number)
        if parts.partition:
            place = self._number(parts.partition, number)
        return self._outgoing(number, parts.key, parts.value, parts.headers, (stamp, place))

    def _of_json(self, line: bytes, number: int) -> Outgoing:
        document = jsonl.read_document(line, number)
        key, value = (jsonl.body(document, name, number) for name in ("key", "value"))
        said = self.timestamp_ms
        if said is None:
            said = jsonl.timestamp_ms(document, number)
        place = jsonl.partition(document, number)
        return self._outgoing(number, key, value, jsonl.headers(document, number), (said, place))

    def _outgoing(
        self,
        number: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        said: tuple[int | None, int | None],
    ) -> Outgoing:
        partition = None if self.by_key else said[1] if self.partition is None else self.partition
        key = key if self.key is None else self.key
        return Outgoing(number, key, value, headers + self.headers, said[0], partition)

    def _time(self, text: bytes, number: int) -> int:
        exact = _STAMP.fullmatch(text)
        if exact and len(exact[2]) > _MOST_DIGITS + 1:
            raise BadLine(number, reason=f"timestamp {text[:40].decode()}… has too many digits")
        if exact and (exact[1] or len(exact[2]) == _MS_DIGITS or exact[2].startswith(b"-")):
            return int(exact[2])
        said = text.decode("utf-8", "replace")
        ms = jsonl.ms_of(said, self.timezone, number)
        if exact:
            self._units.add(_UNITS.get(len(said), "other units"))
        return ms

    def _number(self, text: bytes, number: int) -> int:
        digits = text.removeprefix(b"Partition:")
        if not (digits.isdigit() and len(digits) <= _MOST_DIGITS):
            raise BadLine(
                number, reason=f"partition {text.decode('utf-8', 'replace')!r:.60} is not a number"
            )
        return int(digits)


def reading(run: Run) -> Reading:
    """Return the line format of the options."""
    values = run.values
    form = values["format_"]
    _take_properties(run)
    if form == "jsonl":
        _refuse_line_options(run)
    lines = _line_reader(run) if form == "lines" else None
    configuration = run.configuration()
    stamp = values["timestamp"]
    partition, by_key = _partition(values["partition"])
    key = values["key"]
    if key is not None and lines and "key" in lines.fields:
        raise UsageError("--key is the key of all records, and each line has one of its own")
    return Reading(
        lines,
        None if key is None else key.encode("utf-8", "surrogateescape"),
        _headers(values["header"] or ()),
        None if stamp is None else instant_ms("--timestamp", stamp, configuration),
        partition,
        by_key,
        configuration.get("timezone") or "UTC",
    )


def _take_properties(run: Run) -> None:
    """The same options as Kafka's console producer spells them."""
    values = run.values
    parsed = [name for name in (values["with_"] or "").split(",") if name]
    given: dict[str, str] = {}
    for text in values["property"] or ():
        name, _, value = text.partition("=")
        if found := _PARSE.fullmatch(text):
            parsed += [found[1]] if found[2] == "true" else []
        elif name in _PROPERTIES:
            given[name] = values[_PROPERTIES[name]] = value
        else:
            needed = f"parse.key=true, parse.headers=true, or one of {', '.join(_PROPERTIES)}"
            raise BadValue("--property", found=text, needed=needed)
    ends = {given.get(name, "\t") for name in ("key.separator", "headers.delimiter")}
    if {"headers", "key"} <= set(parsed) and given and len(ends) > 1:
        text = "a line has one separator: headers.delimiter and key.separator differ"
        raise UsageError(text, hint="give both properties the same value")
    values["with_"] = ",".join(dict.fromkeys(parsed)) or None


def _refuse_line_options(run: Run) -> None:
    about_lines = ("with_", "separator", "headers_separator", "header_separator", "null")
    for name in about_lines:
        if run.values[name] is not None:
            flag = f"--{name.strip('_').replace('_', '-')}"
            raise UsageError(f"{flag} applies to lines, and these are JSON Lines")


def _line_reader(run: Run) -> LineReader:
    values = run.values
    asked = fields("--with", values["with_"], BEFORE_THE_VALUE)
    ordered = [name for name in BEFORE_THE_VALUE if name in asked]
    return LineReader(ordered, separators(run))


def separators(run: Run, *, null: bytes | None = None) -> Separators:
    """Return the separators between the parts of a line."""
    values, usual = run.values, Separators()

    def said(option: str, otherwise: bytes) -> bytes:
        text = values[option]
        if text == "":
            raise UsageError(f"--{option.replace('_', '-')} cannot be empty")
        return otherwise if text is None else unescaped(text)

    return Separators(
        said("separator", usual.key),
        said("headers_separator", usual.headers),
        said("header_separator", usual.header),
        null if values["null"] is None else unescaped(values["null"]),
    )


def fields(flag: str, text: str | None, known: Sequence[str]) -> list[str]:
    """Parse comma-separated names."""
    found = [each.strip() for each in (text or "").split(",") if each.strip()]
    for each in found:
        if each not in known:
            raise BadValue(flag, found=each, needed=", ".join(known))
    return found


def unescaped(text: str) -> bytes:
    r"""Resolve escapes such as \\t, as typed in a shell."""
    said = re.sub(
        r"\\(x[0-9a-fA-F]{2}|[tnr0\\])",
        lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" else _ESCAPES[found[1]],
        text,
    )
    return said.encode("utf-8", "surrogateescape")


def _headers(rules: Sequence[str]) -> Headers:
    found = []
    for rule in rules:
        name, equals, value = rule.partition("=")
        if not equals or not name:
            raise BadValue("--header", found=rule, needed="NAME=VALUE")
        found.append((name, value.encode("utf-8", "surrogateescape")))
    return tuple(found)


def _partition(text: str | None) -> tuple[int | None, bool]:
    if text is None or text == "auto":
        return None, text is not None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadValue("--partition", found=text[:60], needed="a number, or auto")
    return int(text), False
