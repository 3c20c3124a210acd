"""One Spark session for the whole run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from playhead.host import paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def logs_of(pid: int) -> list[Path]:
    """What the engines of a process have written, crash reports included."""
    return sorted((paths.state_dir() / "logs").glob(f"engine-*-{pid}.log*"))


@pytest.fixture(scope="session")
def spark(own_environment: None) -> "Iterator[SparkSession]":
    """A local session of the engine, as every command gets it."""
    from playhead.spark import session

    started = session.session("playhead tests")
    pid = session.jvm_pid()
    yield started
    log = "\n".join(file.read_text() for file in logs_of(os.getpid()))
    assert session.jvm_is_running(), f"the engine {pid} has died on the way:\n{log[-3000:]}"
    session.stop(started)
    session.shut_down()
