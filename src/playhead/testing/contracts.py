"""The contract suites that every source and every target must pass, whatever the system."""

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from uuid import uuid4

from playhead.record import Headers, Record, Slice, TimestampType
from playhead.source import Bounds, OutOfBounds, Source
from playhead.target import AlreadyCommitted, Target

_CASES: Mapping[str, Callable[[Record], bool]] = {
    "null key": lambda record: record.key is None,
    "empty key": lambda record: record.key == b"",
    "null value": lambda record: record.value is None,
    "empty value": lambda record: record.value == b"",
    "repeated header": lambda record: len(record.headers) > len(dict(record.headers)),
    "null header": lambda record: any(value is None for _, value in record.headers),
}


def sample_records(topic: str = "contract") -> list[Record]:
    """Records of two partitions that show every case: nulls, empties, repeats, absent offsets."""
    rows: list[tuple[int, int, bytes | None, bytes | None, Headers]] = [
        (0, 0, b"a", b"first", ()),
        (0, 1, None, b"null key", (("n", b"1"), ("m", b""), ("n", b"2"))),
        (0, 4, b"", b"empty key, after two absent offsets", (("n", None),)),
        (0, 5, b"a", None, ()),
        (0, 7, b"b", b"", (("n", b"\x00\xff"),)),
        (1, 3, b"\x00\xff", b"not text", ()),
        (1, 4, None, None, ()),
    ]
    return [
        Record(topic, partition, offset, 1_000 + n, TimestampType.CREATE_TIME, key, value, headers)
        for n, (partition, offset, key, value, headers) in enumerate(rows)
    ]


def exercise_source(
    make_source: Callable[[], Source],
    expected_records: Sequence[Record],
    *,
    lacks: Collection[str] = (),
) -> None:
    """Hold a source against its contract.

    `expected_records` is all that can be read from it. They must show every case, such as "null
    key" or "absent offset"; name in `lacks` those that the system cannot hold.
    """
    partitions = _by_partition(expected_records)
    _shows_every_case(partitions, lacks)
    _says_bounds_that_hold_its_records(make_source(), partitions)
    for place, records in partitions.items():
        bounds = make_source().bounds()[place]
        _reads_all(make_source(), place, bounds, records)
        _reads_half_open_slices(make_source(), place, bounds, records)
        _reads_nothing_where_offsets_are_absent(make_source(), place, bounds, records)
        _refuses_to_be_short(make_source(), place, bounds)
        _survives_pickling(make_source(), place, bounds, records)


def exercise_target(
    make_target: Callable[[], Target], read_back: Callable[[], Iterable[Record]]
) -> None:
    """Hold a target against its contract.

    `make_target` opens the same store each time, one that takes every record and replaces none;
    `read_back` says what a reader of it sees now. Records are compared by what they carry (key,
    value, headers, timestamp), and not by place, which the target may choose.
    """
    _states_its_guarantees(make_target())
    for check in (
        _commits_records_with_their_ledger,
        _remembers_when_reopened,
        _counts_a_slice_without_records,
        _refuses_an_overlap,
        _takes_what_touches_and_does_not_overlap,
        _shows_nothing_before_its_commit,
        _leaves_nothing_after_a_failure,
        _keeps_replays_apart,
    ):
        check(make_target, _Reader(read_back))


# --- sources ----------------------------------------------------------------------------------

_Place = tuple[str, int]


def _by_partition(records: Iterable[Record]) -> dict[_Place, list[Record]]:
    partitions: dict[_Place, list[Record]] = {}
    for record in records:
        partitions.setdefault((record.topic, record.partition), []).append(record)
    return partitions


def _shows_every_case(partitions: Mapping[_Place, list[Record]], lacks: Collection[str]) -> None:
    unknown = set(lacks) - {*_CASES, "absent offset"}
    assert not unknown, f"lacks names {unknown}; the cases are {[*_CASES, 'absent offset']}"
    every = [record for records in partitions.values() for record in records]
    missing = {name for name, shows in _CASES.items() if not any(map(shows, every))}
    if all(_absent(records) is None for records in partitions.values()):
        missing.add("absent offset")
    missing -= set(lacks)
    assert not missing, f"expected_records show no {missing}; add some, or name it in lacks"
    assert max(map(len, partitions.values())) > 1, "expected_records need two in one partition"


def _says_bounds_that_hold_its_records(
    source: Source, partitions: Mapping[_Place, list[Record]]
) -> None:
    bounds = source.bounds()
    for place, records in partitions.items():
        assert place in bounds, f"bounds() says nothing of {place}, which has records"
        first, last, held = records[0].offset, records[-1].offset, bounds[place]
        assert held.earliest <= first, f"{place}: {held} begins after its first record, {first}"
        assert last < held.stable_end, f"{place}: {held} is not half-open: {last} can be read"


def _reads_all(source: Source, place: _Place, bounds: Bounds, records: list[Record]) -> None:
    _assert_read(source, Slice(*place, bounds.earliest, bounds.stable_end), records)


def _reads_half_open_slices(
    source: Source, place: _Place, bounds: Bounds, records: list[Record]
) -> None:
    index = len(records) // 2
    middle = records[index].offset
    _assert_read(source, Slice(*place, middle, middle + 1), records[index : index + 1])
    _assert_read(source, Slice(*place, middle, bounds.stable_end), records[index:])
    if middle > bounds.earliest:
        _assert_read(source, Slice(*place, bounds.earliest, middle), records[:index])


def _reads_nothing_where_offsets_are_absent(
    source: Source, place: _Place, bounds: Bounds, records: list[Record]
) -> None:
    absent = _absent(records)
    if absent is not None:
        _assert_read(source, Slice(*place, *absent), [])
        _assert_read(
            source,
            Slice(*place, bounds.earliest, absent[1]),
            [record for record in records if record.offset < absent[1]],
        )


def _refuses_to_be_short(source: Source, place: _Place, bounds: Bounds) -> None:
    outside = [Slice(*place, bounds.earliest, bounds.stable_end + 1)]
    if bounds.earliest > 0:
        outside.append(Slice(*place, bounds.earliest - 1, bounds.stable_end))
    for slice_ in outside:
        try:
            found = len(list(source.read(slice_)))
        except OutOfBounds:
            continue
        raise AssertionError(f"{slice_} reaches outside {bounds}, and gave {found} records")


def _survives_pickling(
    source: Source, place: _Place, bounds: Bounds, records: list[Record]
) -> None:
    whole = Slice(*place, bounds.earliest, bounds.stable_end)
    _assert_read(source, whole, records)
    # After a read, when a connection that was kept would be open.
    _assert_read(pickle.loads(pickle.dumps(source)), whole, records)  # noqa: S301 - our own bytes


def _absent(records: Sequence[Record]) -> tuple[int, int] | None:
    """The first run of offsets between two records that has none, half-open."""
    for before, after in pairwise(records):
        if after.offset > before.offset + 1:
            return before.offset + 1, after.offset
    return None


def _assert_read(source: Source, slice_: Slice, needed: Sequence[Record]) -> None:
    found = list(source.read(slice_))
    offsets = [record.offset for record in found]
    assert offsets == [record.offset for record in needed], f"{slice_} gave offsets {offsets}"
    for got, wanted in zip(found, needed, strict=True):
        assert got == wanted, f"{slice_}: found {got}, needed {wanted}"


# --- targets ----------------------------------------------------------------------------------

_MakeTarget = Callable[[], Target]


class _Reader:
    """Sees what has come into the target since it was made, whatever was there before."""

    def __init__(self, read_back: Callable[[], Iterable[Record]]) -> None:
        self._read_back = read_back
        self._before = Counter(map(_content, read_back()))

    def assert_gained(self, needed: Iterable[Record], when: str) -> None:
        now, wanted = Counter(map(_content, self._read_back())), Counter(map(_content, needed))
        lost, gained = self._before - now, now - self._before
        assert not lost, f"{when}: records are gone: {dict(lost)}"
        assert not gained - wanted, f"{when}: nobody committed {dict(gained - wanted)}"
        assert not wanted - gained, f"{when}: missing {dict(wanted - gained)}"


def _content(record: Record) -> tuple[bytes | None, bytes | None, Headers, int]:
    return record.key, record.value, record.headers, record.timestamp_ms


def _new_replay() -> tuple[str, Slice, list[Record]]:
    """A replay that the target cannot know, a slice with absent offsets, its records."""
    records = [record for record in sample_records() if record.partition == 0]
    return f"contract-{uuid4().hex}", Slice("contract", 0, 0, 10), records


def _committed(target: Target, replay_id: str) -> list[Slice]:
    """The ledger with neighbours joined, as a target may, and in order, as it must."""
    joined: list[Slice] = []
    for slice_ in target.committed(replay_id):
        last = joined[-1] if joined else None
        assert last is None or last < slice_, f"committed() is not in order: {slice_} after {last}"
        if last and (*_partition(last), last.to_offset) == (
            *_partition(slice_),
            slice_.from_offset,
        ):
            joined[-1] = Slice(*_partition(last), last.from_offset, slice_.to_offset)
        else:
            joined.append(slice_)
    return joined


def _partition(slice_: Slice) -> _Place:
    return slice_.topic, slice_.partition


def _assert_ledger(target: Target, replay_id: str, needed: list[Slice], when: str) -> None:
    found = _committed(target, replay_id)
    assert found == needed, (
        f"{when}: the ledger says {list(map(str, found))}, needed {list(map(str, needed))}"
    )


def _states_its_guarantees(target: Target) -> None:
    stated = (type(target).__doc__ or "").lower()
    for guarantee in ("ordering:", "idempotence:", "delivery:"):
        assert guarantee in stated, f"the docstring of {type(target).__name__} has no '{guarantee}'"


def _commits_records_with_their_ledger(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, slice_, records = _new_replay()
    target = make_target()
    _assert_ledger(target, replay_id, [], "before anything")
    target.commit(replay_id, slice_, iter(records))
    reader.assert_gained(records, "after a commit")
    _assert_ledger(target, replay_id, [slice_], "after a commit")


def _remembers_when_reopened(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, slice_, records = _new_replay()
    make_target().commit(replay_id, slice_, records)
    _assert_ledger(make_target(), replay_id, [slice_], "reopened")
    reader.assert_gained(records, "reopened")


def _counts_a_slice_without_records(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, slice_, _ = _new_replay()
    make_target().commit(replay_id, slice_, [])
    _assert_ledger(make_target(), replay_id, [slice_], "after a slice without records")
    reader.assert_gained([], "after a slice without records")


def _refuses_an_overlap(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, _, records = _new_replay()
    committed = Slice("contract", 0, 4, 8)
    kept = [record for record in records if record in committed]
    target = make_target()
    target.commit(replay_id, committed, kept)
    for from_offset, to_offset in ((4, 8), (0, 5), (7, 9), (5, 6), (0, 10)):
        overlapping = Slice("contract", 0, from_offset, to_offset)
        for opened in (target, make_target()):
            again = [record for record in records if record in overlapping]
            _assert_refused(opened, replay_id, overlapping, again)
    reader.assert_gained(kept, "after refused overlaps")
    _assert_ledger(make_target(), replay_id, [committed], "after refused overlaps")


def _assert_refused(target: Target, replay_id: str, slice_: Slice, records: list[Record]) -> None:
    try:
        target.commit(replay_id, slice_, records)
    except AlreadyCommitted:
        return
    raise AssertionError(f"{slice_} overlaps a committed slice, and was not refused")


def _takes_what_touches_and_does_not_overlap(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, _, _ = _new_replay()
    target = make_target()
    for slice_ in (
        Slice("contract", 0, 4, 8),
        Slice("contract", 0, 8, 9),
        Slice("contract", 0, 3, 4),
        Slice("contract", 1, 4, 8),
        Slice("other", 0, 4, 8),
    ):
        target.commit(replay_id, slice_, [])
    needed = [Slice("contract", 0, 3, 9), Slice("contract", 1, 4, 8), Slice("other", 0, 4, 8)]
    _assert_ledger(make_target(), replay_id, needed, "after slices that only touch")
    reader.assert_gained([], "after slices without records")


def _shows_nothing_before_its_commit(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, slice_, records = _new_replay()

    def watched() -> Iterator[Record]:
        for record in records:
            yield record
            reader.assert_gained([], "while records are still being given")

    make_target().commit(replay_id, slice_, watched())
    reader.assert_gained(records, "after a commit")


class _Fault(Exception):
    pass


def _leaves_nothing_after_a_failure(make_target: _MakeTarget, reader: _Reader) -> None:
    replay_id, slice_, records = _new_replay()

    def broken() -> Iterator[Record]:
        yield from records[:-1]
        raise _Fault

    target = make_target()
    failure: Exception | None = None
    try:
        target.commit(replay_id, slice_, broken())
    except Exception as error:  # noqa: BLE001 - a target may translate it, `from` the first
        failure = error
    assert _caused_by_fault(failure), f"the error of the records ended in {failure!r}"
    reader.assert_gained([], "after a failed commit")
    _assert_ledger(make_target(), replay_id, [], "after a failed commit")
    target.commit(replay_id, slice_, records)
    reader.assert_gained(records, "after a failed commit and a good one")


def _caused_by_fault(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, _Fault) or _caused_by_fault(error.__cause__))


def _keeps_replays_apart(make_target: _MakeTarget, reader: _Reader) -> None:
    (one, slice_, records), (other, _, _) = _new_replay(), _new_replay()
    target = make_target()
    target.commit(one, slice_, records)
    _assert_ledger(target, other, [], "after the commit of another replay")
    target.commit(other, slice_, records)
    reader.assert_gained(records * 2, "after two replays of the same slice")
    _assert_ledger(make_target(), one, [slice_], "after two replays of the same slice")
