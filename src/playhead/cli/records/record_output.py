"""The records that `consume` prints: filters and output formats."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from playhead.cli.options import Run
from playhead.cli.output import shown_csv, write_records, write_text
from playhead.cli.records import jsonl
from playhead.cli.records.decode import Decoded
from playhead.cli.records.record_format import FormatWriter
from playhead.cli.records.record_lines import fields, separators, unescaped
from playhead.errors import BadValue, UsageError
from playhead.records import Records

if TYPE_CHECKING:
    from playhead.kafka.produce.console_lines import LineWriter
    from playhead.traffic.filter.regex import Pattern

_PRINT = re.compile(r"print\.(timestamp|partition|offset|headers|key|value)=(true|false)")


_PROPERTIES = {
    "key.separator": "separator",
    "headers.separator": "headers_separator",
    "line.separator": "line_separator",
    "null.literal": "null",
}


@dataclass(slots=True)
class RecordFilter:
    """Filters records, and counts those left out by reason."""

    value: "Pattern | None" = None
    key: "Pattern | None" = None
    most: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    seen: int = 0
    found: int = 0
    outside: int = 0
    unlike: int = 0

    def pick(self, records: Records, decoded: Decoded) -> tuple[list[int], bool]:
        """Return the indexes of wanted records, and whether the maximum is reached."""
        self.seen += len(records)
        indexes = self._in_time(records)
        left = None if self.most is None else self.most - self.found
        if self.value is None and self.key is None:
            wanted = decoded.take(records, indexes, left)
        else:
            wanted = decoded.take(records, indexes, left, self._fits)
        self.found += len(wanted)
        return wanted, self.found == self.most and bool(wanted)

    def _in_time(self, records: Records) -> Sequence[int]:
        if self.from_ms is None and self.to_ms is None:
            return range(len(records))
        low = self.from_ms if self.from_ms is not None else -(1 << 63)
        high = self.to_ms if self.to_ms is not None else 1 << 63
        inside = [n for n, at in enumerate(records.timestamps_ms) if low <= at < high]
        self.outside += len(records) - len(inside)
        return inside

    def _fits(self, key: bytes | None, value: bytes | None) -> bool:
        """Return whether both patterns match; null never matches, and bytes that are not text are
        searched leniently.
        """
        for pattern, held in ((self.key, key), (self.value, value)):
            if pattern is not None and (held is None or not pattern.fits(held)):
                self.unlike += 1
                return False
        return True


@dataclass(slots=True)
class Printer:
    """An output format; `count` is how many records it has printed."""

    decoded: Decoded
    count: int = field(default=0, init=False)

    def begin(self) -> None:
        """Print what comes before all records."""

    def show(self, records: Records, indexes: Sequence[int], /) -> None:
        """Print some of the records."""
        self.count += len(indexes)
        if indexes:
            self.write(records.pick(indexes))

    def write(self, picked: Records, /) -> None:
        raise NotImplementedError

    def end(self, scanned: int, why: str, /) -> None:
        """Print what comes after all records."""


@dataclass(slots=True)
class LinePrinter(Printer):
    """Prints records like Kafka's console consumer."""

    writer: "LineWriter | FormatWriter" = field(kw_only=True)

    def write(self, picked: Records, /) -> None:
        write_records(self.writer.lines(picked, *self.decoded.as_bytes(picked)))


class CsvPrinter(Printer):
    """The columns of a `csv:` archive."""

    __slots__ = ()

    def begin(self) -> None:
        from playhead.files.formats.csv_format import HEADER

        write_text(shown_csv([HEADER]))

    def write(self, picked: Records, /) -> None:
        from playhead.files.formats.csv_format import rows_of

        keys, values = self.decoded.as_bytes(picked)
        write_text(shown_csv(rows_of(replace(picked, keys=[*keys], values=[*values]))))


@dataclass(slots=True)
class JsonPrinter(Printer):
    """Prints whole records: as JSON Lines, or in one document that also says why it ends."""

    is_document: bool = False
    _between: str = field(default="\n", init=False)

    def begin(self) -> None:
        if self.is_document:
            write_text('{"records": [')

    def write(self, picked: Records, /) -> None:
        text = list(jsonl.lines(picked, self.decoded.as_json()))
        if self.is_document:
            write_text(self._between + ",\n".join(text))
            self._between = ",\n"
        else:
            write_text("\n".join(text) + "\n")

    def end(self, scanned: int, why: str, /) -> None:
        if self.is_document:
            write_text(f'\n], "scanned": {scanned}, "stopped": {json.dumps(why)}}}\n')


def printer(run: Run, decoded: Decoded) -> Printer:
    """Return the printer for the options."""
    _take_properties(run)
    if run.output.form == "table":
        return LinePrinter(decoded, writer=_line_writer(run))
    about_lines = ("show", "format_", "separator", "headers_separator", "header_separator", "null")
    for name in (*about_lines, "line_separator"):
        if run.values[name] is not None:
            flag = f"--{name.strip('_').replace('_', '-')}"
            raise UsageError(f"{flag} is about lines, and -o {run.output.form} has none")
    if run.output.form == "csv":
        return CsvPrinter(decoded)
    return JsonPrinter(decoded, is_document=run.output.form == "json")


def _line_writer(run: Run) -> "LineWriter | FormatWriter":
    from playhead.kafka.produce.console_lines import FIELDS, LineWriter

    values = run.values
    if values["format_"] is not None:
        for name in ("show", "separator", "line_separator"):
            if values[name] is not None:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"--format says all of a line; leave out {flag}")
        return FormatWriter.parse(values["format_"], separators(run, null=b""))
    asked = fields("--show", values["show"], FIELDS) or ["value"]
    end = b"\n" if values["line_separator"] is None else unescaped(values["line_separator"])
    return LineWriter(asked, separators(run, null=b"null"), end)


def _take_properties(run: Run) -> None:
    """Apply Kafka's own spelling of the same options."""
    values = run.values
    asked = (values["show"] or "").split(",") if values["show"] else []
    shown = {"value"} if not asked else set(asked)
    for text in values["property"] or ():
        key, _, said = text.partition("=")
        if found := _PRINT.fullmatch(text):
            (shown.add if found[2] == "true" else shown.discard)(found[1])
        elif key in _PROPERTIES:
            values[_PROPERTIES[key]] = said
        else:
            needed = f"print.FIELD=true, or one of {', '.join(_PROPERTIES)}"
            raise BadValue("--property", found=text, needed=needed)
    if values["property"]:
        values["show"] = ",".join(sorted(shown)) or None
