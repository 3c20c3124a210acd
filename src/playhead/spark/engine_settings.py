"""The settings of an engine that starts here: small, authenticated, and on loopback."""

import os
import re

from playhead import secrets
from playhead.config import exposed_logins
from playhead.errors import BadValue, Refused
from playhead.host import jars

LOCAL = "local[*]"
_LOCAL_CLUSTER = "local-cluster"
_COUNT = "0*[1-9][0-9]{0,3}"
_PLACE = r"(?:[^\s:/@,\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
# Of a local one: tasks at once, and how often each is tried. What other cluster managers take, they say.
_MASTER = re.compile(
    rf"local(?:\[(?:\*|{_COUNT})(?:\s*,\s*{_COUNT})?\])?|spark://{_PLACE}(?:,{_PLACE})*"
    r"|(?!local|spark:)(?:[^\s:]*|[^\s:]+://\S+)"
)
_LOOPBACK = "127.0.0.1"
# Keeps other users of this machine out; Spark makes the secret of its own process itself.
_CLOSED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}
# An error such as a full stack fails its task. Spark would end the process, which is the driver too, and
# the others would learn nothing of the reason. A full heap ends it in any case.
_SURVIVES = {"spark.executor.killOnFatalError.depth": "0"}
_REDACTED = "(?i)secret|password|passwd|token|credential|jaas|access[.]?key|ssl[.].*key"


def refuse_bad_master(master: str) -> None:
    """Refuse a master that Spark does not understand, and the cluster that it keeps for its own tests.

    The cluster's web pages require no login, and without SPARK_HOME its executors run the jars of the working folder.
    """
    if master.startswith(_LOCAL_CLUSTER):
        raise Refused(
            f"the Spark master {master} is open to other users of this machine, and runs jars of the "
            "folder where a command starts",
            hint="local[N] runs N tasks on this machine; for several processes, start a cluster of Spark's "
            "with spark.authenticate, and give its spark://HOST:PORT",
        )
    if _MASTER.fullmatch(master) is None:
        raise BadValue(
            "spark_master",
            found=secrets.shown_address(master),
            needed="local[*], local[N] for N tasks at once, spark://HOST:PORT, yarn, or k8s://HOST:PORT",
            where="the settings",
        )


def heed_remote(remote: str) -> None:
    """Refuse an invalid address of Spark Connect; warn of one without encryption."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        DefaultChannelBuilder(remote)
    except ValueError as exc:  # Its text may have the token in it.
        raise BadValue(
            "spark_remote",
            found=secrets.shown_address(remote),
            needed="sc://HOST:PORT, or sc://HOST:PORT/;NAME=VALUE;…",
            where="the settings",
        ) from exc
    exposed_logins.of_connect(remote)


def settings(name: str, master: str) -> dict[str, str]:
    """Return the settings of an application on this machine, or one that drives a cluster from here."""
    said = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.redaction.regex": _REDACTED,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # These logs are not used, and a pipeline writes five a second.
        **{f"spark.ui.retained{each}": "50" for each in ("Jobs", "Stages", "Tasks")},
        "spark.sql.ui.retainedExecutions": "10",
    }
    if master.startswith("local"):
        # One wave of tasks; Spark's 200 are for a cluster's data.
        said["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        said |= _CLOSED | _SURVIVES
    if _stays_here(master):
        said |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    if not master.startswith("local"):
        # Executors are separate processes; on this machine the jars are on the class path already.
        said["spark.jars"] = ",".join(jar.as_uri() for jar in jars.ensure("engine"))
    return said


def _stays_here(master: str) -> bool:
    return master.startswith(("local", f"spark://{_LOOPBACK}:", "spark://localhost:"))
