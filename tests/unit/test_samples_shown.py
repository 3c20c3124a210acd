"""A plan shows a few samples of each topic, whatever was read, and reads no more than memory holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from playhead.record import Slice
from playhead.records import Records
from playhead.replay.samples import strides
from playhead.source import Reader, Source, SourceFacts
from playhead.span import Resolved
from playhead.target import InspectRequest
from tests.unit.replaying import TOPIC, partition_plan, record

T = 1_600_000_000_000


def test_a_plan_shows_the_two_ends_of_a_topic_however_many_pieces_were_read():
    pieces = [
        Records.of([record(offset, T + offset) for offset in range(start, start + 10)])
        for start in (0, 200, 50, 100)
    ]
    shown = InspectRequest(SourceFacts("s", {}), {TOPIC: 1}, pieces).shown()
    assert [list(each.offsets) for each in shown] == [[0, 1, 2], [207, 208, 209]]
    few = InspectRequest(SourceFacts("s", {}), {TOPIC: 1}, [pieces[0].cut(0, 4)]).shown()
    assert [list(each.offsets) for each in few] == [[0, 1, 2], [3]]


class Large:
    """A source of records of 10 MB; in a packed log they have some hundred bytes."""

    value = bytes(10 << 20)

    @contextmanager
    def open(self) -> Iterator[Reader]:
        yield cast(Any, self)

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        for offset in range(slice_.from_offset, slice_.to_offset):
            yield Records(TOPIC, 0, [offset], [T], [0], [None], [self.value], [()])


def test_pieces_of_large_records_end_after_some_megabytes():
    found = strides(
        cast(Source, Large()), [partition_plan(0, 1_000_000)], Resolved(None, None), list
    )
    assert found
    assert sum(each.size_bytes() for each in found) <= 80 << 20
