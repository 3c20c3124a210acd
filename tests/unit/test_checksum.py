"""The checksum of what was read binds every byte of every record, and does not know how it was cut."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.absence import absent_between, total
from playhead.account import Account
from playhead.checksum import (
    COLUMNS,
    NOTHING,
    Checksum,
    ColumnSums,
    checksum_of,
    differ,
    parsed_checksum,
    shown_checksum,
)
from playhead.ledger import joined
from playhead.record import Record, Slice, TimestampType
from playhead.records import UNSUMMED, Records
from playhead.task.slicer import Filter, Limits, Slicer
from tests.unit.replaying import TOPIC, record, runs_of

END = 60
bodies = st.none() | st.binary(max_size=3)
headers = st.lists(st.tuples(st.text(max_size=2), bodies), max_size=2).map(tuple)
times = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2**33)


@st.composite
def logs(draw, min_size: int = 0) -> list[Record]:
    return [
        Record(
            TOPIC,
            0,
            offset,
            draw(times),
            draw(st.sampled_from(TimestampType)),
            draw(bodies),
            draw(bodies),
            draw(headers),
        )
        for offset in sorted(draw(st.sets(st.integers(0, END - 1), min_size=min_size, max_size=12)))
    ]


# Made column by column, or as a sum over the records.
starts = st.sampled_from([NOTHING, 0])


def checksum(records: list[Record], start: Checksum = NOTHING) -> Checksum | None:
    return Records.of(records).checksum(start) if records else start


@given(
    logs(),
    st.lists(st.integers(1, 5)),
    st.integers(1, 5),
    st.integers(1, 400),
    st.booleans(),
    starts,
)
def test_it_does_not_depend_on_how_records_came_and_were_cut(
    log, chops, most, most_bytes, is_filtered, start
):
    def begun(slice_: Slice) -> Account:
        account = Account(slice_)
        account.checksum = start
        return account

    filter_ = Filter(0, 2**31) if is_filtered else Filter()
    slicer = Slicer(Limits(most, most_bytes), filter_, begun)
    drawn = [(run, None) for run in runs_of(log, chops)]
    entries = [
        open_slice.account.close()
        for open_slice in slicer.open_slices(Slice(TOPIC, 0, 0, END), drawn)
    ]
    whole = entries[0]
    for entry in entries[1:]:
        whole = joined(whole, entry)
    assert whole.checksum == checksum(log, start)
    assert checksum_of(entry.checksum for entry in entries) == whole.checksum
    middle = len(entries) // 2
    halves = [checksum_of(e.checksum for e in it) for it in (entries[:middle], entries[middle:])]
    assert checksum_of(halves) == whole.checksum, "however they are put together"


@given(st.lists(st.binary(max_size=300)))
def test_sums_of_columns_are_those_of_the_columns_joined(columns):
    """Against zlib itself."""
    whole = b"".join(columns)
    parts = [ColumnSums().after([each] * COLUMNS) for each in columns]
    assert (checksum_of(parts) or NOTHING) == ColumnSums().after([whole] * COLUMNS)


@pytest.mark.parametrize("length", [1, 2**16 - 1, 2**20 + 7])
def test_long_columns_are_joined_as_well(length):
    one, other = b"a" * length, b"b" * length
    first, second = (ColumnSums().after([each] * COLUMNS) for each in (one, other))
    assert first.followed_by(second) == ColumnSums().after([one + other] * COLUMNS)
    assert second.followed_by(first) != first.followed_by(second)


def others(one: Record) -> list[Record]:
    """Records that are not the same in one thing."""

    def turned(body: bytes | None) -> list[bytes | None]:
        if body is None:
            return [b"", b"\0"]
        return [None, body + b"\0", bytes([body[0] ^ 1]) + body[1:] if body else b"x"]

    more = (("n", b"v"),)
    return [
        replace(one, offset=one.offset + 1),
        *(
            replace(one, timestamp_type=each)
            for each in TimestampType
            if each != one.timestamp_type
        ),
        *(replace(one, timestamp_ms=one.timestamp_ms ^ (1 << bit)) for bit in (0, 31, 32, 62)),
        *(replace(one, key=each) for each in turned(one.key)),
        *(replace(one, value=each) for each in turned(one.value)),
        replace(one, headers=one.headers + more),
        replace(one, headers=(("n", None), *one.headers)),
        replace(one, headers=(("n", b""), *one.headers)),
    ]


@given(logs(min_size=1), st.data())
def test_it_changes_with_every_part_of_a_record(log, data):
    at = data.draw(st.integers(0, len(log) - 1))
    before = checksum(log)
    for other in others(log[at]):
        changed = [*log[:at], other, *log[at + 1 :]]
        if at + 1 < len(log) and other.offset == log[at + 1].offset:
            continue
        assert checksum(changed) != before, f"{log[at]} became {other}"
    assert checksum([*log[:at], *log[at + 1 :]]) != before, f"{log[at]} is gone"


@given(logs(min_size=2), st.data())
def test_what_two_records_hold_cannot_change_places(log, data):
    one, other = data.draw(st.permutations(range(len(log))))[:2]
    for name in ("key", "value", "headers", "timestamp_ms", "timestamp_type"):
        first, second = getattr(log[one], name), getattr(log[other], name)
        changed = list(log)
        changed[one] = replace(log[one], **{name: second})
        changed[other] = replace(log[other], **{name: first})
        assert (checksum(changed) == checksum(log)) == (first == second), name


def test_a_byte_cannot_go_from_the_key_to_the_value():
    first = [replace(record(0), key=b"ab", value=b"c"), replace(record(1), key=b"a", value=b"bc")]
    second = [replace(record(0), key=b"a", value=b"bc"), replace(record(1), key=b"ab", value=b"c")]
    assert checksum(first) != checksum(second)
    assert checksum(first[:1]) != checksum(second[:1])


@given(logs(min_size=1), st.data())
def test_content_sums_carry_it_through_a_transform(log, data):
    """They were made before; what the records hold now is something else."""
    run = Records.of(log)
    carried = replace(run, sums=run.content_sums(), values=[b"new"] * len(run))
    assert carried.checksum() == run.checksum(0)
    cut = data.draw(st.integers(0, len(run)))
    head, tail = carried.cut(0, cut), carried.cut(cut, len(run))
    assert checksum_of((head.checksum(), tail.checksum())) == checksum(log, 0)
    assert tail.checksum(head.checksum()) == checksum(log, 0)
    assert all(0 <= each < 2**63 for each in run.content_sums())
    unknown = replace(run, sums=[UNSUMMED] * len(run))
    assert unknown.checksum() is None
    assert checksum_of((1, unknown.checksum())) is None


@given(logs(min_size=1))
def test_what_is_not_made_alike_is_not_compared(log):
    columns, number = checksum(log), checksum(log, 0)
    assert checksum_of((columns, number)) is checksum_of((number, columns)) is None
    assert not differ(columns, number or 1)
    assert not differ(None, columns)
    assert differ(NOTHING, columns), "that nothing is there is known"
    assert differ(number or 1, NOTHING)
    assert not differ(NOTHING, 0)
    run = Records.of(log)
    carried = replace(run, sums=run.content_sums())
    assert carried.checksum(columns) is None


@given(logs())
def test_it_survives_a_text(log):
    for start in (NOTHING, 0):
        made = checksum(log, start)
        assert parsed_checksum(shown_checksum(made)) == made
    assert parsed_checksum(shown_checksum(None)) is None


@pytest.mark.parametrize(
    "text", ["", "x", "columns:", "columns:1.1", "columns:1-1-1-1-1-1", "rows:1"]
)
def test_what_is_no_checksum_is_not_taken_for_one(text):
    with pytest.raises(ValueError):
        parsed_checksum(text)


def test_it_is_the_same_for_ever():
    """Ledgers keep it."""
    one = replace(record(7, 1_767_268_800_000, headers=(("a", b"\xff"), ("é", None))), key=None)
    assert checksum([one], 0) == 26514037605150
    text = "columns:6fe7d670.8-861a7bbe.8-d202ef8d.1-09b7a0ff.18-c3368d8b.9-5f85d09f.21"
    assert shown_checksum(checksum([one])) == text


def test_it_costs_little():
    """An eighth of a microsecond for a record of 130 bytes on a quiet machine, and far less than a
    call for each of them; processor time, as others are at work."""
    run = Records.of([replace(record(n, n, size=130), key=b"car-%d" % n) for n in range(20_000)])
    took = {}
    for start in (NOTHING, 0):
        began = time.process_time()
        for _ in range(5):
            run.checksum(start)
        took[str(start)] = (time.process_time() - began) / 5 / len(run)
    assert min(took.values()) < 1.2e-6, took
    assert took[str(NOTHING)] < 0.75 * took["0"], took


# --- offsets that gave nothing ----------------------------------------------------------------


@given(logs(), st.lists(st.integers(1, 5)), st.integers(1, 5))
def test_what_is_absent_is_all_that_was_not_read(log, chops, most):
    slicer = Slicer(Limits(most), Filter(), Account)
    drawn = [(run, None) for run in runs_of(log, chops)]
    open_slices = list(slicer.open_slices(Slice(TOPIC, 0, 0, END), drawn))
    absent = [
        at
        for open_slice in open_slices
        for pair in open_slice.account.absent
        for at in range(*pair)
    ]
    assert absent == sorted(set(range(END)) - {each.offset for each in log})
    for open_slice in open_slices:
        account = open_slice.account
        assert total(account.absent) + account.read == len(account.slice)
        assert account.close().unexplained == total(account.absent)


@pytest.mark.parametrize("offsets", [[5, 5, 7], [5, 7, 6], [5, 5], [3, 4]])
def test_offsets_that_come_twice_do_not_stand_for_others(offsets):
    with pytest.raises(ValueError, match="descending"):
        absent_between(4, offsets)
