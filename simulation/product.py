"""The product's modules, wired to the models instead of to servers, threads and clocks."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from psycopg import conninfo

import playhead.kafka.read.log_heads
import playhead.kafka.read.record_decoder
import playhead.kafka.read.source
import playhead.kafka.read.unreadable
import playhead.kafka.write.dead_letters
import playhead.kafka.write.target
import playhead.live.round_loop
import playhead.postgres.rows.arrow_json
import playhead.postgres.session
import playhead.postgres.target
import playhead.replay.api
import playhead.replay.journal
import playhead.replay.partition_work
import playhead.replay.planner
import playhead.replay.runner
import playhead.replay.verify
import playhead.task.play
import playhead.task.round
import playhead.task.slicer
from playhead import secrets
from playhead.config.context import Configuration
from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import Endpoint
from playhead.kafka.admin import clients, offsets
from playhead.kafka.write import ledger_keys
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.replay.journal import Journal as RealJournal
from playhead.request import Request
from playhead.target import InUse
from playhead.terms import Terms
from simulation import cases, lighten, statements_ledger, statements_rows, threads
from simulation.kafka_log_heads import LogHeads
from simulation.scheduler import Killed, Process
from simulation.statements import of_session

_SHAPES = (statements_ledger, statements_rows)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def wire() -> None:
    """Once for this process: no thread, no clock, no server is real from now on."""
    threads.put_in()
    told = playhead.live.backoff.RepeatedNotice.__init__
    told.__defaults__ = (threads.TIME.monotonic,)
    playhead.task.play.keep_memory = playhead.task.play.give_back = lambda: None  # type: ignore[assignment]
    playhead.task.play.seldom_collecting = _nothing
    playhead.task.round.keep_memory = lambda: None
    playhead.task.round.seldom_collecting = _nothing
    playhead.kafka.read.source.sizes_at_leaders = lambda _, described: {  # type: ignore[assignment]
        name: {} for name in described
    }
    KafkaConnection.for_librdkafka = lambda self, role=None: dict(_settings(self.bootstrap_servers))  # type: ignore[method-assign]
    for module in (playhead.kafka.read.unreadable, playhead.kafka.read.record_decoder):
        module.MOST_OF_A_RECORD = cases.LARGEST  # type: ignore[attr-defined]
    _lighten()
    # What a dead process leaves behind is closed when it is collected, and has nobody to tell.
    sys.unraisablehook = lambda _: None


def _lighten() -> None:
    """The same answers at less cost: a schedule takes milliseconds, and asks the same things often."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    playhead.postgres.rows.arrow_json._SMALLEST_BLOCK = 1 << 12
    session: Any = playhead.postgres.session
    server: Any = playhead.postgres.server
    parse, make = lru_cache(conninfo.conninfo_to_dict), conninfo.make_conninfo
    session.conninfo = server.conninfo = SimpleNamespace(
        conninfo_to_dict=lambda text: dict(parse(text)),
        make_conninfo=lru_cache(make),
    )
    playhead.postgres.rows.arrow_json.pj = SimpleNamespace(
        read_json=_read_json, ReadOptions=lambda **_: None, ParseOptions=lambda **named: named
    )
    for name, module in list(sys.modules.items()):
        if name.startswith("playhead.") and module.__dict__.get("json") is json:
            module.json = lighten.JSON  # type: ignore[attr-defined]
    # Whom it would warn that nothing is encrypted is not here.
    clients._warn = lambda _: None
    lighten.keep(Plan, "as_document", "as_json", "digest")
    lighten.keep(Request, "said", "as_document")
    lighten.keep(Configuration, "kafka")
    lighten.remember(Plan, "from_json")
    lighten.remember(Terms, "from_json")
    lighten.remember(Entry, "from_json")
    lighten.remember(Endpoint, "parse")
    # Nobody names a server by the environment here.
    lighten.remember(server, "checked")
    lighten.remember(secrets, "passwords_in", "without_password")
    lighten.remember(offsets, "_description", "check_topic")
    lighten.remember(ledger_keys, "terms_key", "names_key", "parsed", "prefix_of")


def _read_json(held: Any, read_options: Any, parse_options: Any) -> Any:
    """What Arrow's reader gives for the few types of the tables here; its start takes longer than a schedule."""
    columns: dict[str, list[Any]] = {each.name: [] for each in parse_options["explicit_schema"]}
    for line in held.read().split(b"\n"):
        try:
            document = json.loads(line)
        except ValueError as exc:
            raise pa.ArrowInvalid(str(exc)) from exc
        if not isinstance(document, dict):
            raise pa.ArrowInvalid("no object")
        for name, values in columns.items():
            values.append(document.get(name))
    return pa.table(columns, schema=parse_options["explicit_schema"])


@lru_cache
def _settings(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers}


def use(kafka: Any, base: Any, sizes: Any) -> None:
    """Have the product meet these servers, cut slices so long, and split partitions so far."""
    link = of_session(base)
    playhead.postgres.session.ArrowConnection = link  # type: ignore[assignment, misc]
    playhead.postgres.session.StatementConnection = link  # type: ignore[assignment, misc]
    clients.make_consumer, clients.make_producer = kafka.consumer, kafka.producer
    clients.make_admin = kafka.admin
    lighten.forget()
    _empty_bases()
    playhead.kafka.read.log_heads.make_heads = lambda *_, **__: LogHeads(kafka)
    limits = playhead.task.slicer.Limits(max_records=sizes.records)
    playhead.replay.runner._limits = lambda: limits
    playhead.replay.partition_work._LEAST_SPLIT = sizes.split


_NOWHERE = Path("/nowhere")
_bases: list[sqlite3.Connection] = []
_used: list[sqlite3.Connection] = []
"""Databases in memory cost more to make than to empty."""


def _new_base() -> sqlite3.Connection:
    base = sqlite3.connect(":memory:", isolation_level=None)
    base.row_factory = sqlite3.Row
    base.executescript(playhead.replay.journal._SCHEMA)
    return base


def _empty_bases() -> None:
    """Those of the schedule before; nobody has them any more."""
    while _used:
        base = _used.pop()
        for table in ("replays", "committed", "summaries"):
            base.execute(f"DELETE FROM {table}")
        _bases.append(base)


class _StopFile:
    """A stop file of a machine that has no disk."""

    parent = _NOWHERE

    def __init__(self, asked: set[str], replay_id: str) -> None:
        self._asked, self._replay_id = asked, replay_id

    def exists(self) -> bool:
        return self._replay_id in self._asked

    def touch(self) -> None:
        self._asked.add(self._replay_id)

    def unlink(self, missing_ok: bool = True) -> None:
        self._asked.discard(self._replay_id)


class Journal(RealJournal):
    """One machine's journal: the product's own, on a database in memory."""

    def __init__(self) -> None:
        self._folder = _NOWHERE
        self.file = _NOWHERE
        self._base = _bases.pop() if _bases else _new_base()
        _used.append(self._base)
        self._holders: dict[str, Process] = {}
        self._asked: set[str] = set()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        task = threads.scheduler().current
        if task is not None and task.process.is_dead:
            raise Killed
        yield self._base

    def stop_file(self, replay_id: str) -> Any:
        return _StopFile(self._asked, replay_id)

    def is_held(self, replay_id: str) -> bool:
        holder = self._holders.get(replay_id)
        return holder is not None and not holder.is_dead

    @contextmanager
    def held(self, replay_id: str) -> Iterator[None]:
        if self.is_held(replay_id):
            raise InUse(replay_id, where="on this machine")
        task = threads.scheduler().current
        assert task is not None
        self._holders[replay_id] = task.process
        self._asked.discard(replay_id)
        try:
            yield
        finally:
            if self._holders.get(replay_id) is task.process:
                del self._holders[replay_id]
