"""Python's daemon of an engine's workers, which are forked from it: with what their tasks load loaded once."""

import importlib
from collections.abc import Sequence

_OF_SPARK = ("pyarrow", "pyspark.worker", "playhead.spark.run", "playhead.spark.arrow_rows")
SETTING = "spark.python.daemon.module"


def serve(modules: Sequence[str]) -> None:
    """Load these and Spark's own, then serve as PySpark's daemon does."""
    for name in (*_OF_SPARK, *modules):
        importlib.import_module(name)
    from pyspark.daemon import manager

    manager()
