"""The transcript, the recording and the pictures of the README: three commands against a real topic and table.

PLAYHEAD_UPDATE_GOLDEN=1 writes all of them again, then `make docs` the pictures of the page.
"""

import codecs
import json
import math
import os
import pty
import re
import shlex
import shutil
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from confluent_kafka import Producer

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints
from tests.fix_commands import COMMAND

GOLDEN = Path(__file__).parents[1] / "golden" / "readme"
TRANSCRIPT = GOLDEN / "transcript.txt"
RECORDING = Path(__file__).parents[2] / "docs" / "recording.cast"
WIDTH, HEIGHT = 140, 36
UPDATE = bool(os.environ.get("PLAYHEAD_UPDATE_GOLDEN"))
AGAIN = "PLAYHEAD_UPDATE_GOLDEN=1 python -m pytest tests/sandbox/test_front_page.py renews it"

TOPIC = TABLE = "telemetry"
PARTITIONS, CARS = 2, 20
BEGINS_MS = 1_628_085_600_000  # 2021-08-04T14:00:00Z
SESSION_S, MINUTE_S = 3_600, 60
OUTAGE_S = range(38 * MINUTE_S, 50 * MINUTE_S)
TABLE_SQL = f"""CREATE TABLE {TABLE} (
    car text, seq int, ts timestamptz, speed_kmh int,
    _topic text, _partition int, _offset bigint, _timestamp timestamptz,
    PRIMARY KEY (car, seq)
)"""
COLUMNS = "car, seq, ts, speed_kmh, _topic, _partition, _offset, _timestamp"
FIND = ("gaps", f"kafka:{TOPIC}", f"postgres:{TABLE}")
FILL = (*FIND, "--replay", "--yes")
# What differs from run to run: the progress, which is left out of the comparison, and measured numbers.
PROGRESS = re.compile(r"^replay \w+: +\d+ % .*\n", re.MULTILINE)
MEASURED = re.compile(r"^(  estimate up to|  took |  servers ).*$", re.MULTILINE)


class Lap(NamedTuple):
    """One record of the afternoon, and where it stands in the topic."""

    second: int
    partition: int
    offset: int
    value: dict[str, Any]

    @property
    def timestamp_ms(self) -> int:
        return BEGINS_MS + self.second * 1_000


def laps() -> Iterator[Lap]:
    """An hour of telemetry: a record a second from every car that is on track then."""
    offsets, sequence = [0] * PARTITIONS, [0] * CARS
    for second in range(SESSION_S):
        for car in range(cars_on_track(second)):
            partition = car % PARTITIONS
            value = {
                "car": f"car-{car:02}",
                "seq": sequence[car],
                "ts": BEGINS_MS + second * 1_000,
                "speed_kmh": 120 + (second * 7 + car * 31) % 200,
            }
            yield Lap(second, partition, offsets[partition], value)
            offsets[partition] += 1
            sequence[car] += 1


def cars_on_track(second: int) -> int:
    """Two stints with a pit stop between them."""
    phase = second / SESSION_S * 4 * math.pi
    return 4 + round(8 * (1 - math.cos(phase)))


@pytest.fixture
def afternoon(
    sandbox: Endpoints, kafka: KafkaConnection, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """The topic with the whole hour, and the table without the twelve minutes of the outage."""
    with Admin(kafka) as admin:
        assert admin.create_topic(TOPIC, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": sandbox.bootstrap_servers, "linger.ms": 50})
    with psycopg.connect(sandbox.database_url, autocommit=True) as database:
        database.execute(TABLE_SQL)
        with database.cursor().copy(f"COPY {TABLE} ({COLUMNS}) FROM STDIN") as copy:
            for lap in laps():
                producer.produce(
                    TOPIC,
                    json.dumps(lap.value),
                    key=lap.value["car"],
                    partition=lap.partition,
                    timestamp=lap.timestamp_ms,
                )
                producer.poll(0)
                if lap.second not in OUTAGE_S:
                    copy.write_row(row_of(lap))
        assert producer.flush(60) == 0
        yield sandbox.environment() | {"XDG_STATE_HOME": str(tmp_path / "state")}
        database.execute(f"DROP TABLE {TABLE}")


def row_of(lap: Lap) -> tuple[Any, ...]:
    car, number, _, speed = lap.value.values()
    when = datetime.fromtimestamp(lap.timestamp_ms / 1_000, UTC)
    return car, number, when, speed, TOPIC, lap.partition, lap.offset, when


def shown(words: tuple[str, ...], environment: dict[str, str], code: int = 0) -> str:
    """A command and all that a terminal shows of it."""
    done = subprocess.run(
        [*COMMAND, *words],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stdout
    return f"$ playhead {shlex.join(words)}\n{done.stdout}"


def record(environment: dict[str, str], database_url: str) -> None:
    """Record at a terminal how the gap is filled, as asciicast 2, which is lines of JSON; then open it again."""
    film = Film()
    film.play(FIND, environment)
    replayed = film.play(FILL, environment)
    film.play(("verify", replay_id(replayed)), environment)
    film.save(RECORDING)
    first, last = (BEGINS_MS / 1_000 + each for each in (OUTAGE_S[0], OUTAGE_S[-1] + 1))
    with psycopg.connect(database_url) as database:
        database.execute("DROP SCHEMA playhead_ledger CASCADE")
        database.execute(
            f"DELETE FROM {TABLE} WHERE _timestamp >= to_timestamp(%s) AND _timestamp < to_timestamp(%s)",
            (first, last),
        )


@dataclass
class Film:
    """What a terminal showed, and when: seconds of each command, as typed and as answered."""

    events: list[tuple[float, str]] = field(default_factory=list)
    at: float = 0.0

    def play(self, words: tuple[str, ...], environment: dict[str, str]) -> str:
        """Type a command, and return what it answers."""
        self._show("$ ", after=1.0)
        for letter in f"playhead {shlex.join(words)}":
            self._show(letter, after=0.03)
        self._show("\r\n", after=0.3)
        began, before, said = time.monotonic(), self.at, ""
        for part in codecs.iterdecode(at_terminal(words, environment), "utf-8"):
            said += part
            self.at = before + time.monotonic() - began
            self.events.append((self.at, part))
        self._show("\r\n", after=1.5)
        return said

    def _show(self, text: str, *, after: float) -> None:
        self.at += after
        self.events.append((self.at, text))

    def save(self, path: Path) -> None:
        head = {
            "version": 2,
            "width": WIDTH,
            "height": HEIGHT,
            "title": "A gap is found and filled",
        }
        lines = [head, *([round(at, 3), "o", text] for at, text in self.events)]
        path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines))


def at_terminal(words: tuple[str, ...], environment: dict[str, str]) -> Iterator[bytes]:
    """Run a command at a terminal, and yield what it shows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (HEIGHT, WIDTH))
    ruling = ("NO_COLOR", "COLUMNS", "LINES")
    own = {name: text for name, text in os.environ.items() if name not in ruling}
    command = subprocess.Popen(
        [*COMMAND, *words],
        env=own | environment | {"TERM": "xterm-256color"},
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    with suppress(OSError):  # the terminal ends with its command
        while part := os.read(ours, 1 << 16):
            yield part
    os.close(ours)
    assert command.wait(60) in (0, 4)


def replay_id(transcript: str) -> str:
    match = re.search(r"^replay (\w+): ", transcript, re.MULTILINE)
    assert match, transcript
    return match[1]


def normalised(transcript: str) -> str:
    """The transcript without what differs from run to run."""
    lasting = MEASURED.sub(r"\1", PROGRESS.sub("", transcript))
    return lasting.replace(replay_id(transcript), "ID")


def test_the_transcript_of_the_front_page_is_what_the_commands_print(afternoon, sandbox, tmp_path):
    hole, filled = tmp_path / "hole.svg", tmp_path / "filled.svg"
    if UPDATE:
        record(afternoon | {"XDG_STATE_HOME": str(tmp_path / "recorded")}, sandbox.database_url)
    found = shown(FIND, afternoon, code=4)
    shown((*FIND, "--picture", str(hole)), afternoon, code=4)
    replayed = shown(FILL, afternoon)
    verified = shown(("verify", replay_id(replayed)), afternoon)
    shown((*FIND, "--picture", str(filled)), afternoon)
    transcript = "\n".join((found, replayed, verified))
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        TRANSCRIPT.write_text(transcript, encoding="utf-8")
        for picture in (hole, filled):
            shutil.copyfile(picture, GOLDEN / picture.name)
    assert normalised(transcript) == normalised(TRANSCRIPT.read_text(encoding="utf-8")), AGAIN
    for picture in (hole, filled):
        assert picture.read_text("utf-8") == (GOLDEN / picture.name).read_text("utf-8"), AGAIN


def test_the_recording_shows_what_the_transcript_says():
    """But for what a terminal draws over again: the lines of progress."""
    head, *events = map(json.loads, RECORDING.read_text(encoding="utf-8").splitlines())
    assert (head["version"], head["width"]) == (2, WIDTH)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    shown = "".join(text for _, _, text in events)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r\n", "\n")
    lines = {line.rpartition("\r")[2].rstrip() for line in normalised(shown).splitlines()}
    said = normalised(TRANSCRIPT.read_text(encoding="utf-8")).splitlines()
    missing = [line for line in said if line.rstrip() not in lines]
    assert not missing, AGAIN
