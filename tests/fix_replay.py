"""Whole replays between real ends: tapes to play, decks to play them on, and looks at what came of it."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from playhead.config.context import Configuration, configure
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.record import Record, TimestampType
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.request import Request
from playhead.sandbox import Endpoints
from tests.fix_environment import processes_that_mention
from tests.fix_topics import content, records_in, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0_MS = 1_628_080_200_000
"""2021-08-04T12:30, when the first lap of every tape begins."""
SMALL_SLICES = "PLAYHEAD_SLICE_RECORDS"
_FOREVER = str(2**62)
# The start-up cache's training outlives its command by design.
_TRAINING = ("playhead.replay.engine_warmup", "AOTCacheOutput", "AOTConfiguration")


def lap(number: int, topic: str, partitions: int) -> Record:
    """One of a race: a car's number is its partition's, and time goes on by a second."""
    document = {"car": f"car-{number % 5}", "seq": number, "speed": 200 + number % 97 / 4}
    return Record(
        topic,
        number % partitions,
        number // partitions,
        T0_MS + 1000 * number,
        TimestampType.CREATE_TIME,
        b"car-%d" % (number % 5),
        json.dumps(document).encode(),
        (("lap", b"%d" % number),),
    )


def new_name(what: str) -> str:
    return f"{what}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


@dataclass
class Deck:
    """The run's servers, and the replays between them."""

    connection: KafkaConnection
    database_url: str
    schema: str = ""

    def environment(self) -> dict[str, str]:
        """What leads a command to the servers."""
        servers = str(self.connection.bootstrap_servers)
        return {"KAFKA_BOOTSTRAP_SERVERS": servers, "DATABASE_URL": self.database_url}

    def configuration(self) -> Configuration:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            return configure({})

    # --- tapes

    def topic(self, what: str = "tape", partitions: int = 1, **settings: str) -> str:
        name = new_name(what)
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        with Admin(self.connection) as admin:
            admin.create_topic(name, partitions=partitions, settings=dotted)
        return name

    def laps(self, count: int, partitions: int = 1, what: str = "laps") -> str:
        """A topic with so many laps."""
        topic = self.topic(what, partitions)
        self.write([lap(number, topic, partitions) for number in range(count)])
        return topic

    def write(self, records: Sequence[Record]) -> None:
        write(self.connection, records)

    def admin(self) -> Admin:
        return Admin(self.connection)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        with Admin(self.connection) as admin, admin.asking("deleting records") as client:
            asked = client.delete_records([TopicPartition(topic, partition, offset)])
            for answer in asked.values():
                answer.result(30)

    def records(self, *topics: str) -> list[Record]:
        return records_in(self.connection, *topics)

    # --- tables

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            done = connection.execute(statement, values or None)
            return done.fetchall() if done.description else []

    def table(self, columns: str, name: str = "laps") -> str:
        """Makes one; gives its whole name."""
        whole = f"{self.schema}.{name}"
        self.sql(f'CREATE TABLE "{self.schema}"."{name}" ({columns})')
        return whole

    def rows(self, table: str, columns: str = "*", rest: str = "") -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT {columns} FROM {table} {rest}")

    # --- replays

    def plan(
        self, source: str, target: str, *, replay_id: str | None = None, **asked: Any
    ) -> Planned:
        request = Request(source=source, target=target, **asked)
        return api.plan(request, self.configuration(), replay_id=replay_id)

    def play(self, source: str, target: str, **asked: Any) -> Proof:
        """Plan it and run it; the law of accounting holds, or this fails."""
        return ran(self.plan(source, target, **asked))

    def play_again(self, planned: Plan) -> Proof:
        return ran(api.planned(planned, self.configuration()))


def ran(planned: Planned, **more: Any) -> Proof:
    """The proof of a run that adds up."""
    proof = planned.run(**more)
    is_lawful(proof, planned.plan)
    assert proof.adds_up, proof.verdict()
    return proof


def is_lawful(proof: Proof, plan: Plan) -> None:
    """planned = written + filtered + outside + dead + skipped + absent + unexplained + missing, for each partition."""
    places = {(each.topic, each.partition): each for each in proof.partitions}
    assert set(places) == {each.place for each in plan.partitions}
    for each in proof.partitions:
        parts = (each.written, each.filtered, each.outside, each.dead, each.skipped)
        assert each.planned == sum(parts) + each.absent + each.unexplained + each.missing, each
        assert min(*parts, each.absent, each.missing) >= 0, each
    assert proof.total("planned") == plan.planned


def totals(proof: Proof) -> dict[str, int]:
    """What is not 0 of the proof's sums."""
    document = proof.as_document()["totals"]
    return {name: count for name, count in document.items() if count and name != "planned"}


def contents(records: Iterable[Record]) -> list[Any]:
    """What they carry, partition by partition, in the order of their offsets."""
    return [(each.partition, *content(each)) for each in records]


def moved(records: Iterable[Record], **changes: Any) -> list[Record]:
    return [replace(each, **changes) for each in records]


@contextmanager
def small_slices(records: int) -> Iterator[None]:
    """Slices of so few records, for runs of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SMALL_SLICES, str(records))
        yield


@pytest.fixture(scope="session")
def servers(sandbox: Endpoints) -> Deck:
    """A deck without an engine and without a schema."""
    return Deck(KafkaConnection(sandbox.bootstrap_servers), sandbox.database_url)


@pytest.fixture
def deck(servers: Deck, spark: "SparkSession", schema: str) -> Deck:
    """Plays in this process, with the run's one session."""
    return replace(servers, schema=schema)


@pytest.fixture(scope="session")
def laps(servers: Deck) -> str:
    """A topic of 60 laps on 3 partitions; nobody writes to it."""
    return servers.laps(60, 3)


@pytest.fixture(scope="session")
def oddities(servers: Deck) -> str:
    """A topic with everything that is allowed and rare; nobody writes to it."""
    topic = servers.topic("oddities", 2, **ODD_SETTINGS)
    servers.write(odd_records(topic))
    return topic


ODD_SETTINGS = {
    "max_message_bytes": "5000000",
    "message_timestamp_after_max_ms": _FOREVER,
    "message_timestamp_before_max_ms": _FOREVER,
}


def odd_records(topic: str) -> list[Record]:
    kind = TimestampType.CREATE_TIME
    many = tuple((f"name-{n % 7}", None if n % 5 == 0 else b"%d" % n) for n in range(1_000))
    rows: list[tuple[int, bytes | None, bytes | None, Any]] = [
        (T0_MS, b"k", b"v", ()),
        (T0_MS, None, b"no key", ()),
        (T0_MS, b"", b"", ()),
        (T0_MS - 5_000, b"tombstone", None, ()),
        (T0_MS + 5, None, None, ()),
        (1, b"the first of all times", b"\x00\xff\xfe", ()),
        (4_102_444_800_000, b"in the year 2100", "ümläut \U0001f600".encode(), ()),
        (
            T0_MS,
            b"\x00\x80",
            b'{"a": 1}\n{"b": 2}\r\n,";',
            (("", b""), ("a", None), ("a", b"\xff")),
        ),
        (T0_MS, b"headers", b"h", many),
        (T0_MS, b"large", bytes(range(256)) * 4_000, ()),
    ]
    return [
        Record(topic, number % 2, number // 2, stamp, kind, key, value, headers)
        for number, (stamp, key, value, headers) in enumerate(rows)
    ]


def within(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait until it holds; fails at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


# --- replays as processes of their own


@dataclass
class End:
    """A target of its own, and what has come to it: the laps' numbers, in order, as often as they are there."""

    text: str
    options: tuple[str, ...]
    numbers: Callable[[], list[int]]


def end_of(deck: Deck, kind: str, folder: Any, partitions: int = 2) -> End:
    if kind == "kafka":
        copy = deck.topic("copy", partitions)
        return End(f"kafka:{copy}", (), lambda: _numbers(deck.records(copy)))
    if kind == "postgres":
        # Without a key: what came twice would be there twice.
        table = deck.table("car text, seq int, speed float8", new_name("t").replace("-", "_"))
        return End(f"postgres:{table}", (), lambda: _column(deck, table))
    if kind in ("staged", "apart"):
        table = deck.table("seq int PRIMARY KEY, car text", new_name("s").replace("-", "_"))
        # So that each slice meets as many rows that are there as sends it on that way.
        every = 1 if kind == "staged" else 5
        deck.sql(f"INSERT INTO {table} SELECT n, 'old' FROM generate_series(0, 20000, {every}) n")
        return End(
            f"postgres:{table}",
            ("--on-conflict", "update"),
            lambda: [n for (n,) in deck.rows(table, "seq", "WHERE car <> 'old' ORDER BY 1")],
        )
    from tests.fix_archives import everything

    root = str(folder / new_name("archive"))
    return End(f"{kind}:{root}", (), lambda: _numbers(everything(root, kind)))


def _numbers(records: Iterable[Record]) -> list[int]:
    return sorted(json.loads(each.value or b"")["seq"] for each in records)


def _column(deck: Deck, table: str) -> list[int]:
    return [n for (n,) in deck.rows(table, "seq", "ORDER BY 1")]


@dataclass
class Performance:
    """One replay of a tape into an end, run and resumed by real commands."""

    deck: Deck
    topic: str
    count: int
    end: End
    replay_id: str
    start_playhead: Callable[..., "subprocess.Popen[str]"]
    slice_records: int = 100

    def environment(self) -> dict[str, str]:
        own = {SMALL_SLICES: str(self.slice_records), "PLAYHEAD_TEST_RUN": self.replay_id}
        return self.deck.environment() | own

    def start(self, *more: str, **environment: str) -> "subprocess.Popen[str]":
        """`playhead replay`, left running; all that it starts carries the replay's id around."""
        words = ("replay", f"kafka:{self.topic}", self.end.text, *self.end.options, *more)
        given = self.environment() | environment
        return self.start_playhead(*words, "--yes", "--id", self.replay_id, "-o", "json", **given)

    def resume(self, **environment: str) -> "subprocess.Popen[str]":
        words = ("resume", self.replay_id, "--yes", "-o", "json")
        return self.start_playhead(*words, **(self.environment() | environment))

    def finish(self, **environment: str) -> dict[str, Any]:
        """Resume to the end: everything is there once, and the proof says so."""
        done = ended(self.resume(**environment))
        assert done.code == 0, done.err
        proof: dict[str, Any] = json.loads(done.out)
        self.is_whole(proof)
        return proof

    def is_whole(self, proof: dict[str, Any]) -> None:
        assert proof["adds_up"], proof["verdict"]
        counts = {name: count for name, count in proof["totals"].items() if count}
        absent = counts.pop("absent", 0)
        assert counts == {"planned": self.count + absent, "written": self.count}, proof["verdict"]
        assert self.end.numbers() == [*range(self.count)]

    def processes(self) -> dict[int, str]:
        """All that this replay has running."""
        return {
            pid: text
            for pid, text in processes_that_mention(self.replay_id).items()
            if not any(word in text for word in _TRAINING)
        }

    def carried_on(self, command: "subprocess.Popen[str]", *, seconds: float = 150.0) -> "Ended":
        """Wake whoever stops at a point, each worker by itself, until the command ends."""

        def has_ended() -> bool:
            self.wake()
            return command.poll() is not None

        within(has_ended, seconds=seconds, what="it ends when all are awake")
        return ended(command)

    def wake(self) -> None:
        for pid in self.processes():
            if has_stopped(pid):
                os.kill(pid, signal.SIGCONT)

    def are_gone(self, *, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while left := self.processes():
            if time.monotonic() > deadline:
                doing = "\n".join(f"{text[:150]}\n{doing_now(pid)}" for pid, text in left.items())
                raise AssertionError(f"still there after {seconds:g} s:\n{doing}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Driver, engine and workers at once."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.are_gone()

    def comes_to(
        self, part: float, *, seconds: float = 60.0, command: "subprocess.Popen[str] | None" = None
    ) -> None:
        """Wait until so much of it is in the target, or until the command ends."""

        def is_there() -> bool:
            has_ended = command is not None and command.poll() is not None
            return has_ended or len(self.end.numbers()) >= part * self.count

        within(is_there, seconds=seconds, what=f"{part:.0%} of the records are there")


def has_stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return _stat(pid)[:1] == ["T"]


def doing_now(pid: int) -> str:
    """Return the state of a process, and what an engine writes of its threads when it is asked."""
    with suppress(OSError):
        output = Path(f"/proc/{pid}/fd/1").readlink()
        if output.name.startswith("engine-"):
            before = output.stat().st_size
            os.kill(pid, signal.SIGQUIT)
            time.sleep(2)
            return output.read_bytes()[before:].decode("utf-8", "replace")
    return " ".join(_stat(pid)[:1])


def parent_of(pid: int) -> int:
    """0 for one that has gone."""
    found = _stat(pid)
    return int(found[1]) if found else 0


def _stat(pid: int) -> list[str]:
    """State, parent and so on; nothing of a process that has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def ended(process: "subprocess.Popen[str]", *, seconds: float = 150.0) -> Ended:
    """Waits for a command; one that hangs is killed, and that is a failure."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"no end within {seconds:g} s: {err}")
    return Ended(process.returncode, out, err)


@pytest.fixture
def perform(
    servers: Deck,
    schema: str,
    tmp_path: Path,
    start_playhead: Callable[..., "subprocess.Popen[str]"],
) -> Iterator[Callable[..., Performance]]:
    """Makes performances; what they leave running is killed at the end."""
    made: list[Performance] = []
    own = replace(servers, schema=schema)

    def make(
        kind: str, topic: str, count: int, *, slice_records: int = 100, deck: Deck = own
    ) -> Performance:
        end = end_of(own, kind, tmp_path)
        name = new_name(kind)
        made.append(Performance(deck, topic, count, end, name, start_playhead, slice_records))
        return made[-1]

    yield make
    for each in made:
        each.kill()


LONG_TAPE = 2_000


@pytest.fixture(scope="session")
def long_tape(servers: Deck) -> str:
    """A topic of `LONG_TAPE` laps on 2 partitions; nobody writes to it."""
    return servers.laps(LONG_TAPE, 2, "long")
