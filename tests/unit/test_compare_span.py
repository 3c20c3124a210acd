"""A target is compared with a span itself: offsets that gave no record need a reason on either side."""

from contextlib import nullcontext

import pytest

from playhead.absence import Explained
from playhead.replay.assemble import Wiring
from playhead.replay.compare import against_archive, against_topics
from playhead.replay.planner import Planner
from playhead.replay.verify import Verification
from playhead.source import Bounds
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, record, request


class Silent(ListSource):
    """Has no reason for its absent offsets."""

    def absences(self):
        return nullcontext(self)

    def explain(self, _place, blanks):
        return Explained({}, tuple(blanks))


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
