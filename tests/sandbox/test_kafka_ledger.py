"""The ledger of a cluster forgets nothing, whatever a client loses, and nobody's entry hides another's."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer

from playhead.account import Account
from playhead.config.context import configure
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.topics import Alteration, TopicSetting, alter, describe_topics
from playhead.kafka.write import ledger_reading, ledger_topic
from playhead.kafka.write.dead_letters import DeadLetterTopic
from playhead.kafka.write.inspect import CopySpec, inspect_copy
from playhead.kafka.write.ledger import Ledger, LedgerShort
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC, former_transactional_id
from playhead.kafka.write.ledger_reading import LedgerUnsteady
from playhead.kafka.write.ledger_topic import ForgetfulLedger, SplitLedger, make_ledger
from playhead.kafka.write.target import KafkaTarget
from playhead.kafka.write.transactions import Transactions
from playhead.ledger import Entry, remaining
from playhead.proof import prove
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.source import SourceFacts, TopicFacts
from playhead.target import AlreadyCommitted, InspectRequest, InUse
from playhead.terms import NO_TERMS
from playhead.testing.target_case import terms
from tests.fix_topics import records_in
from tests.unit.replaying import partition_plan, plan_of

PLANNED = [Slice("laps", 0, at, at + 10) for at in range(0, 50, 10)]


def prepared(target: KafkaTarget) -> str:
    replay_id = uuid.uuid4().hex[:8]
    look = InspectRequest(SourceFacts("elsewhere", {"laps": TopicFacts()}), {"laps": 1}, [])
    target.prepare(replay_id, target.inspect(look), terms(*look.partitions))
    return replay_id


def records_of(slice_: Slice) -> list[Record]:
    kind = TimestampType.CREATE_TIME
    return [
        Record("laps", slice_.partition, at, 1_000 + at, kind, b"k", b"%d" % at)
        for at in range(slice_.from_offset, slice_.to_offset)
    ]


def commit(
    target: KafkaTarget, replay_id: str, slices: Sequence[Slice], *, is_endless: bool = False
) -> None:
    with target.open(replay_id) as writer:
        for slice_ in slices:
            account = Account(slice_, is_endless=is_endless)
            account.read = len(slice_)
            writer.commit(account, [Records.of(records_of(slice_))])


class Losing:
    """A client that loses records of the ledger on the way, and then says that it is at the end."""

    def __init__(self, settings: dict[str, Any], lose: Callable[[bytes], bool]) -> None:
        self._consumer, self._lose = Consumer(settings), lose

    def consume(self, most: int, wait_s: float) -> list[Any]:
        found = self._consumer.consume(most, wait_s)
        return [each for each in found if each.error() or not self._lose(each.key() or b"")]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@contextmanager
def losing(replay_id: str, lost: Callable[[int], bool], looks: int) -> Iterator[None]:
    """Each of the first clients loses those of the replay's entries that begin at such offsets."""
    made = count()

    def lose(key: bytes) -> bool:
        parts = key.decode().split("|")
        return parts[0] == replay_id and parts[1] != "" and lost(int(parts[3]))

    def make(settings: dict[str, Any]) -> Any:
        is_losing = next(made) < looks
        return Losing(settings, lose if is_losing else lambda _: False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "make_consumer", make)
        yield


@contextmanager
def forgetting(replay_id: str, lost: Callable[[int], bool]) -> Iterator[None]:
    """Such entries are lost by every client, and the log is not asked about them."""
    with losing(replay_id, lost, looks=100), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_reading, "_hide_records", lambda *_: False)
        yield


@pytest.mark.parametrize("lost", [{40}, {20}, {10, 20, 40}, {0, 10, 20, 30, 40}])
def test_entries_that_a_client_loses_are_found_at_the_second_look(
    kafka: KafkaConnection, topic: str, lost: set[int]
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, PLANNED)
    with losing(replay_id, lost.__contains__, looks=1):
        assert [each.slice for each in target.entries(replay_id)] == PLANNED
    with (
        losing(replay_id, lost.__contains__, looks=1),
        target.open(replay_id) as writer,
        pytest.raises(AlreadyCommitted),
    ):
        writer.commit(Account(PLANNED[2]), [])
    assert len(records_in(kafka, topic)) == 50


def test_nothing_is_written_while_no_client_returns_the_entries(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, PLANNED)
    with losing(replay_id, lambda at: at >= 30, looks=100), pytest.raises(LedgerUnsteady):
        commit(target, replay_id, PLANNED[3:])
    assert len(records_in(kafka, topic)) == 50


def test_what_was_written_twice_is_proved_to_be(kafka: KafkaConnection, topic: str) -> None:
    """Were the ledger forgotten for good, the proof would say so."""
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, PLANNED)
    plan = plan_of(partition_plan(0, 50), replay_id=replay_id)
    assert prove(plan, target.entries(replay_id)).adds_up
    with forgetting(replay_id, lambda at: at >= 30):
        commit(target, replay_id, PLANNED[3:])
    proof = prove(plan, target.entries(replay_id))
    assert proof.total("duplicate") == 20
    assert not proof.adds_up
    assert len(records_in(kafka, topic)) == 70


def test_a_writer_does_not_go_on_when_the_ledger_lacks_what_it_has_committed(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    with target.open(replay_id) as writer:
        for slice_ in PLANNED[:2]:
            account = Account(slice_)
            account.read = len(slice_)
            writer.commit(account, [Records.of(records_of(slice_))])
        writer._lanes.popitem()[1].transactions.close()
        with forgetting(replay_id, lambda at: at >= 10), pytest.raises(LedgerShort):
            writer.commit(Account(PLANNED[2]), [])


# --- endless ------------------------------------------------------------------------------------


def held(target: KafkaTarget, replay_id: str) -> list[tuple[int, int, int]]:
    entries = target.entries(replay_id)
    return [(each.slice.from_offset, each.slice.to_offset, each.written) for each in entries]


def test_entries_of_an_endless_replay_stay_few_however_often_it_is_taken_over(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    for at in range(0, 60, 10):
        slices = [Slice("laps", 0, at, at + 5), Slice("laps", 0, at + 5, at + 10)]
        commit(target, replay_id, slices, is_endless=True)
    assert held(target, replay_id) == [(0, 40, 40), (40, 50, 10), (50, 60, 10)]
    assert len(records_in(kafka, topic)) == 60


def test_who_takes_over_hides_nothing_that_it_has_not_seen(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    for at in range(0, 30, 10):
        commit(target, replay_id, [Slice("laps", 0, at, at + 10)], is_endless=True)
    with forgetting(replay_id, lambda at: at == 20):
        commit(target, replay_id, [Slice("laps", 0, 20, 25)], is_endless=True)
    commit(target, replay_id, [Slice("laps", 0, 30, 40)], is_endless=True)
    commit(target, replay_id, [Slice("laps", 0, 40, 50)], is_endless=True)
    # 20 to 25 is there twice, and stays to be seen.
    assert sum(written for _, _, written in held(target, replay_id)) == 55
    assert remaining([Slice("laps", 0, 0, 50)], [e.slice for e in target.entries(replay_id)]) == []


# --- what the version before has left -----------------------------------------------------------


def former(kafka: KafkaConnection, replay_id: str, *slices: Slice) -> None:
    """Entries as they were written before writers had names."""
    old = Transactions(kafka, replay_id, former_transactional_id(replay_id, ("laps", 0)))
    old.begin()
    for each in slices:
        key = f"{replay_id}|laps|0|{each.from_offset}".encode()
        old.note(LEDGER_TOPIC, key, Entry(each, len(each), len(each)).as_json().encode())
    old.commit()
    old.close()


def test_entries_of_the_version_before_count(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    former(kafka, replay_id, *PLANNED[:2])
    with target.open(replay_id) as writer, pytest.raises(AlreadyCommitted):
        writer.commit(Account(PLANNED[1]), [])
    commit(target, replay_id, PLANNED[2:])
    assert [each.slice for each in target.entries(replay_id)] == PLANNED


def test_an_endless_replay_that_the_version_before_began(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    former(kafka, replay_id, Slice("laps", 0, 0, 100))
    for at in range(100, 130, 10):
        commit(target, replay_id, [Slice("laps", 0, at, at + 10)], is_endless=True)
    assert held(target, replay_id) == [(0, 110, 110), (110, 120, 10), (120, 130, 10)]


def test_a_zombie_of_the_version_before_is_fenced(kafka: KafkaConnection, topic: str) -> None:
    target, replay_id = KafkaTarget(kafka, topic), uuid.uuid4().hex[:8]
    with Admin(kafka) as admin:
        make_ledger(admin)
    # What it had settled does not say that its writers have names.
    settled = Transactions(kafka, replay_id, f"playhead-{replay_id}-terms")
    settled.begin()
    settled.note(LEDGER_TOPIC, f"{replay_id}|||".encode(), b'{"partitions": {"laps": 1}}')
    settled.commit()
    settled.close()
    zombie = Transactions(kafka, replay_id, former_transactional_id(replay_id, ("laps", 0)))
    zombie.begin()
    zombie.note(topic, b"k", b"written by a zombie")
    zombie.flush()
    look = InspectRequest(SourceFacts("elsewhere", {}), {"laps": 1}, [])
    [note] = target.prepare(replay_id, target.inspect(look), terms("laps"))
    assert note.code == NO_TERMS
    commit(target, replay_id, PLANNED)
    with pytest.raises(InUse):
        zombie.commit()
    zombie.close()
    assert len(records_in(kafka, topic)) == 50


def test_replays_whose_ids_and_topics_run_together_do_not_fence_each_other(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    target = KafkaTarget(kafka, make_topic(), partition_rule="key")
    end = uuid.uuid4().hex[:8]
    one, other = (f"x{end}", "y-z"), (f"x{end}-y", "z")
    for replay_id, _ in (one, other):
        look = InspectRequest(SourceFacts("elsewhere", {}), {"y-z": 1, "z": 1}, [])
        target.prepare(replay_id, target.inspect(look), terms(*look.partitions))
    with target.open(one[0]) as first, target.open(other[0]) as second:
        for at in range(2):
            for writer, (_, topic) in ((first, one), (second, other)):
                writer.commit(Account(Slice(topic, 0, at, at + 1)), [])
    assert len(target.entries(one[0])) == len(target.entries(other[0])) == 2


# --- the topic ----------------------------------------------------------------------------------


@contextmanager
def ledger_with(kafka: KafkaConnection, **settings: str) -> Iterator[None]:
    """The ledger's settings are others for a while."""

    def change(values: dict[str, str]) -> None:
        with Admin(kafka) as admin:
            [now] = describe_topics(admin, [LEDGER_TOPIC])
            alter(admin, Alteration(LEDGER_TOPIC, settings=values), now, Guard(configure({})))

    told = {name.replace("_", "."): value for name, value in settings.items()}
    change(told)
    try:
        yield
    finally:
        change({"cleanup.policy": "compact"} | {n: "1" for n in told if n != "cleanup.policy"})


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_ledger_that_forgets_is_refused_with_the_way_to_mend_it(
    kafka: KafkaConnection, topic: str, policy: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    look = InspectRequest(SourceFacts("elsewhere", {"laps": TopicFacts()}), {"laps": 1}, [])
    inspection = target.inspect(look)
    with ledger_with(kafka, cleanup_policy=policy):
        with pytest.raises(ForgetfulLedger, match=f"cleanup.policy={policy}") as told:
            target.inspect(look)
        assert told.value.hint == f"playhead topics alter {LEDGER_TOPIC} --compact"
        with pytest.raises(ForgetfulLedger):
            target.prepare(replay_id, inspection, terms("laps"))
        # Of a replay into a table whose dead letters go to a topic, the plan asks the same.
        with pytest.raises(ForgetfulLedger):
            DeadLetterTopic(kafka, topic).inspect()
    [note] = DeadLetterTopic(kafka, topic).inspect()
    assert note.code == "dead-letters-size"
    target.prepare(replay_id, inspection, terms("laps"))


def test_a_ledger_of_several_partitions_is_refused(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(KafkaTarget(kafka, topic))
    real = ledger_topic.describe_those

    def split(admin: Admin, names: Sequence[str]) -> dict[str, Any]:
        return {name: replace(each, partitions=(0, 1)) for name, each in real(admin, names).items()}

    monkeypatch.setattr(ledger_topic, "describe_those", split)
    with Admin(kafka) as admin, pytest.raises(SplitLedger, match="has 2 partitions"):
        make_ledger(admin)


def test_a_ledger_that_is_less_safe_than_the_target_is_noted(
    kafka: KafkaConnection, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    prepared(KafkaTarget(kafka, topic))
    with Admin(kafka) as admin:
        wish = CopySpec({"laps": topic}, None, False, "auto")
        look = InspectRequest(SourceFacts("elsewhere", {"laps": TopicFacts()}), {"laps": 1}, [])
        codes = {each.code for each in inspect_copy(admin, wish, look).notes}
        assert not codes & {"ledger-replication", "ledger-in-sync"}

        def as_if_safer(admin: Admin, names: Sequence[str]) -> list[Any]:
            ledger, *others = describe_topics(admin, names)
            safer = [_with_replicas(each) for each in others]
            return [ledger, *safer]

        monkeypatch.setattr(ledger_topic, "describe_topics", as_if_safer)
        codes = {each.code for each in inspect_copy(admin, wish, look).notes}
        assert {"ledger-replication", "ledger-in-sync"} <= codes


def _with_replicas(state: Any) -> Any:
    partitions = tuple(replace(each, replicas=(1, 2, 3)) for each in state.partitions)
    settings = (TopicSetting("min.insync.replicas", "2", "topic"),)
    return replace(state, partitions=partitions, settings=settings)


def test_a_ledger_that_is_cut_short_under_a_reader_is_not_an_empty_one(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, PLANNED[:1])
    ledger = Ledger(kafka, replay_id)
    ledger.catch_up()
    ledger._next += 1_000
    with pytest.raises(LedgerShort, match="it was read to offset"):
        ledger.catch_up()
    ledger._topic_id = "another"
    with pytest.raises(LedgerShort, match="its id was another"):
        ledger.catch_up()


def test_a_ledger_says_which_replays_have_copied_a_topic(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    copy = make_topic()
    target = KafkaTarget(kafka, copy, partition_rule="key")
    first, empty = prepared(target), prepared(target)
    commit(target, first, PLANNED[:2])
    known = target.replays_of(["laps"])
    terms_of_first, entries = known[first]
    assert [entry.slice for entry in entries] == PLANNED[:2]
    assert terms_of_first.places == target.whereto(["laps"])
    assert known[empty][1] == []
    assert target.replays_of(["other"])[first][1] == []
