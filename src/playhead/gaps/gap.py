"""Gaps: offsets of the topic that are not in the target, and what is known of each of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records

Kind = Literal["missing", "settling", "expired"]


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of offsets that are not in the target.

    `missing` ones are in the log, and could be replayed; `settling` ones are so young that they may be
    on their way; `expired` ones are not in the log any more.
    """

    slice: Slice
    kind: Kind = "missing"
    records: int | None = None
    """How many of the offsets hold a record; None when the log was not asked."""
    first_ms: int | None = None
    """The earliest and the latest of their times."""
    last_ms: int | None = None

    @property
    def count(self) -> int:
        """Records where they were counted, else offsets."""
        return len(self.slice) if self.records is None else self.records

    def row(self, planned: int) -> dict[str, Any]:
        return {
            "topic": self.slice.topic,
            "partition": self.slice.partition,
            "from_offset": self.slice.from_offset,
            "to_offset": self.slice.to_offset,
            "offsets": len(self.slice),
            "records": self.records,
            "first": None if self.first_ms is None else show_ms(self.first_ms),
            "last": None if self.last_ms is None else show_ms(self.last_ms),
            "share": share(self.count, planned),
            "state": self.kind,
        }


@dataclass(frozen=True, slots=True)
class Gaps:
    """A span of a source held against a target."""

    source: str
    target: str
    spans: tuple[Slice, ...]
    """The offsets that were looked at."""
    found: tuple[Gap, ...]
    by: str
    """What was compared, for people: offsets, columns, a ledger."""
    absent: int | None = 0
    """Offsets that are not in the target because they hold no record; None when the log was not asked."""
    duplicates: int | None = None
    """Rows beyond the first of their offset; None when nobody could tell."""
    notes: tuple[Note, ...] = field(default=())

    @property
    def planned(self) -> int:
        return sum(map(len, self.spans))

    def of(self, kind: Kind) -> list[Gap]:
        return [each for each in self.found if each.kind == kind]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing; what settles is not missing yet."""
        return all(each.kind == "settling" for each in self.found)

    def missing_slices(self) -> list[Slice]:
        """What a replay would have to bring."""
        return [each.slice for each in self.of("missing")]

    def verdict(self) -> str:
        """One line: what a person reads first."""
        missing, expired = self.of("missing"), self.of("expired")
        lost = sum(each.count for each in missing)
        texts = [f"{lost:,} missing" if not missing else self._told(missing, lost)]
        if self.duplicates is not None:
            texts.append(f"{self.duplicates:,} duplicates")
        if expired:
            gone = sum(each.count for each in expired)
            texts.append(f"{gone:,} offsets neither there nor in the log any more")
        if settling := sum(each.count for each in self.of("settling")):
            texts.append(f"{settling:,} settling")
        return f"{', '.join(texts)} of {self.planned:,} offsets in {self.target}"

    def _told(self, missing: Sequence[Gap], lost: int) -> str:
        unit = "offsets" if any(each.records is None for each in missing) else "records"
        gaps = "1 gap" if len(missing) == 1 else f"{len(missing):,} gaps"
        return f"{gaps}: {lost:,} {unit} missing ({share(lost, self.planned)})"

    def rows(self) -> list[dict[str, Any]]:
        return [each.row(self.planned) for each in self.found]

    def as_document(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "by": self.by,
            "is_whole": self.is_whole,
            "verdict": self.verdict(),
            "offsets": self.planned,
            "missing": sum(each.count for each in self.of("missing")),
            "settling": sum(each.count for each in self.of("settling")),
            "expired": sum(each.count for each in self.of("expired")),
            "absent": self.absent,
            "duplicates": self.duplicates,
            "gaps": self.rows(),
            "notes": [asdict(note) for note in self.notes],
        }


def share(count: int, whole: int) -> str:
    """A part of a whole; what is there at all is never told as nothing, nor what is less as all."""
    if not whole or not count:
        return "0 %"
    percent = 100 * count / whole
    if 100 > percent > 99.99:
        return "99.99 %"
    return f"{percent:.2f} %" if percent >= 0.01 else "< 0.01 %"


def touching(slices: Iterable[Slice]) -> Callable[[Slice], bool]:
    """Whether a slice has an offset in one of these, which are apart."""
    held: dict[tuple[str, int], list[Slice]] = {}
    for each in sorted(slices):
        held.setdefault((each.topic, each.partition), []).append(each)

    def touches(slice_: Slice) -> bool:
        theirs = held.get((slice_.topic, slice_.partition), [])
        at = bisect_right(theirs, slice_.from_offset, key=lambda each: each.to_offset)
        return at < len(theirs) and theirs[at].from_offset < slice_.to_offset

    return touches


# --- what the log says of offsets that are not in the target


@dataclass(frozen=True, slots=True)
class GracePeriod:
    """Which records may still be on their way: those of a time not longer ago, and all behind them."""

    now_ms: int
    settle_ms: int

    @property
    def since_ms(self) -> int:
        return self.now_ms - self.settle_ms

    def is_young(self, time_ms: int) -> bool:
        """A time of the future says nothing, unless clocks differ by less than what is waited for."""
        return self.since_ms < time_ms <= self.now_ms + self.settle_ms

    def first_young(self, records: Records) -> int | None:
        """The first offset of which that is so."""
        pairs = zip(records.offsets, records.timestamps_ms, strict=True)
        return next((offset for offset, time in pairs if self.is_young(time)), None)


@dataclass(slots=True)
class GapScan:
    """One missing run, as its records are seen in the log."""

    slice: Slice
    young_from: int | None = None
    """From this offset on records may still be on their way."""
    outside: int = 0
    """Records in it that are not of the span, by their own time."""
    _parts: list[tuple[Kind, "_Part"]] = field(default_factory=list)
    _is_broken: bool = False
    """Whether one outside of the span came last, which is not to be replayed with the others."""

    def see(self, records: Records, outside: Sequence[int] | None = None) -> None:
        """Records of the partition, in order; those beside the run do not count.

        `outside` says of each whether it is not of the span; None when all are.
        """
        start = bisect_left(records.offsets, self.slice.from_offset)
        stop = bisect_left(records.offsets, self.slice.to_offset)
        while start < stop:
            is_out = bool(outside and outside[start])
            end = start + 1
            if outside is None:
                end = stop
            while end < stop and outside and bool(outside[end]) == is_out:
                end += 1
            if is_out:
                self.outside += end - start
                self._is_broken = True
            else:
                self._see_inside(records, start, end)
            start = end

    def _see_inside(self, records: Records, start: int, stop: int) -> None:
        middle = stop
        if self.young_from is not None:
            middle = min(max(bisect_left(records.offsets, self.young_from), start), stop)
        self._add("missing", records.cut(start, middle) if start < middle else None)
        self._add("settling", records.cut(middle, stop) if middle < stop else None)

    def _add(self, kind: Kind, records: Records | None) -> None:
        if records is None or not len(records):
            return
        times = records.timestamps_ms
        seen = _Part(
            records.offsets[0], records.offsets[-1] + 1, len(records), min(times), max(times)
        )
        last = self._parts[-1] if self._parts else None
        if last is not None and last[0] == kind and not self._is_broken:
            self._parts[-1] = (kind, last[1].followed_by(seen))
        else:
            self._parts.append((kind, seen))
        self._is_broken = False

    def gaps(self) -> list[Gap]:
        """From its first record to its last; what holds none at its edges is no part of it."""
        place = (self.slice.topic, self.slice.partition)
        return [
            Gap(
                Slice(*place, each.start, each.end), kind, each.records, each.first_ms, each.last_ms
            )
            for kind, each in self._parts
        ]

    @property
    def records(self) -> int:
        return sum(each.records for _, each in self._parts)


@dataclass(frozen=True, slots=True)
class _Part:
    start: int
    end: int
    records: int
    first_ms: int
    last_ms: int

    def followed_by(self, other: "_Part") -> "_Part":
        return _Part(
            self.start,
            other.end,
            self.records + other.records,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
        )
