"""Offsets without a record on a real broker: each has a reason that was looked for, or is not explained."""

import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from playhead.absence import Explained
from playhead.errors import MissingPiece, PlayheadError
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.read.absences import (
    ABORTED,
    COMPACTED,
    MARKER,
    NOT_SHOWN,
    ONCE_COMPACTED,
    LogExplainer,
    RecordsNotGiven,
)
from playhead.kafka.read.source import KafkaSource
from playhead.proof import prove
from playhead.record import Slice
from playhead.source import OutOfBounds
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter, Limits
from playhead.testing.memory import ListTarget
from tests.sandbox.kafka_log import SOON_COMPACTED, Log
from tests.unit.replaying import partition_plan, plan_of


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def source(kafka, topic):
    return KafkaSource(kafka, (topic,))


def rows(count, first=0, size=1):
    values = [b"value-%d" % n + bytes(size) for n in range(first, first + count)]
    return [(1_000 + n, b"key-%d" % n, value, ()) for n, value in enumerate(values, first)]


def replayed(source, log, *, limits=None):
    """The whole topic into a list: the target, and the proof."""
    held = log.bounds()
    slice_ = Slice(log.topic, 0, held.earliest, held.stable_end)
    target = ListTarget()
    job = Job("r", source, target, (((slice_,),),), Filter(), limits=limits or Limits())
    reports = play(job, 0)
    plan = plan_of(partition_plan(held.earliest, held.stable_end, topic=log.topic))
    proof = prove(plan, target.entries("r"))
    return target, proof, reports


def test_markers_and_aborted_records_are_told_apart(source, log):
    log.commit(0, *rows(5))
    log.abort(0, *rows(3, first=5))
    log.write(0, *rows(2, first=8))
    log.commit(0, *rows(1, first=10))
    log.abort(0, *rows(300, first=11))
    target, proof, _ = replayed(source, log)
    assert proof.adds_up, proof.verdict()
    assert proof.absences == {MARKER: 4, ABORTED: 303}
    assert [each.offset for each in target.records] == [each.offset for each in log.records]


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_reasons_do_not_depend_on_how_slices_are_cut(source, log, most):
    for n in range(4):
        log.commit(0, *rows(3, first=10 * n))
        log.abort(0, *rows(2, first=10 * n))
    _, proof, _ = replayed(source, log, limits=Limits(most))
    assert proof.adds_up, proof.verdict()
    assert proof.absences == {MARKER: 8, ABORTED: 8}


def test_a_producer_whose_transaction_was_aborted_may_commit_the_next(source, log):
    """It is the same producer to the log: an aborted one must not make the others seem aborted."""
    log.abort(0, *rows(3))
    log.commit(0, *rows(3, first=3))
    with source.absences() as explainer:
        with pytest.raises(RecordsNotGiven, match=r"offsets 4 to 6, but the log holds some"):
            explainer.explain((log.topic, 0), [(0, 8)])
        assert explainer.explain((log.topic, 0), [(0, 4), (7, 8)]) == Explained(
            {ABORTED: 3, MARKER: 2}
        )


class Lossy(Consumer):
    """Never gives the records at some offsets."""

    lost: range = range(0)
    left = 1 << 30
    """How many more clients lose them."""

    def __init__(self, settings):
        type(self).left -= 1
        self.is_whole = type(self).left < 0
        super().__init__(settings)

    def consume(self, *arguments):
        found = super().consume(*arguments)
        if self.is_whole:
            return found
        return [each for each in found if each.error() or each.offset() not in self.lost]


@pytest.mark.parametrize("lost", [range(4, 5), range(4, 9), range(18, 20), range(20)])
def test_records_that_the_client_lost_are_not_absent(source, log, monkeypatch, lost):
    """A broker that has them is asked, and nothing of their slice is committed."""
    log.write(0, *rows(20))
    monkeypatch.setattr(clients, "make_consumer", type("L", (Lossy,), {"lost": lost}))
    target, proof, [report] = replayed(source, log)
    assert "the client returned no record at offsets" in report.away
    assert (target.records, proof.adds_up) == ((), False)
    monkeypatch.undo()
    target, proof, [report] = replayed(source, log)
    assert (len(target.records), proof.adds_up, report.away) == (20, True, None)


def test_offsets_for_which_the_log_has_nothing_are_not_explained(source, log, monkeypatch):
    """As on a broker that has lost a segment: no batch is there, and the topic is not compacted."""
    log.write(0, *rows(20))
    monkeypatch.setattr(clients, "make_consumer", type("L", (Lossy,), {"lost": range(7, 12)}))

    class Empty(LogExplainer):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            look = self._heads.look
            self._heads.look = lambda *a, **k: [replace(each, heads=()) for each in look(*a, **k)]

    monkeypatch.setattr("playhead.kafka.read.source.LogExplainer", Empty)
    _, proof, [report] = replayed(source, log)
    assert report.away is None
    assert (proof.total("unexplained"), proof.adds_up, proof.is_finished) == (5, False, True)
    [note] = proof.notes
    assert note.text.endswith("5 offsets gave no record for an unknown reason: 7-12")


def test_where_only_the_client_can_log_in_two_further_clients_are_asked(source, log, monkeypatch):
    log.commit(0, *rows(5))
    log.abort(0, *rows(3, first=5))
    log.write(0, *rows(2, first=8))

    def no_token(*_arguments, **_named):
        raise MissingPiece("a login by PLAIN or SCRAM", needed_for="asking", hint="none")

    monkeypatch.setattr("playhead.kafka.read.log_heads.Wire", no_token)
    _, proof, _ = replayed(source, log)
    assert (proof.adds_up, proof.absences) == (True, {ABORTED: 3, NOT_SHOWN: 2})
    lossy = type("L", (Lossy,), {"lost": range(10, 11), "left": 1})
    monkeypatch.setattr(clients, "make_consumer", lossy)
    target, _, [report] = replayed(source, log)
    assert "returned no record at offsets 10 to 10" in report.away
    assert target.records == ()


def test_what_was_removed_since_is_out_of_bounds(source, log):
    log.commit(0, *rows(5))
    log.commit(0, *rows(5))
    log.delete_before(0, 7)
    with source.absences() as explainer, pytest.raises(OutOfBounds, match="holds 7-12"):
        explainer.explain((log.topic, 0), [(5, 6)])


def test_a_connection_that_was_closed_meanwhile_is_made_again(source, log):
    log.commit(0, *rows(1))
    with source.absences() as explainer:
        expected = Explained({MARKER: 1})
        assert explainer.explain((log.topic, 0), [(1, 2)]) == expected
        for wire in explainer._heads._wires.values():
            wire.close()
        assert explainer.explain((log.topic, 0), [(1, 2)]) == expected


def test_a_topic_that_is_gone_is_no_reason(kafka, source, log):
    log.commit(0, *rows(1))
    with source.absences() as explainer:
        explainer.explain((log.topic, 0), [(1, 2)])
        with Admin(kafka) as admin, admin.asking("deleting") as client:
            client.delete_topics([log.topic])[log.topic].result(20)
        with pytest.raises(PlayheadError, match="error 3|no topic"):
            _until_it_fails(lambda: explainer.explain((log.topic, 0), [(1, 2)]))


def _until_it_fails(look):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        look()


def test_what_compaction_left_out_is_said_to_be_compacted(kafka, make_topic):
    topic = make_topic(**SOON_COMPACTED)
    log, source = Log(kafka, topic), KafkaSource(kafka, (topic,))
    log.write(0, *[(n + 1, b"key-%d" % (n % 10), b"%d" % n, ()) for n in range(500)])
    deadline = time.monotonic() + 120
    while len((found := replayed(source, log))[0].records) > 100:
        assert time.monotonic() < deadline, "not compacted"
        time.sleep(0.3)
        log.write(0, (round(time.time() * 1_000), b"roll", b"another segment", ()))
    target, proof, _ = found
    assert proof.adds_up, proof.verdict()
    assert proof.absences == {COMPACTED: proof.total("planned") - len(target.records)}
    _the_log_itself_shows_it(kafka, source, log, target)


def _the_log_itself_shows_it(kafka, source, log, target):
    """When the topic is compacted no more; a record that is there still counts as not given."""
    with Admin(kafka) as admin, admin.asking("settings") as client:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ConfigResource.Type.TOPIC, log.topic, incremental_configs=[entry])
        client.incremental_alter_configs([wanted])[wanted].result(20)
    _, proof, _ = replayed(source, log)
    assert proof.absences.keys() == {ONCE_COMPACTED}
    kept = target.records[0].offset
    with source.absences() as explainer, pytest.raises(RecordsNotGiven):
        explainer.explain((log.topic, 0), [(0, kept + 1)])
