"""The arithmetic of a reset: where each mode leads, what that brings again, and the files it travels in."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import UsageError
from playhead.grammar.cursor import NotUnderstood
from playhead.kafka.groups.consumer_offsets_topic import partition_of
from playhead.kafka.groups.offsets_csv import BadOffsetsFile, read, write
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan, Move, decide
from playhead.kafka.groups.position import (
    AtInstant,
    AtOffset,
    Current,
    Earliest,
    Facts,
    Latest,
    NothingToShift,
    ShiftBy,
    read_mode,
)
from playhead.kafka.groups.scope import NoSuchPartition, Scope
from playhead.kafka.groups.snapshot import NothingToUndo, Snapshot, Snapshots, SnapshotUnreadable
from playhead.kafka.groups.translate import translate
from playhead.kafka.write.offset_map import MapMaker
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.source import Bounds

NOW_NS = 1_628_100_000_000_000_000  # 2021-08-04T18:00:00Z
PLACE = ("cars", 0)
OFFSETS = st.integers(0, 10_000)


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    return Bounds(*sorted(draw(st.tuples(OFFSETS, OFFSETS, OFFSETS))))


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    held = draw(bounds())
    at = draw(st.none() | st.integers(held.earliest, held.high_watermark))
    return Facts("g", PLACE, held, draw(OFFSETS), at)


MODES = st.one_of(
    st.just(Earliest()),
    st.just(Latest()),
    st.integers(-20_000, 20_000).map(AtOffset),
    st.integers(-20_000, 20_000).map(ShiftBy),
    st.just(AtInstant(1, "then")),
)


@given(facts(), MODES)
def test_no_mode_leads_outside_of_what_the_partition_holds(facts, mode):
    answer = mode.answer(facts)
    assert facts.bounds.earliest <= answer.offset <= facts.bounds.high_watermark


@given(facts(), st.integers(-20_000, 20_000))
def test_what_was_clamped_is_said_and_nothing_else(facts, wanted):
    answer = AtOffset(wanted).answer(facts)
    assert (answer.note is None) == (answer.offset == wanted)


@given(facts(), MODES)
def test_what_comes_again_and_what_is_skipped_is_the_way_from_before_to_after(facts, mode):
    (move,) = decide(mode, [facts], {PLACE: CommittedOffset(facts.committed)})
    low, high = facts.bounds.earliest, facts.bounds.high_watermark
    before = min(max(facts.committed, low), high)
    assert move.again * move.skipped == 0
    assert before - move.again + move.skipped == move.after.offset
    assert (move.reach is None) == (move.again + move.skipped == 0)
    if move.reach is not None:
        assert move.reach.end - move.reach.first == move.again + move.skipped
        assert low <= move.reach.first < move.reach.end <= high


def test_nothing_committed_is_none_and_not_0():
    held = Bounds(0, 10, 10)
    (move,) = decide(Earliest(), [Facts("g", PLACE, held, None)], {})
    assert move.row()["before"] is None
    assert move.row()["again"] is None
    assert move.row()["skipped"] is None
    assert move.after.offset == 0


def test_current_is_the_end_where_nothing_is_committed_and_shifting_that_is_refused():
    nowhere = Facts("g", PLACE, Bounds(3, 10, 10), None)
    assert Current().answer(nowhere).offset == 10
    with pytest.raises(NothingToShift, match="cars:0"):
        ShiftBy(-1).answer(nowhere)


def test_a_time_outside_of_the_log_goes_to_its_nearest_end_and_says_so():
    held = Bounds(3, 10, 10)
    assert AtInstant(1, "then").answer(Facts("g", PLACE, held, 5, 3)) == (
        3,
        "the first record",
    )
    late = AtInstant(1, "then").answer(Facts("g", PLACE, held, 5, None))
    assert late == (10, "no record is that late: the end")
    assert AtInstant(1, "then").answer(Facts("g", PLACE, held, 5, 4)) == (4, None)


def test_an_answer_that_is_early_says_which_record_shows_it():
    early = Facts("g", PLACE, Bounds(3, 10, 10), 5, 4, (7, 1_628_080_200_000))
    assert AtInstant(1, "then").answer(early) == (
        4,
        "early, because clocks disagree: offset 7 after it is from 2021-08-04T12:30:00.000Z",
    )


def test_the_end_says_how_much_of_open_transactions_it_skips():
    assert "4 offsets" in Latest().answer(Facts("g", PLACE, Bounds(0, 6, 10), 0)).note


# --- reading what was written


def mode(**given):
    flags = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    return read_mode(flags, timezone="UTC", now_ns=NOW_NS)


@pytest.mark.parametrize(
    ("given", "instant_ms"),
    [
        ({"to": "2021-08-04T12:30:00.000"}, 1_628_080_200_000),
        ({"to": "now-2h"}, 1_628_092_800_000),
        ({"to": "1628080200"}, 1_628_080_200_000),
        ({"to": "1628080200000"}, 1_628_080_200_000),
        ({"to_datetime": "2021-08-04T12:30:00.000Z"}, 1_628_080_200_000),
        ({"to_datetime": "2021-08-04T18:00:00+0530"}, 1_628_080_200_000),
        ({"to_datetime": "2021-08-04T18:00:00+05:30"}, 1_628_080_200_000),
        ({"by_duration": "PT2H0M0S"}, 1_628_092_800_000),
        ({"by_duration": "P1DT2H"}, 1_628_006_400_000),
        ({"by_duration": "PT0.5S"}, 1_628_099_999_500),
    ],
)
def test_an_instant_is_what_was_written(given, instant_ms):
    assert mode(**given).instant_ms == instant_ms


def test_the_unit_of_an_epoch_is_told_by_its_digits_and_said():
    assert "1628080200 read as seconds" in str(mode(to="1628080200"))
    assert "read as microseconds" in str(mode(to="1628080200000000"))
    with pytest.raises(NotUnderstood, match="11 digits"):
        mode(to="16280802000")
    with pytest.raises(NotUnderstood) as refused:
        mode(to="4711")
    assert "--to-offset 4711" in refused.value.hint


def test_a_time_where_an_offset_is_wanted_is_recognised():
    answer = AtOffset(1_628_080_200_000).answer(Facts("g", PLACE, Bounds(0, 10, 10), 5))
    assert "2021-08-04T12:30:00.000Z: --to 1628080200000" in answer.note


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "no new position"),
        ({"to": "now", "shift_by": "3"}, "--to and --shift-by contradict"),
        ({"to_offset": "ten"}, "needed a number of offsets"),
        ({"shift_by": "--3"}, "needed a number of offsets"),
        ({"by_duration": "-PT2H"}, "without a sign"),
        ({"to": "yesterday"}, "needed a time"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, complaint):
    with pytest.raises(UsageError, match=complaint):
        mode(**given)


# --- scope


def test_a_scope_names_topics_and_partitions():
    scope = Scope.of(["cars:0,2", "laps", "cars:1"])
    assert scope.places({"cars": [0, 1, 2, 3], "laps": [0]}) == [
        ("cars", 0),
        ("cars", 1),
        ("cars", 2),
        ("laps", 0),
    ]
    assert scope.holds(("laps", 7))
    assert not scope.holds(("cars", 3))
    assert Scope.of(["cars:1", "cars"]).holds(("cars", 9))


@pytest.mark.parametrize(
    "text", ["cars:", "cars:a", "cars:0,", "cars:-1", ":0", "ca rs", "cars:0:1"]
)
def test_a_scope_that_cannot_be_meant_is_refused(text):
    with pytest.raises(NotUnderstood):
        Scope.of([text])


def test_a_partition_that_is_not_there_is_named():
    with pytest.raises(NoSuchPartition, match=r"cars:9; cars has partitions 0 to 1"):
        Scope.of(["cars:0,9"]).places({"cars": [0, 1]})


# --- files

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40
)
PLACES = st.tuples(NAMES, st.integers(0, 100))
BY_GROUP = st.dictionaries(
    NAMES, st.dictionaries(PLACES, st.integers(0, 2**63 - 1), min_size=1), min_size=1
)


@given(BY_GROUP)
def test_a_file_holds_what_was_written(offsets):
    assert read(write(offsets, with_group=True), [], where="f") == offsets
    group, first = next(iter(offsets.items()))
    one = {group: first}
    assert read(write(one, with_group=False), [group], where="f") == one


def test_long_names_are_quoted_as_kafkas_own_tool_does():
    long = "a-topic-with-a-name-of-25"
    text = write({"g": {(long, 0): 1, (long[:24], 0): 2}}, with_group=False)
    assert text == f'{long[:24]},0,2\n"{long}",0,1\n'


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("cars,0,1\ncars,1,x\n", 2, "needed an offset"),
        ("cars,0,1\n\n\ncars,one,1\n", 4, "needed a partition"),
        ("cars,0,1\ncars,1,2\ncars,0,3\n", 3, "is already in line 1"),
        ("cars,0,1\ng,cars,1,2\n", 2, "found 4 values, but the first line has 3"),
        ("cars,0\n", 1, "found 2 values"),
        ("TOPIC,PARTITION,OFFSET\n", 1, "needed a partition"),
        ("cars,0,1\n,1,1\n", 2, "topic is empty"),
        ('cars,0,1\n"cars,1,1\n', 2, "end of data"),
        (f"cars,0,{2**63}\n", 1, "too large"),
        (f"cars,{2**31},1\n", 1, "not a partition"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(text, line, complaint):
    with pytest.raises(BadOffsetsFile, match=complaint) as refused:
        read(text, ["g"], where="plan.csv")
    assert refused.value.line == line
    assert f"plan.csv, line {line}" in refused.value.message


def test_a_file_without_groups_needs_exactly_one():
    with pytest.raises(BadOffsetsFile, match="not name exactly one"):
        read("cars,0,1\n", ["g", "h"], where="plan.csv")
    with pytest.raises(UsageError, match="is empty"):
        read("\n\n", ["g"], where="plan.csv")


# --- snapshots


def plan(group: str = "g") -> GroupPlan:
    held = Bounds(0, 10, 10)
    moves = (
        Move(("cars", 0), CommittedOffset(3, "note", 1), CommittedOffset(7), held),
        Move(("cars", 1), None, CommittedOffset(0), held),
        Move(("cars", 2), CommittedOffset(0), None, held),
    )
    return GroupPlan(group, "reset", True, moves)


@pytest.mark.parametrize("group", ["g", "..", "a/b", "größe", "x" * 300, "x" * 299 + "y"])
def test_a_snapshot_is_what_was_there_before(tmp_path: Path, group: str):
    snapshots = Snapshots("cluster", tmp_path)
    taken = snapshots.take(plan(group), {"cars": "id-1"})
    assert snapshots.latest(group) == taken
    assert [each.before for each in taken.kept] == [
        CommittedOffset(3, "note", 1),
        None,
        CommittedOffset(0),
    ]
    assert [each.after for each in taken.kept] == [7, 0, None]
    assert taken.topic_ids == {"cars": "id-1"}
    assert all(tmp_path in file.resolve().parents for file in tmp_path.rglob("*.json"))


def test_a_snapshot_of_an_earlier_version_has_no_topic_ids(tmp_path: Path):
    taken = Snapshots("cluster", tmp_path).take(plan(), {"cars": "id-1"})
    document = taken.as_document()
    del document["topic_ids"]
    assert Snapshot.from_document(document) == replace(taken, topic_ids={})


def test_the_last_change_that_was_not_taken_back_is_the_one_to_undo(tmp_path: Path):
    snapshots = Snapshots("cluster", tmp_path)
    first, second = snapshots.take(plan(), {}), snapshots.take(plan(), {})
    assert snapshots.latest("g").snapshot_id == second.snapshot_id
    snapshots.take(plan(), {}, is_undo=True)
    snapshots.note_undone(second)
    assert snapshots.latest("g") == first
    snapshots.note_undone(first)
    with pytest.raises(NothingToUndo):
        snapshots.latest("g")
    assert snapshots.find("g", first.snapshot_id).undone_at_ms is not None
    assert Snapshots("other", tmp_path).of("g") == []


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('"offset": 5', '"offset": "5"'),
        ('"offset": 5', '"offset": 5.5'),
        ('"after": 9', '"after": true'),
        ('"made_at_ms": ', '"made_at_ms": -1e400, "x": '),
        ('"was_there": true', '"was_there": 1'),
        ('"topic": "cars"', '"topic": ["cars"]'),
        ('"partition": 0', '"partition": "0"'),
        ('"group": "g"', '"group": "another"'),
        ('"group": "g"', '"group": null'),
        ('"snapshot_id": "', '"snapshot_id": "../../'),
        ('"version": 1', '"version": [1]'),
        ('"partitions": [', '"partitions": [[], '),
        ("{", "["),
        ("{", "[" * 100_000),
    ],
)
def test_a_snapshot_that_was_changed_by_hand_is_named(tmp_path: Path, written, instead):
    snapshots = Snapshots("cluster", tmp_path)
    move = Move(("cars", 0), CommittedOffset(5), CommittedOffset(9), Bounds(0, 9, 9))
    taken = snapshots.take(GroupPlan("g", "reset", True, (move,)), {"cars": "id-1"})
    (file,) = tmp_path.rglob("*.json")
    text = file.read_text()
    assert snapshots.of("g") == [taken]
    assert written in text
    file.write_text(text.replace(written, instead, 1))
    with pytest.raises(SnapshotUnreadable, match=file.name) as raised:
        snapshots.latest("g")
    assert "move the file" in str(raised.value.hint)


def test_a_snapshot_of_a_later_version_is_not_half_understood(tmp_path: Path):
    document = Snapshots("cluster", tmp_path).take(plan(), {}).as_document()
    with pytest.raises(ValueError, match="version 2"):
        Snapshot.from_document(document | {"version": 2})


# --- through a replay


def entry(slice_: Slice, offsets: list[int], target: str, at: int) -> tuple[Entry, int]:
    """A slice copied to a partition in one piece after a first record, as the writer does."""
    maker = MapMaker()
    for piece in filter(None, (offsets[:1], offsets[1:])):
        at += len(piece)
        maker.piece(target, 0, piece).acknowledge(at - 1)
    details = maker.finish().as_details() if offsets else {}
    return Entry(slice_, len(offsets), len(offsets), details=details), at


@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.integers(0, 70),
    st.integers(0, 5),
)
def test_a_group_goes_on_in_the_copy_where_it_stood(is_there, lengths, stands, start):
    """Against the copy record by record: the first whose source is not before where the group stood."""
    entries, copies, first, at = [], {}, 0, start
    for length in lengths:
        end = min(first + length, len(is_there))
        offsets = [n for n in range(first, end) if is_there[n]]
        if end > first:
            copies |= {number: at + place for place, number in enumerate(offsets)}
            made, at = entry(Slice("cars", 0, first, end), offsets, "copy", at)
            entries.append(made)
        first = end
    if not copies:
        return
    found = translate("r", "g", entries, {("cars", 0): CommittedOffset(stands)})
    left = [copies[number] for number in copies if number >= stands]
    assert found.offsets == {("copy", 0): CommittedOffset(min(left) if left else at)}


def test_a_map_that_is_not_whole_skips_nothing():
    maker = MapMaker()
    maker.piece("copy", 0, [0]).acknowledge(100)
    maker.piece("copy", 0, [1, 2, 3]).acknowledge(107)  # others wrote in between
    maker.piece("copy", 0, [4, 5]).acknowledge(109)
    details = maker.finish().as_details()
    made = Entry(Slice("cars", 0, 0, 6), 6, 6, details=details)
    at = {
        stands: translate("r", "g", [made], {("cars", 0): CommittedOffset(stands)})
        .offsets["copy", 0]
        .offset
        for stands in range(7)
    }
    assert at == {0: 100, 1: 101, 2: 101, 3: 107, 4: 108, 5: 109, 6: 110}


def test_two_partitions_copied_into_one_skip_nothing_and_say_so():
    one, at = entry(Slice("cars", 0, 0, 5), [0, 1, 2, 3, 4], "copy", 0)
    other, _ = entry(Slice("cars", 1, 0, 5), [0, 1, 2, 3, 4], "copy", at)
    stands = {("cars", 0): CommittedOffset(4), ("cars", 1): CommittedOffset(2)}
    found = translate("r", "g", [one, other], stands)
    assert found.offsets == {("copy", 0): CommittedOffset(4)}
    assert "may come again" in found.remarks[0]


def test_what_stands_outside_of_the_copy_is_said():
    made, _ = entry(Slice("cars", 0, 10, 15), [10, 11, 12, 13, 14], "copy", 0)
    early = translate("r", "g", [made], {("cars", 0): CommittedOffset(3)})
    late = translate(
        "r", "g", [made], {("cars", 0): CommittedOffset(99), ("laps", 0): CommittedOffset(1)}
    )
    assert early.offsets["copy", 0].offset == 0
    assert "begins with offset 10" in early.remarks[0]
    assert late.offsets["copy", 0].offset == 5
    assert "ends before offset 15" in late.remarks[0]
    assert "laps:0 was not copied" in late.remarks[1]


def test_a_replay_that_copied_nothing_of_the_group_is_refused():
    made, _ = entry(Slice("cars", 0, 0, 2), [0, 1], "copy", 0)
    with pytest.raises(UsageError, match="it copied cars, but the group has committed laps"):
        translate("r", "g", [made], {("laps", 0): CommittedOffset(1)})


# --- Kafka's own ways


def test_the_partition_of_a_group_is_by_javas_hash():
    assert partition_of("", 50) == 0
    assert partition_of("hello", 50) == 99_162_322 % 50
    assert partition_of("polygenelubricants", 50) == 0  # the hash is -2147483648
    assert partition_of("\U0001f3ce", 50) == (0xD83C * 31 + 0xDFCE) % 50
    names = [f"g{random.random()}" for _ in range(100)]
    assert all(0 <= partition_of(name, 4) < 4 for name in names)
