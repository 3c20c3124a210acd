"""Closes the port of Spark's driver where no task needs it, and the files that it serves without its secret."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

# The driver's port serves the files of this folder before it requires the secret, and follows `..` in
# their names to every file of the user. Spark names the folder with its first query, unless it has one.
_SERVED = "/artifacts"
# Paths "below" what is no folder lead nowhere, whatever their names are.
_NO_FOLDER = "/dev/null"
_SERVER_OF_DRIVER = "server"


def close_or_say(context: "SparkContext", say: Callable[[str], None]) -> None:
    """Close them; a Spark that the user brought may be another version, whose port stays open."""
    from py4j.protocol import Py4JError

    try:
        close(context)
    except Py4JError:
        if not os.environ.get("SPARK_HOME"):
            raise
        say("the port of the driver stays open, because the Spark of SPARK_HOME is another version")


def close(context: "SparkContext") -> None:
    """Close what strangers can reach of a new context, before its first query."""
    jvm = context._jvm
    environment = getattr(jvm, "org.apache.spark.SparkEnv").get()
    driver = environment.rpcEnv()
    driver.fileServer().addDirectoryIfAbsent(_SERVED, getattr(jvm, "java.io.File")(_NO_FOLDER))
    if context.master.partition("[")[0] == "local":
        # Tasks are in the driver's process, and reach it without its port. The port of its blocks is needed:
        # the driver fetches large results of tasks through it, also from itself.
        field = driver.getClass().getDeclaredField(_SERVER_OF_DRIVER)
        field.setAccessible(True)
        field.get(driver).close()
