"""`playhead demo`: real servers, a topic that was just written, and a replay of a span of it into a database."""

import json
import math
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from playhead import paths
from playhead.cli.complete import topic_names
from playhead.cli.options import SANDBOX, SPARK, Run, with_options
from playhead.cli.playing import run_with_progress
from playhead.cli.sandbox import fetch_jars
from playhead.cli.shown import plan_lines, proof_lines, sample_lines
from playhead.connection import KafkaConnection
from playhead.endpoint import kafka, postgres
from playhead.errors import EXIT_DIFFERENT
from playhead.instant import show_ms
from playhead.replay import api
from playhead.sandbox import Endpoints, Sandbox
from playhead.secrets import without_password
from playhead.span import Span

_CARS = 20
_PARTITIONS = 4
_HZ = 60
_TABLE = "public.telemetry"


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@with_options(SANDBOX, SPARK)
def demo(
    run: Run,
    records: Annotated[
        int, typer.Option(help="How many records to write.", min=1, metavar="N")
    ] = 20_000,
    topic: Annotated[
        str,
        typer.Option(
            help="The topic to write and replay.", metavar="TOPIC", autocompletion=topic_names
        ),
    ] = "telemetry",
) -> None:
    """Bring a sandbox up, write telemetry of twenty cars, replay half of it into PostgreSQL, prove it.

    It has a folder and servers of its own, so a sandbox that is up is not touched. Exit code 4 when
    the table does not hold exactly the records of the span.
    """
    say = run.output.say
    named = run.values["directory"]
    sandbox = Sandbox(Path(named).expanduser().absolute() if named else paths.state_dir() / "demo")
    fetch_jars(run)
    say(f"1/5  starting Kafka and PostgreSQL in {sandbox.directory}")
    with sandbox.running() as endpoints:
        say(
            f"     broker {endpoints.bootstrap_servers}, {without_password(endpoints.database_url)}"
        )
        # As a person would who has a shell on these servers.
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = endpoints.bootstrap_servers
        os.environ["DATABASE_URL"] = endpoints.database_url
        start_ms = _write(run, KafkaConnection(endpoints.bootstrap_servers), topic, records)
        is_right = _replay(run, endpoints, topic, start_ms, records)
        say("5/5  shutting down")
    say(
        f"     the data stay in {sandbox.directory}; logs of the engine in {paths.state_dir() / 'logs'}"
    )
    if not is_right:
        raise typer.Exit(EXIT_DIFFERENT)


def _write(run: Run, connection: KafkaConnection, topic: str, records: int) -> int:
    """Write the records; returns the time of the first."""
    from playhead.kafka.admin import Admin
    from playhead.kafka.writer import Writer

    with Admin(connection) as admin:
        admin.create_topic(topic, partitions=_PARTITIONS)
    began = time.perf_counter()
    start_ms = int(time.time() * 1000) - records * 1000 // (_CARS * _HZ)
    with Writer(connection) as writer:
        for number in range(records):
            car, tick = number % _CARS, number // _CARS
            writer.write(
                topic,
                key=f"car-{car:02}".encode(),
                value=json.dumps(_telemetry(car, tick, start_ms)).encode(),
                timestamp_ms=start_ms + tick * 1000 // _HZ,
            )
    took = time.perf_counter() - began
    run.output.say(f"2/5  wrote {records:,} records to {topic} in {took:.1f} s")
    return start_ms


def _telemetry(car: int, tick: int, start_ms: int) -> dict[str, Any]:
    turn = tick / _HZ / 30 * math.tau + car
    return {
        "car": f"car-{car:02}",
        "seq": start_ms + tick,
        "speed_kmh": round(220 + 90 * math.sin(turn), 1),
        "rpm": int(9_000 + 2_500 * math.sin(turn)),
        "gear": 5 + round(2 * math.sin(turn)),
    }


def _replay(run: Run, endpoints: Endpoints, topic: str, start_ms: int, records: int) -> bool:
    """Replay the second half of what was written, by time, and count it in the database."""
    times = [start_ms + number // _CARS * 1000 // _HZ for number in range(records)]
    from_ms, to_ms = times[records // 2], times[-1] + 1
    expected = sum(1 for time_ms in times if time_ms >= from_ms)
    run.output.say(
        "3/5  planning: the second half of it, by time, into a table that is not there yet"
    )
    asked = api.Replay(
        source=kafka(topic),
        target=postgres(_TABLE),
        span=Span.of(str(from_ms), str(to_ms)),
        options={"create": True, "key": ("car", "seq"), "on_conflict": "ignore"},
    )
    planned = asked.plan(run.configuration())
    for line in (*plan_lines(planned.plan), *sample_lines(planned.plan)):
        run.output.say(f"     {line}")
    run.output.say("4/5  replaying it, exactly once")
    proof = run_with_progress(run, planned)
    for line in proof_lines(proof):
        run.output.say(f"     {line}")
    span = (show_ms(from_ms), show_ms(to_ms))
    rows, distinct = _count(run, endpoints, span)
    found = {"rows_expected": expected, "rows_found": rows, "rows_distinct": distinct}
    run.output.emit(proof.as_document() | found, proof.rows())
    run.output.say(f"     {expected - distinct:,} missing, {rows - distinct:,} duplicates")
    return proof.adds_up and rows == distinct == expected


def _count(run: Run, endpoints: Endpoints, span: tuple[str, str]) -> tuple[int, int]:
    """What the database itself says of the span."""
    from playhead.postgres.server import connect

    query = (
        f"SELECT count(*), count(DISTINCT (car, seq)) FROM {_TABLE} "  # noqa: S608
        f"WHERE _timestamp >= '{span[0]}' AND _timestamp < '{span[1]}'"
    )
    run.output.say(f"     {query}")
    with connect(endpoints.database_url) as connection:
        row = connection.execute(query).fetchone()
    rows, distinct = row or (0, 0)
    run.output.say(f"     {rows:,} rows, {distinct:,} different ones")
    return rows, distinct
