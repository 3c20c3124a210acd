"""One function that gives a Spark session: local by default, or a master's, or a remote one, or the active one."""

import atexit
import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.config import exposed_logins
from playhead.errors import MissingPiece
from playhead.host import jars
from playhead.host.runtimes import workers_path
from playhead.host.threads import call_within
from playhead.printable import printable
from playhead.spark import engine_settings, jvm, jvm_cache, process_habits

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DEFAULT_MEMORY = "1g"
_LOOPBACK = "127.0.0.1"
_CACHE_WRITTEN_WITHIN_S = 120.0
_STOPPED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class _Engine:
    """The JVM of this process; PySpark allows one."""

    gateway: jvm.Gateway
    has_cache: bool


_engine: _Engine | None = None


def session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    memory: str = DEFAULT_MEMORY,
    ui: bool = False,
    conf: Mapping[str, str] | None = None,
) -> "SparkSession":
    """A session whose application and jobs carry `name`.

    In this order: a Spark Connect server at `remote`; the session that is already active here (in a
    notebook, on a platform that brings its own); the cluster of `master`; this machine. Nothing of what
    is given is asked of the cluster beyond DataFrames, so the same job runs on all of them. `conf` and
    `memory` are for an engine that is started here; one that runs already has its own.
    """
    _require("pyspark")
    if remote is not None:
        # PySpark ends the whole process, with status 0, when one of these is missing.
        _require("grpc", "grpc_status", "zstandard")
        from pyspark.sql import SparkSession

        exposed_logins.of_connect(remote)
        return SparkSession.builder.remote(remote).appName(name).getOrCreate()
    spark = _active()
    if spark is None:
        spark = _start(
            engine_settings.settings(name, master or engine_settings.LOCAL, ui) | dict(conf or {}),
            memory,
        )
    describe(spark, name)
    if hasattr(spark, "_jsparkSession") and not tasks_are_ours(spark):
        context = spark.sparkContext
        if context.getConf().get("spark.authenticate", "false") != "true":
            exposed_logins.of_engine(context.master)
    return spark


def describe(spark: "SparkSession", description: str) -> None:
    """Have the jobs that this thread starts carry a name in Spark's own UI."""
    if hasattr(spark, "_jsparkSession"):  # Spark Connect names its work by the application alone
        spark.sparkContext.setJobDescription(description)


def interrupt(spark: "SparkSession") -> None:
    """End the jobs that run on the session, from another thread."""
    if hasattr(spark, "_jsparkSession"):
        spark.sparkContext.cancelAllJobs()
    else:
        spark.interruptAll()


def jvm_pid() -> int | None:
    """The process id of this process's own engine; None when there is none or it is elsewhere."""
    return _engine.gateway.process.pid if _engine is not None else None


def jvm_is_running() -> bool:
    """True while this process has an engine that has not died."""
    return _engine is not None and _engine.gateway.process.poll() is None


def has_died() -> bool:
    """True when this process had an engine of its own, and it is gone."""
    return _engine is not None and _engine.gateway.process.poll() is not None


def ran_out_of_memory() -> bool:
    """True when this process's own engine is gone, and its heap was full."""
    return _engine is not None and _engine.gateway.ran_out_of_memory()


def own_folder() -> Path | None:
    """The private folder of this process's own engine; None when it is elsewhere."""
    return _engine.gateway.folder.path if _engine is not None else None


def tasks_are_ours(spark: "SparkSession") -> bool:
    """Whether tasks run on this machine and as this user, so that they read what only we can."""
    is_remote = not hasattr(spark, "_jsparkSession")
    return not is_remote and spark.sparkContext.master.startswith("local")


def memory() -> str | None:
    """The heap of this process's own engine; None when it is elsewhere, or set up by somebody else."""
    return _engine.gateway.memory if _engine is not None else None


def answers(within_s: float) -> bool:
    """Whether the engine of this process does what it is told; True when there is none."""
    if not jvm_is_running():
        return True

    def ask() -> None:
        from pyspark import SparkContext

        with contextlib.suppress(Exception):  # an error is an answer, too
            SparkContext._jvm.java.lang.System.nanoTime()

    return _ends_within(ask, within_s)


def slots(spark: "SparkSession") -> int:
    """How many tasks the session runs at once, as Spark itself counts."""
    if hasattr(spark, "_jsparkSession"):
        return int(spark.sparkContext.defaultParallelism)
    # Through Spark Connect it shows in how much is made of something that nobody has divided.
    parts = spark.range(1 << 16).selectExpr("spark_partition_id() AS part").distinct()
    return int(parts.count())


def uses_cache() -> bool:
    """True when this process's engine was started from the start-up cache."""
    return _engine is not None and _engine.has_cache


def stop(spark: "SparkSession") -> None:
    """End the session; its JVM ends with this process, or serves the next session in it."""
    spark.stop()


def shut_down() -> None:
    """End the engine of this process, if there is one; happens by itself when the process ends.

    What is still active is stopped before its JVM: the other way round PySpark's threads complain.
    """
    global _engine  # noqa: PLW0603
    if _engine is None:
        return
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    if active is not None and jvm_is_running() and not _stops(active):
        _engine.gateway.process.kill()
    if SparkContext._gateway is not None:
        # Objects that are let go from now on need not be let go in a JVM that is gone, too; of those
        # that another thread made, each would print a traceback about it.
        SparkContext._gateway._gateway_client.is_connected = False
    _engine.gateway.close()
    _engine = None
    SparkContext._gateway = SparkContext._jvm = None
    _forget_dead_sessions()


def _stops(active: "SparkContext") -> bool:
    """Stop what is active, which a JVM that hangs never does."""

    def stop_it() -> None:
        with contextlib.suppress(Exception):  # often the process ends, and nobody is left to tell
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
    """A context whose JVM has died cannot be stopped, and PySpark would hand it out for ever."""
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
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if (found := SparkSession.getActiveSession()) is not None:
        return found
    # Active is a matter of one thread; the session that another has started is as good.
    return SparkSession._instantiatedSession if SparkContext._active_spark_context else None


def _start(settings: dict[str, str], memory: str) -> "SparkSession":
    if os.environ.get("SPARK_HOME"):
        return _start_by_its_own_scripts(settings, memory)
    if _has_jvm():
        return _build(settings | engine_settings.executors_secret(settings))
    blueprint = jvm.blueprint_for(memory)
    cache = jvm_cache.cache_for(blueprint)
    usable = cache if cache is not None and cache.is_there() else None
    booting = jvm.launch(blueprint, settings, more_options=usable.options if usable else ())
    check = jvm_cache.Check(usable) if usable else None
    _import_pyspark()
    engine = _settle(booting, check, usable, blueprint, settings)
    spark = _connect(engine, settings)
    if cache is not None and not cache.is_there():
        jvm_cache.start_training()
    return spark


def _import_pyspark() -> None:
    """What every session loads sooner or later, loaded while the JVM boots."""
    import pyspark.sql
    import pyspark.testing.utils  # noqa: F401  PySpark looks in here on its first call to the JVM


def _settle(
    booting: jvm.Launch,
    check: jvm_cache.Check | None,
    cache: jvm_cache.Cache | None,
    blueprint: jvm.JvmCommand,
    settings: dict[str, str],
) -> _Engine:
    """The JVM that is booting, or another one without the cache when that is bad."""
    if check is None or cache is None:
        return _Engine(booting.wait(), has_cache=False)
    try:
        gateway = booting.wait()
    except jvm.EngineDidNotStart:
        return _without(cache, "the JVM did not start with it", blueprint, settings)
    if not check.is_whole():
        gateway.close()
        return _without(cache, "it is damaged", blueprint, settings)
    if jvm_cache.was_refused(gateway.log):
        _warn(f"the engine's start-up cache is not for this runtime; ignored ({cache.file})")
        cache.discard()
        return _Engine(gateway, has_cache=False)
    return _Engine(gateway, has_cache=True)


def _warn(text: str) -> None:
    sys.stderr.write(f"playhead: {printable(text)}\n")


def _without(
    cache: jvm_cache.Cache, reason: str, blueprint: jvm.JvmCommand, settings: dict[str, str]
) -> _Engine:
    gateway = jvm.launch(blueprint, settings).wait()
    # Only now is it known that the cache was to blame, and not whatever would stop any start.
    _warn(f"the engine's start-up cache is ignored: {reason} ({cache.file})")
    cache.discard()
    return _Engine(gateway, has_cache=False)


@contextmanager
def started_for_training(
    blueprint: jvm.JvmCommand, options: Sequence[str]
) -> "Iterator[SparkSession]":
    """A session on a JVM of its own with more options, whose end waits until that JVM is gone."""
    settings = engine_settings.settings("playhead start-up cache", engine_settings.LOCAL, ui=False)
    gateway = jvm.launch(blueprint, settings, more_options=options).wait()
    spark = _connect(_Engine(gateway, has_cache=False), settings)
    try:
        yield spark
    finally:
        spark.stop()
        gateway.close(patience_s=_CACHE_WRITTEN_WITHIN_S)
        shut_down()


def _has_jvm() -> bool:
    """True when an earlier session of this process has left its JVM to us; a dead one is let go."""
    if _engine is not None and not jvm_is_running():
        shut_down()
    if "pyspark" not in sys.modules:  # and not to be loaded before the JVM is on its way
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _build(settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with process_habits.kept_away():
        return builder.getOrCreate()


def _connect(engine: _Engine, settings: Mapping[str, str]) -> "SparkSession":
    """Hand the JVM to PySpark in the way it offers: two environment variables."""
    global _engine
    _engine, gateway = engine, engine.gateway
    handed = {
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.secret,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with _environment(handed):
        spark = _build(dict(settings) | engine_settings.executors_secret(settings))
    process_habits.quiet(spark.sparkContext)
    atexit.register(shut_down)
    return spark


def _start_by_its_own_scripts(settings: dict[str, str], memory: str) -> "SparkSession":
    """A Spark that the user brought starts as its owner set it up; we add the connector and our names."""
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

        # First without the settings: PySpark would put all of them on a command line, secrets too.
        SparkContext._ensure_initialized()
        return _build(settings | engine_settings.executors_secret(settings))


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
