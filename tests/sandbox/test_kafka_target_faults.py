"""Whatever happens to a commit into topics, readers of committed records see each record once."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread, Timer

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer

import playhead
from playhead.account import Account, ErrorRule
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.host.clock import SystemClock, wait_until
from playhead.host.faults import abort_points
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import LedgerWaits
from playhead.kafka.admin.offsets import stable_ends
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write import compare, partition_writer, transactions
from playhead.kafka.write.dead_letters import DeadLetterTopic
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC, key_of, new_writer, transactional_id
from playhead.kafka.write.offset_map import OffsetMap
from playhead.kafka.write.target import KafkaTarget
from playhead.kafka.write.transactions import Transactions
from playhead.ledger import remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.source import SourceFacts, rejecting
from playhead.target import AlreadyCommitted, InspectRequest, InUse
from playhead.terms import OtherTerms
from playhead.testing import Aborted, armed
from playhead.testing.link_proxy import LinkProxy
from playhead.testing.target_case import terms
from tests.fix_topics import records_in
from tests.fix_torture import SEED
from tests.sandbox.kafka_log import produce_raw

TERMS = ("kafka.terms_looked", "kafka.terms_sent", "kafka.terms_committed")
POINTS = sorted(
    name
    for name in abort_points(Path(playhead.__file__).parent)
    if name.startswith("kafka.") and name not in TERMS
)
PLANNED = [Slice("laps", 0, 0, 300), Slice("laps", 0, 300, 600)]
DEAD = (17, 450)
ROOT = Path(__file__).parents[2]
_TRIES_AGAIN_WITHIN_S = 5.0


def records_of(slice_: Slice) -> list[Record]:
    """Made anew wherever they are wanted; two of them cannot be sent."""
    return [
        Record(
            slice_.topic,
            slice_.partition,
            offset,
            0 if offset in DEAD else 1_000 + offset,
            TimestampType.CREATE_TIME,
            b"k",
            b"%d" % offset,
        )
        for offset in range(slice_.from_offset, slice_.to_offset)
    ]


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def prepared(target: KafkaTarget, *, within_one_cluster: bool = False) -> str:
    replay_id, identity = new_id(), "elsewhere"
    if within_one_cluster:
        with Admin(target.connection) as admin:
            # Its offsets are moved, so it has to be there; what it holds is nobody's business.
            admin.create_topic("laps", partitions=1)
            identity = admin.cluster().cluster_id
    look = InspectRequest(SourceFacts(identity, {}), {"laps": 1}, [])
    target.prepare(replay_id, target.inspect(look), terms("laps"))
    return replay_id


def commit_all(
    target: KafkaTarget,
    replay_id: str,
    slices: Sequence[Slice],
    *,
    dlq: str | None = None,
) -> None:
    """Commit slices; where there is no place for dead letters, they are skipped."""
    rule = ErrorRule.parse(f"dlq:{dlq}" if dlq else "skip")
    with (
        DeadLetterTopic(target.connection, dlq or "unused").open(replay_id) as bury,
        target.open(replay_id) as writer,
    ):
        for slice_ in slices:
            account, records = Account(slice_, rule, bury), records_of(slice_)
            account.read = len(records)
            writer.commit(account, [Records.of(records[:100]), Records.of(records[100:])])


def in_a_process(
    target: KafkaTarget, replay_id: str, dlq: str | None, abort_at: str
) -> "subprocess.Popen[str]":
    arguments = [target.connection.bootstrap_servers, target.topic, replay_id, dlq]
    return subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(arguments)],
        env=os.environ | {"PLAYHEAD_ABORT_AT": abort_at, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    servers, topic, replay_id, dlq = json.loads(sys.argv[1])
    try:
        commit_all(KafkaTarget(KafkaConnection(servers), topic), replay_id, PLANNED, dlq=dlq)
    except InUse:
        print("in use")


def resume(target: KafkaTarget, replay_id: str, dlq: str | None) -> None:
    with target.hold(replay_id):
        done = [entry.slice for entry in target.entries(replay_id)]
        commit_all(target, replay_id, remaining(PLANNED, done), dlq=dlq)


def assert_once(target: KafkaTarget, replay_id: str, dlq: str | None) -> None:
    """Every record that can be sent is there once, in order, and the ledger accounts for all."""
    needed = [
        record.value for slice_ in PLANNED for record in records_of(slice_) if record.timestamp_ms
    ]
    assert [record.value for record in records_in(target.connection, target.topic)] == needed
    entries = target.entries(replay_id)
    assert remaining(PLANNED, [entry.slice for entry in entries]) == []
    assert sum(entry.written for entry in entries) == len(needed)
    if dlq:
        buried = [record.value for record in records_in(target.connection, dlq)]
        assert buried == [b"%d" % offset for offset in DEAD]
        assert sum(entry.dead for entry in entries) == len(DEAD)


# --- death ------------------------------------------------------------------------------------


# A slice and its dead letters, which are committed before it, pass each point; the group is moved only
# with the slice.
PASSINGS = [
    (point, passing)
    for point in POINTS
    for passing in range(1, 3 if point == "kafka.group_moved" else 5)
]
# Each point has a passing in the sample, whatever the seed.
SAMPLE = [
    random.Random(f"{SEED} {point}").choice([each for each in PASSINGS if each[0] == point])
    for point in POINTS
]


def test_there_are_points_to_die_at() -> None:
    steps = ("begun", "records_sent", "ledger_sent", "group_moved", "committed")
    assert {f"kafka.{step}" for step in steps} == set(POINTS)


@pytest.mark.parametrize(("point", "passing"), SAMPLE)
def test_killed_at(
    kafka: KafkaConnection, make_topic: Callable[..., str], point: str, passing: int
) -> None:
    killed_at(kafka, make_topic, point, passing)


@pytest.mark.torture
@pytest.mark.parametrize(("point", "passing"), [each for each in PASSINGS if each not in SAMPLE])
def test_killed_anywhere(
    kafka: KafkaConnection, make_topic: Callable[..., str], point: str, passing: int
) -> None:
    killed_at(kafka, make_topic, point, passing)


def killed_at(
    kafka: KafkaConnection, make_topic: Callable[..., str], point: str, passing: int
) -> None:
    target, dlq = KafkaTarget(kafka, make_topic()), make_topic()
    replay_id = prepared(target, within_one_cluster=True)
    dead = in_a_process(target, replay_id, dlq, f"{point}#{passing}")
    _, said = dead.communicate(timeout=120)
    assert dead.returncode == -signal.SIGKILL, f"it died at {point}#{passing}: {said}"
    began = time.monotonic()
    resume(target, replay_id, dlq)
    assert time.monotonic() - began < 20, "a dead run's transaction was waited for, not ended"
    assert_once(target, replay_id, dlq)
    with Admin(kafka) as admin, admin.asking("asking for a group") as client:
        asked = [ConsumerGroupTopicPartitions(f"playhead.{replay_id}")]
        found = client.list_consumer_group_offsets(asked)[asked[0].group_id].result(10)
    assert [(each.topic, each.offset) for each in found.topic_partitions] == [("laps", 600)]


@pytest.mark.parametrize("point", TERMS)
def test_dead_while_the_terms_are_written(
    kafka: KafkaConnection, make_topic: Callable[..., str], point: str
) -> None:
    """Those that were committed count; of others nobody hears, and nobody waits for them."""
    target, replay_id = KafkaTarget(kafka, make_topic()), new_id()
    look = InspectRequest(SourceFacts("elsewhere", {}), {"laps": 1}, [])
    first, second = terms("laps", digest="first"), terms("laps", digest="second")
    with armed(f"{point}=raise"), pytest.raises(Aborted):
        target.prepare(replay_id, target.inspect(look), first)
    began = time.monotonic()
    is_there = point == "kafka.terms_committed"
    with target.hold(replay_id):
        if is_there:
            with pytest.raises(OtherTerms):
                target.prepare(replay_id, target.inspect(look), second)
        kept = first if is_there else second
        assert not target.prepare(replay_id, target.inspect(look), kept)
    assert time.monotonic() - began < 20, "a dead run's transaction was waited for, not ended"
    found = target.terms(replay_id)
    assert found is not None
    assert found.digest == kept.digest


@pytest.mark.parametrize("point", ["kafka.records_sent", "kafka.ledger_sent"])
def test_a_run_that_was_thought_dead_is_fenced(
    kafka: KafkaConnection, topic: str, point: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    zombie = in_a_process(target, replay_id, None, f"{point}#2=stop")
    try:
        stopped = wait_until(
            lambda: _state(zombie.pid) == "T", deadline_s=60, clock=SystemClock(), every_s=0.05
        )
        assert stopped, "it stopped"
        resume(target, replay_id, None)
    finally:
        zombie.send_signal(signal.SIGCONT)
    told, said = zombie.communicate(timeout=90)
    assert told.strip() == "in use", said
    assert_once(target, replay_id, None)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_of_two_runs_the_later_goes_on(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)

    def account(number: int) -> Account:
        made = Account(PLANNED[number], ErrorRule("skip"))
        made.read = 300
        return made

    def runs(number: int) -> list[Records]:
        return [Records.of(records_of(PLANNED[number]))]

    with target.open(replay_id) as one, target.open(replay_id) as other:
        one.commit(account(0), runs(0))
        with pytest.raises(AlreadyCommitted):
            other.commit(account(0), runs(0))
        with pytest.raises(InUse):
            one.commit(account(1), runs(1))
        other.commit(account(1), runs(1))
    assert_once(target, replay_id, None)


# --- links ------------------------------------------------------------------------------------


def commit_through(
    link: LinkProxy, target: KafkaTarget, replay_id: str, moment: Callable[[], None]
) -> None:
    """Commit the first slice; the moment comes when all is drawn and much of it is on its way."""
    account = Account(PLANNED[0], ErrorRule("skip"))
    account.read = 300

    def drawn() -> Iterator[Records]:
        yield Records.of(records_of(PLANNED[0]))
        moment()

    with target.open(replay_id) as writer:
        writer.commit(account, drawn())


@pytest.mark.parametrize("away_s", [0.0, 1.5])
def test_a_link_that_breaks_for_a_moment(
    linked_kafka: KafkaConnection, broker_link: LinkProxy, topic: str, away_s: float
) -> None:
    target = KafkaTarget(linked_kafka, topic)
    replay_id = prepared(target)

    def cut() -> None:
        broker_link.cut()
        Timer(away_s, broker_link.restore).start()

    with contextlib.suppress(Unavailable):
        commit_through(broker_link, target, replay_id, cut)
    wait_until(lambda: broker_link._listening, deadline_s=10, clock=SystemClock(), every_s=0.05)
    resume(target, replay_id, None)
    assert_once(target, replay_id, None)


@pytest.mark.parametrize("action", ["commit", "flush"])
def test_the_answer_that_got_lost(
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    topic: str,
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = KafkaTarget(linked_kafka, topic)
    replay_id = prepared(target)
    real = getattr(Transactions, action)

    def losing(self: Transactions) -> None:
        broker_link.drop_after(0, "down")
        real(self)

    monkeypatch.setattr(Transactions, action, losing)
    with contextlib.suppress(Unavailable):
        commit_through(broker_link, target, replay_id, lambda: None)
    monkeypatch.setattr(Transactions, action, real)
    resume(target, replay_id, None)
    assert_once(target, replay_id, None)


@pytest.mark.torture
@pytest.mark.parametrize("break_", ["cut", "stall"])
def test_a_link_that_stays_away(
    linked_kafka: KafkaConnection, broker_link: LinkProxy, topic: str, break_: str
) -> None:
    target = KafkaTarget(linked_kafka, topic)
    replay_id = prepared(target)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        commit_through(broker_link, target, replay_id, getattr(broker_link, break_))
    assert time.monotonic() - began < 120
    broker_link.restore()
    broker_link.resume()
    resume(target, replay_id, None)
    assert_once(target, replay_id, None)


def test_a_producer_that_gave_up_its_start_fences_none_after_it(
    kafka: KafkaConnection,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client would try on, however long the error is kept, and take the id when the link is back."""

    class Stalled(Producer):
        def list_topics(self, *, timeout: float) -> None:
            super().list_topics(timeout=timeout)
            broker_link.stall()

    own_id = transactional_id(new_id(), (topic, 0))
    with monkeypatch.context() as patched:
        patched.setattr(clients, "make_producer", Stalled)
        patched.setattr(transactions, "_INIT_WITHIN_S", 1.0)
        with pytest.raises(Unavailable) as kept:
            Transactions(linked_kafka, "r", own_id)
    second = Transactions(kafka, "r", own_id)
    broker_link.resume()
    time.sleep(_TRIES_AGAIN_WITHIN_S)
    second.begin()
    second.note(topic, b"key", b"value")
    second.flush()
    second.commit()
    second.close()
    assert "init" in str(kept.value)


def test_a_transaction_that_took_too_long_is_nobodys_fault(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster gives it up and fences its producer, just as if another run had come."""
    monkeypatch.setattr(partition_writer, "_WORTH_OPENING", 50)
    monkeypatch.setattr(transactions, "TRANSACTION_TIMEOUT_S", 1)
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    account = Account(PLANNED[0], ErrorRule("skip"))
    account.read = 300

    def drawn() -> Iterator[Records]:
        records = records_of(PLANNED[0])
        yield Records.of(records[:100])
        with Admin(kafka) as admin:
            given_up = wait_until(
                lambda: stable_ends(admin, [(topic, 0)])[topic, 0] >= 98,
                deadline_s=60,
                clock=SystemClock(),
                every_s=0.2,
            )
        assert given_up, "it was aborted"
        yield Records.of(records[100:])

    with pytest.raises(Unavailable, match="aborted it"), target.open(replay_id) as writer:
        writer.commit(account, drawn())
    monkeypatch.undo()
    resume(target, replay_id, None)
    assert_once(target, replay_id, None)


# --- others at work ---------------------------------------------------------------------------


def test_the_ledger_is_read_past_a_dead_transaction_of_the_same_replay(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic, partition_rule="key")
    replay_id = prepared(target)
    dead = Transactions(kafka, replay_id, transactional_id(replay_id, ("laps", 7)))
    dead.begin()
    dead.note(
        LEDGER_TOPIC, key_of(replay_id, Slice("laps", 7, 0, 1), new_writer()), b"never committed"
    )
    dead.flush()
    began = time.monotonic()
    with target.open(replay_id) as writer:
        account = Account(PLANNED[0], ErrorRule("skip"))
        account.read = 300
        thread = Thread(target=_hold_soon, args=(target, replay_id))
        thread.start()
        writer.commit(account, [Records.of(records_of(PLANNED[0]))])
        thread.join()
    assert [entry.slice for entry in target.entries(replay_id)] == [PLANNED[0]]
    assert time.monotonic() - began < 20
    with pytest.raises(InUse):
        dead.commit()
    dead.close()


def _hold_soon(target: KafkaTarget, replay_id: str) -> None:
    with target.hold(replay_id):
        pass


def test_entries_behind_an_open_transaction_are_waited_for(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    with target.open(replay_id) as writer:
        account = Account(PLANNED[0], ErrorRule("skip"))
        other = Transactions(kafka, "other", f"playhead-other-{new_id()}")
        account.read = 300

        def drawn() -> Iterator[Records]:
            other.begin()
            other.note(LEDGER_TOPIC, b"other|laps|0|0", b"{}")
            other.flush()
            yield Records.of(records_of(PLANNED[0]))

        writer.commit(account, drawn())
    Timer(1.0, other.abort).start()
    assert [entry.slice for entry in target.entries(replay_id)] == [PLANNED[0]]
    assert not other.is_open
    other.close()


def test_copies_behind_an_open_transaction_are_not_missing(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    other = Transactions(kafka, "other", f"playhead-other-{new_id()}")
    other.begin()
    other.note(topic, b"somebody", b"else's")
    other.flush()
    commit_all(target, replay_id, PLANNED[:1])
    sent = [Records.of([each for each in records_of(PLANNED[0]) if each.timestamp_ms])]
    with target.open(replay_id) as writer:
        [entry] = target.entries(replay_id)
        monkeypatch.setattr(compare, "_SEEN_WITHIN_S", 0.2)
        with pytest.raises(
            LedgerWaits, match=f"topic {topic}: a transaction has been open at offset 0"
        ):
            writer.compare(entry, sent)
        monkeypatch.undo()
        Timer(1.0, other.abort).start()
        found = writer.compare(entry, sent)
    assert (found.different, found.found) == (0, entry.written)
    other.close()


def of_one_writer(kafka: KafkaConnection, topic: str) -> dict[int, int]:
    """Return the numbers of its records, and their offsets."""
    source = KafkaSource(kafka, (topic,))
    with rejecting(source) as reader:
        return {
            int(record.value or b""): record.offset
            for run in reader.read(Slice(topic, 0, 0, source.bounds()[topic, 0].stable_end))
            for record in run
            if record.value != b"somebody else's"
        }


@pytest.mark.parametrize("name", [b"fine", b"\xff"])
def test_offset_maps_are_right_while_others_write(
    kafka: KafkaConnection, topic: str, name: bytes
) -> None:
    """Also if their records cannot be read."""
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    done = Event()

    def disturb() -> None:
        producer = Producer(kafka.for_librdkafka("producer") | {"linger.ms": 0})
        while not done.is_set():
            producer.produce(topic, b"somebody else's", partition=0)
            producer.poll(0.001)
            produce_raw(kafka, topic, 0, [(1, None, b"somebody else's", ((name, b"1"),))])
        producer.flush()

    thread = Thread(target=disturb)
    thread.start()
    slices = [Slice("laps", 0, start, start + 20_000) for start in range(0, 80_000, 20_000)]
    try:
        with target.open(replay_id) as writer:
            for slice_ in slices:
                records = [
                    record
                    for record in records_of(slice_)
                    if record.offset % 5_000 and record.timestamp_ms
                ]
                account = Account(slice_)
                account.read = len(records)
                writer.commit(account, [Records.of(records)])
    finally:
        done.set()
        thread.join()
    truth = of_one_writer(kafka, topic)
    inexact = 0
    for entry in target.entries(replay_id):
        map_ = OffsetMap.from_details(entry.details)
        named = {
            run.source_offset + n: run.target_offset + n
            for run in map_.runs
            for n in range(run.length)
        }
        own = {offset: there for offset, there in truth.items() if offset in entry.slice}
        assert named.items() <= own.items()
        assert len(named) == entry.written or not map_.exact
        inexact += not map_.exact
        [end] = map_.ends
        assert (end.first, end.last) == (min(own.values()), max(own.values()))
        records = [record for record in records_of(entry.slice) if record.offset in own]
        with target.open(replay_id) as writer:
            found = writer.compare(entry, [Records.of(records)])
            assert found.different == 0, found.differences
            assert found.found == entry.written
            more = [*records[:-1], records_of(Slice("laps", 0, 90_000, 90_001))[0]]
            assert writer.compare(entry, [Records.of(more)]).different
    assert inexact, "nobody wrote between; the test shows nothing"


def test_records_that_come_slowly_hold_no_transaction_open(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_writer, "_WORTH_OPENING", 50)
    monkeypatch.setattr(partition_writer, "_OPEN_AT_MOST_S", 0.0)
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    with target.open(replay_id) as writer:
        for slice_ in PLANNED:
            account, records = Account(slice_, ErrorRule("skip")), records_of(slice_)
            account.read = len(records)
            runs = [Records.of(records[n : n + 30]) for n in range(0, 300, 30)]
            writer.commit(account, iter(runs))
    assert_once(target, replay_id, None)


def test_more_partitions_than_producers(kafka: KafkaConnection, topic: str, monkeypatch) -> None:
    from playhead.kafka.write import target as module

    monkeypatch.setattr(module, "_MOST_PRODUCERS", 2)
    target = KafkaTarget(kafka, topic, partition_rule="key")
    replay_id = prepared(target)
    order = [n for n in range(4) for _ in range(3)]
    random.Random(1).shuffle(order)
    at = Counter[int]()
    with target.open(replay_id) as writer:
        for partition in order:
            start = at[partition] * 10
            at[partition] += 1
            slice_ = Slice("laps", partition, start, start + 10)
            records = [record for record in records_of(slice_) if record.timestamp_ms]
            account = Account(slice_)
            account.read = len(records)
            writer.commit(account, [Records.of(records)])
        with pytest.raises(AlreadyCommitted):
            writer.commit(Account(Slice("laps", order[0], 5, 6)), [])
    written = sum(entry.written for entry in target.entries(replay_id))
    assert written == len(records_in(kafka, topic))
    assert len(target.entries(replay_id)) == 12


if __name__ == "__main__":
    main()
