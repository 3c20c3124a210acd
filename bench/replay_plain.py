"""The cold job as a person would write it in PySpark: topic to table, by from_json and COPY.

`python bench/replay_plain.py BOOTSTRAP TOPIC DATABASE_URL TABLE JARS`, with the connector's jars at hand, so
that nothing has to be resolved first.
"""

import sys

import psycopg
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, from_json

bootstrap_servers, topic, database_url, table, jars = sys.argv[1:]
SCHEMA = """car string, seq bigint, ts timestamp, speed double, rpm int, gear smallint,
throttle double, brake double, lap int"""
COPY = f"COPY {table} (car, seq, ts, speed, rpm, gear, throttle, brake, lap) FROM STDIN"


def write(rows: "list[Row]") -> None:
    with psycopg.connect(database_url) as connection, connection.cursor().copy(COPY) as copy:
        for row in rows:
            copy.write_row(row)


spark = SparkSession.builder.appName("copy").config("spark.jars", jars).getOrCreate()
frame = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
    .select(from_json(col("value").cast("string"), SCHEMA).alias("it"))
    .select("it.*")
)
frame.foreachPartition(write)
spark.stop()
