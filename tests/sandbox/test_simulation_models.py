"""The simulation's models answer as the real servers do, to the same random calls."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import adbc_driver_manager
import psycopg
import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from simulation import statements_ledger, statements_rows
from simulation.choices import Choices
from simulation.database import Database
from simulation.database import Link as ModelLink
from simulation.kafka_clients import Kafka
from simulation.kafka_cluster import Cluster
from simulation.scheduler import Scheduler
from simulation.statements import execute

from playhead.account import Account, ErrorRule
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.host.clock import SystemClock, wait_until
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import GroupMover
from playhead.kafka.groups.describe import committed, described
from playhead.postgres import session
from playhead.postgres.adbc import ArrowConnection
from playhead.postgres.ledger import _TABLE as _LEDGER
from playhead.postgres.statement_connection import StatementConnection
from playhead.postgres.target import PostgresTarget
from playhead.postgres.terms import _TABLE as _REPLAYS
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.target import Inspection
from playhead.testing.fixtures import MakeTopic
from playhead.testing.target_case import terms
from tests.fix_torture import SEED

_SHAPES = (statements_ledger, statements_rows)
_KINDS = {
    "id": "int8",
    "v": "text",
    "_timestamp": "timestamptz",
    "_partition": "int4",
    "_offset": "int8",
}
_NAMES = {_LEDGER: "entries", _REPLAYS: "replays"}
# What says who answers, and what the model leaves to its one user.
_OWN = ("set_config", "pg_control_system", "server_version_num", "CREATE ", "WITH RECURSIVE mine")


class Twin:
    """A link to both; what one answers, the other has to answer, too."""

    def __init__(self, real: Any, base: Database) -> None:
        self._real, self._model = real, ModelLink(base, execute)

    def close(self) -> None:
        self._real.close()
        self._model.close()

    @property
    def is_lost(self) -> bool:
        return self._real.is_lost

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        with self._real.answering_within(seconds):
            yield

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[list[Any], int]:
        real = _answer(lambda: self._real.ask(statement, parameters))
        model = _answer(lambda: self._model.ask(statement, parameters))
        _compare(statement, real, model)
        if isinstance(real, Exception):
            raise real
        return real

    def copy(self, rows: Any, table: str, schema: str | None) -> None:
        real = _answer(lambda: self._real.copy(rows, table, schema))
        model = _answer(lambda: self._model.copy(rows, table, schema))
        _compare(f"COPY {table}", real, model)
        if isinstance(real, Exception):
            raise real


def _answer(call: Any) -> Any:
    try:
        return call()
    except (adbc_driver_manager.Error, psycopg.Error) as exc:
        return exc


def _compare(statement: str, real: Any, model: Any) -> None:
    codes = [getattr(each, "sqlstate", None) for each in (real, model)]
    assert codes[0] == codes[1], f"{statement}: the server says {real!r}, the model {model!r}"
    if codes[0] is not None or real is None or any(own in statement for own in _OWN):
        return
    rows = [sorted(map(repr, map(_plain, each[0]))) for each in (real, model)]
    assert rows[0] == rows[1], f"{statement}: the server says {rows[0]}, the model {rows[1]}"


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without what only people read, and without the names of types in longer words."""
    if len(row) == 3 and isinstance(row[1], str) and len(row[1]) == 5:
        return row[:2]  # offset, SQLSTATE, reason
    if len(row) == 1 and isinstance(row[0], str) and row[0].startswith("{"):
        return ("json",)  # the server writes a JSON in its own order
    return tuple(bool(each) if each in (True, False) else each for each in row)


def _records(draw: random.Random, slice_: Slice) -> list[Record]:
    found = []
    for offset in range(slice_.from_offset, slice_.to_offset):
        record_id = draw.randrange(4)
        value: bytes | None = b'{"id": %d, "v": "%d"}' % (record_id, offset)
        odd = draw.randrange(8)
        if odd == 0:
            value = None
        elif odd == 1:
            value = draw.choice([b"no json", b'{"id": "x", "v": "y"}', b"[1]"])
        time_ms = 1_700_000_000_000 + draw.choice([offset, -offset, 0])
        kind = TimestampType.CREATE_TIME
        found.append(Record("laps", 0, offset, time_ms, kind, b"%d" % record_id, value, ()))
    return found


def _twins(
    sandbox: Endpoints, schema: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Database, str]:
    """A table on the server and its twin in the model, and links to both; some refer to a table of ids."""
    base, name = Database(Scheduler(Choices(given=()))), f"rows{number}"
    key = "id" if number % 2 else "_partition, _offset"
    columns = "id int8, v text, _timestamp timestamptz, _partition int4, _offset int8"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {schema}.{name} ({columns}, PRIMARY KEY ({key}))")
        refers = number % 4 == 0
        if refers:
            connection.execute(f"CREATE TABLE {schema}.ids{number} (id int8 PRIMARY KEY)")
            connection.execute(f"INSERT INTO {schema}.ids{number} VALUES (0), (2), (3)")
            connection.execute(
                f"ALTER TABLE {schema}.{name} ADD FOREIGN KEY (id) REFERENCES {schema}.ids{number} "
                "DEFERRABLE INITIALLY DEFERRED"
            )
        found = connection.execute(f"SELECT '{schema}.{name}'::regclass::oid::int8").fetchone()
        ledger = connection.execute("SELECT to_regclass('playhead_ledger.entries')").fetchone()
    if ledger is not None and ledger[0] is not None:  # an earlier test has made it
        for statement in (_LEDGER, _REPLAYS):
            named = statement.format(table=f'"playhead_ledger"."{_NAMES[statement]}"')
            ModelLink(base, execute).ask(named, ())
    table = base.create((schema, name), dict(_KINDS), tuple(key.split(", ")))
    assert found is not None
    table.oid, table.orphans = found[0], frozenset({1} if refers else ())
    for kind in (ArrowConnection, StatementConnection):
        twin = lambda uri, kind=kind: Twin(kind(uri), base)  # noqa: E731
        monkeypatch.setattr(session, kind.__name__, twin)
    return base, name


def _play(sandbox: Endpoints, schema: str, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    is_keyed = draw.random() < 0.7
    number = 2 * draw.randrange(1_000_000) + is_keyed
    base, name = _twins(sandbox, schema, number, monkeypatch)
    target = PostgresTarget(
        sandbox.database_url,
        f"{schema}.{name}",
        key=("id",) if is_keyed else None,
        on_conflict=draw.choice(["ignore", "update", "newer", "error"]) if is_keyed else None,
        tombstones=draw.choice(["skip", "delete"]) if is_keyed else "skip",
    )
    replay_id = f"r{seed}".replace(":", "-")
    with suppress(PlayheadError):
        target.prepare(replay_id, Inspection(""), terms("laps"))
        with target.open(replay_id) as writer:
            start = 0
            for _ in range(draw.randrange(2, 6)):
                slice_ = Slice("laps", 0, start, start + draw.randrange(1, 9))
                start, records = slice_.to_offset, _records(draw, slice_)
                account = Account(slice_, ErrorRule("skip"))
                account.read = len(records)
                writer.commit(account, [Records.of(records)])
    with psycopg.connect(sandbox.database_url) as connection:
        wanted = connection.execute(f"SELECT id, v, _offset FROM {schema}.{name}").fetchall()
    held = base.tables[schema, name].rows.values()
    assert sorted(wanted) == sorted((each["id"], each["v"], each["_offset"]) for each in held)


@pytest.mark.parametrize("number", range(12))
def test_statements_do_in_the_model_what_they_do_in_postgresql(
    sandbox: Endpoints, schema: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _play(sandbox, schema, f"{SEED}-{number}", monkeypatch)


@pytest.mark.torture
def test_many_statements_do_in_the_model_what_they_do_in_postgresql(
    sandbox: Endpoints, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(400):
        _play(sandbox, schema, f"{SEED}-t{number}", monkeypatch)


# --- Kafka


class Side:
    """One cluster with its clients: the real one, or the model."""

    def __init__(self, topic: str, servers: str, kafka: Kafka | None) -> None:
        self.topic, self._kafka = topic, kafka
        self._base = {"bootstrap.servers": servers, "log_level": 0}
        self._admin = kafka.admin(self._base) if kafka else AdminClient(self._base)
        self._open: dict[str, Any] = {}

    def producer(self, name: str | None) -> Any:
        settings = dict(self._base)
        if name is not None:
            settings |= {"transactional.id": f"{self.topic}-{name}", "linger.ms": 0}
        made = self._kafka.producer(settings) if self._kafka else Producer(settings)
        if name is not None:
            made.init_transactions(30)
        return made

    def do(self, action: str, name: str, records: Sequence[tuple[int, bytes, int]]) -> Any:
        """One step; what it came to."""
        try:
            return getattr(self, f"_{action}")(name, records)
        except KafkaException as exc:
            is_fenced = exc.args[0].code() in (KafkaError._FENCED, KafkaError._STATE)
            return "fenced" if is_fenced or exc.args[0].fatal() else exc.args[0].name()

    def _send(self, producer: Any, records: Sequence[tuple[int, bytes, int]]) -> None:
        for partition, value, time_ms in records:
            producer.produce(self.topic, value, b"k", partition, timestamp=time_ms)
        producer.flush(30)

    def _plain(self, _: str, records: Sequence[tuple[int, bytes, int]]) -> None:
        self._send(self.producer(None), records)

    def _begin(self, name: str, records: Sequence[tuple[int, bytes, int]]) -> None:
        producer = self._open[name] = self.producer(name)
        producer.begin_transaction()
        self._send(producer, records)

    def _commit(self, name: str, _: object) -> None:
        if name in self._open:
            self._open.pop(name).commit_transaction(30)

    def _abort(self, name: str, _: object) -> None:
        if name in self._open:
            self._open.pop(name).abort_transaction(30)

    def _fence(self, name: str, _: object) -> None:
        """A later producer of the same id; the earlier one is left to find out."""
        self.producer(name)

    def ends(self, isolation: Any) -> list[int]:
        return self._offsets(OffsetSpec.latest(), isolation)

    def at(self, time_ms: int) -> list[int]:
        return self._offsets(OffsetSpec.for_timestamp(time_ms), IsolationLevel.READ_COMMITTED)

    def _offsets(self, spec: Any, isolation: Any) -> list[int]:
        wanted = {TopicPartition(self.topic, number): spec for number in range(2)}
        found = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=30)
        return [int(found[place].result(30).offset) for place in wanted]

    def read(self, partition: int, start: int, isolation: str) -> list[Any]:
        """All that comes up to the end that is told, and that end."""
        settings = self._base | {
            "group.id": "twins",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        consumer = self._kafka.consumer(settings) if self._kafka else Consumer(settings)
        consumer.assign([TopicPartition(self.topic, partition, start)])
        found: list[Any] = []
        for _ in range(100):
            for each in consumer.consume(100, 0.2):
                if each.error() is not None:
                    consumer.close()
                    return [*found, (each.error().name(), each.offset())]
                found.append((each.offset(), each.key(), each.value(), each.timestamp()[1]))
        raise AssertionError(f"no end from {start}: {found}, model: {self._kafka is not None}")


def _steps(draw: random.Random) -> Iterator[tuple[str, str, list[tuple[int, bytes, int]]]]:
    for number in range(draw.randrange(6, 12)):
        action = draw.choice(["plain", "begin", "begin", "commit", "commit", "abort", "fence"])
        records = [
            (
                draw.randrange(2),
                b"%d-%d" % (number, n),
                1_700_000_000_000 + draw.randrange(9) * 1_000,
            )
            for n in range(draw.randrange(1, 4))
        ]
        yield action, draw.choice("ab"), records


def _play_kafka(kafka: KafkaConnection, topic: str, seed: str) -> None:
    draw = random.Random(seed)
    cluster = Cluster()
    cluster.create(topic, 2)
    model = Kafka(cluster, Scheduler(Choices(given=())))
    real = Side(topic, kafka.bootstrap_servers or "", None)
    ours = Side(topic, "model", model)
    for action, name, records in _steps(draw):
        told = real.do(action, name, records), ours.do(action, name, records)
        assert told[0] == told[1], (
            f"{action} {name}: the broker says {told[0]}, the model {told[1]}"
        )
        for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            # Markers come a little after the answer.
            wait_until(
                lambda level=isolation: real.ends(level) == ours.ends(level),
                deadline_s=10,
                clock=SystemClock(),
                every_s=0.05,
            )
            assert real.ends(isolation) == ours.ends(isolation), (action, name, isolation)
    for time_ms in range(1_700_000_000_000, 1_700_000_010_000, 1_000):
        assert real.at(time_ms) == ours.at(time_ms), time_ms
    ends = ours.ends(IsolationLevel.READ_UNCOMMITTED)
    for partition in range(2):
        for isolation in ("read_committed", "read_uncommitted"):
            # Behind the last stable offset a client waits, and says nothing.
            stable = ours.ends(IsolationLevel.READ_COMMITTED)[partition]
            start = draw.choice([*range(stable + 1), ends[partition] + 1])
            for at in (0, start):
                found = real.read(partition, at, isolation), ours.read(partition, at, isolation)
                assert found[0] == found[1], (partition, at, isolation)


@pytest.mark.parametrize("number", range(2))
def test_the_model_cluster_answers_as_a_broker_does(
    kafka: KafkaConnection, make_topic: MakeTopic, number: int
) -> None:
    _play_kafka(kafka, make_topic(partitions=2), f"{SEED}-{number}")


def _group_moves(connection: KafkaConnection, topic: str) -> list[Any]:
    """What is said of a live pipeline's group before and after it moves."""
    name = f"group-{topic}"
    mover, found = GroupMover(connection, name), []
    for offsets in ({}, {(topic, 0): 3}, {(topic, 0): 5, (topic, 1): 2}):
        if offsets:
            mover.move(offsets)
        with Admin(connection) as admin:
            group = described(admin, [name])[name]
            at = {place: each.offset for place, each in committed(admin, name).items()}
            found.append((group.state, group.is_idle, len(group.members), at))
    mover.close()
    return found


def test_a_group_moves_in_the_model_as_at_a_broker(
    kafka: KafkaConnection, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=2)
    real = _group_moves(kafka, topic)
    model = Kafka(Cluster(), Scheduler(Choices(given=())))
    model.cluster.create(topic, 2)
    monkeypatch.setattr(clients, "make_consumer", model.consumer)
    monkeypatch.setattr(clients, "make_admin", model.admin)
    assert _group_moves(kafka, topic) == real


@pytest.mark.torture
def test_the_model_cluster_answers_as_a_broker_does_for_long(
    kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    for number in range(30):
        _play_kafka(kafka, make_topic(partitions=2), f"{SEED}-t{number}")
