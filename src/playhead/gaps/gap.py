"""Gaps: offsets of the topic that the target lacks, and what the log says of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.record import Slice
from playhead.records import Records

Kind = Literal["missing", "settling", "expired", "unstable"]


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of offsets that the target lacks.

    `missing` records are in the log and can be replayed; `settling` ones are so young that they may still
    arrive; `expired` ones are no longer in the log; `unstable` offsets are behind an open transaction, so
    that nothing can read them, and may be of the span.
    """

    slice: Slice
    kind: Kind = "missing"
    records: int | None = None
    """How many of the offsets hold a record; None if the log was not read."""
    first_ms: int | None = None
    """The earliest and the latest record time."""
    last_ms: int | None = None
    is_open: bool = False
    """Whether its first offset is unknown because the records that show it were deleted."""

    @property
    def count(self) -> int:
        """The number of records if they were counted, else of offsets."""
        return len(self.slice) if self.records is None else self.records

    def row(self, planned: int) -> dict[str, Any]:
        return {
            "topic": self.slice.topic,
            "partition": self.slice.partition,
            "from_offset": None if self.is_open else self.slice.from_offset,
            "to_offset": self.slice.to_offset,
            "offsets": None if self.is_open else len(self.slice),
            "records": self.records,
            "first": _shown(self.first_ms),
            "last": _shown(self.last_ms),
            "share": None
            if self.is_open or self.kind == "unstable"
            else share(self.count, planned),
            "state": self.kind,
        }


def _shown(time_ms: int | None) -> str | None:
    """Return a time; records without one have -1, which is no time of 1969."""
    return None if time_ms is None or time_ms < 0 else show_ms(time_ms)


@dataclass(frozen=True, slots=True)
class Gaps:
    """The result of comparing a span of a source with a target."""

    source: str
    target: str
    spans: tuple[Slice, ...]
    """The offsets that were compared."""
    found: tuple[Gap, ...]
    by: str
    """What was compared, for people: offsets, columns, a ledger."""
    absent: int | None = 0
    """Offsets that hold no record; None if the log was not read."""
    duplicates: int | None = None
    """Rows beyond the first of each offset; None if unknown."""
    notes: tuple[Note, ...] = field(default=())
    doubtful: int = 0
    """Offsets that the target has, but perhaps of records of another topic of this name."""
    undecided: int = 0
    """Records at offsets that a ledger has, and of which it does not say that they were written."""
    unexplained: int = 0
    """Offsets that the target lacks, and for which the log has neither a record nor a reason to have none."""
    lost: int = 0
    """Offsets whose records the log lost after replays had read them: it ends before them, or has others there."""

    @property
    def planned(self) -> int:
        return sum(map(len, self.spans))

    def of(self, kind: Kind) -> list[Gap]:
        return [each for each in self.found if each.kind == kind]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing; settling records are not missing yet."""
        is_certain = not (self.doubtful or self.undecided or self.unexplained or self.lost)
        return is_certain and all(each.kind == "settling" for each in self.found)

    @property
    def unstable(self) -> int:
        """How many offsets may be of the span, and cannot be read before a transaction ends."""
        return sum(each.count for each in self.of("unstable"))

    def missing_slices(self) -> list[Slice]:
        """The offsets that a replay would write."""
        return [each.slice for each in self.of("missing")]

    def verdict(self) -> str:
        """The counts of the compared offsets, then what could not be compared; for people."""
        missing, expired = self.of("missing"), self.of("expired")
        lost = sum(each.count for each in missing)
        counts = [f"{lost:,} missing" if not missing else self._told(missing, lost)]
        if self.duplicates is not None:
            counts.append(f"{self.duplicates:,} duplicates")
        if gone := sum(each.count for each in expired if not each.is_open):
            counts.append(f"{gone:,} expired (in neither the target nor the log)")
        if settling := sum(each.count for each in self.of("settling")):
            counts.append(f"{settling:,} settling")
        how = self.by.removeprefix("rows by ")
        parts = [f"{', '.join(counts)} of {self.planned:,} offsets in {self.target}, by {how}"]
        if begun := sum(each.is_open for each in expired):
            logs = (
                "log of 1 partition begins" if begun == 1 else f"logs of {begun:,} partitions begin"
            )
            parts.append(f"the {logs} inside the span: older records were deleted (expired)")
        if self.doubtful:
            parts.append(f"{self.doubtful:,} are there, but perhaps of another topic")
        if self.undecided:
            parts.append(f"{self.undecided:,} may be missing (undecided)")
        if self.unexplained:
            parts.append(f"{self.unexplained:,} gave no record for an unknown reason (unexplained)")
        if self.lost:
            parts.append(f"{self.lost:,} were lost from the log after replays had read them")
        if unstable := self.unstable:
            parts.append(f"{unstable:,} behind open transactions were NOT compared (unstable)")
        return "; ".join(parts)

    def _told(self, missing: Sequence[Gap], lost: int) -> str:
        unit = "offsets" if any(each.records is None for each in missing) else "records"
        gaps = "1 gap" if len(missing) == 1 else f"{len(missing):,} gaps"
        return f"{gaps}: {lost:,} {unit} missing ({share(lost, self.planned)})"

    def _expired(self) -> int | None:
        """None if they can no longer be counted."""
        expired = self.of("expired")
        if any(each.is_open for each in expired):
            return None
        return sum(each.count for each in expired)

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
            "expired": self._expired(),
            "unstable": self.unstable,
            "doubtful": self.doubtful,
            "undecided": self.undecided,
            "unexplained": self.unexplained,
            "lost": self.lost,
            "absent": self.absent,
            "duplicates": self.duplicates,
            "gaps": self.rows(),
            "notes": [asdict(note) for note in self.notes],
        }


def share(count: int, whole: int) -> str:
    """Format a share: some is never shown as 0 %, and not all never as 100 %."""
    if not whole or not count:
        return "0 %"
    percent = 100 * count / whole
    if 100 > percent > 99.99:
        return "99.99 %"
    return f"{percent:.2f} %" if percent >= 0.01 else "< 0.01 %"


def touching(slices: Iterable[Slice]) -> Callable[[Slice], bool]:
    """Return whether a slice shares an offset with one of these, which are apart."""
    held: dict[tuple[str, int], list[Slice]] = {}
    for each in sorted(slices):
        held.setdefault((each.topic, each.partition), []).append(each)

    def touches(slice_: Slice) -> bool:
        theirs = held.get((slice_.topic, slice_.partition), [])
        at = bisect_right(theirs, slice_.from_offset, key=lambda each: each.to_offset)
        return at < len(theirs) and theirs[at].from_offset < slice_.to_offset

    return touches


# --- what the log says of missing offsets


@dataclass(frozen=True, slots=True)
class GracePeriod:
    """The records that may still arrive: those younger than the grace period, and all after them."""

    now_ms: int
    settle_ms: int

    @property
    def since_ms(self) -> int:
        return self.now_ms - self.settle_ms

    def is_young(self, time_ms: int) -> bool:
        """Return whether a time is young; a future time counts only if the clocks differ little."""
        return self.since_ms < time_ms <= self.now_ms + self.settle_ms

    def first_ahead(self, records: Records) -> int | None:
        """Return the index of the first record whose time is too far in the future for clocks that differ little."""
        latest = self.now_ms + self.settle_ms
        return next((n for n, time in enumerate(records.timestamps_ms) if time > latest), None)

    def first_young(self, records: Records) -> int | None:
        """Return the first offset with a young record."""
        pairs = zip(records.offsets, records.timestamps_ms, strict=True)
        return next((offset for offset, time in pairs if self.is_young(time)), None)


@dataclass(slots=True)
class GapScan:
    """Scans the records of one missing run in the log."""

    slice: Slice
    young_from: int | None = None
    """Records from this offset on may still arrive."""
    outside: int = 0
    """Records of the run that are outside the span by their own time."""
    _parts: list[tuple[Kind, "_Part"]] = field(default_factory=list)
    _is_broken: bool = False
    """Whether the last record was outside the span, so that the next one begins a new gap."""

    def see(self, records: Records, outside: Sequence[int] | None = None) -> None:
        """Add records of the partition in order; those outside the run are ignored.

        `outside` tells for each record whether it is outside the span; None if all are inside.
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
        """Return the gaps from the first record to the last; offsets without records at the edges are left out."""
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
