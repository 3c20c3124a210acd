"""One Spark session for the whole run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(own_environment: None) -> "Iterator[SparkSession]":
    """A local session of the engine, as every command gets it."""
    from playhead.spark import session

    started = session.session("playhead tests")
    yield started
    session.stop(started)
    session.shut_down()
