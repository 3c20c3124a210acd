"""Reads a topic as a DataFrame of records, with options for throughput."""

from typing import TYPE_CHECKING

from playhead.config.kafka_connection import KafkaConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark asks the broker for offsets twice in every poll, so small polls are expensive.
THROUGHPUT = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}


def topic_frame(spark: "SparkSession", connection: KafkaConnection, topic: str) -> "DataFrame":
    """Return everything that a topic holds now, including headers; lost data is an error."""
    client = {f"kafka.{key}": value for key, value in connection.for_java("consumer").items()}
    options = (
        THROUGHPUT
        | client
        | {
            "subscribe": topic,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
    )
    return spark.read.format("kafka").options(**options).load()
