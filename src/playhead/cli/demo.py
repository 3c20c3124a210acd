"""`playhead demo`: real servers, a topic that was just written, and one Spark job over it."""

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead import paths
from playhead.cli.complete import topic_names
from playhead.cli.options import SANDBOX, SPARK, Run, with_options
from playhead.cli.sandbox import fetch_jars
from playhead.connection import KafkaConnection
from playhead.errors import EXIT_DIFFERENT
from playhead.sandbox import Endpoints, Sandbox
from playhead.secrets import without_password

if TYPE_CHECKING:
    from pyspark.sql import Row

_CARS = 20
_PARTITIONS = 4
_HZ = 60


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
            help="The topic to write and read.", metavar="TOPIC", autocompletion=topic_names
        ),
    ] = "telemetry",
) -> None:
    """Bring a sandbox up, write telemetry of twenty cars, read it with Spark, compare, shut down.

    It has a folder and servers of its own, so a sandbox that is up is not touched. Exit code 4 when
    Spark did not see exactly what was written.
    """
    say = run.output.say
    named = run.values["directory"]
    sandbox = Sandbox(Path(named).expanduser().absolute() if named else paths.state_dir() / "demo")
    fetch_jars(run)
    say(f"1/4  starting Kafka and PostgreSQL in {sandbox.directory}")
    with sandbox.running() as endpoints:
        say(
            f"     broker {endpoints.bootstrap_servers}, {without_password(endpoints.database_url)}"
        )
        connection = KafkaConnection(endpoints.bootstrap_servers)
        before = _write(run, connection, topic, records)
        seen = _look(run, connection, topic)
        is_right = _report(run, endpoints, seen, before + records)
        say("4/4  shutting down")
    say(
        f"     the data stay in {sandbox.directory}; logs of the engine in {paths.state_dir() / 'logs'}"
    )
    if not is_right:
        raise typer.Exit(EXIT_DIFFERENT)


def _write(run: Run, connection: KafkaConnection, topic: str, records: int) -> int:
    """Write the records; returns how many the topic held before, by its offsets."""
    from playhead.kafka.admin import Admin
    from playhead.kafka.writer import Writer

    with Admin(connection) as admin:
        admin.create_topic(topic, partitions=_PARTITIONS)
        before = sum(end for _, end in admin.bounds(topic).values())
    began = time.perf_counter()
    start_ms = int(time.time() * 1000) - records * 1000 // (_CARS * _HZ)
    with Writer(connection) as writer:
        for number in range(records):
            car, tick = number % _CARS, number // _CARS
            writer.write(
                topic,
                key=f"car-{car:02}".encode(),
                value=json.dumps(_telemetry(car, tick)).encode(),
                timestamp_ms=start_ms + tick * 1000 // _HZ,
            )
    took = time.perf_counter() - began
    run.output.say(f"2/4  wrote {records:,} records to {topic} in {took:.1f} s")
    return before


def _telemetry(car: int, tick: int) -> dict[str, Any]:
    turn = tick / _HZ / 30 * math.tau + car
    return {
        "car": f"car-{car:02}",
        "seq": tick,
        "speed_kmh": round(220 + 90 * math.sin(turn), 1),
        "rpm": int(9_000 + 2_500 * math.sin(turn)),
        "gear": 5 + round(2 * math.sin(turn)),
    }


def _look(run: Run, connection: KafkaConnection, topic: str) -> "list[Row]":
    from playhead.spark import session
    from playhead.spark.read import topic_frame

    began = time.perf_counter()
    configuration = run.configuration()
    spark = session.session(
        "playhead demo",
        master=configuration.get("spark_master"),
        remote=configuration.get("spark_remote"),
        memory=configuration.get("spark_memory") or session.DEFAULT_MEMORY,
    )
    run.output.say(f"3/4  Spark {spark.version} is there after {time.perf_counter() - began:.1f} s")
    session.describe(spark, f"playhead demo: look at {topic}")
    frame = topic_frame(spark, connection, topic).selectExpr(
        "partition",
        "offset",
        "timestamp",
        "CAST(get_json_object(CAST(value AS STRING), '$.speed_kmh') AS DOUBLE) AS speed_kmh",
    )
    summary = frame.groupBy("partition").agg(
        {"offset": "max", "timestamp": "max", "*": "count", "speed_kmh": "max"}
    )
    rows: list[Row] = summary.orderBy("partition").collect()
    run.output.say(f"     first answer after {time.perf_counter() - began:.1f} s")
    session.stop(spark)
    return rows


def _report(run: Run, endpoints: Endpoints, seen: "list[Row]", expected: int) -> bool:
    rows = [
        {
            "partition": row["partition"],
            "records": row["count(1)"],
            "last_offset": row["max(offset)"],
            "last_timestamp": f"{row['max(timestamp)']:%Y-%m-%dT%H:%M:%S.%f}Z",
            "top_speed_kmh": row["max(speed_kmh)"],
        }
        for row in seen
    ]
    total = sum(int(row["records"]) for row in rows)
    document = {
        "records_expected": expected,
        "records_seen": total,
        "missing": expected - total,
        "bootstrap_servers": endpoints.bootstrap_servers,
        "partitions": rows,
    }
    run.output.emit(document, rows)
    run.output.say(f"     {total:,} records seen, {expected - total:,} missing")
    return total == expected
