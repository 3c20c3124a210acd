"""Compares what a slice should have written to the target's topics with what they have now."""

import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from playhead.account import Account, ErrorRule
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.errors import LedgerWaits
from playhead.kafka.admin.offsets import NoSuchTopic
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.offset_map import OffsetMap, OffsetRun
from playhead.kafka.write.routing import Route, sendable
from playhead.ledger import Entry
from playhead.record import Headers, Slice, TimestampType
from playhead.records import Records
from playhead.source import Bounds, TopicPartition, rejecting
from playhead.target import DifferenceKind, SliceComparison
from playhead.task.dead_letter_check import named_refused
from playhead.task.tally import Tally, digest_of

_SEEN_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.05
_STAMPED = TimestampType.LOG_APPEND_TIME.value
_NO_DIGEST = -1
"""That of no record."""

Digests = Mapping[int, int]
"""Maps an offset to a digest of the record's content."""


_Row = tuple[int, bytes | None, bytes | None, Headers]


@dataclass(slots=True)
class _Content:
    """The digests of records of one partition of the target."""

    whole: dict[int, int] = field(default_factory=dict)
    bare: dict[int, int] = field(default_factory=dict)
    """Without times; only of topics that replace them."""
    is_stamped: bool = False
    """Whether the topic has replaced times of these records."""

    def add(self, offsets: Sequence[int], rows: Sequence[_Row], *, is_timeless: bool) -> None:
        self.whole.update(zip(offsets, map(digest_of, rows), strict=True))
        if is_timeless:
            bare = (digest_of((None, *row[1:])) for row in rows)
            self.bare.update(zip(offsets, bare, strict=True))

    def spoil(self, offsets: Iterable[int]) -> None:
        """Note records that cannot be read; they are copies of no record of the source."""
        spoiled = dict.fromkeys(offsets, _NO_DIGEST)
        self.whole |= spoiled
        self.bare |= spoiled


@dataclass(slots=True)
class _Sums(Tally):
    """The counts of a slice of this partition of the source."""

    source: TopicPartition = field(kw_only=True)
    unlisted: int = 0
    """How many missing records may be refused ones, of which the entry does not list all."""

    def differs(self, kind: DifferenceKind, offset: int, text: str) -> None:
        if kind == "missing" and self.unlisted > 0:
            self.unlisted -= 1
            kind = "unknown"
            text += "; perhaps it was refused: the ledger does not list all refused records"
        if kind == "unknown":
            self.unknown += 1
        elif kind == "extra":
            self.extra += 1
        else:
            self.different += 1
        self.note(kind, self.source, offset, text)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one entry, with the way that its records took."""

    connection: KafkaConnection
    entry: Entry
    route: Route
    timeless: frozenset[str]
    """Topics that replace record times, which therefore cannot be compared.

    Records that lay there before have theirs, and are compared with them.
    """

    def compare(self, records: Iterable[Records]) -> SliceComparison:
        """Read the target's topics at the offsets of the entry's map, and compare the records' content."""
        map_ = OffsetMap.from_details(self.entry.details)
        sums = _Sums(source=self.entry.slice.place)
        refused = named_refused(self.entry)
        # Stands in for the account of the commit, which refused the same records.
        account = Account(self.entry.slice, ErrorRule("skip"))
        expected = self._expected(records, account, sums)
        all_refused = refused | account.refused_offsets
        sums.unlisted = self.entry.dead + self.entry.skipped - len(all_refused)
        for place in sorted({*expected, *((end.topic, end.partition) for end in map_.ends)}):
            there, its = self._there(map_, place), expected.get(place, _Content())
            runs = [run for run in map_.runs if (run.topic, run.partition) == place]
            held, wanted = there.whole, its.whole
            if there.is_stamped:
                held, wanted = there.bare, its.bare
            _Match(place, runs, held, map_.exact, sums).match(wanted)
        return sums.comparison(self.entry.slice)

    def _expected(
        self, records: Iterable[Records], account: Account, sums: _Sums
    ) -> dict[TopicPartition, _Content]:
        named = named_refused(self.entry)
        expected: dict[TopicPartition, _Content] = {}
        for run in records:
            left = sendable(run, self.route, account, {})
            if by_cluster := named.intersection(left.offsets):
                left = left.pick([i for i, o in enumerate(left.offsets) if o not in by_cluster])
                self._doubt_skipped(by_cluster, sums)
            for columns in self.route.ways(left):
                held = columns.headers or [None] * len(columns)
                headers = [tuple(each or ()) for each in held]
                rows = [
                    *zip(columns.timestamps_ms, columns.keys, columns.values, headers, strict=True)
                ]
                content = expected.setdefault((columns.topic, columns.partition), _Content())
                content.add(columns.offsets, rows, is_timeless=columns.topic in self.timeless)
        return expected

    def _there(self, map_: OffsetMap, place: TopicPartition) -> _Content:
        """Return the records now at the target offsets of the slice, including other records between them."""
        ends = [end for end in map_.ends if (end.topic, end.partition) == place]
        source = KafkaSource(self.connection, (place[0],)).read_directly()
        there, is_timeless = _Content(), place[0] in self.timeless
        for end in ends:
            try:
                bounds = _bounds_with(source, place, end.last)
            except NoSuchTopic:
                bounds = None
            if bounds is None:
                continue
            first, stop = max(end.first, bounds.earliest), min(end.last + 1, bounds.stable_end)
            if first >= stop:
                continue
            with rejecting(source) as reader:
                for run in reader.read(Slice(*place, first, stop)):
                    rows = [*zip(run.timestamps_ms, run.keys, run.values, run.headers, strict=True)]
                    there.add(run.offsets, rows, is_timeless=is_timeless)
                    there.spoil(run.undecoded)
                    there.is_stamped |= is_timeless and _STAMPED in run.timestamp_types
        return there

    def _doubt_skipped(self, offsets: Iterable[int], sums: _Sums) -> None:
        """Report records that the cluster refused and that were skipped; dead letters carry their own reason."""
        if not self.entry.skipped:
            return
        for offset in sorted(offsets):
            text = "it was skipped: only the ledger shows that the cluster refused it"
            sums.differs("unknown", offset, text)


@dataclass(slots=True)
class _Match:
    """Finds the copy of each record in one partition of the target."""

    place: TopicPartition
    runs: Sequence[OffsetRun]
    there: Digests
    exact: bool
    sums: _Sums
    _ours: set[int] = field(default_factory=set)
    _by_digest: dict[int, list[int]] = field(default_factory=dict)

    def match(self, expected: Digests) -> None:
        """Compare; the offsets of `expected` are the source's, those of `there` the target's."""
        starts = [run.source_offset for run in self.runs]
        after = -1
        for offset, digest in expected.items():
            self.sums.expected_sum += digest
            at = bisect_right(starts, offset) - 1
            found = self._named(at, offset)
            if found is None and not self.exact:
                found = self._sought(digest, after, self._before(at + 1))
            after = found if found is not None else after
            self._judge(offset, digest, found)
        self._count_extra()

    def _named(self, at: int, offset: int) -> int | None:
        if at < 0:
            return None
        run = self.runs[at]
        distance = offset - run.source_offset
        return run.target_offset + distance if distance < run.length else None

    def _before(self, at: int) -> float:
        return self.runs[at].target_offset if at < len(self.runs) else inf

    def _sought(self, digest: int, after: int, before: float) -> int | None:
        """Return a copy that the map lacks, after the last mapped one and before the next."""
        if not self._by_digest:
            for offset, each in sorted(self.there.items()):
                self._by_digest.setdefault(each, []).append(offset)
        alike = self._by_digest.get(digest, [])
        at = bisect_right(alike, after)
        return alike[at] if at < len(alike) and alike[at] < before else None

    def _judge(self, offset: int, digest: int, found: int | None) -> None:
        topic, partition = self.place
        if found is None:
            self.sums.differs("missing", offset, f"{topic}:{partition} has no copy of it")
        elif found not in self.there:
            text = f"its copy, {topic}:{partition} offset {found}, is gone"
            self.sums.differs("missing", offset, text)
        else:
            self._count(found)
            if self.there[found] != digest:
                text = f"its copy, {topic}:{partition} offset {found}, has different content"
                self.sums.differs("changed", offset, text)
            else:
                self.sums.same += 1

    def _count(self, found: int) -> None:
        self._ours.add(found)
        self.sums.found += 1
        self.sums.found_sum += self.there[found]

    def _count_extra(self) -> None:
        """Count copies in the map of records that should not have been written."""
        topic, partition = self.place
        for run in self.runs:
            for distance in range(run.length):
                found = run.target_offset + distance
                if found in self.there and found not in self._ours:
                    self._count(found)
                    text = (
                        f"{topic}:{partition} offset {found} is a copy of it, but should not exist"
                    )
                    self.sums.differs("extra", run.source_offset + distance, text)


def _bounds_with(source: KafkaSource, place: TopicPartition, last: int) -> Bounds | None:
    """Return the partition's bounds when it can be read up to `last`.

    Markers come a little later than a commit's answer, and another open transaction hides what follows it:
    neither means that records are missing.
    """
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while True:
        now = source.bounds().get(place)
        if now is None or now.stable_end > last or now.stable_end == now.high_watermark:
            return now
        if time.monotonic() > deadline:
            raise LedgerWaits(place[0], offset=now.stable_end, waited_s=_SEEN_WITHIN_S)
        time.sleep(_LOOK_EVERY_S)
