"""Records of one slice that die at several moments: each lies among the dead letters once, and none is left out."""

import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from playhead.account import Account, DeadLetter, ErrorRule, WriteDeadLetters
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.faults import Aborted
from playhead.kafka.write.dead_letters import DeadLetterTopic
from playhead.kafka.write.ledger_keys import (
    LEDGER_TOPIC,
    burial_id,
    former_burial_id,
    former_transactional_id,
    key_of,
    new_writer,
    transactional_id,
)
from playhead.kafka.write.target import KafkaTarget
from playhead.kafka.write.transactions import Transactions
from playhead.ledger import Entry
from playhead.proof import prove
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest, InUse
from playhead.testing.target_case import terms
from tests.fix_topics import records_in
from tests.sandbox.postgres_table import REPLAY, Table, account_of, records
from tests.unit.replaying import partition_plan, plan_of

WHOLE = Slice("laps", 0, 0, 30)


def record(offset: int) -> Record:
    kind = TimestampType.CREATE_TIME
    return Record("laps", 0, offset, 1_000 + offset, kind, b"k", b"%d" % offset)


def letters(*offsets: int) -> list[DeadLetter]:
    return [DeadLetter(record(each), "type", "no") for each in offsets]


def buried(kafka: KafkaConnection, topic: str) -> list[int]:
    return [
        int(dict(each.headers)["__playhead.errors.offset"] or b"")
        for each in records_in(kafka, topic)
    ]


def new_id() -> str:
    return uuid.uuid4().hex[:8]


# --- the dead-letter topic alone -----------------------------------------------------------------


def test_each_moment_buries_who_is_not_buried_yet(kafka: KafkaConnection, topic: str) -> None:
    with DeadLetterTopic(kafka, topic).open(new_id()) as write_dead_letters:
        assert write_dead_letters(WHOLE, []) == 0
        assert write_dead_letters(WHOLE, letters(3)) == 0
        assert write_dead_letters(WHOLE, letters(3, 20)) == 0
        assert write_dead_letters(Slice("laps", 0, 10, 25), letters(12)) == 1, (
            "20, which is not dead any more"
        )
        assert write_dead_letters(WHOLE, letters(12)) == 2
        assert write_dead_letters(WHOLE, []) == 3
    assert buried(kafka, topic) == [3, 20, 12]


def test_a_later_run_knows_who_was_buried_however_it_cuts(
    kafka: KafkaConnection, topic: str
) -> None:
    replay_id, dead_letters = new_id(), DeadLetterTopic(kafka, topic)
    with dead_letters.open(replay_id) as write_dead_letters:
        write_dead_letters(Slice("laps", 0, 0, 20), letters(*range(0, 20, 3)))
    with dead_letters.open(replay_id) as write_dead_letters:
        assert write_dead_letters(Slice("laps", 0, 0, 10), []) == 4
        assert write_dead_letters(Slice("laps", 0, 10, 30), letters(12, 13, 29)) == 2
    assert buried(kafka, topic) == [*range(0, 20, 3), 13, 29]


@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
def test_a_burial_whose_answer_is_lost(
    kafka: KafkaConnection, topic: str, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_id, dead_letters = new_id(), DeadLetterTopic(kafka, topic)
    real = Transactions.commit

    def losing(self: Transactions) -> None:
        if cut == "after the commit":
            real(self)
        self.is_lost = True
        raise Aborted(cut)

    with dead_letters.open(replay_id) as write_dead_letters:
        monkeypatch.setattr(Transactions, "commit", losing)
        with pytest.raises(Aborted):
            write_dead_letters(WHOLE, letters(3))
        monkeypatch.undo()
        assert write_dead_letters(WHOLE, letters(3, 4)) == 0
    assert sorted(buried(kafka, topic)) == [3, 4]


def test_what_the_version_before_has_buried(kafka: KafkaConnection, topic: str) -> None:
    replay_id = new_id()
    with DeadLetterTopic(kafka, topic).open(new_id()):
        pass
    former_id = former_burial_id(replay_id)
    old = Transactions(kafka, former_id, former_transactional_id(former_id, ("laps", 0)))
    map_ = {"topics": [topic], "offsets": [[3, 0, 0, 2]], "ends": [[0, 0, 1, 2]], "exact": True}
    entry = Entry(Slice("laps", 0, 0, 20), 2, 2, details=map_)
    old.begin()
    old.note(LEDGER_TOPIC, f"{former_id}|laps|0|0".encode(), entry.as_json().encode())
    old.commit()
    with DeadLetterTopic(kafka, topic).open(replay_id) as write_dead_letters:
        assert write_dead_letters(WHOLE, letters(3, 5)) == 1, "4 was buried"
    assert buried(kafka, topic) == [5]
    old.close()


def test_a_replay_that_is_called_as_burials_were_has_nothing_to_do_with_them(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    replay_id, dlq = new_id(), make_topic()
    other, target = former_burial_id(replay_id), KafkaTarget(kafka, make_topic())
    prepare(target, other)
    with target.open(other) as writer:
        account = Account(Slice("laps", 0, 0, 30))
        account.read = 30
        writer.commit(account, [Records.of([record(at) for at in range(30)])])
    with DeadLetterTopic(kafka, dlq).open(replay_id) as write_dead_letters:
        assert write_dead_letters(WHOLE, letters(3)) == 0
    assert buried(kafka, dlq) == [3]
    assert [each.slice for each in target.entries(other)] == [Slice("laps", 0, 0, 30)]


def test_more_dead_letters_than_an_entry_could_list(kafka: KafkaConnection, topic: str) -> None:
    replay_id, whole = new_id(), Slice("laps", 0, 0, 60_000)
    with DeadLetterTopic(kafka, topic).open(replay_id) as write_dead_letters:
        write_dead_letters(whole, letters(*range(0, 20_000, 2)))
    with DeadLetterTopic(kafka, topic).open(replay_id) as write_dead_letters:
        assert write_dead_letters(whole, letters(*range(0, 20_000, 2), 1)) == 0
    assert len(buried(kafka, topic)) == 10_001


# --- with targets -------------------------------------------------------------------------------


@dataclass
class Looked:
    """Buries, and remembers at how many moments."""

    write_dead_letters: WriteDeadLetters
    moments: list[list[int]] = field(default_factory=list)

    def __call__(self, slice_: Slice, found: Sequence[DeadLetter]) -> int | None:
        self.moments.append([each.record.offset for each in found])
        return self.write_dead_letters(slice_, found)


def test_a_tombstone_and_a_key_that_only_the_commit_refuses(
    kafka: KafkaConnection, sandbox: Endpoints, schema: str, topic: str
) -> None:
    """The tombstone is found while reading; the foreign key when the first way was committed."""
    columns = (
        "_offset int8, id int PRIMARY KEY, up int, "
        f'FOREIGN KEY (up) REFERENCES "{schema}".cars DEFERRABLE INITIALLY DEFERRED'
    )
    table = Table.made(sandbox.database_url, schema, columns)
    rows = records({"id": 1}, None, {"id": 2, "up": 9}, {"id": 3, "up": 1})
    with DeadLetterTopic(kafka, topic).open(new_id()) as write_dead_letters:
        looked = Looked(write_dead_letters)
        entry = table.commit(rows, rule=f"dlq:{topic}", write_dead_letters=looked)
    assert looked.moments == [[1], [1, 2]]
    assert buried(kafka, topic) == [1, 2]
    assert (entry.written, entry.dead) == (2, 2)
    assert table.column("id") == [1, 3]


def test_who_was_buried_and_is_written_after_all_is_counted(
    kafka: KafkaConnection, sandbox: Endpoints, schema: str, topic: str
) -> None:
    """A run dies between burying and its commit, and the constraint is dropped before the next one."""
    columns = "_offset int8, v int CONSTRAINT small CHECK (v < 10)"
    table = Table.made(sandbox.database_url, schema, columns)
    rows = records({"v": 1}, {"v": 20}, {"v": 30}, {"v": "x"})

    def dying(slice_: Slice, found: Sequence[DeadLetter]) -> None:
        with DeadLetterTopic(kafka, topic).open(REPLAY + topic) as write_dead_letters:
            write_dead_letters(slice_, found)
        raise Aborted("died")

    account = account_of(Slice("cars", 0, 0, 4), rows, f"dlq:{topic}", dying)
    with table.target.open(REPLAY) as writer, pytest.raises(Aborted):
        writer.commit(account, [Records.of(rows)])
    assert buried(kafka, topic) == [1, 2, 3]
    table.run("ALTER TABLE {table} DROP CONSTRAINT small")
    with DeadLetterTopic(kafka, topic).open(REPLAY + topic) as write_dead_letters:
        entry = table.commit(rows, rule=f"dlq:{topic}", write_dead_letters=write_dead_letters)
    assert (entry.written, entry.dead, entry.details["also_buried"]) == (3, 1, 2)
    assert buried(kafka, topic) == [1, 2, 3]
    [note] = [
        note
        for note in prove(plan_of(partition_plan(0, 4)), [entry]).notes
        if note.code == "also-buried"
    ]
    assert note.text.startswith("2 records in the dead-letter topic were also written")


def test_a_refusal_of_a_way_that_was_undone_is_none(
    kafka: KafkaConnection,
    sandbox: Endpoints,
    schema: str,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that meet others go apart first; when that fails at the end, the stage judges anew."""
    from playhead.postgres import writer as module

    table = Table.made(
        sandbox.database_url,
        schema,
        "_offset int8, id int PRIMARY KEY, v int",
        on_conflict="update",
    )
    table.run(f'CREATE TABLE "{schema}".strict AS SELECT 1')
    table.run(
        f'CREATE FUNCTION "{schema}".fits(int) RETURNS bool LANGUAGE sql AS '
        f"'SELECT $1 < 10 OR NOT EXISTS (SELECT FROM \"{schema}\".strict)'"
    )
    table.run(f'ALTER TABLE {{table}} ADD CHECK ("{schema}".fits(v))')
    table.commit(records({"id": 1, "v": 1}, {"id": 2, "v": 2}))
    real, undone = module.PostgresWriter._apart, []

    def refusing(self, table_, decoded, account: Account, details) -> None:
        account.close(details)
        undone.append(account.refused_offsets)
        # What the commit refuses is somebody's value, and the stage finds out whose.
        self._session.run("SELECT 1/0")

    def apart(self, table_, decoded, account: Account, stage) -> None:
        monkeypatch.setattr(module.PostgresWriter, "_close", refusing)
        try:
            real(self, table_, decoded, account, stage)
        finally:
            monkeypatch.setattr(module.PostgresWriter, "_close", close)
            table.run(f'DELETE FROM "{schema}".strict')

    close = module.PostgresWriter._close
    monkeypatch.setattr(module.PostgresWriter, "_apart", apart)
    values = [{"id": n, "v": 50 if n == 2 else 5} for n in range(1, 7)]
    with DeadLetterTopic(kafka, topic).open(new_id()) as write_dead_letters:
        entry = table.commit(
            records(*values, start=10), rule=f"dlq:{topic}", write_dead_letters=write_dead_letters
        )
    assert undone == [frozenset({11})], "the way apart was tried, and has refused"
    assert (entry.written, entry.dead, entry.details["also_buried"]) == (6, 0, 1)
    assert buried(kafka, topic) == [11]
    assert [v for _, v in table.rows("id, v")] == [5, 50, 5, 5, 5, 5]


def prepare(target: KafkaTarget, replay_id: str) -> None:
    look = InspectRequest(SourceFacts("elsewhere", {"laps": TopicFacts()}), {"laps": 1}, [])
    target.prepare(replay_id, target.inspect(look), terms(*look.partitions))


def test_a_topic_that_refuses_more_at_the_second_attempt(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    """What cannot be sent is known at once; what the broker refuses when the transaction is flushed."""
    topic, dlq, replay_id = make_topic(max_message_bytes="2000"), make_topic(), new_id()
    target = KafkaTarget(kafka, topic)
    prepare(target, replay_id)
    odd = [record(at) for at in range(10)]
    kind = TimestampType.CREATE_TIME
    odd[4] = Record("laps", 0, 4, 0, kind, b"k", b"a time that no client can send")
    odd[7] = Record("laps", 0, 7, 1_007, kind, b"k", os.urandom(16_000))
    with (
        DeadLetterTopic(kafka, dlq).open(replay_id) as write_dead_letters,
        target.open(replay_id) as writer,
    ):
        account = Account(
            Slice("laps", 0, 0, 10), ErrorRule.parse(f"dlq:{dlq}"), write_dead_letters
        )
        account.read = 10
        writer.commit(account, [Records.of(odd)])
    [entry] = target.entries(replay_id)
    assert (entry.written, entry.dead) == (8, 2)
    assert sorted(buried(kafka, dlq)) == [4, 7]


def test_a_burial_that_a_dead_run_has_left_open_is_not_waited_for(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    replay_id, dlq = new_id(), make_topic()
    with DeadLetterTopic(kafka, dlq).open(replay_id) as write_dead_letters:
        write_dead_letters(WHOLE, letters(3))
    own_id = burial_id(replay_id)
    dead = Transactions(kafka, own_id, transactional_id(own_id, ("laps", 0)))
    dead.begin()
    dead.note(dlq, b"k", b"never committed")
    dead.note(LEDGER_TOPIC, key_of(own_id, WHOLE, new_writer()), b"never committed")
    dead.flush()
    began = time.monotonic()
    with DeadLetterTopic(kafka, dlq).open(replay_id) as write_dead_letters:
        assert write_dead_letters(WHOLE, []) == 1
        assert write_dead_letters(WHOLE, letters(3, 4)) == 0
    assert time.monotonic() - began < 20
    with pytest.raises(InUse):
        dead.commit()
    dead.close()
    assert buried(kafka, dlq) == [3, 4]


def test_holding_a_replay_ends_its_burials_and_no_stranger_of_that_name(
    kafka: KafkaConnection, topic: str
) -> None:
    replay_id = new_id()
    target = KafkaTarget(kafka, topic)
    prepare(target, replay_id)
    own, stranger = burial_id(replay_id), former_burial_id(replay_id)
    open_ones = []
    for each in (own, stranger):
        left = Transactions(kafka, each, transactional_id(each, ("laps", 0)))
        left.begin()
        left.note(LEDGER_TOPIC, key_of(each, WHOLE, new_writer()), b"never committed")
        left.flush()
        open_ones.append(left)
    with target.hold(replay_id):
        pass
    with pytest.raises(InUse):
        open_ones[0].commit()
    open_ones[1].abort()
    for each in open_ones:
        each.close()
