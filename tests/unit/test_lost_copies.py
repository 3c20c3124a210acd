"""Copies are gone only where the broker stays with an end before them."""

from types import SimpleNamespace

from playhead import source as sources
from playhead.kafka.write import lost_copies
from playhead.record import Slice
from playhead.source import Bounds

HERE = ("copy", 0)
ENTRY = SimpleNamespace(
    slice=Slice("laps", 0, 0, 5),
    details={"topics": ["copy"], "offsets": [[0, 0, 0, 5]], "ends": [[0, 0, 4, 5]], "exact": True},
)


def asked(monkeypatch, *ends):
    """The answer where the broker reports these ends, one after the other, and then the last."""
    told = iter(ends[:-1])
    there = {"copy": SimpleNamespace(topic_id="a", partitions=[0])}
    monkeypatch.setattr(lost_copies, "described_soon", lambda *_: there)
    monkeypatch.setattr(
        lost_copies,
        "bounds_of",
        lambda *_: {HERE: Bounds(0, end := next(told, ends[-1]), end)},
    )
    monkeypatch.setattr(sources, "_END_WITHIN_S", 0.3)
    return lost_copies.lost_copies(None, [ENTRY])


def test_an_end_that_a_new_leader_learns_late_is_waited_for(monkeypatch):
    assert asked(monkeypatch, 3, 6) == {}


def test_an_end_that_stays_before_the_copies_means_that_they_are_gone(monkeypatch):
    assert [*asked(monkeypatch, 3)] == [Slice("laps", 0, 3, 5)]
