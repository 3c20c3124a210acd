"""Copies that expired, or whose topic was cut or created again, are not proved, and count as missing."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from playhead.account import Account
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import EXIT_REFUSED
from playhead.gaps.by_ledger import by_ledger
from playhead.kafka.write.target import KafkaTarget
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.replay.earlier_copies import earlier_copies
from playhead.replay.guards import LostCopies
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest
from playhead.testing.memory import ListSource
from playhead.testing.target_case import terms
from tests.fix_topics import records_in
from tests.sandbox.test_kafka_target import made_anew
from tests.unit import replaying
from tests.unit.replaying import TOPIC, runner, whole_plan

ALL = Slice(TOPIC, 0, 0, 6)


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def six() -> ListSource:
    return ListSource([replaying.record(n, 1_000 + n) for n in range(6)])


def plan_into(target: KafkaTarget, replay_id: str) -> Plan:
    source = six()
    look = InspectRequest(source.facts(), {TOPIC: 1}, [])
    asked = replaying.request(target=f"kafka:{target.topic}")
    plan = whole_plan(source, target=target.inspect(look), replay_id=replay_id)
    return replace(plan, request=asked)


def cut(kafka: KafkaConnection, topic: str, first: int) -> None:
    """Delete the records before an offset."""
    admin = AdminClient(kafka.for_librdkafka("client"))
    [deleted] = admin.delete_records([TopicPartition(topic, 0, first)]).values()
    deleted.result(10)


def test_a_replay_whose_copies_were_deleted_is_not_proved(
    kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    target = KafkaTarget(kafka, topic)
    plan = plan_into(target, new_id())
    assert runner(plan, six(), target, tmp_path).run().adds_up
    assert runner(plan, six(), target, tmp_path).run().adds_up, "all copies are there"
    # Slices of two records, each with a marker behind it.
    cut(kafka, topic, 4)
    assert [each.value for each in records_in(kafka, topic)] == [b"3", b"4", b"5"]
    with pytest.raises(LostCopies, match=f"copies of 3 offsets are gone: {topic}:0 begins") as lost:
        runner(plan, six(), target, tmp_path).run()
    assert lost.value.exit_code == EXIT_REFUSED


def test_a_stopped_replay_whose_copies_were_deleted_is_not_continued(
    kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    target = KafkaTarget(kafka, topic)
    plan = plan_into(target, new_id())
    target.prepare(plan.replay_id, plan.target, plan.terms())
    with target.open(plan.replay_id) as writer:
        records = Records.of([replaying.record(n, 1_000 + n) for n in range(2)])
        writer.commit(Account(Slice(TOPIC, 0, 0, 2)), [records])
    cut(kafka, topic, 1)
    with pytest.raises(LostCopies, match="copies of 1 offsets are gone"):
        runner(plan, six(), target, tmp_path).run()
    assert [each.value for each in records_in(kafka, topic)] == [b"1"], "nothing was added"


def test_deleted_copies_count_as_missing_and_may_be_written_again(
    kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    target = KafkaTarget(kafka, topic)
    plan = plan_into(target, new_id())
    assert runner(plan, six(), target, tmp_path).run().adds_up
    facts = SourceFacts(six().facts().identity, {TOPIC: TopicFacts()})
    ends = SimpleNamespace(target=target)

    def missing(*ids: str) -> list[Slice]:
        found = by_ledger(plan.request, ends, facts, [ALL], ids)  # type: ignore[arg-type]
        assert ("lost-copies" in [note.code for note in found.notes]) == (target.topic in gone)
        return found.slices

    gone: set[str] = set()
    assert missing(plan.replay_id) == []
    cut(kafka, topic, 4)
    gone.add(topic)
    assert missing(plan.replay_id) == [Slice(TOPIC, 0, 0, 3)]
    assert missing() == [Slice(TOPIC, 0, 0, 3)], "the ledger of the cluster knows the replay"
    again = plan_into(target, new_id())
    [earlier] = earlier_copies(target, again)
    assert earlier.offsets == 3, "of the others there is no copy"
    first_half = replace(again.partitions[0], span_end=3, to_offset=3)
    again = replace(again, partitions=(first_half,))
    assert earlier_copies(target, again) == []
    assert runner(again, six(), target, tmp_path).run().adds_up
    assert missing(plan.replay_id, again.replay_id) == []
    assert missing() == []


def test_a_log_that_was_cut_at_its_end(kafka: KafkaConnection, topic: str) -> None:
    """As after an unclean election, or from a copy of the broker's disk."""
    target = KafkaTarget(kafka, topic)
    [entry] = committed(target, [replaying.record(0, 1_000)])
    assert target.lost_copies([entry]) == {}
    beyond = entry.details | {"offsets": [[0, 0, 7, 1]], "ends": [[0, 7, 7, 1]]}
    lost = target.lost_copies([replace(entry, details=beyond)])
    assert lost == {
        Slice(TOPIC, 0, 0, 1): f"{topic}:0 ends at offset 2, but had copies up to 7",
    }


def test_a_map_that_is_not_exact_stands_for_its_slice(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(kafka, topic)
    [entry] = committed(target, [replaying.record(n, 1_000) for n in range(3)])
    cut(kafka, topic, 1)
    assert [*target.lost_copies([entry])] == [Slice(TOPIC, 0, 0, 1)]
    inexact = replace(entry, details=entry.details | {"exact": False})
    assert [*target.lost_copies([inexact])] == [Slice(TOPIC, 0, 0, 3)]


def committed(target: KafkaTarget, records: list[Record]) -> list[Entry]:
    replay_id = new_id()
    look = InspectRequest(SourceFacts("elsewhere", {TOPIC: TopicFacts()}), {TOPIC: 1}, [])
    target.prepare(replay_id, target.inspect(look), terms(TOPIC))
    with target.open(replay_id) as writer:
        account = Account(Slice(TOPIC, 0, 0, len(records)))
        account.read = len(records)
        writer.commit(account, [Records.of(records)])
    return list(target.entries(replay_id))


def test_a_topic_to_which_letters_went_back_and_that_was_made_anew(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    home = make_topic(1)
    says = (("__playhead.errors.topic", home.encode()), ("__playhead.errors.partition", b"0"))
    target = KafkaTarget(kafka, home, redrive=True)
    [entry] = committed(target, [replaying.record(0, 1_000, headers=says)])
    assert len(records_in(kafka, home)) == 1
    assert target.lost_copies([entry]) == {}
    made_anew(kafka, home)
    [reason] = target.lost_copies([entry]).values()
    assert reason.startswith(f"topic {home} was created again: its id was ")
