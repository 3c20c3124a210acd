"""Commits of a partition come in order, whoever tries, however the plan is cut, and whatever died before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.account import Account
from playhead.ledger import Entry, remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay.partition_work import partition_works
from playhead.source import Bounds
from playhead.target import AlreadyCommitted, OutOfOrder
from playhead.task.commit_order import (
    OrderBroken,
    follows_in,
    refuse_broken_order,
    refuse_wrong_order,
)
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter, Limits
from playhead.testing import ListSource, ListTarget


def slice_(start: int, end: int, partition: int = 0) -> Slice:
    return Slice("laps", partition, start, end)


PLAN = (slice_(0, 10), slice_(20, 30), slice_(5, 9, partition=1))


class TestWhatComesBefore:
    @pytest.mark.parametrize(
        ("found", "follows"),
        [
            (slice_(0, 4), None),
            (slice_(4, 10), 4),
            (slice_(20, 22), 10),
            (slice_(22, 30), 22),
            (slice_(5, 9, partition=1), None),
            (slice_(7, 9, partition=1), 7),
            (slice_(0, 1, partition=2), None),
        ],
    )
    def test_it_is_what_the_plan_has_there(self, found: Slice, follows: int | None) -> None:
        assert follows_in(PLAN)(found) == follows

    def test_without_a_plan_nobody_knows(self) -> None:
        assert follows_in(())(slice_(4, 10)) is None


class TestRefusals:
    def test_what_is_next_may_be_committed(self) -> None:
        refuse_wrong_order("r", slice_(0, 4), follows=None, last=None)
        refuse_wrong_order("r", slice_(4, 10), follows=4, last=slice_(0, 4))
        refuse_wrong_order("r", slice_(20, 30), follows=10, last=slice_(4, 10))

    def test_what_overlaps_is_committed_already(self) -> None:
        with pytest.raises(AlreadyCommitted) as caught:
            refuse_wrong_order("r", slice_(2, 6), follows=2, last=slice_(0, 4))
        assert not isinstance(caught.value, OutOfOrder)

    def test_what_something_later_is_committed_of_comes_too_late(self) -> None:
        with pytest.raises(OutOfOrder, match=r"it has committed laps:0:20-30, which comes later"):
            refuse_wrong_order("r", slice_(4, 10), follows=4, last=slice_(20, 30))

    @pytest.mark.parametrize("last", [None, slice_(0, 4)])
    def test_what_something_before_is_lacking_of_comes_too_early(self, last: Slice | None) -> None:
        with pytest.raises(OutOfOrder, match="up to 7, are not committed"):
            refuse_wrong_order("r", slice_(7, 10), follows=7, last=last)

    def test_a_ledger_that_an_older_version_left_with_holes(self) -> None:
        refuse_broken_order("r", PLAN, [slice_(0, 10), slice_(5, 7, partition=1)])
        refuse_broken_order("r", PLAN, PLAN)
        with pytest.raises(
            OrderBroken, match=r"committed laps:0:20-25 but not laps:0:4-10"
        ) as caught:
            refuse_broken_order("r", PLAN, [slice_(0, 4), slice_(20, 25)])
        assert "--on-conflict update or newer" in (caught.value.hint or "")


# --- the law: whoever commits, alive or thought to be dead


def record(offset: int) -> Record:
    return Record("laps", 0, offset, offset, TimestampType.CREATE_TIME, None, b"%d" % offset)


class Writer:
    """A task as it was started once: it has its own cut, and goes on until it is refused."""

    def __init__(self, target: ListTarget, left: list[Slice], most: int) -> None:
        self.target, self.most = target, most
        self.left = left

    def step(self) -> None:
        """Commit what is next, as this one sees it."""
        if not self.left:
            return
        head = self.left[0]
        end = min(head.from_offset + self.most, head.to_offset)
        account = Account(Slice(head.topic, head.partition, head.from_offset, end))
        account.follows = follows_in(PLAN)(account.slice)
        records = [record(n) for n in range(head.from_offset, end)]
        account.read = len(records)
        try:
            self.target.commit("r", account, [Records.of(records)])
        except AlreadyCommitted:
            self.left = []
            return
        self.left = remaining(self.left, [account.slice])


@given(
    data=st.data(),
    cuts=st.lists(st.integers(1, 7), min_size=2, max_size=5),
    turns=st.lists(st.integers(0, 4), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_whoever_goes_on_the_order_is_the_logs(data, cuts, turns):
    """Writers start at any time from what the ledger says then; some start as if they knew nothing of it."""
    target, plan = ListTarget(is_ordered=True), [each for each in PLAN if each.partition == 0]
    writers: dict[int, Writer] = {}
    for turn in turns:
        number = turn % len(cuts)
        if number not in writers or not writers[number].left:
            known = [each.slice for each in target.entries("r")]
            if data.draw(st.booleans(), label="reads an old ledger"):
                known = data.draw(st.lists(st.sampled_from(plan), unique=True), label="it says")
            writers[number] = Writer(target, remaining(plan, known), cuts[number])
        writers[number].step()
        offsets = [each.offset for each in target.records]
        wanted = [n for each in plan for n in range(each.from_offset, each.to_offset)]
        assert offsets == wanted[: len(offsets)], "not a beginning of the plan, in its order"


def test_a_job_knows_its_plan() -> None:
    """A task that is given only the second half does not commit it before the first."""
    source = ListSource([record(n) for n in range(10)], bounds={("laps", 0): Bounds(0, 10, 10)})
    target, whole = ListTarget(is_ordered=True), (slice_(0, 10),)

    def job(*left: Slice) -> Job:
        works = (tuple(partition_works(left)),)
        return Job("r", source, target, works, Filter(), limits=Limits(3, 1 << 20), planned=whole)

    [report] = play(job(slice_(5, 10)), 0)
    assert "up to 5, are not committed" in (report.away or "")
    assert target.records == ()
    play(job(slice_(0, 5)), 0)
    play(job(slice_(5, 10)), 0)
    assert [each.offset for each in target.records] == list(range(10))
    entries: list[Entry] = [*target.entries("r")]
    assert [each.slice.from_offset for each in entries] == [0, 3, 5, 8]
