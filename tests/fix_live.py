"""Live pipelines between real ends: in this process for a look at everything, as commands to be killed."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from playhead.config.context import Configuration, configure
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.describe import committed
from playhead.ledger import Entry
from playhead.live import api
from playhead.live.pipeline_spec import PipelineSpec, group_for, start_of, trigger_of
from playhead.live.runner import Runner
from playhead.replay.assemble import ends
from playhead.replay.pipelines import RUNNING, Pipelines, pipeline_id
from playhead.request import Request
from playhead.source import TopicPartition
from tests.fix_replay import Deck, Ended, Performance, ended, lap, new_name, within

COLUMNS = "car text, seq int, _partition int, _offset bigint"


@dataclass
class Playing:
    """A pipeline that runs in a thread of this process."""

    deck: Deck
    name: str
    pipelines: Pipelines
    wish: PipelineSpec
    configuration: Configuration
    said: list[str] = field(default_factory=list)
    done: dict[str, Any] | None = None
    failure: BaseException | None = None
    thread: Thread | None = None

    def start(self) -> "Playing":
        def work() -> None:
            try:
                planned = api.plan(self.wish, self.configuration, self.pipelines, self.said.append)
                runner = Runner(self.wish, planned, self.pipelines, self.said.append)
                self.done = runner.run()
            except BaseException as exc:
                self.failure = exc

        self.thread = Thread(target=work, daemon=True)
        self.thread.start()
        return self

    def reads(self) -> "Playing":
        """Wait until it reads."""

        def is_reading() -> bool:
            if self.failure is not None:
                raise self.failure
            return self.status().get("state") == RUNNING

        within(is_reading, seconds=60, what=f"{self.name} reads: {self.said}")
        return self

    def ended(self) -> dict[str, Any]:
        """Wait for its end; what it failed with is raised."""
        assert self.thread is not None
        self.thread.join(90)
        assert not self.thread.is_alive(), self.said
        if self.failure is not None:
            raise self.failure
        assert self.done is not None
        return self.done

    def stop(self) -> dict[str, Any]:
        self.pipelines.journal.ask_to_stop(pipeline_id(self.name))
        return self.ended()

    def status(self) -> dict[str, Any]:
        return self.pipelines.status(self.name)

    def entries(self) -> list[Entry]:
        both = ends(self.wish.request, self.configuration)
        return list(both.target.entries(pipeline_id(self.name)))

    def group(self) -> dict[TopicPartition, int]:
        with Admin(self.deck.connection) as admin:
            return {place: each.offset for place, each in committed(admin, self.wish.group).items()}

    def has_said(self, text: str) -> bool:
        return any(text in each for each in self.said)


@dataclass
class Show(Performance):
    """A pipeline run by real commands; `count` is how many laps its topic holds in the end."""

    def start(self, *more: str, **environment: str) -> "subprocess.Popen[str]":
        words = ("live", f"kafka:{self.topic}", self.end.text, *self.end.options, *more)
        given = self.environment() | environment
        asked = ("--name", self.replay_id, "--from", "earliest", "--trigger", "50ms")
        return self.start_playhead(*words, *asked, "--yes", "-o", "json", **given)

    def feed(self, start: int, end: int) -> None:
        self.deck.write([lap(n, self.topic, PARTITIONS) for n in range(start, end)])

    def feed_along(self, command: "subprocess.Popen[str]", start: int, end: int) -> None:
        """Write laps, a few more whenever those before are there: each few are a round of their own.

        What is left when the command has died is for the next one.
        """
        for at in range(start, end, _WAVE):
            fed = min(at + _WAVE, end)
            self.feed(at, fed)
            if not self._come(command, fed):
                self.feed(fed, end)
                return

    def has(self, command: "subprocess.Popen[str]", count: int) -> None:
        """Wait until so many are there; none is there twice."""
        assert self._come(command, count), f"it has ended before {count}: {ended(command).err}"
        assert self.end.numbers() == [*range(count)]

    def _come(self, command: "subprocess.Popen[str]", count: int) -> bool:
        """Wait until so many are there; False when it is dead before."""
        deadline = time.monotonic() + _COME_WITHIN_S
        while len(self.end.numbers()) < count:
            if command.poll() is not None:
                return len(self.end.numbers()) >= count
            if time.monotonic() > deadline:
                command.kill()
                pytest.fail(f"{count} do not come: {ended(command).err}")
            time.sleep(0.05)
        return True

    def stopped(self, command: "subprocess.Popen[str]") -> Ended:
        """As a person does it."""
        command.send_signal(signal.SIGINT)
        return ended(command)


PARTITIONS = 2
_WAVE = 20
_COME_WITHIN_S = 150


@pytest.fixture
def show(perform: Callable[..., Performance], servers: Deck) -> Callable[..., Show]:
    """Makes shows; what they leave running is killed at the end."""

    def make(kind: str, count: int = 0) -> Show:
        it = perform(kind, servers.topic("live", PARTITIONS), count)
        # The same object's fields, so that the clean-up of performances is the show's as well.
        given = (it.deck, it.topic, it.count, it.end, it.replay_id, it.start_playhead)
        return Show(*given, slice_records=1_000)

    return make


Live = Callable[..., Playing]


@pytest.fixture
def live(deck: Deck, tmp_path: Path) -> Iterator[Live]:
    """Makes pipelines that are stopped at the end of the test."""
    made: list[Playing] = []
    pipelines = Pipelines(tmp_path)

    def make(
        source: str,
        target: str,
        *,
        name: str | None = None,
        database_url: str | None = None,
        start: str = "earliest",
        trigger: str = "100ms",
        drop_when_down: bool = False,
        accept_loss: bool = False,
        folder: Path | None = None,
        **asked: Any,
    ) -> Playing:
        own = name or new_name("p")
        group = group_for(None, own)
        wish = PipelineSpec(
            name=own,
            request=Request(source=source, target=target, **asked),
            group=group,
            start=start_of(start, group),
            trigger_ms=trigger_of(trigger),
            drop_when_down=drop_when_down,
            accept_loss=accept_loss,
        )
        configuration = _configuration(deck, database_url)
        mine = Pipelines(folder) if folder is not None else pipelines
        made.append(Playing(deck, own, mine, wish, configuration))
        return made[-1]

    yield make
    for each in made:
        each.pipelines.journal.ask_to_stop(pipeline_id(each.name))
    for each in made:
        if each.thread is not None:
            each.thread.join(60)


def _configuration(deck: Deck, database_url: str | None) -> Configuration:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in deck.environment().items():
            patch.setenv(name, value)
        if database_url is not None:
            patch.setenv("DATABASE_URL", database_url)
        return configure({})


def whole(entries: list[Entry]) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition the first and the last offset of its entries, which follow one another."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for each in sorted(entries, key=lambda entry: entry.slice):
        place = each.slice.topic, each.slice.partition
        start, end = found.get(place, (each.slice.from_offset, each.slice.from_offset))
        assert each.slice.from_offset == end, f"entries that do not follow one another: {entries}"
        found[place] = start, each.slice.to_offset
    # Each writer of a partition has an entry of its own, and three are the most that are kept.
    assert len(entries) <= 3 * len(found), f"more entries than are kept: {entries}"
    return found
