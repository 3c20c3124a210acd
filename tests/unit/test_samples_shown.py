"""A plan shows a few samples of each topic, whatever was read."""

from playhead.records import Records
from playhead.source import SourceFacts
from playhead.target import InspectRequest
from tests.unit.replaying import TOPIC, record

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
