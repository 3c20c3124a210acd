"""The ways to choose a group's new position, and the offset that each gives in one partition."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from playhead.errors import UsageError
from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import MS, duration_ns
from playhead.grammar.instant import read_point, show_ms
from playhead.grammar.zone import zone_name
from playhead.source import Bounds, TopicPartition

MODES: Final = (
    "--to",
    "--to-datetime",
    "--by-duration",
    "--shift-by",
    "--to-offset",
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--from-file",
)
_EPOCH_UNITS: Final = {10: "seconds", 13: "milliseconds", 16: "microseconds", 19: "nanoseconds"}
_EPOCH_MS: Final = {10: 1_000.0, 13: 1.0, 16: 1e-3, 19: 1e-6}
_MOST_OFFSET = 2**63 - 1
_TOO_MANY_DIGITS = 20  # Kinds whose value needs no request.


class NothingToShift(UsageError):
    """A partition without an offset from which to shift."""

    def __init__(self, group: str, place: TopicPartition) -> None:
        self.group, self.place = group, place
        super().__init__(
            f"--shift-by: group {group} has no committed offset for {place[0]}:{place[1]}",
            hint="leave that partition out with --topic TOPIC:PARTITION, or use --to or --to-offset",
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one partition when its offset is chosen."""

    group: str
    place: TopicPartition
    bounds: Bounds
    committed: int | None
    at_instant: int | None = None
    """The first record not before the given time; None if all are before it."""
    earlier: tuple[int, int] | None = None
    """Offset and time of a later record that is much older than the given time."""


class Answer(NamedTuple):
    """An offset, with a note for people."""

    offset: int
    note: str | None = None


class Position(Protocol):
    """One way to choose the position."""

    @property
    def instant_ms(self) -> int | None:
        """The time to look up in every partition, if the choice is by time."""
        ...

    def answer(self, facts: Facts, /) -> Answer:
        """Return the new offset in this partition; always within its bounds."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record."""

    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        return Answer(facts.bounds.earliest)

    def __str__(self) -> str:
        return "the start of the log"


@dataclass(frozen=True, slots=True)
class Latest:
    """The end as in Kafka's own tool: the high watermark, including open transactions."""

    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        bounds = facts.bounds
        pending = bounds.high_watermark - bounds.stable_end
        note = f"skips {pending} offsets of transactions that are still open" if pending else None
        return Answer(bounds.high_watermark, note)

    def __str__(self) -> str:
        return "the end of the log"


@dataclass(frozen=True, slots=True)
class Current:
    """The committed offset; the end where nothing is committed."""

    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        if facts.committed is None:
            return Answer(facts.bounds.high_watermark, "nothing was committed: the end")
        return Answer(facts.committed)

    def __str__(self) -> str:
        return "the committed offset"


@dataclass(frozen=True, slots=True)
class AtOffset:
    """One offset for all partitions."""

    offset: int
    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        return _clamped(self.offset, facts.bounds)

    def __str__(self) -> str:
        return f"offset {self.offset}"


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """A number of offsets after the committed one, or before it if negative."""

    count: int
    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        if facts.committed is None:
            raise NothingToShift(facts.group, facts.place)
        return _clamped(facts.committed + self.count, facts.bounds)

    def __str__(self) -> str:
        return f"{self.count:+} offsets from the committed one"


@dataclass(frozen=True, slots=True)
class AtInstant:
    """The first record that is not before a time."""

    instant_ms: int
    written: str

    def answer(self, facts: Facts) -> Answer:
        if facts.at_instant is None:
            return Answer(
                facts.bounds.high_watermark,
                "no record is that late: the end"
                if facts.bounds.high_watermark > facts.bounds.earliest
                else "empty: the end",
            )
        if facts.earlier is not None:
            offset, time_ms = facts.earlier
            note = f"early, because clocks disagree: offset {offset} after it is from {show_ms(time_ms)}"
            return Answer(facts.at_instant, note)
        is_first = facts.at_instant == facts.bounds.earliest
        return Answer(facts.at_instant, "the first record" if is_first else None)

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True, slots=True)
class ByPartition:
    """One offset for each partition, from a file."""

    offsets: Mapping[TopicPartition, int]
    written: str
    instant_ms: int | None = None

    def answer(self, facts: Facts) -> Answer:
        return _clamped(self.offsets[facts.place], facts.bounds)

    def __str__(self) -> str:
        return self.written


def _clamped(wanted: int, bounds: Bounds) -> Answer:
    if wanted > bounds.high_watermark:
        return Answer(bounds.high_watermark, f"{wanted} is beyond the end{_like_a_time(wanted)}")
    if wanted < bounds.earliest:
        return Answer(bounds.earliest, f"{wanted} is before the start")
    return Answer(wanted)


def _like_a_time(offset: int) -> str:
    """Return a hint if the offset looks like a time."""
    unit = _EPOCH_UNITS.get(len(str(offset)))
    if unit is None or offset < 0:
        return ""
    at = show_ms(int(offset * _EPOCH_MS[len(str(offset))]))
    return f"; as {unit} it would be {at}: --to {offset}"


# --- reading


def read_mode(
    given: Mapping[str, str | int | bool | None], *, timezone: str, now_ns: int
) -> Position:
    """Parse the one position option; `--from-file` is read elsewhere."""
    named = need_one_mode(given)
    return _READERS[named](given[named], zone_name(timezone, where="timezone"), now_ns)


def need_one_mode(given: Mapping[str, object]) -> str:
    """Return the option with the position; refuse none or two."""
    named = [name for name, value in given.items() if value not in (None, False)]
    if not named:
        raise UsageError(
            "no new position was given",
            hint=f"use one of {', '.join(MODES)}; such as --to now-2h",
        )
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} contradict each other", hint="use one of them")
    return named[0]


def _to(text: object, zone: str, now_ns: int) -> Position:
    phrase = Cursor.of(str(text), "--to")
    if phrase.text in ("start", "earliest"):
        return Earliest()
    if phrase.text in ("end", "latest"):
        return Latest()
    return _instant(phrase, zone, now_ns)


def _to_datetime(text: object, zone: str, now_ns: int) -> Position:
    return _instant(Cursor.of(str(text), "--to-datetime"), zone, now_ns)


def _instant(phrase: Cursor, zone: str, now_ns: int) -> Position:
    text = phrase.text
    try:
        point = read_point(phrase, zone).point
    except NotUnderstood as exc:
        if text.isdigit() and len(text) < 8:
            hint = f"write an offset as --to-offset {text}"
            raise phrase.refuse(exc.reason, hint=hint) from exc
        raise
    at_ms = -(-point.at_ns(now_ns) // MS)
    unit = _EPOCH_UNITS.get(len(text)) if text.isdigit() else None
    shown = show_ms(at_ms)
    return AtInstant(at_ms, f"{shown} ({text} read as {unit})" if unit else shown)


def _by_duration(text: object, _zone: str, now_ns: int) -> Position:
    length_ns = duration_ns(Cursor.of(str(text), "--by-duration"))
    # Kafka's own tool also uses whole milliseconds.
    at_ms = now_ns // MS - -(-length_ns // MS)
    return AtInstant(at_ms, f"{show_ms(at_ms)} (now-{text})")


def _number(flag: str) -> Callable[[object], int]:
    def read(text: object) -> int:
        phrase = Cursor.of(str(text), flag)
        digits = phrase.text.removeprefix("-").removeprefix("+")
        is_short = digits.isascii() and digits.isdigit() and len(digits) < _TOO_MANY_DIGITS
        if not is_short or int(digits) > _MOST_OFFSET:
            raise phrase.refuse(f"found {phrase.text!r:.60}, needed a number of offsets")
        return int(phrase.text)

    return read


_READERS: Final[Mapping[str, Callable[[object, str, int], Position]]] = {
    "--to": _to,
    "--to-datetime": _to_datetime,
    "--by-duration": _by_duration,
    "--shift-by": lambda text, _zone, _now: ShiftBy(_number("--shift-by")(text)),
    "--to-offset": lambda text, _zone, _now: AtOffset(_number("--to-offset")(text)),
    "--to-earliest": lambda *_: Earliest(),
    "--to-latest": lambda *_: Latest(),
    "--to-current": lambda *_: Current(),
}
