"""What each run of a process has to itself on the engine that they share: a session, and a tag on its jobs."""

import contextlib
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
    is_shared = hasattr(spark, "_jsparkSession") and attached.lent() is None
    return spark.newSession() if is_shared else spark


@contextmanager
def tagged(spark: "SparkSession", tag: str) -> Iterator[None]:
    """Give the jobs that this thread starts meanwhile a tag, by which `interrupt` finds them."""
    jobs = spark.sparkContext if hasattr(spark, "_jsparkSession") else None
    jobs.addJobTag(tag) if jobs is not None else spark.addTag(tag)
    try:
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
