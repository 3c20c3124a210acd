"""An environment of the run's own, and the rule that nothing of it is left running."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead import secrets
from playhead.sandbox import broker

_LEFT_ALONE = ("PLAYHEAD_MAVEN_URL", "PLAYHEAD_ABORT_AT")
_GONE_WITHIN_S = 20.0
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session", autouse=True)
def own_environment(servers_folder: Path) -> Iterator[None]:
    """State and configuration of this run alone; jars and the start-up cache are everybody's.

    `make setup` has made the cache. Should it be gone, no command of a test trains another beside the tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            ours = name.startswith("PLAYHEAD_") and name not in _LEFT_ALONE
            if ours or name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "SPARK_REMOTE"):
                patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", str(servers_folder / "state"))
        patch.setenv("XDG_CONFIG_HOME", str(servers_folder / "config"))
        patch.setenv("COLUMNS", "80")
        patch.setenv("PLAYHEAD_AOT_CACHE", "use")
        patch.setenv("PLAYHEAD_WARM", "off")
        # A run of tests is over before the second compiler of Java has paid: it is a third of the CPU time of
        # an engine's start, and 40 % of a broker's. A server takes nothing from the environment.
        patch.setenv("JDK_JAVA_OPTIONS", _ONE_COMPILER)
        patch.setattr(broker, "_JAVA_OPTIONS", (*broker._JAVA_OPTIONS, _ONE_COMPILER))
        yield
    # This fixture is the first of the run and so the last to end: all others have cleaned up.
    left = _wait_for_none(servers_folder)
    shown = [f"{pid}: {command[:100]} … {command[-100:]}" for pid, command in left.items()]
    assert not shown, f"processes of this run are left: {shown}"


@pytest.fixture(autouse=True)
def own_secrets() -> Iterator[None]:
    """A word that was a secret in one test is a word in the next, and not to be redacted there."""
    before = set(secrets._known)
    yield
    secrets._known.intersection_update(before)


def processes_that_mention(text: str) -> dict[int, str]:
    """Living processes, other than this one, with a text in their command line or environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (
                (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
            mentions = text in command or text.encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if command and mentions:
            found[int(entry.name)] = command
    return found


def _wait_for_none(folder: Path) -> dict[int, str]:
    deadline = time.monotonic() + _GONE_WITHIN_S
    while (
        left := not_training(processes_that_mention(str(folder)))
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def not_training(processes: dict[int, str]) -> dict[int, str]:
    """Without the start-up cache's training, which outlives its command by design and ends by itself."""
    return {
        pid: command
        for pid, command in processes.items()
        if "playhead.replay.engine_warmup" not in command and "AOTCache" not in command
    }
