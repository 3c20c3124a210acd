"""Returns a Spark session: local by default, or a master's, a remote one, or the active one."""

import atexit
import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.config import exposed_logins
from playhead.errors import MissingPiece
from playhead.host import jars
from playhead.host.runtimes import workers_path
from playhead.host.threads import call_within
from playhead.spark import (
    attached,
    closed_ports,
    engine_settings,
    jvm,
    jvm_boot,
    jvm_cache,
    process_habits,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MEMORY = "1g"
_LOOPBACK = "127.0.0.1"
_CACHE_WRITTEN_WITHIN_S = 120.0
# The second compiler takes 2.4 s of the 7 s of processor time of a cold replay of 20,000 records.
_BRIEF = ("-XX:TieredStopAtLevel=1",)
_STOPPED_WITHIN_S = 5.0


_engine: jvm_boot.Engine | None = None


def session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    memory: str = DEFAULT_MEMORY,
    conf: Mapping[str, str] | None = None,
    is_brief: bool = False,
) -> "SparkSession":
    """Return a session whose application and jobs are called `name`.

    In this order: a Spark Connect server at `remote`; the session that is already active (in a notebook, or on a
    platform); the cluster of `master`; this machine. Only DataFrames are required of the cluster, so the same
    job runs on all of them. `conf` and `memory` apply to an engine that is started here, and `is_brief` too: a
    JVM with little to do, which would end before the code is compiled that it would have been faster with.
    """
    _require("pyspark")
    if remote is not None:
        # PySpark ends the whole process with status 0 if one of these is missing.
        _require("grpc", "grpc_status", "zstandard")
        from pyspark.sql import SparkSession

        engine_settings.heed_remote(remote)
        process_habits.keep_off_proxies(remote)
        process_habits.leave_servers_at_once()
        process_habits.without_advice()
        return SparkSession.builder.remote(remote).appName(name).getOrCreate()
    spark = _active()
    if spark is None:
        spark = _start(
            engine_settings.settings(name, master or engine_settings.LOCAL) | dict(conf or {}),
            memory,
            is_brief,
        )
    describe(spark, name)
    if hasattr(spark, "_jsparkSession") and not tasks_are_ours(spark):
        context = spark.sparkContext
        if context.getConf().get("spark.authenticate", "false") != "true":
            exposed_logins.of_engine(context.master)
    return spark


def describe(spark: "SparkSession", description: str) -> None:
    """Name the jobs of this thread in Spark's UI."""
    if hasattr(spark, "_jsparkSession"):  # Spark Connect names its work only by the application.
        attached.mark()
        spark.sparkContext.setJobDescription(description)


def jvm_pid() -> int | None:
    """Return the process id of this process's engine; None if there is none or it is elsewhere."""
    return _engine.gateway.process.pid if _engine is not None else None


def jvm_is_running() -> bool:
    """Return whether this process has a living engine."""
    return _engine is not None and _engine.gateway.process.poll() is None


def has_died() -> bool:
    """Return whether this process's engine has died."""
    return _engine is not None and _engine.gateway.process.poll() is not None


def ran_out_of_memory() -> bool:
    """Return whether this process's engine died with a full heap."""
    return _engine is not None and _engine.gateway.ran_out_of_memory()


def own_folder() -> Path | None:
    """Return the private folder of this process's engine; None if it is elsewhere."""
    if (lent := attached.lent()) is not None:
        return lent.folder
    return _engine.gateway.folder.path if _engine is not None else None


def tasks_are_ours(spark: "SparkSession") -> bool:
    """Return whether tasks run on this machine as this user, so that they can read our private files."""
    is_remote = not hasattr(spark, "_jsparkSession")
    return not is_remote and spark.sparkContext.master.startswith("local")


def memory() -> str | None:
    """Return the heap of this process's engine; None if it is elsewhere, or another program started it."""
    return _engine.gateway.memory if _engine is not None else None


def answers(within_s: float) -> bool:
    """Return whether this process's engine responds; True if there is none."""
    if not jvm_is_running():
        return True

    def ask() -> None:
        from pyspark import SparkContext

        with contextlib.suppress(Exception):  # An error is a response too.
            SparkContext._jvm.java.lang.System.nanoTime()

    return _ends_within(ask, within_s)


def slots(spark: "SparkSession") -> int:
    """Return how many tasks the session runs at once, as Spark counts."""
    if hasattr(spark, "_jsparkSession"):
        return int(spark.sparkContext.defaultParallelism)
    # Spark Connect reveals it by the number of partitions of undivided data.
    parts = spark.range(1 << 16).selectExpr("spark_partition_id() AS part").distinct()
    return int(parts.count())


def uses_cache() -> bool:
    """Return whether this process's engine started from the start-up cache."""
    return _engine is not None and _engine.has_cache


def stop(spark: "SparkSession") -> None:
    """End the session; its JVM ends with this process, or serves the next session."""
    spark.stop()


def leave(spark: "SparkSession") -> None:
    """End a session that has lost its cluster, so that the next one is new."""
    if not hasattr(spark, "_jsparkSession"):
        spark.client.set_retry_policies([])  # by default, it asks a lost server for ten minutes
        with contextlib.suppress(Exception):
            spark.client.release_session()
        spark.release_session_on_close = False
    with contextlib.suppress(Exception):
        spark.stop()


def shut_down() -> None:
    """End this process's engine, if there is one; also called when the process ends.

    Active contexts are stopped before their JVM; otherwise PySpark's threads print errors.
    """
    global _engine  # noqa: PLW0603
    if _engine is None:
        return
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    if active is not None and jvm_is_running() and not _stops(active):
        jvm.kill(_engine.gateway.process)
    if SparkContext._gateway is not None:
        # Objects released from now on must not be released in the dead JVM too; each release from
        # another thread would print a traceback.
        SparkContext._gateway._gateway_client.is_connected = False
    _engine.gateway.close()
    _engine = None
    SparkContext._gateway = SparkContext._jvm = None
    _forget_dead_sessions()


def _stops(active: "SparkContext") -> bool:
    """Stop an active context in time, because a hanging JVM never does."""

    def stop_it() -> None:
        with contextlib.suppress(
            Exception
        ):  # The process often ends here, and no one reads the error.
            process_habits.stop_accumulators_aside(active)
            active.stop()

    return _ends_within(stop_it, _STOPPED_WITHIN_S)


def _ends_within(call: Callable[[], None], seconds: float) -> bool:
    try:
        call_within(call, seconds, name="engine")
    except TimeoutError:
        return False
    return True


def _forget_dead_sessions() -> None:
    """Forget contexts of a dead JVM, which cannot be stopped, and which PySpark would return forever."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingPiece(
                package, needed_for="running a Spark job", hint="pip install 'playhead[local]'"
            )


def _active() -> "SparkSession | None":
    if (lent := attached.lent()) is not None:
        return lent.spark
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (found := SparkSession.getActiveSession()) is not None:
        return found
    # "Active" is per thread; another thread's session is as good.
    return SparkSession._instantiatedSession if SparkContext._active_spark_context else None


def _start(settings: dict[str, str], memory: str, is_brief: bool) -> "SparkSession":
    engine_settings.refuse_bad_master(settings["spark.master"])
    if os.environ.get("SPARK_HOME"):
        return _start_by_its_own_scripts(settings, memory)
    if _has_jvm():
        return _build(settings)
    spark, cache = jvm_boot.again_if_killed(
        lambda: _booted(settings, memory, _BRIEF if is_brief else ())
    )
    if cache is not None and not cache.is_there():
        jvm_cache.start_training()
    return spark


def _booted(
    settings: dict[str, str], memory: str, options: Sequence[str]
) -> "tuple[SparkSession, jvm_cache.Cache | None]":
    engine, cache = jvm_boot.boot(settings, memory, options)
    try:
        return _connect(engine, settings), cache
    except Exception as exc:
        if not engine.gateway.was_killed():
            raise
        log = engine.gateway.log
        shut_down()
        raise jvm.EngineKilled(log) from exc


@contextmanager
def started_for_training(
    blueprint: jvm.JvmCommand, options: Sequence[str]
) -> "Iterator[SparkSession]":
    """Yield a session on its own JVM with more options; wait for that JVM's end."""
    settings = engine_settings.settings("playhead start-up cache", engine_settings.LOCAL)
    gateway = jvm.launch(blueprint, settings, more_options=options).wait()
    spark = _connect(jvm_boot.Engine(gateway, has_cache=False), settings)
    try:
        yield spark
        spark.stop()
    finally:
        gateway.close(patience_s=_CACHE_WRITTEN_WITHIN_S)
        shut_down()


def _has_jvm() -> bool:
    """Return whether an earlier session of this process left its JVM; release a dead one."""
    if _engine is not None and not jvm_is_running():
        shut_down()
    if "pyspark" not in sys.modules:  # Do not import it before the JVM is starting.
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _build(settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    # Read by each new context, also by one in a JVM that has had others.
    workers = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    with process_habits.kept_away(), _environment(workers):
        spark = builder.getOrCreate()
        closed_ports.close_or_say(spark.sparkContext, jvm_boot.warn)
    process_habits.quiet(spark.sparkContext)
    return spark


def _connect(engine: jvm_boot.Engine, settings: Mapping[str, str]) -> "SparkSession":
    """Connect PySpark to the JVM by two environment variables, as it offers."""
    global _engine
    _engine, gateway = engine, engine.gateway
    process_habits.refuse_strangers(gateway.port)
    handed = {
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.secret,
    }
    with _environment(handed):
        spark = _build(settings)
    atexit.register(shut_down)
    return spark


def _start_by_its_own_scripts(settings: dict[str, str], memory: str) -> "SparkSession":
    """Start a Spark that the user installed with its own setup, plus our connector and names."""
    settings.setdefault("spark.jars", ",".join(jar.as_uri() for jar in jars.ensure("engine")))
    settings.setdefault("spark.driver.memory", memory)
    words = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    more = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    handed = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{shlex.join(words)} {more}",
    }
    if settings["spark.master"].startswith("local"):
        handed["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)
    with _environment(handed | workers_path()):
        from pyspark import SparkContext

        # First without the settings: PySpark would put them on a command line, including secrets.
        SparkContext._ensure_initialized()
        return _build(settings)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
