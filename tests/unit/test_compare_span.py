"""A target is compared with a span itself: offsets that gave no record need a reason on either side."""

from contextlib import nullcontext

import pytest

from playhead.absence import Explained
from playhead.records import Records
from playhead.replay.assemble import Wiring
from playhead.replay.compare import against_archive, against_topics
from playhead.replay.planner import Planner
from playhead.replay.verify import Verification
from playhead.source import Bounds, UnreadableRecord
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, record, request


class Silent(ListSource):
    """Has no reason for its absent offsets."""

    def absences(self):
        return nullcontext(self)

    def explain(self, _place, blanks):
        return Explained({}, tuple(blanks))


class Odd(ListSource):
    """Has records that cannot be read whole, at some offsets."""

    odd: tuple[int, ...] = ()

    def read(self, slice_):
        for records in super().read(slice_):
            for one in map(Records.of, ([each] for each in records)):
                if one.offsets[0] in self.odd:
                    raise UnreadableRecord(one, "no headers")
                yield one


def odd_log(*offsets: int, odd: tuple[int, ...]) -> ListSource:
    found = log(*offsets, kind=Odd)
    found.odd = odd
    return found


def log(*offsets: int, kind: type[ListSource] = ListSource) -> ListSource:
    return kind([record(each) for each in offsets], bounds={(TOPIC, 0): Bounds(0, 9, 9)})


def compared(source: ListSource, copy: ListSource, *, is_archive: bool) -> Verification:
    plan = Planner(request(), Wiring(source, ListTarget(), None), 1).plan("r1")
    if is_archive:
        return against_archive(plan, source, copy)
    return against_topics(plan, source, copy, {TOPIC: TOPIC})


@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "copy"])
def test_what_both_lack_without_a_reason_cannot_be_told(is_archive):
    """Records may have been lost on their way here, and be missing there for that reason."""
    held = (1, 2, 5, 8)
    assert compared(log(*held), log(*held), is_archive=is_archive).agrees
    found = compared(log(*held, kind=Silent), log(*held), is_archive=is_archive)
    assert not found.agrees
    assert found.verdict() == (
        "CANNOT BE TOLD: 4 records read back, 0 differences, 5 offsets not replayed yet, or not read back"
    )


def test_offsets_of_a_copy_need_a_reason_too():
    found = compared(log(1, 2), log(1, 2, kind=Silent), is_archive=False)
    assert found.uncovered == 7


@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "copy"])
@pytest.mark.parametrize("there", [(1, 5), (1, 2, 5, 8)])
def test_a_record_that_cannot_be_read_whole_cannot_be_compared(is_archive, there):
    """Whether the other side should have it depends on who copied, and with which rule."""
    source, copy = odd_log(1, 2, 5, 8, odd=(2, 8)), log(*there)
    found = compared(source, copy, is_archive=is_archive)
    assert not found.agrees
    if is_archive or len(there) == 2:
        assert found.verdict() == (
            "CANNOT BE TOLD: 4 records read back, 0 differences, 2 that could not be compared"
        )
    else:
        assert found.different == 2
    if is_archive:
        assert [(each["kind"], each["offset"]) for each in found.differences] == [
            ("unknown", 2),
            ("unknown", 8),
        ]


@pytest.mark.parametrize(("odd", "different"), [((2,), 0), ((2, 3), 1)])
def test_a_copy_that_cannot_be_read_may_be_one_of_such_a_record(odd, different):
    source, copy = odd_log(1, 2, odd=(2,)), odd_log(1, *odd, odd=odd)
    found = compared(source, copy, is_archive=False)
    assert not found.agrees
    assert (found.different, found.unknown) == (different, 1)


def test_the_difference_of_a_record_is_not_hidden_by_those_that_cannot_be_read():
    source, archive = odd_log(*range(9), odd=tuple(range(8))), log(*range(8))
    found = compared(source, archive, is_archive=True)
    assert (found.different, found.unknown) == (1, 8)
    assert found.differences[0]["kind"] == "missing"
