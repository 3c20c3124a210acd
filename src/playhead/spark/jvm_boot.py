"""Starts the JVM with its start-up cache, without it if the cache is bad, and again if it was killed."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from playhead.printable import printable
from playhead.spark import jvm, jvm_cache

_T = TypeVar("_T")
# What kills every engine, such as a full memory, must end the command.
_STARTS = 3


@dataclass(frozen=True, slots=True)
class Engine:
    """The JVM of this process; PySpark allows only one."""

    gateway: jvm.Gateway
    has_cache: bool


def again_if_killed(start: Callable[[], _T]) -> _T:
    """Return what starts an engine, which is started again if it is killed meanwhile, as a running one is."""
    for _ in range(_STARTS - 1):
        try:
            return start()
        except jvm.EngineKilled:
            warn("the Spark engine was killed while it was starting: starting it again")
    return start()


def boot(
    settings: Mapping[str, str], memory: str, options: Sequence[str] = ()
) -> tuple[Engine, jvm_cache.Cache | None]:
    """Start a JVM without a session, which is not yet this process's engine; also its cache."""
    blueprint = jvm.blueprint_for(memory)
    cache = jvm_cache.cache_for(blueprint)
    usable = cache if cache is not None and cache.is_there() else None
    of_cache = usable.options if usable else ()
    booting = jvm.launch(blueprint, settings, more_options=[*of_cache, *options])
    check = jvm_cache.Check(usable) if usable else None
    _import_pyspark()
    return _settle(booting, check, usable, blueprint, settings), cache


def warn(text: str) -> None:
    """Tell the user what is not as it should be, without ending."""
    sys.stderr.write(f"playhead: {printable(text)}\n")


def _import_pyspark() -> None:
    """Import what every session needs, while the JVM boots."""
    import pyspark.sql
    import pyspark.testing.utils  # noqa: F401  PySpark looks in here on its first call to the JVM


def _settle(
    booting: jvm.Launch,
    check: jvm_cache.Check | None,
    cache: jvm_cache.Cache | None,
    blueprint: jvm.JvmCommand,
    settings: Mapping[str, str],
) -> Engine:
    """Return the booting JVM, or a second one without the cache if the cache is bad."""
    if check is None or cache is None:
        return Engine(booting.wait(), has_cache=False)
    try:
        gateway = booting.wait()
    except jvm.EngineKilled:
        raise  # That is not the cache's fault.
    except jvm.EngineDidNotStart:
        return _without(cache, "the JVM did not start with it", blueprint, settings)
    if not check.is_whole():
        gateway.close()
        return _without(cache, "it is damaged", blueprint, settings)
    if jvm_cache.was_refused(gateway.log):
        warn(f"the engine's start-up cache does not fit this runtime; ignoring it ({cache.file})")
        cache.discard()
        return Engine(gateway, has_cache=False)
    return Engine(gateway, has_cache=True)


def _without(
    cache: jvm_cache.Cache, reason: str, blueprint: jvm.JvmCommand, settings: Mapping[str, str]
) -> Engine:
    gateway = jvm.launch(blueprint, settings).wait()
    # Only now is it certain that the cache caused it, and not something that stops any start.
    warn(f"ignoring the engine's start-up cache: {reason} ({cache.file})")
    cache.discard()
    return Engine(gateway, has_cache=False)
