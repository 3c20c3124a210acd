"""Extracts the key and the time of a record: from its JSON, from its bytes, or from its arrival."""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from playhead.errors import BadValue
from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import MS, SECOND
from playhead.grammar.instant import Instant, read_point
from playhead.ingest.json_path import Steps, Unfit, parse_path, show_path, value_at
from playhead.printable import is_unicode

NO_TIME: Final = "no time"
_UNITS: Final = {10: SECOND, 13: MS, 16: 1_000, 19: 1}
_MS_DIGITS: Final = 13
_NUMBER: Final = re.compile(r"([0-9]+)(?:\.([0-9]{1,18}))?")
_TO_THE_SECOND: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?([^0-9.,].*)?"
)

NO_KEY, NO_JSON, NO_TEXT = "no key", "no JSON", "not UTF-8"
ARRIVAL: Final = "arrival"
_CUT: Final = re.compile(r"bytes:([0-9]{1,5})-([0-9]{1,5})")


def _nothing(_: str) -> None:
    """Replace NaN and the like, which are not JSON: a field with one counts as empty."""


# Numbers stay texts: 7 is not 7.0, and a large number keeps all digits.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_nothing)
_scan: Final[Any] = _DECODER.scan_once  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Cut:
    """A half-open range of a record's bytes, from 0."""

    first: int
    stop: int

    def of(self, value: bytes) -> bytes:
        if len(value) < self.stop:
            reason = f"it has {len(value)} bytes, but the key ends at {self.stop}"
            raise Unfit(NO_KEY, reason=reason)
        return value[self.first : self.stop]

    def __str__(self) -> str:
        return f"bytes:{self.first}-{self.stop}"


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Where key and time come from; None is no key, or the time of arrival."""

    key: Steps | Cut | None = None
    timestamp: Steps | None = None
    zone: str = "UTC"
    """The zone of times that have none."""
    before_ms: int | None = None
    after_ms: int | None = None
    """How far from its arrival the topic lets the time of a record be: a broker refuses all that was sent with it."""

    @classmethod
    def parse(cls, key: str | None, timestamp: str | None, zone: str) -> "RecordShape":
        """Parse the options: a JSON path or `bytes:0-4`; a JSON path or `arrival`."""
        stamped = timestamp is not None and timestamp != ARRIVAL
        return cls(
            None if key is None else _key(key),
            parse_path(timestamp, where="--timestamp") if stamped else None,  # type: ignore[arg-type]
            zone,
        )

    def of(self, value: bytes, arrival_ms: int) -> tuple[bytes | None, int]:
        """Return the key and the timestamp of a record."""
        key, stamp = self.key, self.timestamp
        if isinstance(key, Cut):
            cut = key.of(value)
            return cut, arrival_ms if stamp is None else self._time(
                document(value), stamp, arrival_ms
            )
        if key is None and stamp is None:
            return None, arrival_ms
        found = document(value)
        return (
            None if key is None else _text(found, key, NO_KEY).encode(),
            arrival_ms if stamp is None else self._time(found, stamp, arrival_ms),
        )

    def _time(self, found: Any, steps: Steps, arrival_ms: int) -> int:
        time_ms = timestamp_ms(_text(found, steps, NO_TIME), self.zone)
        for side, away_ms, most_ms in (
            ("before", arrival_ms - time_ms, self.before_ms),
            ("after", time_ms - arrival_ms, self.after_ms),
        ):
            if most_ms is not None and away_ms > most_ms:
                reason = (
                    f"its time is {away_ms:,} ms {side} its arrival; the topic takes {most_ms:,}"
                )
                raise Unfit(NO_TIME, reason=f"{reason} (message.timestamp.{side}.max.ms)")
        return time_ms

    def __str__(self) -> str:
        key = show_path(self.key) if isinstance(self.key, tuple) else str(self.key or "none")
        stamp = ARRIVAL if self.timestamp is None else show_path(self.timestamp)
        return f"key {key}, timestamp {stamp}"


def document(value: bytes) -> Any:
    """Return the JSON document of a record, with every number as its text."""
    try:
        text = value.decode()
    except UnicodeDecodeError as exc:
        raise Unfit(NO_TEXT, reason=f"byte {exc.start} is 0x{value[exc.start]:02x}") from None
    try:
        # Without the decoder's own search for white space, which doubles the cost.
        found, end = _scan(text, 0)
        if end == len(text):
            return found
    except (StopIteration, ValueError, RecursionError):
        pass
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise Unfit(NO_JSON, reason="it is nested too deeply") from None
    except ValueError as exc:
        raise Unfit(NO_JSON, reason=str(exc)) from None


def _text(found: Any, steps: Steps, kind: str) -> str:
    """Return a text, a number or a truth value as JSON writes it, if UTF-8 can encode it."""
    value = value_at(found, steps, kind)
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        what = "an object" if isinstance(value, dict) else "a list"
        raise Unfit(kind, reason=f"{show_path(steps)} is {what}")
    if not is_unicode(value):
        raise Unfit(kind, reason=f"{show_path(steps)} has half of a surrogate pair")
    return value


def _key(text: str) -> Steps | Cut:
    if not text.startswith("bytes:") and text != "bytes":
        return parse_path(text, where="--key")
    found = _CUT.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        needed = "bytes:FIRST-STOP, such as bytes:0-4 for the first four"
        hint = "a JSON field of this name is $.bytes"
        raise BadValue("--key", found=text, needed=needed, hint=hint)
    return Cut(int(found[1]), int(found[2]))


def timestamp_ms(text: str, zone: str) -> int:
    """Return the first whole millisecond that is not before the time, for Kafka."""
    if len(text) == _MS_DIGITS and text.isdecimal() and text.isascii():
        found = int(text)
    elif number := _NUMBER.fullmatch(text):
        found = _ms_of_digits(number[1], number[2] or "")
    elif dated := _TO_THE_SECOND.fullmatch(text):
        fraction_ns = int((dated[2] or "").ljust(9, "0"))
        found = _ms_of_text(dated[1] + (dated[3] or ""), zone) - (-fraction_ns // MS)
    else:
        found = _ms_of_text(text, zone)
    if found == 0:
        raise Unfit(NO_TIME, reason="it is 0 (1970-01-01), which the Kafka client cannot send")
    return found


def _ms_of_digits(whole: str, fraction: str) -> int:
    unit = _UNITS.get(len(whole))
    if unit is None:
        needed = "needed 10 (seconds), 13 (ms), 16 (us) or 19 (ns) since 1970"
        raise Unfit(NO_TIME, reason=f"found {len(whole)} digits, {needed}")
    divisor: int = 10 ** len(fraction) * MS
    return -(-int(whole + fraction) * unit // divisor)


@lru_cache(maxsize=1_024)  # Records that arrive together usually have the same second.
def _ms_of_text(text: str, zone: str) -> int:
    try:
        point = read_point(Cursor.of(text, "time"), zone).point
    except NotUnderstood as exc:
        raise Unfit(NO_TIME, reason=f"{text[:60]!r}: {exc.reason}") from exc
    if not isinstance(point, Instant):
        raise Unfit(NO_TIME, reason=f"{text[:60]!r} is not a time")
    return -(-point.ns // MS)
