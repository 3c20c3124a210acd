"""What each run of a process has to itself on the engine that they share: a session, and a tag on its jobs."""

import contextlib
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playhead.spark import attached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_own_settings(spark: "SparkSession") -> "SparkSession":
    """Return a session on the same engine whose settings no other run changes.

    Over Spark Connect a process has one session, so its runs share the settings.
    """
    if not hasattr(spark, "_jsparkSession") or attached.lent() is not None:
        return spark
    made = spark.newSession()
    _own.add(made)
    return made


_own: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()
_theirs: "list[SparkSession | None]" = [None]
"""The session that the user had made active when one was last seen."""


@contextmanager
def _active_as_before() -> Iterator[None]:
    """Leave active the session that is: PySpark makes the one active that reads a table of ours."""
    from pyspark.sql import SparkSession

    _note_theirs()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # An engine that has died has none.
            _note_theirs()
            # While another run is in another thread, the active session may be its own.
            before = _theirs[0] or SparkSession._instantiatedSession
            if before is not None and SparkSession._activeSession is not before:
                SparkSession._activeSession = before
                module = SparkSession._get_j_spark_session_class(before._jvm)
                module.setActiveSession(before._jsparkSession)


def _note_theirs() -> None:
    """Remember the active session if it is none of ours; none is active where the engine was stopped."""
    from pyspark.sql import SparkSession

    active = SparkSession._activeSession
    if active is None or active not in _own:
        _theirs[0] = active


@contextmanager
def tagged(spark: "SparkSession", tag: str) -> Iterator[None]:
    """Give the jobs that this thread starts meanwhile a tag, by which `interrupt` finds them."""
    jobs = spark.sparkContext if hasattr(spark, "_jsparkSession") else None
    jobs.addJobTag(tag) if jobs is not None else spark.addTag(tag)
    try:
        with _active_as_before() if jobs is not None else contextlib.nullcontext():
            yield
    finally:
        # An engine that has died meanwhile has no jobs, and its error is the one to report.
        with contextlib.suppress(Exception):
            jobs.removeJobTag(tag) if jobs is not None else spark.removeTag(tag)


def interrupt(spark: "SparkSession", tag: str) -> None:
    """End the running jobs with this tag, from another thread."""
    if hasattr(spark, "_jsparkSession"):
        spark.sparkContext.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)
