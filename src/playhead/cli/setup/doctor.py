"""`playhead doctor`: checks the installation and the servers, with a hint for each failure."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from playhead import secrets
from playhead.cli.options import Run, command, end
from playhead.config.context import Configuration
from playhead.errors import (
    EXIT_FAILED,
    BrokerUnavailable,
    DatabaseUnavailable,
    MissingPiece,
    PlayheadError,
)
from playhead.host import jars, paths
from playhead.options.setup import DOCTOR
from playhead.options.shared import CONNECTION

OK, WARN, FAIL = "ok", "warn", "fail"
_LOW_DISK_GB, _NO_DISK_GB = 5.0, 1.0
_CLOCK_TOLERATED_MS = 2_000.0
_BROKER_WITHIN_S = 5.0
# The errors' own hints are to run the doctor.
_HINTS = {
    BrokerUnavailable: "check the address, or start a local broker: playhead sandbox up",
    DatabaseUnavailable: (
        "check DATABASE_URL or the context's `database`, or start a local "
        "database: playhead sandbox up"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    state: str
    found: str
    hint: str | None = None


def check_runtime() -> Finding:
    """Check Python, Java and Spark."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from playhead.host.runtimes import find_java, find_spark_home

    java = find_java()
    home = find_spark_home()
    try:
        spark = f"pyspark {version('pyspark')}"
    except PackageNotFoundError:
        spark = f"Spark in {home}"
    found = f"Python {platform.python_version()}, Java {java.version} ({java.origin}), {spark}"
    return Finding("runtime", OK, found)


def check_jars() -> Finding:
    """Check that every locked jar is in the cache with the locked bytes."""
    needed = ("engine", "broker")
    lacking = jars.missing(*needed)
    total = sum(jar.set_name in needed for jar in jars.read_lock())
    if not lacking:
        return Finding("jars", OK, f"{total} of {total}, checksums right, in {jars.jar_dir()}")
    return Finding(
        "jars",
        FAIL,
        f"{len(lacking)} of {total} are missing or damaged, {lacking[0].coordinate} first",
        "playhead sandbox up fetches them; behind a mirror set PLAYHEAD_MAVEN_URL",
    )


def check_cache() -> Finding:
    """Check the engine's start-up cache."""
    from playhead.spark import jvm, jvm_cache
    from playhead.spark.session import DEFAULT_MEMORY

    if jars.missing("engine"):
        return Finding("cache", OK, "none yet; it is made when the jars are here")
    cache = jvm_cache.cache_for(jvm.blueprint_for(DEFAULT_MEMORY))
    if cache is None:
        return Finding("cache", OK, f"not used: Java older than 25, or {jvm_cache.SWITCH}=off")
    note = cache.read_note()
    if note is None or not cache.is_there():
        return Finding("cache", OK, "none yet; the first Spark start makes it in the background")
    if not cache.is_whole():
        return Finding("cache", FAIL, f"{cache.file} is damaged", f"delete it: rm {cache.file}")
    made_of = " and ".join(note.trained_on)
    return Finding("cache", OK, f"{note.size / 1e6:.0f} MB, trained on {made_of}, whole")


def check_disk() -> Finding:
    """Check the disk space for state and cache."""
    folder = paths.state_dir()
    while not folder.exists():
        folder = folder.parent
    free_gb = shutil.disk_usage(folder).free / 1e9
    if not os.access(folder, os.W_OK):
        return Finding("disk", FAIL, f"{folder} cannot be written", "set XDG_STATE_HOME")
    state = FAIL if free_gb < _NO_DISK_GB else WARN if free_gb < _LOW_DISK_GB else OK
    hint = (
        None
        if state == OK
        else "free some space, or set XDG_STATE_HOME to a folder on another disk"
    )
    return Finding("disk", state, f"{free_gb:.1f} GB free in {folder}", hint)


def check_broker(configuration: Configuration) -> Finding:
    """Check that a broker answers."""
    from playhead.kafka.admin.client import Admin

    connection = configuration.kafka()
    with Admin(connection, timeout_s=_BROKER_WITHIN_S) as admin, _stopwatch() as took_ms:
        cluster = admin.cluster()
    found = (
        f"cluster {cluster.cluster_id}, {len(cluster.brokers)} broker(s) at "
        f"{connection.bootstrap_servers}, {len(cluster.topics)} topics, answered in {took_ms():.0f} ms"
    )
    return Finding("broker", OK, found)


def check_database(configuration: Configuration) -> list[Finding]:
    """Check that the database accepts the login, and that its clock agrees with ours."""
    from playhead.postgres.server import ask

    url = configuration.need("database", needed_for="looking at the database")
    server = ask(url)
    found = f"PostgreSQL {server.version}, database {server.database} as {server.user}"
    off_ms = server.clock_ahead_ms
    state = OK if abs(off_ms) <= _CLOCK_TOLERATED_MS else WARN
    hint = (
        None
        if state == OK
        else ("synchronise both clocks by NTP: times of spans are compared with record times")
    )
    year = time.gmtime().tm_year
    clock = f"{off_ms:+.0f} ms between the database and here, year {year}"
    return [Finding("database", OK, found), Finding("clock", state, clock, hint)]


def check_topic(configuration: Configuration, topic: str) -> Finding:
    """Check that the topic is visible with these credentials."""
    from playhead.kafka.admin.client import Admin

    with Admin(configuration.kafka(), timeout_s=_BROKER_WITHIN_S) as admin:
        topics = admin.cluster().topics
    if topic in topics:
        return Finding("topic", OK, f"{topic}: {topics[topic]} partitions")
    hint = "check its name, or whether these credentials may describe it"
    return Finding("topic", FAIL, f"{topic} is not among the {len(topics)} topics seen", hint)


def check_group(configuration: Configuration, group: str) -> Finding:
    """Check that the consumer group is visible with these credentials."""
    from playhead.kafka.admin.client import Admin
    from playhead.kafka.groups.describe import committed, listed

    with Admin(configuration.kafka(), timeout_s=_BROKER_WITHIN_S) as admin:
        state = {each.group: each.state for each in listed(admin)}.get(group)
        if state is None:
            hint = "check its name, or whether these credentials may describe it"
            return Finding("group", FAIL, f"{group} is not among the groups seen", hint)
        return Finding("group", OK, f"{group}: {state}, {len(committed(admin, group))} partitions")


@command(DOCTOR, CONNECTION)
def doctor(run: Run, topic: str | None, group: str | None) -> None:
    """Check runtime, jars, cache, disk, broker, database and clock; say what to do about each failure."""
    checks: list[tuple[str, Callable[[], Finding | list[Finding]]]] = [
        ("runtime", check_runtime),
        ("jars", check_jars),
        ("cache", check_cache),
        ("disk", check_disk),
    ]
    configuration = run.configuration()
    checks.append(("broker", lambda: check_broker(configuration)))
    checks.append(("database", lambda: check_database(configuration)))
    if topic is not None:
        checks.append(("topic", lambda: check_topic(configuration, topic)))
    if group is not None:
        checks.append(("group", lambda: check_group(configuration, group)))
    findings = [finding for name, check in checks for finding in _examine(name, check)]
    _report(run, configuration, findings)


def _examine(name: str, check: Callable[[], Finding | list[Finding]]) -> list[Finding]:
    """Run one check; turn an expected error into its result."""
    try:
        seen = check()
    except MissingPiece as exc:
        return [Finding(name, FAIL, f"{exc.piece} is missing", exc.hint)]
    except PlayheadError as exc:
        return [Finding(name, FAIL, secrets.redact(exc.message), _HINTS.get(type(exc), exc.hint))]
    return seen if isinstance(seen, list) else [seen]


def _report(run: Run, configuration: Configuration, findings: list[Finding]) -> None:
    rows = [asdict(finding) for finding in findings]
    failed = [finding for finding in findings if finding.state == FAIL]
    document = {"ok": not failed, "context": configuration.context, "checks": rows}
    shown = rows
    if run.output.form == "table":
        shown = [{key: row[key] for key in ("check", "state", "found")} for row in rows]
    run.output.emit(document, shown)
    if run.output.form == "table":
        for finding in findings:
            if finding.hint:
                run.output.say(f"{finding.check}: {finding.hint}")
    if failed:
        raise end(EXIT_FAILED)


@contextmanager
def _stopwatch() -> Iterator[Callable[[], float]]:
    began = time.perf_counter()
    ended = [began]
    yield lambda: (ended[0] - began) * 1000
    ended[0] = time.perf_counter()
