"""The ledger: one entry for each committed slice, stored in the target in the data's own transaction."""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from playhead.absence import MOST_BLANKS, NOT_RECORDED, Blank, total
from playhead.checksum import Checksum, checksum_of, parsed_checksum, shown_checksum
from playhead.errors import Refused
from playhead.extra_fields import DETAIL, ExtraFields
from playhead.record import Slice

VERSION = 3
_READABLE = (1, 2, VERSION)
_COUNTS = ("read", "written", "filtered", "outside", "dead", "skipped", "late")
_TIMES = ("first_ms", "last_ms", "last_late_ms")
_COMMITS = "commits"
_MOST_OUTSIDE = 1_000
MOST_REFUSED = 10_000
"""How many refused records an entry lists; more would make the ledger a store of dead letters."""
NOT_KEPT = "not_kept"
"""In an entry's details: how many of the filtered records the target itself left out."""
ALSO_REMOVED = "also_removed"
"""In an entry's details: how many rows that were there before a trigger or a foreign key removed meanwhile."""
UNREADABLE = (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors of parsing a document that another program may have written."""
ALSO_BURIED = "also_buried"
"""In an entry's details: how many records were dead letters at first, but were written in the end."""


class LedgerUnreadable(Refused):
    """The ledger contains something that this version of Playhead does not understand."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(
            f"the ledger entry in {where} cannot be read: {reason}",
            hint="a later version of Playhead may have written it: use that version; or another program "
            "changed it: restore what it was",
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed slice, with the outcome of each of its offsets.

    `read = written + filtered + outside + dead + skipped`. `absences` counts the offsets that hold no
    record for a known reason; the remaining offsets are unexplained. `late` counts those written,
    filtered, dead and skipped records that were after the end of the span. `details` are the target's
    own: an offset map, rows inserted.
    """

    slice: Slice
    read: int
    written: int
    filtered: int = 0
    outside: int = 0
    dead: int = 0
    skipped: int = 0
    late: int = 0
    first_ms: int | None = None
    """The earliest record time of the written records; None if none was written."""
    last_ms: int | None = None
    last_late_ms: int | None = None
    """How long the last late record came after the log reached the span's end."""
    details: Mapping[str, Any] = field(default_factory=dict)
    checksum: Checksum | None = None
    """`Records.checksum` of all records read; None if it could not be computed."""
    absences: Mapping[str, int] = field(default_factory=dict)
    """How many offsets hold no record, by reason."""
    unexplained_at: tuple[Blank, ...] = ()
    """The first unexplained runs of offsets."""
    outside_at: tuple[Blank, ...] | None = ()
    """The runs of records outside of the span; None if they are too many, or an earlier version wrote the entry."""

    def __post_init__(self) -> None:
        self._need_runs_inside()
        if min(getattr(self, name) for name in _COUNTS) < 0:
            raise ValueError(f"Entry of {self.slice}: found a negative count")
        accounted = self.written + self.filtered + self.outside + self.dead + self.skipped
        if self.read != accounted:
            raise ValueError(
                f"Entry of {self.slice}: read {self.read} records, but its counts add up to {accounted}"
            )
        if self.unexplained < 0 or min(self.absences.values(), default=0) < 0:
            explained = f" and explains {self.absent} absent ones" if self.absences else ""
            raise ValueError(
                f"Entry of {self.slice}: read {self.read} of {len(self.slice)} offsets{explained}"
            )

    def _need_runs_inside(self) -> None:
        reached = self.slice.from_offset
        for start, end in self.outside_at or ():
            if not reached <= start < end <= self.slice.to_offset:
                raise ValueError(
                    f"Entry of {self.slice}: found the run {start}-{end} outside of it"
                )
            reached = end

    def of_its_span(self) -> list[Slice]:
        """Return the offsets without the listed records outside of the span, which no replay of it writes."""
        runs = (Slice(*self.slice.place, start, end) for start, end in self.outside_at or ())
        return remaining([self.slice], runs)

    @property
    def lists_outside(self) -> bool:
        """Whether `outside_at` has all records outside of the span."""
        return self.outside_at is not None and total(self.outside_at) >= self.outside

    @property
    def filtered_by_where(self) -> int:
        """How many records --where left out."""
        return self.filtered - int(self.details.get(NOT_KEPT, 0))

    @property
    def absent(self) -> int:
        """How many offsets of the slice hold no record for a known reason."""
        return sum(self.absences.values())

    @property
    def unexplained(self) -> int:
        """How many offsets of the slice gave no record for an unknown reason."""
        return len(self.slice) - self.read - self.absent

    def as_json(self) -> str:
        """Return the entry as text; equal entries give equal texts."""
        document: dict[str, Any] = {"version": VERSION} | {
            "topic": self.slice.topic,
            "partition": self.slice.partition,
            "from_offset": self.slice.from_offset,
            "to_offset": self.slice.to_offset,
        }
        document |= {name: getattr(self, name) for name in _COUNTS}
        document |= {"first_ms": self.first_ms, "last_ms": self.last_ms}
        document |= {"last_late_ms": self.last_late_ms, "details": dict(self.details)}
        document |= {"absences": dict(self.absences), "checksum": shown_checksum(self.checksum)}
        document |= {"unexplained_at": [list(each) for each in self.unexplained_at]}
        if self.outside:
            document |= {"outside_at": self.outside_at}
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Entry":
        """Parse the text of `as_json`; refuse an entry of a later version.

        An entry of version 1 has no reasons for absent offsets; in version 2 a checksum is always a
        number. Earlier entries of version 3 do not say which records were outside of the span.
        """
        document = json.loads(text)
        if document.get("version") not in _READABLE:
            raise ValueError(
                f"ledger entry of version {document.get('version')!r}; this Playhead knows {VERSION}"
            )
        _need_numbers(document)
        place = (document["topic"], document["partition"])
        slice_ = Slice(*place, document["from_offset"], document["to_offset"])
        same = {name: document[name] for name in (*_COUNTS, *_TIMES, "details")}
        ExtraFields.of(document["details"])
        outside_at = _outside_at(document)
        if document["version"] == 1:
            absent = len(slice_) - document["read"]
            absences = {NOT_RECORDED: absent} if absent else {}
            return cls(slice_, **same, absences=absences, outside_at=outside_at)
        return cls(
            slice_,
            **same,
            checksum=parsed_checksum(document["checksum"]),
            absences=document["absences"],
            unexplained_at=_blanks(document["unexplained_at"]),
            outside_at=outside_at,
        )


def _outside_at(document: Mapping[str, Any]) -> tuple[Blank, ...] | None:
    if not document["outside"]:
        return ()
    runs = document.get("outside_at")
    return None if runs is None else _blanks(runs)


def _blanks(runs: Iterable[tuple[int, int]]) -> tuple[Blank, ...]:
    return tuple((start, end) for start, end in runs)


def listed(*found: Iterable[Blank] | None) -> tuple[Blank, ...] | None:
    """Return ascending runs of records outside of a span as one list; None if it would be too long for an entry."""
    runs: list[Blank] = []
    for each in found:
        if each is None:
            return None
        for start, end in each:
            first = runs.pop()[0] if runs and runs[-1][1] == start else start
            runs.append((first, end))
    return tuple(runs) if len(runs) <= _MOST_OUTSIDE else None


def _need_numbers(document: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError for a count, a time or an offset that is none; others may have written it."""
    times = (document[name] for name in _TIMES)
    found = [document[name] for name in _COUNTS]
    found += [each for each in times if each is not None]
    found += document.get("absences", {}).values()
    for name in ("unexplained_at", "outside_at"):
        found += [offset for blank in document.get(name) or () for offset in blank]
    if any(type(each) is not int for each in found):
        raise TypeError("a count, a time or an offset is not a whole number")
    if any(not -(2**63) <= each < 2**63 for each in found):
        raise ValueError("a count, a time or an offset has more than 64 bits")


def entry_at(where: str, text: str | bytes) -> Entry:
    """Parse an entry found at `where`, where other programs may also have written."""
    try:
        return Entry.from_json(text)
    except UNREADABLE as exc:
        raise LedgerUnreadable(where, f"{type(exc).__name__}: {exc}") from exc


def joined(first: Entry, second: Entry) -> Entry:
    """Join two entries of one partition, the second starting at the first one's end.

    Counts are added, also those of fields that no column takes. Details of a single commit, such as
    an offset map, are dropped.
    """
    one, other = first.slice, second.slice
    if (one.topic, one.partition, one.to_offset) != (
        other.topic,
        other.partition,
        other.from_offset,
    ):
        raise ValueError(f"joined: found {one} and {other}, needed neighbours")
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    return Entry(
        Slice(one.topic, one.partition, one.from_offset, other.to_offset),
        **counts,
        first_ms=_best(min, first.first_ms, second.first_ms),
        last_ms=_best(max, first.last_ms, second.last_ms),
        last_late_ms=_best(max, first.last_late_ms, second.last_late_ms),
        details=_added(first.details, second.details),
        checksum=checksum_of((first.checksum, second.checksum)),
        absences=total_absences((first, second)),
        unexplained_at=(*first.unexplained_at, *second.unexplained_at)[:MOST_BLANKS],
        outside_at=listed(first.outside_at, second.outside_at),
    )


def total_absences(entries: Iterable[Entry]) -> dict[str, int]:
    """Sum up the absent offsets of the entries by reason."""
    total: dict[str, int] = {}
    for entry in entries:
        for reason, count in entry.absences.items():
            total[reason] = total.get(reason, 0) + count
    return dict(sorted(total.items()))


def _best(choose: Callable[[Iterable[int]], int], *found: int | None) -> int | None:
    known = [each for each in found if each is not None]
    return choose(known) if known else None


def extra_fields_by_topic(entries: Iterable[Entry]) -> dict[str, ExtraFields]:
    """Return, for each source topic that has such, the fields that no column takes."""
    parts: dict[str, list[ExtraFields]] = {}
    for entry in entries:
        if DETAIL in entry.details:
            parts.setdefault(entry.slice.topic, []).append(ExtraFields.of(entry.details))
    return {topic: ExtraFields.total(each) for topic, each in sorted(parts.items())}


def _added(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Add the counts of both, and the number of their commits (1 if an entry does not give it)."""
    ones = [{_COMMITS: 1} | dict(each) for each in (first, second)]
    names = {name for each in ones for name, value in each.items() if type(value) is int}
    counts = {name: sum(int(each.get(name, 0)) for each in ones) for name in sorted(names)}
    return counts | ExtraFields.total(map(ExtraFields.of, ones)).as_details()


def remaining(planned: Iterable[Slice], committed: Iterable[Slice]) -> list[Slice]:
    """Return the planned offsets that no committed slice covers, in order: the work of a resume."""
    done: dict[tuple[str, int], list[Slice]] = {}
    for slice_ in sorted(committed):
        done.setdefault((slice_.topic, slice_.partition), []).append(slice_)
    # Sorted: the place of the first one that ends after a slice begins is found, not searched.
    ends = {place: [*accumulate((e.to_offset for e in it), max)] for place, it in done.items()}
    left: list[Slice] = []
    for slice_ in sorted(planned):
        place = (slice_.topic, slice_.partition)
        first = bisect_right(ends.get(place, ()), slice_.from_offset)
        group = done.get(place, [])
        left += _without(slice_, (group[at] for at in range(first, len(group))))
    return left


def _without(slice_: Slice, done: Iterable[Slice]) -> Iterable[Slice]:
    start = slice_.from_offset
    for each in done:
        if each.to_offset <= start:
            continue
        if each.from_offset >= slice_.to_offset:
            break
        if each.from_offset > start:
            yield Slice(slice_.topic, slice_.partition, start, each.from_offset)
        start = each.to_offset
    if start < slice_.to_offset:
        yield Slice(slice_.topic, slice_.partition, start, slice_.to_offset)
