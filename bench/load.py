"""Telemetry for the replay suite: the same records on every machine, as a topic and as a file for COPY.

`python -m bench.load BOOTSTRAP TOPIC [--records N]` fills a topic that exists, one process a partition.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.read.source import KafkaSource

PARTITIONS = 4
RECORDS = 2_000_000
RECORDS_PER_SECOND = 2_000
"""Of the records' own time: 20 cars, each a hundred times a second."""

_CARS = 20
_TICK_MS = 1000 * _CARS // RECORDS_PER_SECOND
_FIRST = datetime(2021, 8, 4, 12, 30, tzinfo=UTC)
_TICKS_A_LAP = 9_000
_FILLED_WITHIN_S = 1800

COLUMNS = "car, seq, ts, speed, rpm, gear, throttle, brake, lap"
TABLE = """CREATE TABLE {} (
    car text NOT NULL, seq bigint NOT NULL, ts timestamptz, speed double precision, rpm integer,
    gear smallint, throttle double precision, brake double precision, lap integer,
    PRIMARY KEY (car, seq))"""


@dataclass(frozen=True, slots=True)
class Moment:
    """What one car's sensors say at one tick."""

    car: str
    seq: int
    timestamp_ms: int
    ts: str
    speed: float
    rpm: int
    gear: int
    throttle: float
    brake: float
    lap: int

    def as_json(self) -> bytes:
        return (
            f'{{"car":"{self.car}","seq":{self.seq},"ts":"{self.ts}","speed":{self.speed},'
            f'"rpm":{self.rpm},"gear":{self.gear},"throttle":{self.throttle},'
            f'"brake":{self.brake},"lap":{self.lap}}}'
        ).encode()

    def as_row(self) -> str:
        """One line of COPY's text format."""
        return (
            f"{self.car}\t{self.seq}\t{self.ts}\t{self.speed}\t{self.rpm}\t{self.gear}\t"
            f"{self.throttle}\t{self.brake}\t{self.lap}\n"
        )


def moments(partition: int, records: int) -> Iterator[Moment]:
    """The partition's share of a topic of `records`, in order: every fourth car, tick by tick."""
    first_ms = int(_FIRST.timestamp() * 1000)
    cars = range(partition, _CARS, PARTITIONS)
    for seq in range(-(-records // _CARS)):
        since_ms = seq * _TICK_MS
        at = _FIRST + timedelta(milliseconds=since_ms)
        ts = f"{at:%Y-%m-%dT%H:%M:%S}.{since_ms % 1000:03d}Z"
        for car in cars[: max(0, -(-(records - seq * _CARS - partition) // PARTITIONS))]:
            # Noise, so that compression and decoding have real work, yet the same noise every time.
            noise = (seq * 2654435761 + car * 40503 * 65537) & 0xFFFFFFFF
            noise ^= noise >> 15
            yield Moment(
                f"car-{car:02d}",
                seq,
                first_ms + since_ms,
                ts,
                round(80 + (noise & 0x3FFF) / 64, 2),
                6000 + (noise >> 7) % 9000,
                1 + (noise >> 11) % 8,
                round((noise >> 13) % 101 / 100, 2),
                round((noise >> 19) % 101 / 100, 2),
                1 + seq // _TICKS_A_LAP,
            )


def fill(bootstrap_servers: str, topic: str, records: int = RECORDS) -> None:
    """Produce all partitions at once; returns when every record is acknowledged."""
    command = [sys.executable, "-m", "bench.load", bootstrap_servers, topic]
    command += ["--records", str(records), "--partition"]
    running = [subprocess.Popen([*command, str(number)]) for number in range(PARTITIONS)]
    try:
        codes = [process.wait(_FILLED_WITHIN_S) for process in running]
    finally:
        for process in running:
            process.kill()
    if any(codes):
        raise RuntimeError(f"filling {topic} ended with {codes}")


def write_rows(file: Path, records: int = RECORDS) -> None:
    """The same records as decoded columns, one partition after the other, readable for a server."""
    with file.open("w", encoding="utf-8") as stream:
        for partition in range(PARTITIONS):
            stream.writelines(moment.as_row() for moment in moments(partition, records))
    file.chmod(0o644)


def _fill_partition(bootstrap_servers: str, topic: str, records: int, partition: int) -> None:
    from confluent_kafka import Producer

    failed: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": "lz4",
            "linger.ms": 50,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )

    def note(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for moment in moments(partition, records):
        value, at = moment.as_json(), moment.timestamp_ms
        while True:
            try:
                producer.produce(
                    topic, value, moment.car, partition, timestamp=at, on_delivery=note
                )
            except BufferError:
                producer.poll(0.5)
                continue
            break
        if not moment.seq % 100:
            producer.poll(0)
    if producer.flush(120) or failed:
        raise SystemExit(f"not every record was acknowledged: {failed[:1]}")


def offsets_in(servers: str, topic: str) -> int:
    """The number of offsets in a topic: transaction markers count too."""
    held = KafkaSource(KafkaConnection(servers), (topic,)).bounds().values()
    return sum(each.high_watermark - each.earliest for each in held)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap_servers")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--partition", type=int)
    given = parser.parse_args()
    if given.partition is None:
        fill(given.bootstrap_servers, given.topic, given.records)
    else:
        _fill_partition(given.bootstrap_servers, given.topic, given.records, given.partition)


if __name__ == "__main__":
    main()
