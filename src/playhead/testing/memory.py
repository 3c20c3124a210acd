"""An in-memory source and target, with faults at places that the test chooses."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from hashlib import sha256
from threading import RLock
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from playhead.absence import OneReason
from playhead.account import Account
from playhead.host.faults import Aborted
from playhead.ledger import Entry, joined
from playhead.note import Note
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.source import (
    Bounds,
    OutOfBounds,
    Reader,
    Source,
    SourceFacts,
    TopicFacts,
    TopicPartition,
)
from playhead.target import (
    AlreadyCommitted,
    Difference,
    Inspection,
    InspectRequest,
    InUse,
    SliceComparison,
    Target,
    Writer,
    at_once,
)
from playhead.task.commit_order import refuse_wrong_order_among
from playhead.terms import Terms, Whereto, agreed, without_terms
from playhead.testing.abort_item import Abort

# Small, so that a few records come in several runs.
_RUN_LENGTH = 2


class ListSource(Source):
    """Records from a list: `[r0, r1, Abort(), r2]`, read in runs of two at most.

    Offsets must rise within a partition; missing offsets are absent. The bounds of a partition are its first record
    and the offset after its last one. Pass `bounds` for an empty partition, absent offsets at its ends, or an open
    transaction, and `topics` for more facts of a topic than its name.
    """

    def __init__(
        self,
        items: Iterable[Record | Abort],
        *,
        bounds: Mapping[TopicPartition, Bounds] | None = None,
        topics: Mapping[str, TopicFacts] | None = None,
    ) -> None:
        self._items = tuple(items)
        self._records = [item for item in self._items if isinstance(item, Record)]
        self._bounds = _extent(self._records) | dict(bounds or {})
        self._topics = {topic: TopicFacts() for topic, _ in self._bounds} | dict(topics or {})
        for record in self._records:
            held = self._bounds[record.topic, record.partition]
            if not held.earliest <= record.offset < held.high_watermark:
                raise ValueError(f"items: found offset {record.offset}, needed one within {held}")

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        return dict(self._bounds)

    def facts(self) -> SourceFacts:
        return SourceFacts(f"list:{_checksum(self._records)}", dict(self._topics))

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        found = {place: held.stable_end for place, held in self._bounds.items()}
        for record in self._records:
            if record.timestamp_ms >= instant_ms:
                place = record.topic, record.partition
                found[place] = min(found[place], record.offset)
        return found

    def absences(self) -> AbstractContextManager[OneReason]:
        """Return the reason for offsets without a record."""
        return nullcontext(OneReason("not in the list"))

    @contextmanager
    def open(self) -> Iterator[Reader]:
        reader = _ListReader(self)
        try:
            yield reader
        finally:
            reader.is_open = False

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        """Read a slice, for an open reader."""
        held = self._bounds.get((slice_.topic, slice_.partition))
        if held is None or not (
            held.earliest <= slice_.from_offset and slice_.to_offset <= held.stable_end
        ):
            raise OutOfBounds(slice_, held)
        return self._walk(slice_)

    def _walk(self, slice_: Slice) -> Iterator[Records]:
        run: list[Record] = []
        ahead: list[Abort] = []
        wanted = False
        for item in self._items:
            if isinstance(item, Abort):
                ahead.append(item)
                continue
            wanted = item in slice_
            # The records before a fault have been read when it happens.
            if wanted and run and (ahead or len(run) == _RUN_LENGTH):
                yield Records.of(run)
                run = []
            if wanted:
                _happen(ahead)
                run.append(item)
            ahead.clear()
        if run:
            yield Records.of(run)
        if wanted:
            _happen(ahead)


class _ListReader(Reader):
    def __init__(self, source: ListSource) -> None:
        self._source = source
        self.is_open = True

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        if not self.is_open:
            raise ValueError("read: found a reader after its block, needed an open one")
        return self._source.read(slice_)


def _happen(aborts: Iterable[Abort]) -> None:
    for abort in aborts:
        abort.happen()


def _extent(records: Iterable[Record]) -> dict[TopicPartition, Bounds]:
    extent: dict[TopicPartition, Bounds] = {}
    for record in records:
        place, end = (record.topic, record.partition), record.offset + 1
        before = extent.get(place, Bounds(record.offset, record.offset, record.offset))
        if record.offset < before.stable_end:
            raise ValueError(
                f"items: found offset {record.offset} of {record.topic}:{record.partition}, "
                f"needed {before.stable_end} or more: offsets rise within a partition"
            )
        extent[place] = Bounds(before.earliest, end, end)
    return extent


def _checksum(records: Iterable[Record]) -> str:
    digests = (int.from_bytes(sha256(repr(record).encode()).digest()) for record in records)
    return f"{sum(digests) % 2**64:016x}"


# Unpickling returns the pickled target itself, because its records are in this process only.
_living: "WeakValueDictionary[str, ListTarget]" = WeakValueDictionary()


def _revive(identity: str) -> "ListTarget":
    target = _living.get(identity)
    if target is None:
        raise ValueError(f"{identity}: a ListTarget can be used in its own process only")
    return target


class ListTarget(Target):
    """Records in a list, safe to use from several threads of one process.

    Ordering: a slice's records stay together in the given order; slices are in the order of their commits.
    Idempotence: none by content, so a record committed under two slices is kept twice; a slice of a replay is
    committed only once. Delivery: exactly once, as long as this object exists.

    `refuses` returns the reason why a record cannot be written, or None.
    """

    def __init__(
        self,
        *,
        refuses: Callable[[Record], str | None] = lambda _: None,
        is_ordered: bool = False,
    ) -> None:
        self._refuses, self._is_ordered = refuses, is_ordered
        # Reentrant, because the writer of dead letters may read this target.
        self._lock = RLock()
        self._rows: list[tuple[str, Record]] = []
        self._ledger: dict[str, list[Entry]] = {}
        self._terms: dict[str, Terms] = {}
        self.made = "made once"
        """Change the identity, as if the list had been dropped and created again."""
        self._held: set[str] = set()
        self._faults: dict[str, Exception] = {}
        self._name = f"list:{uuid4().hex}"
        _living[self._name] = self

    def __reduce__(self) -> tuple[Callable[[str], "ListTarget"], tuple[str]]:
        return _revive, (self._name,)

    @property
    def is_ordered(self) -> bool:
        return self._is_ordered

    @property
    def records(self) -> tuple[Record, ...]:
        """Return the committed records."""
        with self._lock:
            return tuple(record for _, record in self._rows)

    def lose(self, record: Record) -> None:
        """Remove one copy of a record, as if another client had deleted it."""
        with self._lock:
            self._rows.pop(self.records.index(record))

    def forget(self, replay_id: str, *, but: int) -> None:
        """Remove entries of the ledger, as if an older copy of it had been restored; keep the first ones."""
        with self._lock:
            del self._ledger[replay_id][but:]

    def fail_before_commit(self, error: Exception | None = None) -> None:
        """Make the next commit raise (default `Aborted`) after its records were read, before any is written."""
        self._faults["before"] = error or Aborted("fail_before_commit of a ListTarget")

    def fail_after_commit(self, error: Exception | None = None) -> None:
        """Make the next commit raise after it has written all records, as when the response is lost."""
        self._faults["after"] = error or Aborted("fail_after_commit of a ListTarget")

    def identity(self) -> str:
        return "lists"

    def inspect(self, _look: InspectRequest, /) -> Inspection:
        return Inspection(self.identity())

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        return [{"offset": each.offset, "key": each.key, "value": each.value} for each in records]

    def prepare(self, replay_id: str, _inspection: Inspection, terms: Terms, /) -> Sequence[Note]:
        """Save the terms."""
        with self._lock:
            places = {topic: Whereto(self._name, self.made) for topic in terms.topics}
            wanted, kept = replace(terms, places=places), self._terms.get(replay_id)
            self._terms[replay_id] = wanted if kept is None else agreed(replay_id, kept, wanted)
            is_new = kept is None and bool(self._ledger.get(replay_id))
            return (without_terms(replay_id),) if is_new else ()

    def terms(self, replay_id: str, /) -> Terms | None:
        with self._lock:
            return self._terms.get(replay_id)

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        with self._lock:
            if replay_id in self._held:
                raise InUse(replay_id, where="this process")
            self._held.add(replay_id)
        try:
            yield
        finally:
            self._held.discard(replay_id)

    def entries(self, replay_id: str, /) -> Sequence[Entry]:
        with self._lock:
            return sorted(self._ledger.get(replay_id, ()), key=lambda entry: entry.slice)

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Writer]:
        writer = _ListWriter(self, replay_id)
        try:
            yield writer
        finally:
            writer.is_usable = False

    def commit(self, replay_id: str, account: Account, records: Iterable[Records], /) -> None:
        """Commit a slice, for an open writer."""
        drawn = _drawn(account.slice, records)  # not under the lock, because reading may take long
        kept = [record for record in drawn if not self._refused(account, record)]
        with self._lock:
            self._refuse_overlap(replay_id, account.slice)
            if self._is_ordered or account.is_endless:
                refuse_wrong_order_among(replay_id, account, self.entries(replay_id))
            entry = account.close({"rows": len(kept)})
            self._fail_if_told("before")
            self._rows += [(replay_id, record) for record in kept]
            self._note(replay_id, entry, is_endless=account.is_endless)
            self._fail_if_told("after")

    def _note(self, replay_id: str, entry: Entry, *, is_endless: bool) -> None:
        known = self._ledger.setdefault(replay_id, [])
        for index, each in enumerate(known if is_endless else ()):
            same = (each.slice.topic, each.slice.partition, each.slice.to_offset)
            if same == (entry.slice.topic, entry.slice.partition, entry.slice.from_offset):
                known[index] = joined(each, entry)
                return
        known.append(entry)

    def compare(
        self, replay_id: str, entry: Entry, records: Iterable[Records], /
    ) -> SliceComparison:
        wanted = [each for each in _drawn(entry.slice, records) if self._refuses(each) is None]
        with self._lock:
            rows = [each for replay, each in self._rows if replay == replay_id]
        found = [each for each in rows if each in entry.slice]
        differences = tuple(_differences(wanted, found))
        return SliceComparison(
            entry.slice,
            len(wanted),
            len(found),
            _checksum(wanted),
            _checksum(found),
            differences,
            len(differences),
            same=len(wanted) - sum(each.kind != "extra" for each in differences),
        )

    def _refused(self, account: Account, record: Record) -> bool:
        if (reason := self._refuses(record)) is not None:
            account.refuse(record, kind="refused", reason=reason)
        return reason is not None

    def _refuse_overlap(self, replay_id: str, slice_: Slice) -> None:
        for entry in self._ledger.get(replay_id, ()):
            if entry.slice.overlaps(slice_):
                raise AlreadyCommitted(replay_id, found=slice_, committed=entry.slice)

    def _fail_if_told(self, moment: str) -> None:
        if (error := self._faults.pop(moment, None)) is not None:
            raise error


class _ListWriter(Writer):
    """A writer as strict as the contract allows: it cannot be used after its block or after an error."""

    def __init__(self, target: ListTarget, replay_id: str) -> None:
        self._target, self._replay_id = target, replay_id
        self.is_usable = True

    def expect(self, _place: TopicPartition, /) -> Callable[[], None]:
        self._need_usable()
        return at_once

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        self._need_usable()
        self.is_usable = False
        try:
            self._target.commit(self._replay_id, account, records)
        except AlreadyCommitted:
            self.is_usable = True
            raise
        self.is_usable = True

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison:
        self._need_usable()
        return self._target.compare(self._replay_id, entry, records)

    def _need_usable(self) -> None:
        if not self.is_usable:
            raise ValueError("writer: found one after its block or an error, needed a new one")


def _drawn(slice_: Slice, records: Iterable[Records]) -> list[Record]:
    drawn = [record for run in records for record in run]
    end = slice_.from_offset
    for record in drawn:
        if record not in slice_:
            raise ValueError(f"records: found offset {record.offset}, needed one of {slice_}")
        if record.offset < end:
            raise ValueError(f"records: found offset {record.offset}, needed {end} or more")
        end = record.offset + 1
    return drawn


def _differences(wanted: Iterable[Record], found: Iterable[Record]) -> Iterator[Difference]:
    before, now = ({each.offset: each for each in records} for records in (wanted, found))
    both = before.keys() | now.keys()
    for offset in sorted(each for each in both if before.get(each) != now.get(each)):
        place = before.get(offset) or now[offset]
        difference = Difference("changed", place.topic, place.partition, offset, "not the same")
        if offset not in now:
            difference = replace(difference, kind="missing", text="not in the list")
        elif offset not in before:
            difference = replace(difference, kind="extra", text="in the list and not expected")
        yield difference
