"""Why offsets of an archive hold no record, from the ledger that it was written with."""

from collections.abc import Iterator, Sequence

from playhead.absence import Blank, Explained, total, within
from playhead.files.archive import ArchivedSlice
from playhead.files.archive_index import Index
from playhead.record import Slice
from playhead.source import TopicPartition

ABSENT = "absent already when it was archived"
LEFT_OUT = "left out or absent when it was archived"


class ArchiveExplainer:
    """Every data file matches its checksum, so what it lacks was never written to it."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def explain(self, place: TopicPartition, blanks: Sequence[Blank], /) -> Explained:
        """Return the reasons in the archive's entries; what an entry could not explain stays unexplained."""
        absences: dict[str, int] = {}
        unexplained: list[Blank] = []
        whole = Slice(*place, blanks[0][0], blanks[-1][1])
        for segment in self._index.segments(whole):
            part = list(within(blanks, segment.slice.from_offset, segment.slice.to_offset))
            nothing = list(_unexplained(part, segment.entries))
            unexplained += nothing
            reason = ABSENT if segment.entries[0].is_complete else LEFT_OUT
            absences[reason] = absences.get(reason, 0) + total(part) - total(nothing)
        found = {reason: count for reason, count in absences.items() if count}
        return Explained(found, tuple(unexplained))


def _unexplained(part: Sequence[Blank], entries: Sequence[ArchivedSlice]) -> Iterator[Blank]:
    """Return what no entry with these offsets could explain."""
    for start, end in part:
        doubtful = [_doubtful(each, start, end) for each in entries]
        yield from min(doubtful, key=total)


def _doubtful(committed: ArchivedSlice, start: int, end: int) -> list[Blank]:
    entry = committed.entry
    if total(entry.unexplained_at) < entry.unexplained:
        return [(start, end)]  # There are more than the entry lists.
    return [
        (max(start, first), min(end, last))
        for first, last in entry.unexplained_at
        if first < end and start < last
    ]
