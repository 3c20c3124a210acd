"""The contract suite that every source must pass, and the sample records of both suites."""

import pickle
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from playhead.record import Headers, Record, Slice, TimestampType
from playhead.source import Bounds, OutOfBounds, Reader, Source, TopicPartition

_CASES: Mapping[str, Callable[[Record], bool]] = {
    "null key": lambda record: record.key is None,
    "empty key": lambda record: record.key == b"",
    "null value": lambda record: record.value is None,
    "empty value": lambda record: record.value == b"",
    "repeated header": lambda record: len(record.headers) > len(dict(record.headers)),
    "null header": lambda record: any(value is None for _, value in record.headers),
}


def sample_records(topic: str = "contract") -> list[Record]:
    """Return records of two partitions with every case: nulls, empties, repeats, absent offsets.

    Their timestamps are out of order and repeat, as in a real log.
    """
    rows: list[tuple[int, int, int, bytes | None, bytes | None, Headers]] = [
        (0, 0, 1_000, b"a", b"first", ()),
        (0, 1, 1_003, None, b"null key", (("n", b"1"), ("m", b""), ("n", b"2"))),
        (0, 4, 1_001, b"", b"empty key, after two absent offsets", (("n", None),)),
        (0, 5, 1_003, b"a", None, ()),
        (0, 7, 1_006, b"b", b"", (("n", b"\x00\xff"),)),
        (1, 3, 1_005, b"\x00\xff", b"not text", ()),
        (1, 4, 1_002, None, None, ()),
    ]
    return [
        Record(topic, partition, offset, time_ms, TimestampType.CREATE_TIME, key, value, headers)
        for partition, offset, time_ms, key, value, headers in rows
    ]


def exercise_source(
    make_source: Callable[[], Source],
    expected_records: Sequence[Record],
    *,
    lacks: Collection[str] = (),
) -> None:
    """Check a source against its contract.

    `expected_records` are all its records. They must contain every case, such as "null key" or "absent offset";
    list in `lacks` the cases that the system cannot store.
    """
    partitions = _by_partition(expected_records)
    _shows_every_case(partitions, lacks)
    _says_bounds_that_hold_its_records(make_source(), partitions)
    _knows_its_topics(make_source, partitions)
    _finds_offsets_by_time(make_source(), partitions)
    for place, records in partitions.items():
        bounds = make_source().bounds()[place]
        for check in (
            _reads_all,
            _reads_half_open_slices,
            _reads_nothing_where_offsets_are_absent,
            _reads_on_through_one_reader,
            _reads_elsewhere_after_a_read_cut_short,
            _refuses_to_be_short,
            _survives_pickling,
        ):
            check(make_source(), place, bounds, records)


def _by_partition(records: Iterable[Record]) -> dict[TopicPartition, list[Record]]:
    partitions: dict[TopicPartition, list[Record]] = {}
    for record in records:
        partitions.setdefault((record.topic, record.partition), []).append(record)
    return partitions


def _shows_every_case(
    partitions: Mapping[TopicPartition, list[Record]], lacks: Collection[str]
) -> None:
    unknown = set(lacks) - {*_CASES, "absent offset"}
    assert not unknown, f"lacks names {unknown}; the cases are {[*_CASES, 'absent offset']}"
    every = [record for records in partitions.values() for record in records]
    missing = {name for name, shows in _CASES.items() if not any(map(shows, every))}
    if all(_absent(records) is None for records in partitions.values()):
        missing.add("absent offset")
    missing -= set(lacks)
    assert not missing, f"expected_records contain no {missing}; add some, or list it in lacks"
    assert max(map(len, partitions.values())) > 1, "expected_records need two in one partition"


def _says_bounds_that_hold_its_records(
    source: Source, partitions: Mapping[TopicPartition, list[Record]]
) -> None:
    bounds = source.bounds()
    for place, records in partitions.items():
        assert place in bounds, f"bounds() lacks {place}, which has records"
        first, last, held = records[0].offset, records[-1].offset, bounds[place]
        assert held.earliest <= first, f"{place}: {held} begins after its first record, {first}"
        assert last < held.stable_end, f"{place}: {held} is not half-open: {last} can be read"


def _knows_its_topics(
    make_source: Callable[[], Source], partitions: Mapping[TopicPartition, list[Record]]
) -> None:
    source = make_source()
    facts = source.facts()
    for topic in {topic for topic, _ in partitions}:
        assert topic in facts.topics, f"facts() lacks {topic}, which has records"
    assert facts.identity, "facts() has no identity"
    for other in (make_source(), _copy(source)):
        assert other.facts().identity == facts.identity, (
            f"one system, two identities: {facts.identity} and {other.facts().identity}"
        )


def _finds_offsets_by_time(
    source: Source, partitions: Mapping[TopicPartition, list[Record]]
) -> None:
    bounds = source.bounds()
    times = {record.timestamp_ms for records in partitions.values() for record in records}
    near = {time + step for time in times for step in (-1, 0, 1)}
    for instant_ms in sorted(instant for instant in near if instant >= 0):
        found = source.offsets_at(instant_ms)
        silent = bounds.keys() - found.keys()
        assert not silent, f"offsets_at({instant_ms}) lacks {silent}"
        for place, records in partitions.items():
            _assert_found(found[place], instant_ms, place, bounds[place], records)


def _assert_found(
    found: int, instant_ms: int, place: TopicPartition, bounds: Bounds, records: Sequence[Record]
) -> None:
    """An absent offset is a valid result if no record is between it and the wanted one."""
    offsets = [record.offset for record in records]
    due = [record.offset for record in records if record.timestamp_ms >= instant_ms]
    wanted = due[0] if due else bounds.stable_end
    what = f"offsets_at({instant_ms}) is {found} for {place}"
    assert bounds.earliest <= found <= bounds.stable_end, f"{what}, which is outside {bounds}"
    between = [each for each in offsets if min(found, wanted) <= each < max(found, wanted)]
    assert not between, f"{what}, needed {wanted}"


def _reads_all(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    _assert_read(source, Slice(*place, bounds.earliest, bounds.stable_end), records)


def _reads_half_open_slices(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    index = len(records) // 2
    middle = records[index].offset
    _assert_read(source, Slice(*place, middle, middle + 1), records[index : index + 1])
    _assert_read(source, Slice(*place, middle, bounds.stable_end), records[index:])
    if middle > bounds.earliest:
        _assert_read(source, Slice(*place, bounds.earliest, middle), records[:index])


def _reads_nothing_where_offsets_are_absent(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    absent = _absent(records)
    if absent is not None:
        _assert_read(source, Slice(*place, *absent), [])
        _assert_read(
            source,
            Slice(*place, bounds.earliest, absent[1]),
            [record for record in records if record.offset < absent[1]],
        )


def _reads_on_through_one_reader(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    """One reader reads adjacent slices, then the whole, then an earlier slice again."""
    cuts = sorted({bounds.earliest, bounds.stable_end, *(each.offset for each in records)})
    slices = [Slice(*place, start, end) for start, end in pairwise(cuts)]
    with source.open() as reader:
        for slice_ in (*slices, Slice(*place, cuts[0], cuts[-1]), slices[0]):
            _assert_gives(reader, slice_, [each for each in records if each in slice_])


def _reads_elsewhere_after_a_read_cut_short(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    whole = Slice(*place, bounds.earliest, bounds.stable_end)
    with source.open() as reader:
        next(reader.read(whole))
        _assert_gives(reader, whole, records)


def _refuses_to_be_short(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    outside = [
        Slice(*place, bounds.earliest, bounds.stable_end + 1),
        Slice(*place, records[-1].offset, bounds.stable_end + 1),
        Slice(*place, bounds.stable_end, bounds.stable_end + 1),
    ]
    if bounds.earliest > 0:
        outside.append(Slice(*place, bounds.earliest - 1, bounds.stable_end))
    for slice_ in outside:
        try:
            with source.open() as reader:
                found = sum(len(run) for run in reader.read(slice_))
        except OutOfBounds:
            continue
        raise AssertionError(f"{slice_} is outside {bounds}, and returned {found} records")


def _survives_pickling(
    source: Source, place: TopicPartition, bounds: Bounds, records: list[Record]
) -> None:
    whole = Slice(*place, bounds.earliest, bounds.stable_end)
    _assert_read(source, whole, records)
    # After a read, when a kept connection would be open.
    _assert_read(_copy(source), whole, records)


def _copy(source: Source) -> Source:
    copy: Source = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own bytes
    return copy


def _absent(records: Sequence[Record]) -> tuple[int, int] | None:
    """Return the first half-open run of absent offsets between two records."""
    for before, after in pairwise(records):
        if after.offset > before.offset + 1:
            return before.offset + 1, after.offset
    return None


def _assert_read(source: Source, slice_: Slice, needed: Sequence[Record]) -> None:
    with source.open() as reader:
        _assert_gives(reader, slice_, needed)


def _assert_gives(reader: Reader, slice_: Slice, needed: Sequence[Record]) -> None:
    found = [record for run in reader.read(slice_) for record in run]
    offsets = [record.offset for record in found]
    assert offsets == [record.offset for record in needed], f"{slice_} returned offsets {offsets}"
    for got, wanted in zip(found, needed, strict=True):
        assert got == wanted, f"{slice_}: found {got}, needed {wanted}"
