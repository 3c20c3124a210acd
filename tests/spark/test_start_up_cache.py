"""The start-up cache is made once, used, and never the reason why a start fails or lies."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from playhead.spark import jvm, jvm_cache
from playhead.spark.session import DEFAULT_MEMORY
from tests.fix_environment import processes_that_mention
from tests.fix_replay import within

WITHIN_S = 240.0
JOB = """
from playhead.spark import session
spark = session.session("cached")
print(spark.range(7).count(), session.uses_cache())
"""


@pytest.fixture(scope="module")
def made(own_environment: None) -> jvm_cache.Cache:
    """The real cache of this machine, made now if it was not there."""
    # In a process of its own: it ends the engine that it has trained, and ours is in use.
    subprocess.run(
        [sys.executable, "-m", "playhead.replay.engine_warmup"], check=True, timeout=WITHIN_S
    )
    cache = jvm_cache.cache_for(jvm.blueprint_for(DEFAULT_MEMORY))
    assert cache is not None
    assert cache.is_there()
    return cache


@pytest.fixture
def private(
    made: jvm_cache.Cache, servers_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[jvm_cache.Cache]:
    """A copy of it, in a cache folder of this test's own, that may be spoilt."""
    home = servers_folder / f"cache-{os.urandom(4).hex()}"
    folder = home / "playhead"
    (folder / "aot").mkdir(parents=True)
    (folder / "jars").mkdir()
    shutil.copy2(made.file, folder / "aot")
    shutil.copy2(made.note, folder / "aot")
    for jar in jvm.jars.ensure("engine"):
        shutil.copy2(jar, folder / "jars")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    # The name follows from the class path, which now goes through the private folder.
    cache = jvm_cache.cache_for(jvm.blueprint_for(DEFAULT_MEMORY))
    assert cache is not None
    (folder / "aot" / made.file.name).rename(cache.file)
    (folder / "aot" / made.note.name).rename(cache.note)
    monkeypatch.setenv("PLAYHEAD_MAVEN_URL", "http://127.0.0.1:1")
    yield cache
    shutil.rmtree(home, ignore_errors=True)


def run_job() -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def warnings_of(done: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("playhead:")]


def test_it_is_used_and_nothing_is_said(made: jvm_cache.Cache) -> None:
    done = run_job()
    assert done.stdout.split() == ["7", "True"], done.stderr
    assert done.stderr == ""


def test_it_was_trained_on_a_job_like_ours(made: jvm_cache.Cache) -> None:
    note = made.read_note()
    assert note is not None
    assert note.trained_on == ["arrow", "kafka"]


def test_a_foreign_one_is_ignored_with_one_line(private: jvm_cache.Cache) -> None:
    """The private copy was made for jars of another place: whole, and not for this class path."""
    done = run_job()
    assert done.stdout.split()[0] == "7", done.stderr
    assert len(warnings_of(done)) == 1
    assert "does not fit this runtime" in warnings_of(done)[0]
    assert not private.is_there(), "the next start makes it anew"


def garbage(cache: jvm_cache.Cache) -> None:
    cache.file.write_bytes(os.urandom(cache.file.stat().st_size))


def flipped(cache: jvm_cache.Cache) -> None:
    with cache.file.open("r+b") as stream:
        stream.seek(40_000_000)
        stream.write(b"\xff" * 4_000_000)


@pytest.mark.parametrize("spoil", [garbage, flipped])
def test_a_damaged_one_is_ignored_with_one_line(
    made: jvm_cache.Cache, spoil: Callable[[jvm_cache.Cache], None]
) -> None:
    """Right name, right size, other bytes, as a bad disk would leave it.

    The whole one is moved away and not written to: engines that run now have it in their memory.
    """
    kept = made.file.with_suffix(".kept")
    note = made.note.read_bytes()
    made.file.rename(kept)
    try:
        shutil.copy2(kept, made.file)
        spoil(made)
        done = run_job()
        assert done.stdout.split() == ["7", "False"], done.stderr
        assert len(warnings_of(done)) == 1, done.stderr
        assert "ignoring" in warnings_of(done)[0]
        assert not made.note.exists()
    finally:
        kept.replace(made.file)
        made.note.write_bytes(note)


def test_a_truncated_one_does_not_count(made: jvm_cache.Cache) -> None:
    copy = jvm_cache.Cache(made.file.with_name("truncated.aot"))
    try:
        shutil.copy2(made.note, copy.note)
        copy.file.write_bytes(made.file.read_bytes()[:1_000_000])
        assert not copy.is_there()
    finally:
        copy.discard()


@pytest.mark.torture
def test_a_start_without_one_makes_it_in_the_background(servers_folder: Path) -> None:
    home = servers_folder / "cache-first"
    environment = os.environ | {"XDG_CACHE_HOME": str(home)}
    del environment[jvm_cache.SWITCH]
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=environment,
    )
    assert done.stdout.split() == ["7", "False"], done.stderr
    # It is made only while the processor is idle, which the machine of a test may never be.
    deadline = time.monotonic() + 4 * WITHIN_S
    while not list(home.glob("playhead/aot/*.json")) and time.monotonic() < deadline:
        for process in processes_that_mention(str(home)):
            hurry(process)
        time.sleep(0.2)
    again = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=environment,
    )
    assert again.stdout.split() == ["7", "True"], again.stderr
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.torture
def test_two_that_make_it_at_once_make_it_once(servers_folder: Path) -> None:
    """One trains; the other sees that somebody is at it and leaves at once."""
    home = servers_folder / "cache-twice"
    environment = os.environ | {"XDG_CACHE_HOME": str(home)}
    fetch = [sys.executable, "-c", "from playhead.host import jars; jars.ensure('engine')"]
    subprocess.run(fetch, env=environment, check=True, timeout=WITHIN_S)
    both = [
        subprocess.Popen([sys.executable, "-m", "playhead.replay.engine_warmup"], env=environment)
        for _ in range(2)
    ]
    assert [one.wait(WITHIN_S) for one in both] == [0, 0]
    assert len(list(home.glob("playhead/aot/*.aot"))) == 1
    assert not list(home.glob("playhead/aot/*.new*"))
    found = jvm_cache.Cache(next(home.glob("playhead/aot/*.aot")))
    assert jvm_cache.Check(found).is_whole()
    shutil.rmtree(home)


def hurry(process: int) -> None:
    """Give a process and its threads the usual priority."""
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)


TRAINING = """
import signal
from playhead.replay import engine_warmup
signal.signal(signal.SIGALRM, engine_warmup.give_up)
engine_warmup.train()
"""


@pytest.mark.torture
@pytest.mark.parametrize("sign", ["AOTCacheOutput", "AOTMode=create"], ids=["engine", "helper"])
def test_one_that_takes_too_long_leaves_nothing(servers_folder: Path, sign: str) -> None:
    """While the engine trains, and while its helper writes the cache, which takes as long again."""
    home = servers_folder / f"cache-late-{len(sign)}"
    environment = os.environ | {"XDG_CACHE_HOME": str(home)}
    command = subprocess.Popen([sys.executable, "-c", TRAINING], env=environment)

    def mention(text: str) -> set[int]:
        found = processes_that_mention(text).keys() & processes_that_mention(str(home)).keys()
        return found - {command.pid}

    within(lambda: bool(mention(sign)), seconds=WITHIN_S, what=f"a process with {sign}")
    command.send_signal(signal.SIGALRM)
    assert command.wait(WITHIN_S) == 1
    within(lambda: not mention(str(home)), seconds=30, what="its processes are gone")
    assert not list(home.glob("playhead/aot/*.new*"))
    shutil.rmtree(home)
