"""The same job runs on a standalone cluster and through Spark Connect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.runtimes import find_spark_home
from playhead.testing.fixtures import MakeTopic
from playhead.testing.kafka_writer import Writer

WITHIN_S = 150.0
RECORDS = 400
JOB = """
import sys
from playhead.config.kafka_connection import KafkaConnection
from playhead.spark import session
from playhead.spark.stream_reader import topic_frame

where, address, bootstrap_servers, topic = sys.argv[1:]
spark = session.session("elsewhere", **{where: address}, conf={"spark.executor.memory": "512m"})

def sizes(parts):
    import os
    import pyarrow as pa
    import pyarrow.compute as pc
    for part in parts:
        size = pc.sum(pc.binary_length(part["value"])).as_py()
        yield pa.record_batch([[part.num_rows], [size], [os.getppid()]], names=["n", "size", "worker"])

frame = topic_frame(spark, KafkaConnection(bootstrap_servers), topic).select("value")
rows = frame.mapInArrow(sizes, "n long, size long, worker long").collect()
print(sum(row.n for row in rows), sum(row.size for row in rows), len({row.worker for row in rows}))
session.stop(spark)
"""


@pytest.fixture
def filled(kafka: KafkaConnection, make_topic: MakeTopic) -> str:
    topic = make_topic(2)
    with Writer(kafka) as writer:
        for number in range(RECORDS):
            writer.write(topic, key=str(number).encode(), value=b"12345", timestamp_ms=number)
    return topic


def run(where: str, address: str, kafka: KafkaConnection, topic: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", JOB, where, address, str(kafka.bootstrap_servers), topic],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, done.stderr
    # These servers ask nobody who he is; of a cluster that is known, of Spark Connect it is not.
    assert done.stderr.count("has no authentication") == (where == "master")
    return done.stdout.split()


@pytest.mark.torture
def test_on_a_cluster_of_two_workers(cluster: str, kafka: KafkaConnection, filled: str) -> None:
    count, size, workers = run("master", cluster, kafka, filled)
    assert (int(count), int(size)) == (RECORDS, 5 * RECORDS)
    assert int(workers) == 2, "both workers had a part"


EXECUTORS = """
from pathlib import Path
from playhead.spark import session
from playhead.spark.task_secrets import handing

spark = session.session("own", master="local-cluster[1,1,600]", conf={"spark.executor.memory": "512m"})
with handing(spark) as handover:
    frame = spark.range(0, 2, 1, 1).mapInArrow(handover.task(lambda parts: parts), "id long")
    assert [row.id for row in frame.collect()] == [0, 1]
conf = spark.sparkContext.getConf()
assert conf.get("spark.authenticate") == conf.get("spark.network.crypto.enabled") == "true"
secret = conf.get("spark.authenticate.secret").encode()
commands = []
for file in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        commands.append(file.read_bytes())
    except OSError:
        pass
assert any(b"CoarseGrainedExecutorBackend" in each for each in commands)
assert not [each for each in commands if secret in each]
session.stop(spark)
"""


@pytest.mark.torture
def test_executors_of_this_machine_share_a_secret_that_no_command_line_has(
    java_home: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXECUTORS],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=os.environ | {"JAVA_HOME": str(java_home), "SPARK_HOME": str(find_spark_home())},
    )
    assert done.returncode == 0, done.stderr
    assert "has no authentication" not in done.stderr


def test_through_spark_connect(connect_server: str, kafka: KafkaConnection, filled: str) -> None:
    count, size, _ = run("remote", connect_server, kafka, filled)
    assert (int(count), int(size)) == (RECORDS, 5 * RECORDS)
