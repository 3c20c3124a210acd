"""The same job runs on a standalone cluster and through Spark Connect."""

import os
import subprocess
import sys

import pytest

from playhead.config.kafka_connection import KafkaConnection
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


def test_through_spark_connect(connect_server: str, kafka: KafkaConnection, filled: str) -> None:
    count, size, _ = run("remote", connect_server, kafka, filled)
    assert (int(count), int(size)) == (RECORDS, 5 * RECORDS)
