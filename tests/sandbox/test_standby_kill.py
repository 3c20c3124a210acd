"""Watchers as processes: stopped gently, or killed anywhere, they leave each file to the next, and no row twice."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import playhead
from playhead.host.faults import abort_points
from tests.fix_environment import processes_that_mention
from tests.fix_replay import (
    LONG_TAPE,
    SMALL_SLICES,
    Deck,
    End,
    Ended,
    end_of,
    ended,
    new_name,
    within,
)

POINTS = sorted(
    name
    for name in abort_points(Path(playhead.__file__).parent)
    if name.startswith(("standby.", "run.")) and name != "standby.saved"
)


@dataclass
class Watched:
    """A folder with one dropped file, which means all of a tape, into a table that would keep what comes twice."""

    name: str
    folder: Path
    end: End
    environment: dict[str, str]
    start_playhead: Callable[..., "subprocess.Popen[str]"]

    def watch(self, *more: str, **environment: str) -> "subprocess.Popen[str]":
        words = ("standby", "watch", str(self.folder), "--yes", "-o", "jsonl", *more)
        return self.start_playhead(*words, **(self.environment | environment))

    def finish(self) -> None:
        done = ended(self.watch("--once"))
        assert done.code == 0, done.err
        self.is_whole()

    def is_whole(self) -> None:
        """The file and its outcome are put away, and everything is there once."""
        assert self.end.numbers() == [*range(LONG_TAPE)]
        assert [file.name for file in self.folder.glob("[!.]*.*")] == []
        assert list((self.folder / "failed").iterdir()) == []
        [outcome] = (self.folder / "done").glob("*.outcome.json")
        [dropped] = {*(self.folder / "done").iterdir()} - {outcome}
        assert json.loads(dropped.read_text()) == {"span": "start..end"}
        proof = json.loads(outcome.read_text())["proof"]
        assert proof["adds_up"]
        assert proof["totals"]["written"] == LONG_TAPE

    def comes_to(self, part: float) -> None:
        what = f"{part:.0%} of the records are there"
        within(lambda: len(self.end.numbers()) >= part * LONG_TAPE, seconds=90, what=what)

    def are_gone(self) -> None:
        within(lambda: not self.processes(), seconds=30, what="its processes are gone")

    def processes(self) -> dict[int, str]:
        found = processes_that_mention(self.name)
        return {
            pid: text for pid, text in found.items() if "AOT" not in text and "warmup" not in text
        }


@pytest.fixture
def watched(
    servers: Deck,
    schema: str,
    long_tape: str,
    tmp_path: Path,
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    request: pytest.FixtureRequest,
) -> Iterator[Watched]:
    deck = replace(servers, schema=schema)
    name, folder = new_name("watched"), tmp_path / "dropped"
    folder.mkdir()
    environment = deck.environment() | {
        SMALL_SLICES: "20",
        "PLAYHEAD_TEST_RUN": name,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    it = Watched(name, folder, end_of(deck, "postgres", tmp_path), environment, start_playhead)
    words = (
        "standby",
        "add",
        name,
        f"kafka:{long_tape}",
        it.end.text,
        *getattr(request, "param", ()),
    )
    added = ended(start_playhead(*words, **environment))
    assert added.code == 0, added.err
    (folder / ".aside").write_text('{"span": "start..end"}')
    (folder / ".aside").rename(folder / f"{name}-1.json")
    yield it
    for pid in it.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


PACED = pytest.mark.parametrize("watched", [("--pace", "200/s")], indirect=True)


def running(it: Watched) -> list[str]:
    return [file.name for file in it.folder.glob("*.running")]


@pytest.mark.torture
@PACED
def test_a_signal_stops_the_watcher_at_a_slice_boundary_and_the_next_finishes(
    watched: Watched,
) -> None:
    watcher = watched.watch()
    watched.comes_to(0.1)
    watcher.send_signal(signal.SIGINT)
    stopped = ended(watcher)
    assert stopped.code == 5, stopped.err
    assert "Traceback" not in stopped.err
    assert f"playhead standby watch {watched.folder}" in stopped.err
    [left] = running(watched)
    assert 0 < len(watched.end.numbers()) < LONG_TAPE
    watched.finish()
    assert left.removesuffix(".running") + ".json" in {
        file.name for file in (watched.folder / "done").iterdir()
    }


@pytest.mark.torture
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(watched: Watched, point: str) -> None:
    died = ended(watched.watch(PLAYHEAD_ABORT_AT=point))
    assert died.code == -signal.SIGKILL, f"{point} was not passed: {died.err}"
    watched.are_gone()
    watched.finish()


@pytest.mark.torture
@PACED
def test_killed_again_and_again_in_the_middle(watched: Watched) -> None:
    for part in (0.2, 0.5, 0.8):
        watcher = watched.watch()
        watched.comes_to(part)
        watcher.kill()
        assert ended(watcher).code == -signal.SIGKILL
        watched.are_gone()
        assert len(running(watched)) == 1
    watched.finish()


@pytest.mark.torture
def test_a_watcher_goes_on_watching_until_it_is_told_to_end(watched: Watched) -> None:
    watcher = watched.watch()
    within(lambda: len([*watched.folder.glob("done/*")]) == 2, seconds=90, what="the first is done")
    (watched.folder / "nobody.json").write_text("{}")
    within(
        lambda: len([*watched.folder.glob("failed/*")]) == 2, seconds=30, what="the second failed"
    )
    watcher.send_signal(signal.SIGTERM)
    told: Ended = ended(watcher)
    assert told.code == 0, told.err
    assert [json.loads(line)["outcome"] for line in told.out.splitlines()] == ["done", "failed"]
    assert watched.end.numbers() == [*range(LONG_TAPE)]
