"""A session works, names its work, stays on loopback, and never leaves its JVM behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from playhead.config.context import configure
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import wait_until
from playhead.replay.engine import Engine
from playhead.spark import own_session, session
from playhead.spark.stream_reader import topic_frame
from playhead.spark.transform import forgiving
from playhead.testing.fixtures import MakeTopic
from playhead.testing.kafka_writer import Writer
from tests.fix_environment import processes_that_mention

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN_S = 60.0


def test_arrow_reaches_python_and_comes_back(spark: "SparkSession") -> None:
    def double(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for part in parts:
            yield pa.record_batch([pc.multiply(part["id"], 2)], names=["id"])

    frame = spark.range(1_000).mapInArrow(double, "id long")
    assert frame.selectExpr("sum(id)").collect()[0][0] == 999_000


def test_a_topic_is_read_whole_with_headers_nulls_and_timestamps(
    spark: "SparkSession", kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    with Writer(kafka) as writer:
        writer.write(topic, key=None, value=b"", timestamp_ms=0)
        writer.write(topic, key=b"k", value=None, timestamp_ms=1_628_080_200_123)
    rows = topic_frame(spark, kafka, topic).select("key", "value", "timestamp").collect()
    found = {
        (row.key and bytes(row.key), row.value if row.value is None else bytes(row.value)): row
        for row in rows
    }
    assert set(found) == {(None, b""), (b"k", None)}
    assert found[(b"k", None)].timestamp.microsecond == 123_000


def test_the_session_is_named_quiet_and_on_loopback(spark: "SparkSession") -> None:
    conf = spark.conf
    assert conf.get("spark.app.name") == "playhead tests"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    session.describe(spark, "replay 7f3a: slice 3")
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "replay 7f3a: slice 3"


def test_the_active_session_is_taken_as_it_is(spark: "SparkSession") -> None:
    assert session.session("another") is spark


def test_an_engine_has_settings_and_jobs_of_its_own(spark: "SparkSession", tmp_path: Path) -> None:
    """What plans one run does not change how another reads a text; who cancels one leaves the others."""
    one, other = (Engine(configure({})) for _ in range(2))
    zone = "spark.sql.session.timeZone"
    with forgiving(one.session()):
        one.session().conf.set(zone, "Asia/Tokyo")
        assert (other.session().conf.get(zone), spark.conf.get(zone)) == ("UTC", "UTC")

    def sleep(engine: Engine, seconds: float) -> int:
        def asleep(parts: Iterator[Any]) -> Iterator[Any]:
            (tmp_path / f"{seconds}").touch()
            time.sleep(seconds)
            yield from parts

        with own_session.tagged(engine.session(), engine._tag):
            return engine.session().range(0, 1, 1, 1).mapInArrow(asleep, "id long").count()

    with ThreadPoolExecutor(2) as pool:
        lasting, short = pool.submit(sleep, one, 60.0), pool.submit(sleep, other, 3.0)
        assert wait_until(
            lambda: len([*tmp_path.iterdir()]) == 2, deadline_s=WITHIN_S, every_s=0.05
        )
        one.cancel()
        with pytest.raises(Exception, match="cancel"):
            lasting.result(WITHIN_S)
        assert short.result(WITHIN_S) == 1
    with own_session.tagged(one.session(), "next"):
        assert one.session().range(3).count() == 3


def test_runs_beside_each_other_leave_the_users_session_active(spark: "SparkSession") -> None:
    """The second one begins while a session of the first is active."""
    users, one, other = spark.newSession(), *(Engine(configure({})).session() for _ in range(2))

    def activate(made: "SparkSession") -> None:
        type(spark)._activeSession = made
        jvm = type(spark)._get_j_spark_session_class(spark._jvm)
        jvm.setActiveSession(made._jsparkSession)

    try:
        activate(users)
        first, second = own_session.tagged(one, "one"), own_session.tagged(other, "other")
        first.__enter__()
        activate(one)
        second.__enter__()
        first.__exit__(None, None, None)
        assert type(spark).getActiveSession() is users
        activate(other)
        second.__exit__(None, None, None)
        assert type(spark).getActiveSession() is users
        with own_session.tagged(one, "one"):
            activate(spark)
        assert type(spark).getActiveSession() is spark, "another choice of the user stays"
    finally:
        activate(spark)


def test_the_session_of_another_thread_is_taken_as_it_is(spark: "SparkSession") -> None:
    with ThreadPoolExecutor(1) as elsewhere:
        assert elsewhere.submit(session.session, "another").result() is spark
    assert spark.conf.get("spark.app.name") == "playhead tests"


def start(program: str, **more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


SLEEPER = """
import time
from playhead.spark import own_session, session
spark = session.session("sleeper")
def slowly(parts):
    for part in parts:
        time.sleep(600)
        yield part
print(session.jvm_pid(), flush=True)
spark.range(10).mapInArrow(slowly, "id long").count()
"""


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def eventually(probe: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while not probe() and time.monotonic() < deadline:
        time.sleep(0.05)
    return probe()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_jvm_outlives_its_command(sign: signal.Signals, servers_folder: Path) -> None:
    state = servers_folder / f"orphan-{sign.name}"
    process = start(SLEEPER, XDG_STATE_HOME=str(state))
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    jvm = int(line)
    assert is_running(jvm)
    os.kill(process.pid, sign)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode != 0
    assert eventually(lambda: not is_running(jvm))
    assert eventually(lambda: not processes_that_mention(str(state))), "nor a Python worker"


def test_a_command_that_ends_while_its_jvm_boots_leaves_nothing_behind(tmp_path: Path) -> None:
    program = (
        "from threading import Thread\n"
        "from playhead.spark import jvm\n"
        "launched = jvm.launch(jvm.blueprint_for('512m'), {})\n"
        "Thread(target=launched.wait, daemon=True).start()\n"
        "print(launched.process.pid)\n"
    )
    without_cache = {"PLAYHEAD_AOT_CACHE": "off", "TMPDIR": str(tmp_path)}
    out, err = start(program, **without_cache).communicate(timeout=WITHIN_S)
    assert out, err
    assert eventually(lambda: not is_running(int(out)))
    assert not list(tmp_path.iterdir()), "a JVM would write a secret there"


def test_a_jvm_that_cannot_start_is_said_with_its_own_words(servers_folder: Path) -> None:
    program = (
        "from playhead.spark import session\n"
        "try:\n    session.session('x', memory='1x')\n"
        "except Exception as exc:\n    print(type(exc).__name__, exc, '|', exc.hint)\n"
    )
    out, _ = start(program, PLAYHEAD_AOT_CACHE="off").communicate(timeout=WITHIN_S)
    assert "EngineDidNotStart" in out
    assert "Invalid maximum heap size" in out
    assert "engine-" in out, "the log is named"


KILLED_AT = {
    "booting": (
        "launch = jvm.launch\n"
        "def killed(*given, **more):\n"
        "    found = launch(*given, **more)\n"
        "    die(found.process)\n"
        "    return found\n"
        "jvm.launch = killed\n"
    ),
    "connecting": (
        "boot = jvm_boot.boot\n"
        "def killed(*given, **more):\n"
        "    found = boot(*given, **more)\n"
        "    die(found[0].gateway.process)\n"
        "    return found\n"
        "jvm_boot.boot = killed\n"
    ),
}
DEATHS = """
import os, signal
from playhead.spark import jvm, jvm_boot, session
dead = []
def die(process):
    if len(dead) < DEATHS:
        dead.append(process.pid)
        os.kill(process.pid, signal.SIGKILL)
"""


def killed_while_starting(at: str, deaths: int, then: str) -> tuple[str, str]:
    program = DEATHS.replace("DEATHS", str(deaths)) + KILLED_AT[at] + then
    return start(program).communicate(timeout=3 * WITHIN_S)


@pytest.mark.parametrize("at", KILLED_AT)
def test_an_engine_that_is_killed_while_it_starts_is_started_again(
    at: str, servers_folder: Path
) -> None:
    then = "print(session.session('x').range(3).count(), len(dead), session.jvm_pid() in dead)\n"
    out, err = killed_while_starting(at, 2, then)
    assert out.split() == ["3", "2", "False"], err
    assert err.count("killed while it was starting: starting it again") == 2
    assert "ignoring" not in err, "the cache is not at fault"
    assert "Traceback" not in err


@pytest.mark.parametrize("at", KILLED_AT)
def test_an_engine_that_is_always_killed_is_an_error(at: str, servers_folder: Path) -> None:
    then = (
        "try:\n    session.session('x')\n"
        "except Exception as exc:\n    print(type(exc).__name__, exc, '|', exc.hint)\n"
    )
    out, err = killed_while_starting(at, 9, then)
    assert "EngineKilled the Spark engine did not start: it was killed" in out, err
    assert "dmesg" in out
    assert err.count("starting it again") == 2


def test_an_engine_that_ends_between_its_session_and_its_job_is_named() -> None:
    program = (
        "import os, signal\n"
        "from playhead.config.context import configure\n"
        "from playhead.replay.engine import Engine\n"
        "from playhead.spark import own_session, session\n"
        "own, made = own_session.with_own_settings, []\n"
        "def killed(spark):\n"
        "    os.kill(session.jvm_pid(), signal.SIGKILL)\n"
        "    return own(spark)\n"
        "own_session.with_own_settings = killed\n"
        "try:\n    Engine(configure({})).session()\n"
        "except Exception as exc:\n    print(type(exc).__name__)\n"
    )
    out, err = start(program).communicate(timeout=WITHIN_S)
    assert out.split() == ["EngineLost"], err


ITS_CLUSTER_ENDS = """
import threading, time
from types import SimpleNamespace
from playhead.config.context import configure
from playhead.replay.engine import Engine
from playhead.spark import failures, run

def through(parts):
    for part in parts:
        time.sleep(waits_s)
        yield part

def first_job_loses_it(spark, *_):
    try:
        return [spark.range(8).mapInArrow(through, "id long").count()]
    except Exception as exc:
        raise failures.failure(exc) from exc

run.run, waits_s, job = first_job_loses_it, 30, SimpleNamespace(replay_id="x")
engine = Engine(configure({}))
context = engine.session().sparkContext

def ends_under_the_job():
    while not context.statusTracker().getActiveJobsIds():
        time.sleep(0.1)
    context.stop()

threading.Thread(target=ends_under_the_job, daemon=True).start()
try:
    engine.run_job(job)
except failures.EngineLost as exc:
    print(exc.message)
waits_s = 0
print(engine.run_job(job))
"""


def test_the_job_after_a_lost_cluster_gets_a_new_session() -> None:
    out, err = start(ITS_CLUSTER_ENDS).communicate(timeout=3 * WITHIN_S)
    assert out.splitlines() == ["the engine lost its cluster", "[8]"], err


def test_two_sessions_one_after_the_other_share_a_jvm() -> None:
    program = (
        "from playhead.spark import session\n"
        "first = session.session('one'); pid = session.jvm_pid(); session.stop(first)\n"
        "second = session.session('two')\n"
        "print(pid == session.jvm_pid(), second.conf.get('spark.app.name'), second.range(3).count())\n"
    )
    out, err = start(program).communicate(timeout=WITHIN_S)
    assert out.split() == ["True", "two", "3"], err


def test_a_worker_loads_no_pandas_for_us_and_has_it_for_whoever_comes_next() -> None:
    program = """
import os, sys
from playhead.spark import run, session

class Telling(run.Task):
    def work(self, parts):
        import pyarrow as pa
        for part in parts:
            column = pa.array([1, 2])
            told = [f"{os.getpid()} {'pandas' in sys.modules} {column.to_pylist()}"]
            yield pa.record_batch([pa.array(told)], names=["report"])

def next_one(parts):
    import pandas as pd
    import pyarrow as pa
    import pyspark
    for part in parts:
        nulls = pa.array(pd.Series([1.0, float("nan")])).null_count  # 0 where it knows no pandas
        told = [f"{os.getpid()} {nulls} {os.path.isfile(pyspark.__file__)}"]
        yield pa.record_batch([pa.array(told)], names=["report"])

spark = session.session("one worker", master="local[1]")
for each in (Telling(), next_one):
    print(spark.range(1).mapInArrow(each, "report string").collect()[0][0])
"""
    out, err = start(program).communicate(timeout=WITHIN_S)
    ours, theirs = (line.partition(" ") for line in out.splitlines())
    assert (ours[2], theirs[2]) == ("False [1, 2]", "1 True"), err
    assert ours[0] == theirs[0], "it was the same worker"
