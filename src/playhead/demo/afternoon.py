"""The acts of the demo: cars send, a pipeline writes, the database loses power, a replay fills the gap."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from playhead.config.kafka_connection import KafkaConnection
from playhead.demo.cars import Cars
from playhead.demo.processes import DemoFailed, Processes, Program, need_running
from playhead.host import private_files
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import bounds_of, describe, places_of
from playhead.postgres.server import connect
from playhead.sandbox import Endpoints, Sandbox

_PARTITIONS = 4
_TABLE = """
CREATE TABLE {table} (
    car text, seq bigint, ts bigint, lap int, speed_kmh real, rpm int, gear smallint,
    fuel_kg real, brake real,
    _partition int, _offset bigint, _timestamp timestamptz,
    PRIMARY KEY (car, seq)
)"""
_COUNT = "SELECT count(*) AS rows, count(DISTINCT (car, seq)) AS different FROM {table}"
_EACH = "SELECT car, count(*), count(DISTINCT seq), min(seq), max(seq) FROM {table} GROUP BY car"
# The pipeline is never further behind than this here; records that are missing for longer are lost.
_SETTLED = ("--settle", "3s")
_LOOK_EVERY_S = 0.25
_CAUGHT_UP_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Script:
    """How long each act lasts, how many cars drive, and how much they send."""

    cars: int
    rate_per_second: float
    before_s: float
    outage_s: float
    after_s: float
    read_s: float = 0.0
    """Pause after the plan, so that a person can read it."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The counts at the end, and the folder of the demo's files."""

    sent: int
    delivered: int
    lost_in_the_outage: int
    replayed: int
    written_meanwhile: int
    rows: int
    different: int
    wrong_cars: tuple[str, ...]
    gaps_left: int
    folder: str

    @property
    def missing(self) -> int:
        return self.sent - self.different

    @property
    def duplicates(self) -> int:
        return self.rows - self.different

    @property
    def is_right(self) -> bool:
        """Return whether every datagram is exactly one row, and every row a datagram."""
        counts = {self.sent, self.delivered, self.rows, self.different}
        return len(counts) == 1 and not self.wrong_cars and self.gaps_left == 0

    def row(self) -> dict[str, Any]:
        """Return the most important counts as one row."""
        names = ("sent", "lost_in_the_outage", "replayed", "rows", "missing", "duplicates")
        return {name: getattr(self, name) for name in names}

    def as_document(self) -> dict[str, Any]:
        more = {"missing": self.missing, "duplicates": self.duplicates, "is_right": self.is_right}
        return asdict(self) | more


class Demo:
    """Plays the demo act by act; each act needs the result of the one before, or the demo fails."""

    def __init__(
        self,
        sandbox: Sandbox,
        endpoints: Endpoints,
        script: Script,
        folder: Path,
        *,
        tell: Callable[[str], None],
        pause: Callable[[str, float], None],
    ) -> None:
        self._sandbox, self._endpoints, self._script = sandbox, endpoints, script
        self._folder, self._tell, self._pause = folder, tell, pause
        self._topic = self._make_topic()
        self._table = self._topic.replace("-", "_")
        self._company = Processes(self._environment(), tell)

    def _environment(self) -> Mapping[str, str]:
        """Return the environment of a user of these servers, with a state folder of the demo's own."""
        kept = {name: value for name, value in os.environ.items() if name != "PLAYHEAD_CONTEXT"}
        own = {"XDG_STATE_HOME": str(self._state), "PLAYHEAD_WARM": "off"}
        return kept | self._endpoints.environment() | own

    @property
    def _state(self) -> Path:
        return self._sandbox.directory / "state"

    def play(self) -> Outcome:
        """Play all acts."""
        try:
            ingest, pipeline = self._open()
            with self._race(ingest) as cars:
                programs = (ingest, pipeline)
                self._drive(cars, programs)
                self._lose_power(cars, *programs)
                self._drive_on(cars, programs)
                self._find_the_gap()
                replay_counts = self._fill_the_gap()
                self._act(7, "the proof")
                sent = sum(cars.stop().values())
            return self._prove(sent, ingest, pipeline, replay_counts)
        finally:
            self._company.end()

    # --- acts

    def _open(self) -> tuple[Program, Program]:
        self._act(
            1, "create a topic and a table; start the two programs between the cars and the table"
        )
        self._sql(_TABLE)
        self._tell(f"topic {self._topic}, table {self._table}")
        ingest = self._company.start(
            "ingest",
            *("ingest", "udp://127.0.0.1:0", f"kafka:{self._topic}"),
            *("--key", "car", "--timestamp", "ts", "-o", "json", "--stats-every", "10s"),
        )
        pipeline = self._company.start(
            "live",
            *("live", f"kafka:{self._topic}", f"postgres:{self._table}"),
            *("--key", "car,seq", "--on-conflict", "newer", "--from", "earliest"),
            *("--drop-when-down", "--yes", "-o", "json"),
        )
        ingest.wait_for("receiving")
        pipeline.wait_for("reading")
        return ingest, pipeline

    def _race(self, ingest: Program) -> Cars:
        port = int(ingest.wait_for("listening at").split(",")[0].rsplit(":", 1)[1])
        script = self._script
        self._tell(
            f"{script.cars} cars send telemetry to UDP port {port}, "
            f"{script.rate_per_second:,.0f} datagrams a second"
        )
        return Cars(
            port, count=script.cars, rate_per_second=script.rate_per_second, seed=script.seed
        )

    def _drive(self, cars: Cars, programs: Sequence[Program]) -> None:
        self._act(2, "the cars are on track, and their datagrams reach the table")
        deadline = time.monotonic() + _CAUGHT_UP_WITHIN_S
        while not self._rows():
            need_running(programs)
            self._need(time.monotonic() < deadline, "the table", found="no row", needed="rows")
            time.sleep(_LOOK_EVERY_S)
        self._pause("pull the power cable of the database", self._script.before_s)
        self._tell(f"{cars.total:,} datagrams sent, {self._rows():,} rows in the table")

    def _lose_power(self, cars: Cars, ingest: Program, pipeline: Program) -> None:
        self._act(3, "somebody trips over the power cable: the database is gone, the cars drive on")
        postmaster = self._sandbox.database.server.pid()
        self._need(postmaster is not None, "PostgreSQL", found="nothing", needed="a running server")
        # The signal of `pg_ctl stop -m immediate`: the server ends without writing anything out.
        os.kill(postmaster or 0, signal.SIGQUIT)
        sent, kept = cars.total, self._kept()
        self._pause("plug it in again", self._script.outage_s)
        need_running([ingest, pipeline])
        # On a slow machine it may still be writing what it read before.
        pipeline.wait_for("DROPPING")
        self._tell(
            f"{cars.total - sent:,} more datagrams sent, and {self._kept() - kept:,} records "
            "written to the topic; the pipeline reads them but cannot write them"
        )

    def _drive_on(self, cars: Cars, programs: Sequence[Program]) -> None:
        self._act(4, "power is back, PostgreSQL recovers, and new telemetry is written again")
        self._sandbox.up()
        before = self._rows()
        deadline = time.monotonic() + _CAUGHT_UP_WITHIN_S
        while self._rows() <= before:
            need_running(programs)
            self._need(
                time.monotonic() < deadline,
                "the pipeline",
                found="no new row",
                needed="rows after the outage",
            )
            time.sleep(_LOOK_EVERY_S)
        time.sleep(self._script.after_s)
        self._tell(f"{cars.total:,} datagrams sent, only {self._rows():,} rows in the table")

    def _find_the_gap(self) -> None:
        self._act(5, "which records never arrived? what would a replay do?")
        self._company.run(*self._gaps("before.svg"), *_SETTLED, needed=(4,))
        self._company.run(*self._gaps(), *_SETTLED, "--replay", "--dry-run", needed=(4,))
        self._pause("replay exactly these records", self._script.read_s)

    def _fill_the_gap(self) -> tuple[int, int, int]:
        self._act(6, "replay only these records, while the cars drive on and the pipeline writes")
        before = self._rows()
        words = [*self._gaps(), *_SETTLED, "--replay", "--yes", "-o", "json"]
        done = self._company.run(*words, shows=False)
        private_files.write(self._folder / "replay.json", done.out)
        document = json.loads(done.out)
        lost = int(document["before"]["missing"])
        replayed = int(document["replay"]["totals"]["written"])
        meanwhile = self._rows() - before - replayed
        self._tell(
            f"{replayed:,} records replayed; the pipeline wrote {meanwhile:,} other records meanwhile"
        )
        self._need(
            meanwhile > 0,
            "the pipeline",
            found="no new row",
            needed="new rows of the pipeline during the replay",
        )
        return lost, replayed, meanwhile

    def _prove(
        self, sent: int, ingest: Program, pipeline: Program, replay_counts: tuple[int, int, int]
    ) -> Outcome:
        ingest_result = ingest.stop()
        self._need(
            ingest_result.code == 0, "ingest", found=f"exit code {ingest_result.code}", needed="0"
        )
        delivered = int(json.loads(ingest_result.out)["delivered"])
        self._wait_for_rows(delivered, pipeline)
        pipeline_result = pipeline.stop()
        self._need(
            pipeline_result.code == 0, "live", found=f"exit code {pipeline_result.code}", needed="0"
        )
        words = [*self._gaps("after.svg"), "--settle", "0s", "-o", "json"]
        left = json.loads(self._company.run(*words, needed=(0, 4), shows=False).out)
        rows, different = self._counted()
        wrong = self._wrong(sent)
        outcome = Outcome(
            sent,
            delivered,
            *replay_counts,
            rows,
            different,
            wrong,
            left["missing"],
            str(self._folder),
        )
        self._tell(f"the cars sent {sent:,} datagrams; {delivered:,} records are in the topic")
        self._tell(f"{outcome.missing:,} missing, {outcome.duplicates:,} duplicates")
        return outcome

    # --- checks

    def _gaps(self, chart: str | None = None) -> list[str]:
        options = ["--picture", str(self._folder / chart)] if chart else []
        ends = [f"kafka:{self._topic}", f"postgres:{self._table}"]
        return ["gaps", *ends, *options]

    def _wait_for_rows(self, needed: int, pipeline: Program) -> None:
        """Wait until the pipeline has written all records; the final count shows what it never writes."""
        deadline = time.monotonic() + _CAUGHT_UP_WITHIN_S
        while self._rows() < needed and time.monotonic() < deadline:
            pipeline.need_running()
            time.sleep(_LOOK_EVERY_S)

    def _counted(self) -> tuple[int, int]:
        self._tell(f"SQL> {_COUNT.format(table=self._table)};")
        [(rows, different)] = self._sql(_COUNT)
        self._tell(f"     {rows:,} rows, {different:,} different")
        return rows, different

    def _wrong(self, sent: int) -> tuple[str, ...]:
        """Return the cars whose rows are not exactly the numbers from 0 that the car sent."""
        self._tell(f"SQL> {_EACH.format(table=self._table)};")
        counts_by_car = {car: tuple(counts) for car, *counts in self._sql(_EACH)}
        whole, rest = divmod(sent, self._script.cars)
        wrong = []
        for number in range(self._script.cars):
            car, count = f"car-{number:02}", whole + (number < rest)
            if counts_by_car.get(car) != (count, count, 0, count - 1):
                wrong.append(car)
        right = self._script.cars - len(wrong)
        self._tell(f"     {right} of {self._script.cars} cars: every number from 0 on, once")
        return tuple(wrong)

    def _rows(self) -> int:
        [(rows,)] = self._sql("SELECT count(*) FROM {table}")
        return int(rows)

    def _kept(self) -> int:
        """Return how many records the topic has; all were written without transactions."""
        with Admin(KafkaConnection(self._endpoints.bootstrap_servers)) as admin:
            partitions = places_of(describe(admin, [self._topic]))
            all_bounds = bounds_of(admin, partitions).values()
            return sum(bounds.stable_end - bounds.earliest for bounds in all_bounds)

    def _sql(self, statement: str) -> list[tuple[Any, ...]]:
        text = statement.format(table=self._table)
        with connect(self._endpoints.database_url) as connection:
            done = connection.execute(text.encode())
            return done.fetchall() if done.description else []

    def _make_topic(self) -> str:
        """Create a topic under an unused name; the topics of earlier demos stay."""
        with Admin(KafkaConnection(self._endpoints.bootstrap_servers)) as admin:
            number = 1
            while not admin.create_topic(name := _name(number), partitions=_PARTITIONS):
                number += 1
        return name

    def _act(self, number: int, title: str) -> None:
        self._tell("")
        self._tell(f"{number}/7  {title}")

    def _need(self, condition: bool, what: str, *, found: str, needed: str) -> None:
        if not condition:
            raise DemoFailed(what, found=found, needed=needed)


def _name(number: int) -> str:
    return "telemetry" if number == 1 else f"telemetry-{number}"
