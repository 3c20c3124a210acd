"""The source for captured traffic: RRPairs, extracts, GoReplay files, HAR and server logs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from playhead.absence import OneReason
from playhead.errors import Refused
from playhead.grammar.instant import show_ms
from playhead.host import paths
from playhead.note import Note
from playhead.querylog.cutting import LogForm
from playhead.source import Bounds, Reader, SourceFacts, TopicFacts, TopicPartition
from playhead.traffic.build_catalog import index_of
from playhead.traffic.catalog import Catalog
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.formats import extract_csv, goreplay, har, rrpair, server_log
from playhead.traffic.index import TrafficIndex
from playhead.traffic.partition_offsets import CapturedPartition
from playhead.traffic.reader import Files, Parse, TrafficReader
from playhead.traffic.snapshot import Snapshot, find_file, find_snapshot

Kind = Literal["rrpair", "extract", "gor", "har", "csvlog", "jsonlog", "pglog"]
Times = Literal["record", "pair"]


class Form(NamedTuple):
    """The functions of one capture format: find the files, scan them, read rows."""

    find: Callable[[str], Snapshot]
    scan: Callable[[Snapshot], Catalog] | None
    """None for RRPairs, which are scanned in parts and with a filter."""
    parse: Parse
    absences: str


def _log_form(form: LogForm) -> Form:
    """Return the functions for a log format; each row is a record, also one that cannot be parsed."""
    return Form(
        partial(server_log.find_logs, form),
        partial(server_log.scan, form),
        partial(server_log.read_row, form),
        "they are not in the log",
    )


FORMS: Final[Mapping[str, Form]] = {
    "rrpair": Form(find_snapshot, None, rrpair.read_row, "they were not captured"),
    "extract": Form(find_file, extract_csv.scan, extract_csv.read_row, "rows without a value"),
    "gor": Form(find_file, goreplay.scan, goreplay.read_row, "requests without a body"),
    "har": Form(find_file, har.scan, har.read_row, "requests without a body"),
    "csvlog": _log_form("csvlog"),
    "jsonlog": _log_form("jsonlog"),
    "pglog": _log_form("stderr"),
}


class OtherCapture(Refused):
    """The capture at this path is not the one that was planned."""

    def __init__(self, path: str, *, planned: str, found: str) -> None:
        self.path, self.planned, self.found = path, planned, found
        super().__init__(
            f"{path} has changed since it was planned: its fingerprint was {planned} and is {found}",
            hint="restore the file, or plan a new replay",
        )


@dataclass(frozen=True)
class TrafficSource:
    """A capture: its topics and partitions, with the captured offsets.

    Its identity is a fingerprint of all its bytes, so offsets stay valid during a replay, and a changed capture
    has another identity. A record that was captured twice counts once. A GoReplay file, a HAR and an extract
    are one partition of a topic with the file's name, numbered from 0.
    """

    kind: Kind
    path: str
    filter: str | None = None
    times: Times = "record"
    """Which timestamps records get: their own, or the capture time of their pair."""
    expect_identity: str | None = None
    untimed_ms: int | None = None
    """The timestamp for rows of an extract without a time column; None leaves them without one."""

    def __post_init__(self) -> None:
        path = paths.at_home(self.path).absolute()
        if path.exists():  # an id stays an id, and is looked up where it is needed
            object.__setattr__(self, "path", str(path))
        if self.filter is not None:
            if self.kind != "rrpair":
                raise Refused(
                    f"--filter needs RRPairs; {self.kind}:{self.path} has none",
                    hint="choose records with --where",
                )
            TrafficFilter.parse(self.filter)

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        return self._index().bounds()

    def facts(self) -> SourceFacts:
        index = self._index()
        form = FORMS[self.kind]
        sizes = _sizes(index)
        topics = {
            topic: TopicFacts(
                bytes_by_partition=held, absences=form.absences, untimed_ms=self.untimed_ms
            )
            for topic, held in sizes.items()
        }
        notes = [*index.notes(), *self._on_times(index)]
        if self.filter is not None:
            notes.insert(
                0,
                Note("filter", f"only pairs that match {TrafficFilter.parse(self.filter)}", "info"),
            )
        return SourceFacts(index.catalog.identity, topics, tuple(notes))

    def unread(self) -> int:
        """Return how many lines or documents of the capture could not be read."""
        return self._index().catalog.counts.get("unread", 0)

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        index = self._index()
        if self._given_ms(index) is not None:
            is_before = instant_ms > (self.untimed_ms or 0)
            return {
                place: held.stable_end if is_before else held.earliest
                for place, held in index.bounds().items()
            }
        with self._opened(index) as reader:
            return {
                place: self._offset_at(reader, place, lane, instant_ms) if lane else 0
                for place, lane in index.lanes.items()
            }

    def absences(self) -> AbstractContextManager[OneReason]:
        """Return the reason for offsets without a record."""
        return nullcontext(OneReason(FORMS[self.kind].absences))

    @contextmanager
    def open(self) -> Iterator[Reader]:
        with self._opened(self._index()) as reader:
            yield reader

    @contextmanager
    def _opened(self, index: TrafficIndex) -> Iterator[TrafficReader]:
        form = FORMS[self.kind]
        snapshot = index.unchanged.snapshot
        with ExitStack() as stack:
            files = Files(index.unchanged, stack)
            by_pair, given_ms = self.times == "pair", self._given_ms(index)
            yield TrafficReader(snapshot, index, files, form.parse, by_pair, given_ms)

    def _given_ms(self, index: TrafficIndex) -> int | None:
        """Return the timestamp for records without one; None if they have their own."""
        has_times = self.kind != "extract" or extract_csv.has_times(index.catalog.columns)
        return None if has_times else self.untimed_ms

    def _on_times(self, index: TrafficIndex) -> Iterator[Note]:
        given_ms = self._given_ms(index)
        if given_ms is not None:
            text = (
                "the rows have no time column: all records get the time of planning, "
                f"{show_ms(given_ms)}; add --path ts to the extract to keep the times of the pairs"
            )
            yield Note("untimed", text)

    def _index(self) -> TrafficIndex:
        form = FORMS[self.kind]
        index = index_of(form.find(self.path), self.kind, self.filter, form.scan, form.parse)
        found = index.catalog.identity
        if self.expect_identity not in (None, found):
            raise OtherCapture(self.path, planned=str(self.expect_identity), found=found)
        return index

    def pinned(self, facts: SourceFacts, /) -> "TrafficSource":
        """Return the source bound to the fingerprint and the default timestamp of a plan."""
        given = next((topic.untimed_ms for topic in facts.topics.values()), None)
        return replace(self, expect_identity=facts.identity, untimed_ms=given)

    def _offset_at(
        self, reader: TrafficReader, place: TopicPartition, lane: CapturedPartition, instant_ms: int
    ) -> int:
        by_pair = self.times == "pair"
        for piece in lane.from_instant(instant_ms, by_pair=by_pair):
            records = reader.of_piece(place, lane, piece)
            for offset, time_ms in zip(records.offsets, records.timestamps_ms, strict=True):
                if time_ms >= instant_ms:
                    return offset
        return lane.bounds.stable_end


def _sizes(index: TrafficIndex) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), lane in index.lanes.items():
        found.setdefault(topic, {})[partition] = lane.size_bytes if lane else 0
    return found
