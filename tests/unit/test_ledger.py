"""A ledger's entry accounts for each offset of its slice; what remains is planned minus committed."""

import json
import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from playhead.absence import NOT_RECORDED
from playhead.checksum import COLUMNS, NOTHING, checksum_of
from playhead.ledger import VERSION, Entry, LedgerUnreadable, entry_at, joined, listed, remaining
from playhead.record import Slice

Place = tuple[str, int, int]
WHOLE = Slice("laps", 0, 10, 20)

slices = st.builds(
    lambda topic, partition, start, length: Slice(topic, partition, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 1),
    st.integers(0, 12),
    st.integers(1, 6),
)


@st.composite
def apart(draw) -> list[Slice]:
    """Slices in any order of which no two overlap, as those of a plan and of a ledger do not."""
    kept: list[Slice] = []
    for slice_ in draw(st.lists(slices, max_size=12)):
        if not any(slice_.overlaps(other) for other in kept):
            kept.append(slice_)
    return kept


def places(some: list[Slice]) -> list[Place]:
    return [
        (each.topic, each.partition, offset)
        for each in some
        for offset in range(each.from_offset, each.to_offset)
    ]


# --- what remains -----------------------------------------------------------------------------


@given(apart(), apart())
def test_what_remains_is_planned_minus_committed(planned, committed):
    left = places(remaining(planned, committed))
    assert set(left) == set(places(planned)) - set(places(committed))
    assert left == sorted(set(left)), "in order, and each offset once"


@given(apart(), st.lists(slices, max_size=8))
def test_committed_slices_may_overlap(planned, committed):
    left = places(remaining(planned, committed))
    assert set(left) == set(places(planned)) - set(places(committed))


@given(apart(), apart(), st.randoms())
def test_the_order_in_which_slices_are_given_is_nothing(planned, committed, random):
    left = remaining(planned, committed)
    random.shuffle(planned)
    random.shuffle(committed)
    assert remaining(planned, committed) == left


@given(apart(), apart())
def test_to_ask_again_changes_nothing_and_to_commit_what_remains_leaves_nothing(planned, committed):
    left = remaining(planned, committed)
    assert remaining(left, committed) == left
    assert remaining(left, []) == left
    assert remaining(planned, [*committed, *left]) == []
    assert remaining(planned, []) == sorted(planned)


@given(apart(), apart())
def test_what_remains_stays_within_the_slices_of_the_plan(planned, committed):
    for slice_ in remaining(planned, committed):
        homes = [
            each
            for each in planned
            if each.overlaps(slice_)
            and each.from_offset <= slice_.from_offset
            and slice_.to_offset <= each.to_offset
        ]
        assert len(homes) == 1, f"{slice_} lies in {homes}"


# --- entries ----------------------------------------------------------------------------------

numbers = st.integers(0, 2**40)
times = st.none() | st.integers(-(2**62), 2**62)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


column_sums = st.lists(st.binary(max_size=9), min_size=COLUMNS, max_size=COLUMNS).map(NOTHING.after)


@st.composite
def entries(draw) -> Entry:
    counts = [draw(numbers) for _ in range(5)]
    written, filtered, outside, dead, skipped = counts
    absences = draw(st.dictionaries(st.text(max_size=5), st.integers(0, 5), max_size=3))
    length = sum(counts) + sum(absences.values()) + draw(st.integers(0, 5))
    assume(length)
    start = draw(numbers)
    topic = draw(st.text(min_size=1, max_size=5))
    return Entry(
        Slice(topic, draw(st.integers(0, 99)), start, start + length),
        sum(counts),
        written,
        filtered=filtered,
        outside=outside,
        dead=dead,
        skipped=skipped,
        late=draw(numbers),
        first_ms=draw(times),
        last_ms=draw(times),
        last_late_ms=draw(times),
        details=draw(st.dictionaries(st.text(max_size=5), documents, max_size=3)),
        checksum=draw(st.none() | st.integers(0, 2**64 - 1) | column_sums),
        absences=absences,
        unexplained_at=tuple(draw(st.lists(st.tuples(numbers, numbers), max_size=3))),
        outside_at=draw(st.none() | st.just(((start, start + outside),))) if outside else (),
    )


@given(entries())
def test_an_entry_survives_json(entry):
    text = entry.as_json()
    assert Entry.from_json(text) == entry
    assert Entry.from_json(text.encode()) == entry
    assert Entry.from_json(text).as_json() == text


@given(entries())
def test_an_entrys_text_does_not_depend_on_the_order_of_its_details(entry):
    turned = replace(entry, details=dict(reversed(entry.details.items())))
    assert turned.as_json() == entry.as_json()


@given(entries())
def test_every_offset_of_an_entry_is_accounted_for(entry):
    kinds = entry.written, entry.filtered, entry.outside, entry.dead, entry.skipped
    assert sum(kinds) + entry.absent + entry.unexplained == len(entry.slice)
    assert entry.absent == sum(entry.absences.values())


@pytest.mark.parametrize(
    "counts",
    [
        {"read": 3, "written": 2},
        {"read": 3, "written": 4},
        {"read": 3, "written": 3, "dead": 1},
        {"read": 3, "written": 3, "skipped": 1},
        {"read": 3, "written": 3, "filtered": 1},
        {"read": 3, "written": 3, "outside": 1},
    ],
)
def test_an_entry_that_does_not_add_up_is_refused(counts):
    accounted = sum(counts.values()) - counts["read"]
    with pytest.raises(
        ValueError, match=f"laps:0:10-20: read 3 records, but its counts add up to {accounted}"
    ):
        Entry(WHOLE, **counts)


def test_an_entry_with_more_records_than_offsets_is_refused():
    assert Entry(WHOLE, 10, 10).absent == 0
    with pytest.raises(ValueError, match="read 11 of 10 offsets"):
        Entry(WHOLE, 11, 11)


def test_an_entry_that_explains_more_than_is_absent_is_refused():
    assert Entry(WHOLE, 8, 8, absences={"a": 1}).unexplained == 1
    for absences in ({"a": 3}, {"a": 3, "b": -1}):
        with pytest.raises(ValueError, match="read 8 of 10 offsets and explains"):
            Entry(WHOLE, 8, 8, absences=absences)


def test_an_entry_of_version_1_does_not_say_why_offsets_are_absent():
    document = json.loads(Entry(WHOLE, 7, 7).as_json()) | {"version": 1}
    for name in ("absences", "checksum", "unexplained_at"):
        del document[name]
    entry = Entry.from_json(json.dumps(document))
    assert (entry.absences, entry.unexplained) == ({NOT_RECORDED: 3}, 0)
    assert entry.checksum is None
    later = Entry(replace(WHOLE, from_offset=20, to_offset=22), 1, 1, checksum=5)
    whole = joined(entry, later)
    assert (whole.absences, whole.unexplained) == ({NOT_RECORDED: 3}, 1)
    assert whole.checksum is None, "a part of it is not known"


def test_a_checksum_of_version_2_is_never_added_to_one_of_now():
    document = json.loads(Entry(WHOLE, 10, 10, checksum=0xAB).as_json()) | {"version": 2}
    assert document["checksum"] == "00000000000000ab"
    entry = Entry.from_json(json.dumps(document))
    assert entry.checksum == 0xAB
    more = Entry(replace(WHOLE, from_offset=20, to_offset=22), 2, 2, checksum=3)
    assert joined(entry, more).checksum == 0xAE
    later = replace(more, checksum=NOTHING.after([b"x"] * COLUMNS))
    assert joined(entry, later).checksum is None


def test_an_entry_of_another_version_is_refused():
    document = json.loads(Entry(WHOLE, 0, 0).as_json())
    assert document["version"] == VERSION
    for version in (VERSION + 1, None):
        with pytest.raises(ValueError, match=f"version {version}; this Playhead knows {VERSION}"):
            Entry.from_json(json.dumps(document | {"version": version}))


@given(apart())
def test_slices_that_remain_do_not_touch_what_was_cut_out(planned):
    """Between two that remain of one planned slice something was committed."""
    assume(planned)
    middles = [
        replace(each, from_offset=each.from_offset + 1, to_offset=each.to_offset - 1)
        for each in planned
        if len(each) > 2
    ]
    left = remaining(planned, middles)
    assert len(left) == len(planned) + len(middles)
    assert all(before < after for before, after in pairwise(left))


# --- entries that are joined ------------------------------------------------------------------


@st.composite
def rows_of_entries(draw) -> list[Entry]:
    """Entries of one partition, each of which begins where the one before ends."""
    cuts = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=8)))
    found = []
    for start, end in pairwise(cuts):
        counts = [draw(st.integers(0, (end - start) // 6)) for _ in range(5)]
        names = ("written", "filtered", "outside", "dead", "skipped")
        times = draw(st.none() | st.tuples(st.integers(0, 99), st.integers(100, 199)))
        found.append(
            Entry(
                Slice("laps", 0, start, end),
                sum(counts),
                **dict(zip(names, counts, strict=True)),
                first_ms=times and times[0],
                last_ms=times and times[1],
                details={"inserted": counts[0], "way": "direct", "refused": [start]},
                checksum=draw(column_sums),
                absences={"markers": counts[1]},
                unexplained_at=((start, start + 1),),
                outside_at=((start, start + counts[2]),) if counts[2] else (),
            )
        )
    return found


@given(rows_of_entries())
def test_entries_that_are_joined_say_the_same_of_all_of_it(entries):
    whole = entries[0]
    for each in entries[1:]:
        whole = joined(whole, each)
    first, last = entries[0].slice, entries[-1].slice
    assert (whole.slice.from_offset, whole.slice.to_offset) == (first.from_offset, last.to_offset)
    for name in (
        "read",
        "written",
        "filtered",
        "outside",
        "dead",
        "skipped",
        "absent",
        "unexplained",
    ):
        assert getattr(whole, name) == sum(getattr(each, name) for each in entries)
    assert whole.checksum == checksum_of(each.checksum for each in entries)
    assert whole.unexplained_at == tuple(each.unexplained_at[0] for each in entries)
    outside = {at for each in entries for run in each.outside_at for at in range(*run)}
    left = {at for each in whole.of_its_span() for at in range(each.from_offset, each.to_offset)}
    assert left == {*range(first.from_offset, last.to_offset)} - outside
    assert whole.lists_outside
    assert whole.first_ms == min(
        (e.first_ms for e in entries if e.first_ms is not None), default=None
    )
    assert whole.last_ms == max((e.last_ms for e in entries if e.last_ms is not None), default=None)
    assert Entry.from_json(whole.as_json()) == whole
    if len(entries) > 1:
        counted = {"commits": len(entries), "inserted": sum(e.details["inserted"] for e in entries)}
        assert whole.details == counted


@given(rows_of_entries().filter(lambda entries: len(entries) > 2))
def test_only_neighbours_are_joined(entries):
    for other in (
        entries[2],
        entries[0],
        replace(entries[1], slice=replace(entries[1].slice, partition=1)),
    ):
        with pytest.raises(ValueError, match="neighbours"):
            joined(entries[0], other)


def test_a_joined_entry_does_not_grow():
    whole = Entry(Slice("laps", 0, 0, 1), 1, 1, details={"offsets": [[0, 1]], "inserted": 1})
    for n in range(1, 2_000):
        whole = joined(
            whole,
            replace(
                whole,
                slice=Slice("laps", 0, n, n + 1),
                read=1,
                written=1,
                details={"offsets": [[n, 1]], "inserted": 1},
            ),
        )
    assert len(whole.as_json()) < 500


LATER = json.dumps(json.loads(Entry(WHOLE, 10, 10).as_json()) | {"version": VERSION + 1})


@pytest.mark.parametrize(
    "text", [LATER, "", "[]", "3", "{}", '{"version": 3}', "[" * 100_000, b"\xff", LATER[:-9]]
)
def test_an_entry_that_cannot_be_read_is_refused_by_its_place(text):
    with pytest.raises(LedgerUnreadable) as refused:
        entry_at("table playhead_ledger.entries", text)
    assert str(refused.value).startswith(
        "the ledger entry in table playhead_ledger.entries cannot be read: "
    )
    assert refused.value.exit_code == 6
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301


@pytest.mark.parametrize("run", [(9, 11), (19, 21), (12, 12), (13, 12)])
def test_runs_outside_of_the_span_are_runs_of_the_entry(run):
    with pytest.raises(ValueError, match="found the run"):
        Entry(WHOLE, 1, 0, outside=1, outside_at=(run,))
    with pytest.raises(ValueError, match="found the run"):
        Entry(WHOLE, 1, 0, outside=1, outside_at=((12, 14), (13, 15)))


def test_an_entry_lists_a_thousand_runs_outside_of_its_span():
    runs = [(2 * n, 2 * n + 1) for n in range(1_000)]
    assert listed(runs[:7], [(14, 15), (15, 16)], [(16, 17)]) == (*runs[:7], (14, 17))
    assert listed(runs) == tuple(runs)
    assert listed(runs, [(5_000, 5_001)]) is listed(None, runs) is listed(runs, None) is None
    assert not Entry(WHOLE, 1, 0, outside=1, outside_at=None).lists_outside
    assert not Entry(WHOLE, 2, 0, outside=2, outside_at=((10, 11),)).lists_outside
    document = json.loads(Entry(WHOLE, 1, 0, outside=1, outside_at=((10, 11),)).as_json())
    del document["outside_at"]  # As an earlier version wrote it.
    assert not Entry.from_json(json.dumps(document)).lists_outside


@pytest.mark.parametrize(
    "change",
    [
        {"first_ms": "x"},
        {"last_late_ms": 1.5},
        {"late": 10**40},
        {"late": True},
        {"absences": {"x": 1.0}},
        {"unexplained_at": [["a", "b"]]},
        {"unexplained_at": [[1.0, 2]]},
        {"outside": 1, "written": 0, "outside_at": [["a", 12]]},
    ],
    ids=str,
)
def test_an_entry_whose_numbers_are_none_is_refused(change):
    """Who can write the ledger could otherwise end a proof of others with a fault of Playhead's."""
    whole = json.loads(Entry(WHOLE, read=1, written=1, absences={"x": 2}).as_json())
    assert entry_at("table ledger", json.dumps(whole)).read == 1
    with pytest.raises(LedgerUnreadable, match="a count, a time or an offset"):
        entry_at("table ledger", json.dumps(whole | change))
