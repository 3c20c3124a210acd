"""A topic that sets its own times is noticed; an answer that came late is no such topic."""

from types import SimpleNamespace

import pytest

from playhead.kafka.write import partition_writer
from playhead.kafka.write.partition_writer import PartitionWriter
from playhead.kafka.write.target_topics import TargetTopic, TimesReplaced
from playhead.records import Records
from tests.unit.replaying import record

SENT = [Records.of([record(0, 100), record(1, 130)]), Records.of([record(2, 120)])]


def refuse(monkeypatch, stamped, *, kind="CreateTime", keeps_times=True):
    class Asked:
        def __init__(self, connection):
            assert connection == "the cluster"

        __enter__ = __exit__ = lambda *_: None

    found = {"copy": TargetTopic("copy", 1, {"message.timestamp.type": kind})}
    monkeypatch.setattr(partition_writer, "Admin", Asked)
    monkeypatch.setattr(partition_writer, "look_up", lambda _, topics: found)
    writer = PartitionWriter(
        SimpleNamespace(stamped=stamped, connection="the cluster"),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        "r1",
        None,
        [],
        [],
        keeps_times=lambda _: keeps_times,
    )
    writer._refuse_other_times(SENT)


def test_a_repeated_batch_is_answered_with_its_own_time(monkeypatch):
    refuse(monkeypatch, {"copy": {130}})
    refuse(monkeypatch, {})


@pytest.mark.parametrize("stamped", [{99}, {130, 1_700_000_000_000}])
def test_a_time_that_no_record_has_is_the_brokers(monkeypatch, stamped):
    with pytest.raises(TimesReplaced, match="topic copy sets its own times now"):
        refuse(monkeypatch, {"copy": stamped})


def test_a_topic_that_sets_its_own_times_now_is_refused_whatever_they_are(monkeypatch):
    with pytest.raises(TimesReplaced):
        refuse(monkeypatch, {"copy": {130}}, kind="LogAppendTime")


def test_a_topic_of_which_the_plan_says_it_is_not(monkeypatch):
    refuse(monkeypatch, {"copy": {99}}, kind="LogAppendTime", keeps_times=False)
