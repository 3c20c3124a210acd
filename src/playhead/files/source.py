"""An archive as a source: the topics that replays wrote to files, byte for byte."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from playhead.absence import Blank, Explained, total, within
from playhead.files.archive import (
    Archive,
    ArchivedReplay,
    ArchivedSlice,
    archive_of,
    checked_format,
    settled,
)
from playhead.files.archive_index import Index, Segment
from playhead.files.file_names import Format
from playhead.note import Note
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.source import Bounds, OutOfBounds, Reader, SourceFacts, TopicFacts, TopicPartition

_GAPS_SHOWN = 5

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


@dataclass(frozen=True)
class FilesSource:
    """An archive that `FilesTarget` wrote, in a local folder or in S3.

    Its ledgers list what it holds: a data file without an entry is not read, and every file must match its
    SHA-256. Records of two topics with one name are refused. An offset that several replays archived is read
    once: from a slice that left nothing out if there is one, else from the first that has it, in the order of
    slices, then of replay ids.
    """

    root: str
    format: Format = "parquet"

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", settled(self.root))
        object.__setattr__(self, "format", checked_format(self.format))

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        index = self._index()
        return {place: index.bounds(place) for place in index.places}

    def facts(self) -> SourceFacts:
        archive = self._archive()
        index = Index.of(archive)
        abouts = archive.abouts()
        topics = {topic for topic, _ in index.places}
        return SourceFacts(
            archive.store.identity,
            {topic: _topic_facts(topic, index, abouts) for topic in sorted(topics)},
            (*index.origins.notes(), *_gap_notes(index)),
        )

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        archive = self._archive()
        index = Index.of(archive)
        return {place: _offset_at(archive, index, place, instant_ms) for place in index.places}

    def absences(self) -> AbstractContextManager[ArchiveExplainer]:
        """Return the reasons in the archive's ledgers."""
        return nullcontext(ArchiveExplainer(self._index()))

    @contextmanager
    def open(self) -> Iterator[Reader]:
        archive = self._archive()
        yield FilesReader(archive, Index.of(archive))

    def _index(self) -> Index:
        return Index.of(self._archive())

    def _archive(self) -> Archive:
        archive = archive_of(self.root, self.format)
        archive.need()
        return archive


class FilesReader:
    """Reads slices of an archive; keeps the last decoded file, because slices mostly follow each other."""

    def __init__(self, archive: Archive, index: Index) -> None:
        self._archive, self._index = archive, index
        self._last: tuple[Slice, list[Records]] | None = None

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        return self._read(self._segments(slice_))

    def _segments(self, slice_: Slice) -> list[Segment]:
        try:
            return self._index.segments(slice_)
        except OutOfBounds:
            # Another process may have archived more since this reader was opened.
            self._index = Index.of(self._archive)
            return self._index.segments(slice_)

    def _read(self, segments: list[Segment]) -> Iterator[Records]:
        for segment in segments:
            if len(segment.entries) == 1:
                yield from self._part(segment.entries[0], segment.slice)
            else:
                yield from self._united(segment)

    def _part(self, committed: ArchivedSlice, slice_: Slice) -> Iterator[Records]:
        for run in self._decoded(committed):
            start = bisect_left(run.offsets, slice_.from_offset)
            stop = bisect_left(run.offsets, slice_.to_offset)
            if start < stop:
                yield run.cut(start, stop)

    def _decoded(self, committed: ArchivedSlice) -> list[Records]:
        if committed.kept is None:
            return []
        if self._last is None or self._last[0] != committed.slice:
            self._last = None
            runs = list(self._archive.records(committed.slice, committed.kept))
            self._last = (committed.slice, runs)
        return self._last[1]

    def _united(self, segment: Segment) -> Iterator[Records]:
        found: dict[int, Record] = {}
        for entry in segment.entries:
            for run in self._part(entry, segment.slice):
                for record in run:
                    found.setdefault(record.offset, record)
        if found:
            yield Records.of(found[offset] for offset in sorted(found))


def _offset_at(archive: Archive, index: Index, place: TopicPartition, instant_ms: int) -> int:
    best = index.bounds(place).stable_end
    for each in index.places[place]:
        if each.slice.from_offset >= best:
            break
        if each.kept is not None and each.kept.last_ms >= instant_ms:
            best = min(best, _first_at(archive, each.slice, each.kept, instant_ms))
    return best


def _first_at(archive: Archive, slice_: Slice, kept: ArchivedReplay, instant_ms: int) -> int:
    for run in archive.records(slice_, kept):
        for offset, timestamp_ms in zip(run.offsets, run.timestamps_ms, strict=True):
            if timestamp_ms >= instant_ms:
                return offset
    return slice_.to_offset


def _topic_facts(topic: str, index: Index, abouts: Sequence[Mapping[str, Any]]) -> TopicFacts:
    known = [about[topic] for about in abouts if topic in about]
    sizes: dict[int, int] = {}
    for (name, partition), entries in index.places.items():
        if name == topic:
            files = {each.slice: each.kept.size for each in entries if each.kept is not None}
            sizes[partition] = sum(files.values())
    return TopicFacts(
        sets_log_append_time=any(each["sets_log_append_time"] for each in known),
        is_compacted=any(each["is_compacted"] for each in known),
        bytes_by_partition=sizes,
    )


def _gap_notes(index: Index) -> Iterator[Note]:
    gaps = [gap for place in index.places for gap in index.gaps(place)]
    if gaps:
        shown = ", ".join(map(str, gaps[:_GAPS_SHOWN]))
        more = f" and {len(gaps) - _GAPS_SHOWN} more" if len(gaps) > _GAPS_SHOWN else ""
        yield Note("archive.gap", f"{shown}{more} was not archived; reading there is refused")
