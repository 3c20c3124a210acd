"""What the replay suite compares with: the best that others do with the same records on the same servers."""

import contextlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench import load
from bench.replay_stage import TOPIC, Figures, Stage
from bench.replay_watch import Watched, servers_cpu_s
from playhead.host import jars
from playhead.host.runtimes import find_java

_HERE = Path(__file__).parent
_MIRRORED_WITHIN_S = 900
_LOOK_EVERY_S = 0.025
_SEEN_EVERY_S = 0.005
MIRROR_TASKS = 1
"""Here one task is the fastest: 195,000-225,000/s against 194,000-213,000 with two and 115,000-146,000 with four."""
_MIRROR = """\
clusters = {alias}, target
{alias}.bootstrap.servers = {servers}
target.bootstrap.servers = {servers}
{alias}->target.enabled = true
{alias}->target.topics = {topic}
target->{alias}.enabled = false
tasks.max = {tasks}
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
target.offset.storage.replication.factor = 1
target.status.storage.replication.factor = 1
target.config.storage.replication.factor = 1
{alias}.offset.storage.replication.factor = 1
{alias}.status.storage.replication.factor = 1
{alias}.config.storage.replication.factor = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
refresh.topics.enabled = false
refresh.groups.enabled = false
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
{alias}.consumer.max.poll.records = 20000
{alias}.consumer.max.partition.fetch.bytes = 8388608
{alias}.consumer.fetch.max.bytes = 67108864
{alias}.consumer.receive.buffer.bytes = 2097152
target.producer.batch.size = 500000
target.producer.linger.ms = 20
target.producer.compression.type = lz4
target.producer.buffer.memory = 134217728
target.producer.max.request.size = 8388608
"""


def server_copy(stage: Stage) -> Figures:
    """`COPY table FROM '/file'`: no client, no Kafka, no JSON; the floor under every load."""
    file, table = stage.rows_file, stage.fresh_table()
    pid = stage.database_pid
    before_s, began = servers_cpu_s([pid]), time.perf_counter()
    stage.fill_table(table, file)
    took_s = time.perf_counter() - began
    used_s = servers_cpu_s([pid]) - before_s
    expect(stage.rows_in(table), stage.records)
    stage.drop_table(table)
    return Figures(stage.records, took_s, took_s, servers_cpu_s=used_s)


def consumer_perf(stage: Stage) -> Figures:
    """Kafka's own consumer that throws everything away; the rate that it prints, JVM start left out."""
    command = _java("-Xmx512m", "org.apache.kafka.tools.ConsumerPerformance")
    command += [
        "--bootstrap-server",
        stage.bootstrap_servers,
        "--topic",
        stage.loaded(stage.records),
    ]
    command += ["--num-records", str(stage.records), "--hide-header", "--timeout", "30000"]
    with Watched(command, servers=stage.servers) as it:
        cost = it.wait()
    cells = [cell.strip() for cell in cost.said.strip().splitlines()[-1].split(",")]
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
    records, rate, fetch_rate = int(cells[4]), float(cells[5]), float(cells[9])
    expect(records, stage.records)
    sys.stderr.write(
        f"  consumer-perf prints {rate:,.0f} records/s, {fetch_rate:,.0f} once joined\n"
    )
    return Figures.of(records, records / rate, cost)


def loop(stage: Stage) -> Figures:
    """One confluent-kafka process, consume and produce, no exactly-once."""
    copy = stage.fresh_topic()
    one = stage.loaded(stage.records)
    command = [sys.executable, str(_HERE / "replay_loop.py"), stage.bootstrap_servers, one, copy]
    with Watched(command, servers=stage.servers) as it:
        cost = it.wait()
    said = json.loads(cost.said)
    expect(said["records"], stage.records)
    expect(stage.records_in(copy), stage.records)
    stage.drop_topics(copy)
    return Figures.of(stage.records, said["run_s"], cost)


def mirror(stage: Stage, tasks: int = MIRROR_TASKS) -> Figures:
    """MirrorMaker 2, tuned, no exactly-once; from the first to the last record that arrives.

    Its start, about ten seconds, is in no figure but the wall and the peak of memory.
    """
    stage.loaded(stage.records)
    alias = f"from{uuid.uuid4().hex[:6]}"
    settings = stage.folder / f"{alias}.properties"
    settings.write_text(
        _MIRROR.format(alias=alias, servers=stage.bootstrap_servers, topic=TOPIC, tasks=tasks)
    )
    copy = stage.fresh_topic(f"{alias}.{TOPIC}")
    # The heap and the collector are what Kafka's own connect-mirror-maker.sh gives it.
    options = ["-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    command = _java(*options, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings))
    with Watched(command, servers=stage.servers) as it:
        first, last = _arrival(stage, copy, it)
        cost = it.stop()
    stage.drop_topics(copy, f"mm2-offset-syncs.{alias}", f"mm2-configs.{alias}")
    stage.drop_topics(f"mm2-offsets.{alias}", f"mm2-status.{alias}", "mm2-offset-syncs")
    run_s, records = last.at_s - first.at_s, last.records - first.records
    found = Figures.of(records, run_s, cost)
    return replace(
        found, cpu_s=last.cpu_s - first.cpu_s, servers_cpu_s=last.servers_s - first.servers_s
    )


class _Arrived:
    """How many records are there, when, and what it has cost so far."""

    def __init__(self, stage: Stage, it: Watched, records: int) -> None:
        self.at_s, self.records = time.perf_counter(), records
        self.cpu_s, self.servers_s = it.cpu_s(), servers_cpu_s(stage.servers)


def _arrival(stage: Stage, topic: str, it: Watched) -> tuple[_Arrived, _Arrived]:
    client = AdminClient({"bootstrap.servers": stage.bootstrap_servers, "log_level": 0})
    wanted = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(load.PARTITIONS)}
    deadline = time.monotonic() + _MIRRORED_WITHIN_S
    first: _Arrived | None = None
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            found = client.list_offsets(wanted, request_timeout=5)
            count = sum(answer.result(10).offset for answer in found.values())
            if count and first is None:
                first = _Arrived(stage, it, count)
            if count >= stage.records and first is not None:
                return first, _Arrived(stage, it, count)
        if not it.is_running():
            break
        time.sleep(_LOOK_EVERY_S)
    cost = it.stop()
    raise RuntimeError(f"the mirror did not arrive:\n{cost.said[-3000:]}{cost.complained[-3000:]}")


def plain_spark(stage: Stage, topic: str, records: int) -> Figures:
    """A PySpark script as a person writes it, on the machine's own Java; until its first committed row."""
    table = stage.fresh_table()
    paths = ",".join(str(jar) for jar in jars.ensure("engine"))
    command = [sys.executable, str(_HERE / "replay_plain.py"), stage.bootstrap_servers, topic]
    command += [stage.database_url, table, paths]
    java = shutil.which("java")
    home = Path(java).resolve().parent.parent if java else find_java().home
    environment = dict(os.environ) | {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    found = until_first_row(stage, table, records, lambda: Watched(command, environment))
    stage.drop_table(table)
    return found


def until_first_row(
    stage: Stage, table: str, records: int, start: Callable[[], Watched]
) -> Figures:
    """`run_s` is from the command's start to the moment another session sees a row."""
    with stage.connected() as connection:
        query = f'SELECT EXISTS (SELECT FROM "{table}")'  # noqa: S608  our own name
        with start() as it:
            first_s = None
            while first_s is None and it.is_running():
                if connection.execute(query).fetchone() == (True,):
                    first_s = time.perf_counter() - it.began
                time.sleep(_SEEN_EVERY_S)
            cost = it.wait()
    expect(stage.rows_in(table), records)
    return Figures.of(records, cost.wall_s if first_s is None else first_s, cost)


def _java(*arguments: str) -> list[str]:
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("tools"))
    (*options,) = (one for one in arguments if one.startswith("-X"))
    rest = [one for one in arguments if not one.startswith("-X")]
    return [str(find_java().program), *options, "-cp", class_path, *rest]


def expect(found: object, wanted: object) -> None:
    """Nothing is a figure that did not do the whole work."""
    if found != wanted:
        raise RuntimeError(f"the copy is not whole: {found}, not {wanted}")
