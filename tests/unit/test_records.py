"""Columns hold the same records as rows do, however they are cut and picked."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.record import Record, TimestampType
from playhead.records import Records

payloads = st.none() | st.binary(max_size=3)
headers = st.lists(st.tuples(st.text(max_size=2), payloads), max_size=2).map(tuple)


@st.composite
def rows(draw) -> list[Record]:
    offsets = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=8)))
    return [
        Record(
            "laps",
            1,
            offset,
            draw(st.integers(-1, 9)),
            draw(st.sampled_from(TimestampType)),
            draw(payloads),
            draw(payloads),
            draw(headers),
        )
        for offset in offsets
    ]


def columns(records: Records) -> list[list[object]]:
    return [
        records.offsets,
        records.timestamps_ms,
        records.timestamp_types,
        records.keys,
        records.values,
        records.headers,
    ]


@given(rows())
def test_columns_give_back_their_rows(some):
    records = Records.of(iter(some))
    assert list(records) == some
    assert [records.record(index) for index in range(len(records))] == some
    assert {len(column) for column in columns(records)} == {len(some)} == {len(records)}
    assert pickle.loads(pickle.dumps(records)) == records  # noqa: S301


@given(rows(), st.integers(0, 10), st.integers(0, 10))
def test_a_cut_holds_the_indexes_in_it(some, start, stop):
    cut = Records.of(some).cut(start, stop)
    assert list(cut) == [each for index, each in enumerate(some) if start <= index < stop]
    assert {len(column) for column in columns(cut)} == {len(cut)}


@given(rows(), st.integers(0, 8))
def test_two_cuts_at_one_place_lose_nothing(some, at):
    records = Records.of(some)
    assert [*records.cut(0, at), *records.cut(at, len(records))] == some


@given(rows(), st.data())
def test_a_pick_holds_the_indexes_in_their_order(some, data):
    indexes = data.draw(st.lists(st.integers(0, len(some) - 1)))
    picked = Records.of(some).pick(indexes)
    assert list(picked) == [some[index] for index in indexes]
    assert (picked.topic, picked.partition) == ("laps", 1)


@given(rows(), st.data())
def test_to_cut_or_pick_leaves_the_records_alone(some, data):
    records = Records.of(some)
    start = data.draw(st.integers(0, len(some)))
    # One that holds all of them may be the records themselves; those in part must not be.
    for part in (records.cut(start, len(some) - 1), records.pick([0])):
        part.offsets.append(99)
    assert list(records) == some


@given(rows())
def test_a_size_grows_with_what_is_in_it(some):
    sizes = Records.of(some).sizes_bytes()
    longer = [replace(each, value=(each.value or b"") + b"12345") for each in some]
    assert Records.of(longer).sizes_bytes() == [size + 5 for size in sizes]
    more = [replace(each, headers=(*each.headers, ("n", b"12"))) for each in some]
    for before, after in zip(sizes, Records.of(more).sizes_bytes(), strict=True):
        assert after >= before + 3


def test_records_of_several_partitions_are_refused():
    one = Record("laps", 0, 0, -1, TimestampType.NONE, None, None)
    for other in (replace(one, partition=1), replace(one, topic="tyres")):
        with pytest.raises(ValueError, match="found records of several partitions"):
            Records.of([one, other])


@given(rows(), st.integers(0, 8))
def test_what_follows_is_taken_in_every_column(found, at):
    whole = Records.of(found)
    first, rest = whole.pick(range(min(at, len(whole)))), whole.cut(at, len(whole))
    first.extend(rest)
    assert first == whole


def decoded(found: list[Record]) -> Records:
    """All of them with what they mean, but for every third."""
    meant = [None if each.value is None else b"<" + each.value + b">" for each in found]
    bad = {each.offset: "no sense" for each in found[::3]}
    return replace(Records.of(found), decoded=meant, undecoded=bad)


@given(rows(), st.integers(0, 8))
def test_what_values_mean_stays_beside_them(found, at):
    whole = decoded(found)
    first, rest = whole.pick(range(min(at, len(whole)))), whole.cut(at, len(whole))
    assert first.decoded == whole.decoded[:at]
    assert rest.decoded == whole.decoded[at:]
    first.extend(rest)
    assert first == whole == decoded(found)
    empty = Records("laps", 1)
    empty.extend(whole)
    assert (empty.readable, empty.undecoded) == (whole.decoded, whole.undecoded)
    assert Records.of(found).readable == [each.value for each in found]


@given(rows())
def test_what_values_mean_takes_room_too(found):
    plain, meant = Records.of(found), decoded(found)
    more = sum(len(each or b"") for each in meant.decoded)
    assert meant.size_bytes() == plain.size_bytes() + more == sum(meant.sizes_bytes())
