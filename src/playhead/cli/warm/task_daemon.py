"""Runs the Python worker daemon of the warm engine: `python -m playhead.cli.warm.task_daemon`, started by Spark."""

from playhead.spark.task_daemon import serve

_LOADED = (
    "confluent_kafka",
    "psycopg",
    "playhead.task.play",
    "playhead.kafka.read.reader",
    "playhead.kafka.read.source",
    "playhead.postgres.writer",
    "playhead.postgres.target",
    "playhead.postgres.adbc",
)

if __name__ == "__main__":
    serve(_LOADED)
