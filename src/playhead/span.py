"""The span: which records a replay takes, half-open `[from, to)`, by time, by offset, or by
duration.

`Span.parse` reads one text, `Span.of` the options of a command; neither needs a clock. `resolve`
turns the span into times or offsets, given the present time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from playhead.errors import UsageError
from playhead.grammar.cursor import Cursor
from playhead.grammar.duration import MS, duration_ns, show_duration_ns
from playhead.grammar.instant import (
    ClockTime,
    FromNow,
    Instant,
    Point,
    WrittenTime,
    read_point,
    show_ms,
    show_ns,
)
from playhead.grammar.zone import zone_name

_SIDES: Final = "2021-08-04T12:30..14:30, -2h..now, start..end, last 2h, or orders:0:100-200"
_OFFSET_FORM: Final = "topic:partition:from-to, or partition:from-to when there is one topic"
_DURATION: Final = re.compile(r"[0-9.,]+[^\W\d_]|[pP]")
# A topic's name may contain `..`, so offsets are tried before times.
_OFFSETS: Final = re.compile(r"(?:[\w.-]+:)?[0-9]+:[0-9]*-[0-9]*(?:\s*,|\s*$)", re.ASCII)
_ONE_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[Zz [].*)?$"
)
_TOPIC: Final = re.compile(r"[\w.-]+", re.ASCII)
_MOST_PARTITION, _MOST_OFFSET = 2**31 - 1, 2**63 - 1


class ContradictorySpan(UsageError):
    """Parts of a span that contradict each other."""


class EndsBeforeStart(ContradictorySpan):
    """A span that ends before it begins; the error shows both ends."""

    def __init__(self, from_: str, to: str) -> None:
        self.from_, self.to = from_, to
        super().__init__(
            f"the span's from, {from_}, is after its to, {to}",
            hint="exchange them, or write both with their dates",
        )


@dataclass(frozen=True, slots=True)
class Lasting:
    """A duration, counted from the other side of the span."""

    ns: int

    def __str__(self) -> str:
        return show_duration_ns(self.ns)


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """The offsets `[from_offset, to_offset)` of one partition; None is the log's start or end.

    Without a topic, it applies to a source with a single topic.
    """

    topic: str | None
    partition: int
    from_offset: int | None
    to_offset: int | None

    def __str__(self) -> str:
        start, end = ("" if o is None else str(o) for o in (self.from_offset, self.to_offset))
        place = f"{self.partition}" if self.topic is None else f"{self.topic}:{self.partition}"
        return f"{place}:{start}-{end}"

    def _order(self) -> tuple[str, int, int, bool, int]:
        """The sort key: topic, partition, start; the log's start is first, its end last."""
        to = (self.to_offset is None, self.to_offset or 0)
        return (self.topic or "", self.partition, self.from_offset or 0, *to)


def are_named_to_the_end(offsets: Iterable[OffsetSpan], place: tuple[str, int]) -> bool:
    """Return whether the span names the last of the partition's offsets, and so none after it."""
    theirs = [
        each for each in offsets if each.partition == place[1] and each.topic in (None, place[0])
    ]
    return bool(theirs) and all(each.to_offset is not None for each in theirs)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A span at one moment: record times in `[from_ms, to_ms)`, or offsets.

    None is the start or the end of the log. Times are never negative, because Kafka's requests use
    negative times for other meanings.
    """

    from_ms: int | None
    to_ms: int | None
    offsets: tuple[OffsetSpan, ...] = ()

    def __str__(self) -> str:
        if self.offsets:
            return ",".join(map(str, self.offsets))
        start = "start" if self.from_ms is None else show_ms(self.from_ms)
        return f"{start}..{'end' if self.to_ms is None else show_ms(self.to_ms)}"


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it was requested; without sides, the whole log. `str` gives a text that parses as the same span."""

    from_: Point | Lasting | None = None
    to: Point | Lasting | None = None
    offsets: tuple[OffsetSpan, ...] = ()

    @classmethod
    def parse(cls, text: str, *, timezone: str = "UTC") -> "Span":
        """Parse `A..B`, `last 2h`, or offsets; times without a zone are in `timezone`."""
        phrase = Cursor.of(text, "the span")
        zone = zone_name(timezone, where="timezone")
        between = phrase.text.find("..")
        is_offsets = _OFFSETS.match(phrase.text) or (between < 0 and ":" in phrase.text)
        if is_offsets and not _ONE_TIME.match(phrase.text):
            return cls(offsets=_read_offsets(phrase))
        if last := re.match(r"last\s+", phrase.text):
            return cls(FromNow(-duration_ns(phrase.cut(last.end()))))
        if between < 0:
            raise phrase.refuse(
                "found no '..', needed A..B", at=len(phrase.text), hint=f"such as {_SIDES}"
            )
        from_, to = phrase.cut(0, between).strip(), phrase.cut(between + 2).strip()
        return _between(from_ if from_.text else None, to if to.text else None, zone)

    @classmethod
    def of(
        cls,
        from_: str | None = None,
        to: str | None = None,
        for_: str | None = None,
        last: str | None = None,
        offsets: str | None = None,
        *,
        timezone: str = "UTC",
    ) -> "Span":
        """Build a span from the options of a command; without options, the whole log."""
        zone = zone_name(timezone, where="timezone")
        _need_agreement({"from": from_, "to": to, "for": for_, "last": last, "offsets": offsets})
        if offsets is not None:
            return cls(offsets=_read_offsets(Cursor.of(offsets, "--offsets")))
        if last is not None:
            return cls(FromNow(-duration_ns(Cursor.of(last, "--last"))))
        start, end = _option(from_, "--from"), _option(to, "--to")
        if for_ is None:
            return _between(start, end, zone)
        length = Lasting(duration_ns(Cursor.of(for_, "--for")))
        if start is not None:
            return _checked(_side(start, zone, "start"), length)
        return _checked(length, _side(end, zone, "end") if end is not None else None)

    def resolve(self, now_ns: int) -> Resolved:
        """Return the span's times or offsets now. Kafka's times are milliseconds: `[ceil(from), ceil(to))`."""
        if self.offsets:
            return Resolved(None, None, self.offsets)
        from_ns, to_ns = _at_ns(self.from_, now_ns), _at_ns(self.to, now_ns)
        if isinstance(self.from_, Lasting) and to_ns is not None:
            from_ns = to_ns - self.from_.ns
        if isinstance(self.to, Lasting) and from_ns is not None:
            to_ns = from_ns + self.to.ns
        for name, ns in (("from", from_ns), ("to", to_ns)):
            if ns is not None and ns < 0:
                raise ContradictorySpan(
                    f"{name} of the span {self} is {show_ns(ns)}, and times count from 1970",
                    hint="the first record is `start`",
                )
        if from_ns is not None and to_ns is not None and from_ns > to_ns:
            raise EndsBeforeStart(_said(self.from_, from_ns), _said(self.to, to_ns))
        return Resolved(_ceil_ms(from_ns), _ceil_ms(to_ns))

    def __str__(self) -> str:
        if self.offsets:
            return ",".join(map(str, self.offsets))
        start = "start" if self.from_ is None else str(self.from_)
        return f"{start}..{'end' if self.to is None else self.to}"


# --- sides


def _option(text: str | None, name: str) -> Cursor | None:
    return None if text is None else Cursor.of(text, name)


def _need_agreement(given: dict[str, str | None]) -> None:
    names = [f"--{name}" for name, text in given.items() if text is not None]
    for alone, hint in (
        ("--offsets", "offsets are a complete span"),
        (
            "--last",
            "--last 2h is from -2h to the end; for another end: --from and --to, or --from and --for",
        ),
    ):
        if alone in names and len(names) > 1:
            others = " and ".join(name for name in names if name != alone)
            raise ContradictorySpan(f"{alone} and {others} contradict each other", hint=hint)
    if names == ["--from", "--to", "--for"]:
        text = "--from, --to and --for: found all three, needed two"
        raise ContradictorySpan(text, hint="leave one of them out")
    if names == ["--for"]:
        text = "--for needs --from or --to"
        raise ContradictorySpan(text, hint="the time up to now is --last 2h")


def _between(from_: Cursor | None, to: Cursor | None, zone: str) -> Span:
    start = _side(from_, zone, "start") if from_ is not None else None
    end = _side(to, zone, "end", beside=start) if to is not None else None
    return _checked(start, end)


Read = WrittenTime | Lasting | None


def _side(phrase: Cursor, zone: str, open_end: str, *, beside: Read = None) -> Read:
    """Parse one side: the word for the open end, a duration, or a time."""
    other = {"start": "end", "end": "start"}[open_end]
    if phrase.text == open_end:
        return None
    if phrase.text == other:
        raise phrase.refuse(
            f"a span cannot {'begin at the end' if other == 'end' else 'end at the start'}",
            hint="`now` is a time on either side" if other == "end" else None,
        )
    if _DURATION.match(phrase.text):
        return Lasting(duration_ns(phrase))
    written = read_point(phrase, zone)
    point = written.beside(beside if isinstance(beside, WrittenTime) else None, phrase)
    return WrittenTime(point, written.zone, written.zone_is_written)


def _checked(from_: Read, to: Read) -> Span:
    """Check two sides as far as that is possible without the present time."""
    if isinstance(from_, Lasting) and not isinstance(to, WrittenTime):
        raise ContradictorySpan(
            f"the {from_} before what? The other side is not a time", hint=_SIDES
        )
    if isinstance(to, Lasting) and not isinstance(from_, WrittenTime):
        raise ContradictorySpan(f"{to} from when? The other side is not a time", hint=_SIDES)
    span = Span(_bare(from_), _bare(to))
    if _is_backwards(span.from_, span.to):
        raise EndsBeforeStart(str(span.from_), str(span.to))
    return span


def _bare(side: Read) -> Point | Lasting | None:
    return side.point if isinstance(side, WrittenTime) else side


def _is_backwards(from_: Point | Lasting | None, to: Point | Lasting | None) -> bool:
    if isinstance(from_, Instant) and isinstance(to, Instant):
        return from_.ns > to.ns
    if isinstance(from_, FromNow) and isinstance(to, FromNow):
        return from_.shift_ns > to.shift_ns
    if isinstance(from_, ClockTime) and isinstance(to, ClockTime) and from_.zone == to.zone:
        return from_.of_day_ns > to.of_day_ns
    return False


def _at_ns(side: Point | Lasting | None, now_ns: int) -> int | None:
    return None if side is None or isinstance(side, Lasting) else side.at_ns(now_ns)


def _said(side: Point | Lasting | None, ns: int) -> str:
    return show_ns(ns) if isinstance(side, Instant) else f"{show_ns(ns)} ({side})"


def _ceil_ms(ns: int | None) -> int | None:
    return None if ns is None else -(-ns // MS)


# --- offsets


def _read_offsets(phrase: Cursor) -> tuple[OffsetSpan, ...]:
    """Parse offset spans joined by commas, sort them, and refuse overlaps."""
    found, at = [], 0
    for text in phrase.text.split(","):
        found.append(_read_offset_span(phrase.cut(at, at + len(text)).strip()))
        at += len(text) + 1
    spans = sorted(found, key=OffsetSpan._order)
    _need_disjoint(spans)
    return tuple(spans)


def _read_offset_span(phrase: Cursor) -> OffsetSpan:
    text = phrase.text
    place, colon, offsets = text.rpartition(":")
    if not colon:
        raise phrase.refuse("found no ':'", at=len(text), hint=f"needed {_OFFSET_FORM}")
    topic, has_topic, _ = place.rpartition(":")
    if has_topic and not _TOPIC.fullmatch(topic):
        raise phrase.refuse(f"{topic!r} is not a topic name", hint=f"needed {_OFFSET_FORM}")
    start, dash, end = offsets.partition("-")
    if not dash:
        raise phrase.refuse(
            "found no '-'", at=len(text), hint="one offset, 41, is 41-42; all from it on, 41-"
        )
    partition = _number(phrase.cut(len(topic + has_topic), len(place)), _MOST_PARTITION)
    first = len(place) + 1
    from_ = _number(phrase.cut(first, first + len(start)), _MOST_OFFSET) if start else None
    to = _number(phrase.cut(first + len(start) + 1), _MOST_OFFSET) if end else None
    if from_ is not None and to is not None and from_ > to:
        raise phrase.refuse(f"from offset {from_} is after to offset {to}", at=first)
    return OffsetSpan(topic if has_topic else None, partition, from_, to)


def _number(phrase: Cursor, most: int) -> int:
    text = phrase.text
    wrong = next((i for i, c in enumerate(text) if c not in "0123456789"), None)
    if wrong is not None or not text:
        at = wrong or 0
        shown = phrase.found(at) if text else "nothing"
        raise phrase.refuse(f"found {shown}, needed a number", at=at, hint=_OFFSET_FORM)
    if len(text) > 19 or int(text) > most:
        raise phrase.refuse(f"the number is too large, needed at most {most}")
    return int(text)


def _need_disjoint(spans: Sequence[OffsetSpan]) -> None:
    if len({each.topic is None for each in spans}) > 1:
        raise ContradictorySpan(
            "some of the offsets name a topic and some do not",
            hint="write the topic for all of them",
        )
    for one, other in pairwise(spans):
        same = (one.topic, one.partition) == (other.topic, other.partition)
        if same and (one.to_offset is None or (other.from_offset or 0) < one.to_offset):
            raise ContradictorySpan(f"the offsets {one} and {other} overlap", hint="join them")
