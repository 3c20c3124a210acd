"""An account counts what became of each record, and its rule says what happens to a bad one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused
from playhead.errors import BadValue
from playhead.record import Record, Slice, TimestampType

SLICE = Slice("laps", 3, 0, 20)
SKIP, DLQ = ErrorRule("skip"), ErrorRule("dlq", "dead")

offsets = st.lists(st.integers(0, 19), max_size=12)


def record(offset: int) -> Record:
    return Record("laps", 3, offset, 0, TimestampType.CREATE_TIME, None, str(offset).encode())


class Burials:
    """Takes the dead, and remembers whom."""

    def __init__(self) -> None:
        self.seen: list[tuple[Slice, list[DeadLetter]]] = []

    def __call__(self, slice_: Slice, letters) -> None:
        self.seen.append((slice_, list(letters)))


def refuse(account: Account, offsets: list[int]) -> None:
    for number, offset in enumerate(offsets):
        account.refuse(record(offset), kind="type", reason=f"reason {number}")


def test_the_rule_is_to_fail_and_names_the_place():
    account = Account(SLICE)
    with pytest.raises(RecordRefused, match=r"^laps:3 offset 7: not a number$") as caught:
        account.refuse(record(7), kind="type", reason="not a number")
    error = caught.value
    found = error.topic, error.partition, error.offset, error.kind, error.reason
    assert found == ("laps", 3, 7, "type", "not a number")
    assert "--on-error skip" in (error.hint or "")
    assert account.refused_offsets == frozenset()


@given(offsets, st.integers(0, 3), st.integers(0, 3))
def test_skipped_records_are_counted_once_each(refused, filtered, outside):
    account = Account(SLICE, SKIP)
    account.read, account.filtered, account.outside = 20, filtered, outside
    refuse(account, refused)
    gone = len(set(refused))
    if 20 - filtered - outside - gone < 0:
        return
    entry = account.close()
    assert account.refused_offsets == set(refused)
    assert (entry.skipped, entry.dead) == (gone, 0)
    assert entry.written == 20 - filtered - outside - gone


@given(offsets)
def test_the_dead_are_buried_once_in_order_before_close_returns(refused):
    burials = Burials()
    account = Account(SLICE, DLQ, burials)
    account.read = 20
    refuse(account, refused)
    assert burials.seen == [], "nobody is buried before the close"
    entry = account.close()
    assert (entry.dead, entry.skipped) == (len(set(refused)), 0)
    [(slice_, letters)] = burials.seen
    assert slice_ == SLICE
    assert [letter.record for letter in letters] == [record(each) for each in sorted(set(refused))]
    first = [f"reason {refused.index(each)}" for each in sorted(set(refused))]
    assert [letter.reason for letter in letters] == first, "the first reason is the one that counts"


@given(offsets, offsets, st.integers(0, 3))
def test_who_was_dead_at_an_earlier_moment_and_is_not_now_is_counted(first, second, others):
    """A commit that is undone, and closed again with other letters."""

    class Grave(Burials):
        def __call__(self, slice_, letters) -> int:
            super().__call__(slice_, letters)
            return others

    account = Account(SLICE, DLQ, Grave())
    account.read = 20
    refuse(account, first)
    account.close()
    account.back_to(frozenset())
    refuse(account, second)
    entry = account.close({"rows": 1})
    assert (entry.dead, entry.written) == (len(set(second)), 20 - len(set(second)))
    assert entry.details == {"rows": 1} | ({"also_buried": others} if others else {})


@given(offsets, offsets)
def test_back_to_those_who_were_refused_before(before, since):
    account = Account(SLICE, SKIP)
    refuse(account, before)
    known = account.refused_offsets
    refuse(account, since)
    account.back_to(known)
    assert account.refused_offsets == set(before)


def test_a_burial_that_fails_closes_nothing():
    def fail(_slice, _letters) -> None:
        raise OSError("no broker")

    account = Account(SLICE, DLQ, fail)
    account.read = 1
    refuse(account, [1])
    with pytest.raises(OSError, match="no broker"):
        account.close()


@given(offsets, offsets)
def test_to_start_over_forgets_who_was_refused(before, after):
    burials = Burials()
    account = Account(SLICE, DLQ, burials)
    account.read, account.filtered, account.last_ms = 20, 0, 5
    refuse(account, before)
    account.start_over()
    assert account.refused_offsets == frozenset()
    refuse(account, after)
    entry = account.close()
    assert (entry.read, entry.dead, entry.last_ms) == (20, len(set(after)), 5)
    buried = [letter.record.offset for _, letters in burials.seen for letter in letters]
    assert buried == sorted(set(after))


def test_the_dead_need_somebody_to_bury_them():
    account = Account(SLICE, DLQ)
    account.read = 1
    refuse(account, [1])
    with pytest.raises(ValueError, match="the rule is dlq, but nothing writes dead letters"):
        account.close()


def test_what_was_counted_and_the_details_come_into_the_entry():
    account = Account(SLICE)
    account.read, account.filtered, account.outside, account.late = 9, 2, 3, 1
    account.first_ms, account.last_ms, account.last_late_ms = 1, 2, 3
    entry = account.close({"rows": 4})
    assert (entry.slice, entry.read, entry.written) == (SLICE, 9, 4)
    assert (entry.filtered, entry.outside, entry.late) == (2, 3, 1)
    assert (entry.first_ms, entry.last_ms, entry.last_late_ms) == (1, 2, 3)
    assert entry.details == {"rows": 4}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fail", ErrorRule()),
        ("skip", SKIP),
        ("dlq:dead", DLQ),
        ("dlq:a:b", ErrorRule("dlq", "a:b")),
    ],
)
def test_a_rule_reads_and_says_the_same(text, rule):
    assert ErrorRule.parse(text) == rule
    assert str(rule) == text


@pytest.mark.parametrize("text", ["", "dlq", "dlq:", "fail:", "skip:dead", "Fail", "drop"])
def test_a_rule_nobody_knows_is_refused(text):
    with pytest.raises(BadValue, match="needed: fail, skip or dlq:TOPIC"):
        ErrorRule.parse(text)
