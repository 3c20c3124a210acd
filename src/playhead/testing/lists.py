"""A source and a target in memory, with faults that a test writes down where they happen."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from uuid import uuid4

from playhead.faults import Aborted
from playhead.record import Record, Slice
from playhead.source import Bounds, OutOfBounds, Source
from playhead.target import AlreadyCommitted, Target

# Kept here and not in the item: a fault must happen once although the source, and the item with
# it, was pickled for every task. Another process has its own.
_happened: set[str] = set()
_happening = Lock()


@dataclass(frozen=True, slots=True)
class Abort:
    """An item in the list of a `ListSource`: at this place reading fails, once.

    It stands before the record that follows it, and at the end of a list after the last record:
    only who reads that record meets it.
    """

    identity: str = field(default_factory=lambda: uuid4().hex)

    def happen(self) -> None:
        """Raise `Aborted`, unless this one already has in this process."""
        with _happening:
            if self.identity in _happened:
                return
            _happened.add(self.identity)
        raise Aborted("an Abort() in the list of a source")


class ListSource(Source):
    """Records from a list: `[r0, r1, Abort(), r2]`.

    Offsets must rise within a partition; those left out are absent. A partition reaches from its
    first record to after its last, unless `bounds` says otherwise: an empty partition, absent
    offsets at its ends, an open transaction.
    """

    def __init__(
        self,
        items: Iterable[Record | Abort],
        *,
        bounds: Mapping[tuple[str, int], Bounds] | None = None,
    ) -> None:
        self._items = tuple(items)
        records = [item for item in self._items if isinstance(item, Record)]
        self._bounds = _extent(records) | dict(bounds or {})
        for record in records:
            held = self._bounds[record.topic, record.partition]
            if not held.earliest <= record.offset < held.high_watermark:
                raise ValueError(f"items: found offset {record.offset}, needed one within {held}")

    def bounds(self) -> Mapping[tuple[str, int], Bounds]:
        return dict(self._bounds)

    def read(self, slice_: Slice, /) -> Iterator[Record]:
        held = self._bounds.get((slice_.topic, slice_.partition))
        if held is None or not (
            held.earliest <= slice_.from_offset and slice_.to_offset <= held.stable_end
        ):
            raise OutOfBounds(slice_, held)
        return self._walk(slice_)

    def _walk(self, slice_: Slice) -> Iterator[Record]:
        ahead: list[Abort] = []
        wanted = False
        for item in self._items:
            if isinstance(item, Abort):
                ahead.append(item)
                continue
            wanted = item in slice_
            if wanted:
                _happen(ahead)
                yield item
            ahead.clear()
        if wanted:
            _happen(ahead)


def _happen(aborts: Iterable[Abort]) -> None:
    for abort in aborts:
        abort.happen()


def _extent(records: Iterable[Record]) -> dict[tuple[str, int], Bounds]:
    extent: dict[tuple[str, int], Bounds] = {}
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


class ListTarget(Target):
    """Records in a list, safe to use from several threads.

    Ordering: a slice's records stay together in the order given; slices stand in the order of
    their commits. Idempotence: none by content, a record committed under two slices is there
    twice; a slice of one replay is taken only once. Delivery: exactly once, as long as this
    object lives.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._records: list[Record] = []
        self._ledger: dict[str, list[Slice]] = {}
        self._faults: set[str] = set()

    @property
    def records(self) -> tuple[Record, ...]:
        """What a reader sees now."""
        with self._lock:
            return tuple(self._records)

    def fail_before_commit(self) -> None:
        """Let the next commit raise `Aborted` when it has drawn its records and written nothing."""
        self._faults.add("before")

    def fail_after_commit(self) -> None:
        """Let the next commit raise `Aborted` when all is written: the answer that got lost."""
        self._faults.add("after")

    def committed(self, replay_id: str, /) -> tuple[Slice, ...]:
        with self._lock:
            return tuple(sorted(self._ledger.get(replay_id, ())))

    def commit(self, replay_id: str, slice_: Slice, records: Iterable[Record], /) -> None:
        drawn = list(records)  # not under the lock: drawing may take long, and may look at us
        for record in drawn:
            if record not in slice_:
                raise ValueError(f"records: found offset {record.offset}, needed one of {slice_}")
        with self._lock:
            self._refuse_overlap(replay_id, slice_)
            self._fail_if_told("before")
            self._records += drawn
            self._ledger.setdefault(replay_id, []).append(slice_)
            self._fail_if_told("after")

    def _refuse_overlap(self, replay_id: str, slice_: Slice) -> None:
        for committed in self._ledger.get(replay_id, ()):
            if committed.overlaps(slice_):
                raise AlreadyCommitted(replay_id, found=slice_, committed=committed)

    def _fail_if_told(self, moment: str) -> None:
        if moment in self._faults:
            self._faults.remove(moment)
            raise Aborted(f"a ListTarget told to fail {moment} its commit")
