"""Live streams: Spark reads topics in rounds, and each round is written to its target."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from playhead.config.kafka_connection import KafkaConnection
from playhead.decoding import Decoder, Decoding, in_parts, reading
from playhead.errors import PlayheadError
from playhead.record import Slice
from playhead.source import Source, TopicPartition
from playhead.spark.failures import OUT_OF_REACH, failure
from playhead.spark.process_habits import for_each_round
from playhead.spark.run import REPORT, Task
from playhead.spark.stream_reader import THROUGHPUT
from playhead.spark.task_secrets import Handover, handing
from playhead.task.raising_records import RaisingRecords
from playhead.task.round import Outcome, Round, write
from playhead.transform.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Spark converts times with a calendar that differs long ago, and moves old times by days; a time
# that it cannot hold has failed before.
_KEPT_TIME = (
    "CASE WHEN timestamp < TIMESTAMP '1901-01-01 00:00:00' "
    f"THEN raise_error('{OUT_OF_REACH}') ELSE timestamp END"
)
# Java's client replaces what is not UTF-8 in a header's name by this character, which a name can also have.
_KEPT_HEADERS = (
    "CASE WHEN exists(headers, h -> contains(h.key, '\ufffd')) "
    f"THEN raise_error('{OUT_OF_REACH}') "
    "ELSE CAST(headers AS array<struct<name:string,value:binary>>) END"
)
# As `rows.SCHEMA`, with the name for headers that the transforms use.
_SHAPE = (
    "0 AS slice",
    "false AS is_end",
    "topic",
    "partition",
    "offset",
    f"unix_millis({_KEPT_TIME}) AS timestamp_ms",
    "timestampType AS timestamp_type",
    "key",
    "value",
    "CAST(NULL AS long) AS content_sum",
    f"{_KEPT_HEADERS} AS headers",
)
# Rounds come several times a second: every saved file and request counts.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.offsetLog.formatVersion": "1",
}
MOST_RECORDS = 200_000
"""The maximum of a round, so that a pipeline that is catching up commits regularly."""


class RoundUnreadable(PlayheadError):
    """Spark's record of a round's offsets has an unknown form."""

    def __init__(self, file: Path, *, reason: str) -> None:
        super().__init__(
            f"cannot read the offsets of a round from {file}: {reason}",
            hint="nothing is lost: start the pipeline again, and it continues from its ledger",
        )


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What is read: topics of a cluster, from these offsets on."""

    connection: KafkaConnection
    starts: Mapping[TopicPartition, int]
    transform: Transform
    trigger_ms: int | None
    """None to end when everything that existed at the start is read."""
    decoding: Decoding | None = None
    """Decodes values before the transform reads them."""


OnRound = Callable[["DataFrame", int], None]


class Stream:
    """One Spark query. Spark's checkpoint is new each time, because only the ledger counts."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._query: StreamingQuery | None = None
        self._handed = ExitStack()

    def start(self, name: str, tape: StreamSpec, on_round: OnRound) -> None:
        """Start reading; `on_round` is called in a Spark thread and must not raise."""
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._query = self._started(name, tape, on_round)
        except Exception as exc:
            raise failure(exc) from exc

    def _started(self, name: str, tape: StreamSpec, on_round: OnRound) -> "StreamingQuery":
        from playhead.spark.transform import apply, forgiving

        with forgiving(self._spark):
            for key, value in _SETTINGS.items():
                self._spark.conf.set(key, value)
            handover = self._handed.enter_context(handing(self._spark))
            options = _options(tape, handover)
            reading = self._spark.readStream.format("kafka").options(**options).load()
            frame = reading.selectExpr(*_SHAPE)
            if tape.decoding is not None:
                frame = _decoded(frame, tape.decoding, handover)
            if not tape.transform.changes_nothing:
                frame = apply(frame, tape.transform)
            writing = for_each_round(frame.writeStream, on_round).queryName(name)
            writing = writing.option("checkpointLocation", self._folder.absolute().as_uri())
            if tape.trigger_ms is None:
                writing = writing.trigger(availableNow=True)
            else:
                writing = writing.trigger(processingTime=f"{tape.trigger_ms} milliseconds")
            # The query keeps its start settings.
            return writing.start()

    def is_active(self) -> bool:
        """Return whether it reads; raise if an error stopped it."""
        if self._query is None:
            return False
        try:
            if self._query.isActive:
                return True
            found = self._query.exception()
        except Exception as exc:
            raise failure(exc) from exc
        if found is not None:
            raise failure(found) from found
        return False

    def stop(self) -> None:
        """Stop reading; a round in progress will not commit more."""
        query, self._query = self._query, None
        if query is not None:
            with suppress(Exception):  # The engine may be gone, and the stream with it.
                query.stop()
        self._handed.close()

    def ends(self, number: int) -> dict[TopicPartition, int]:
        """Return the end of a round in every partition."""
        return ends_in(self._folder / "offsets" / str(number))


def ends_in(file: Path) -> dict[TopicPartition, int]:
    """Parse Spark's file of a round: a version, settings, and offsets."""
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text.splitlines()[-1])
        return {
            (topic, int(partition)): int(offset)
            for topic, offsets in found.items()
            for partition, offset in offsets.items()
        }
    except (OSError, ValueError, IndexError, AttributeError, TypeError) as exc:
        raise RoundUnreadable(file, reason=str(exc)) from exc


def last_ends(folder: Path) -> dict[TopicPartition, int] | None:
    """Return the end of Spark's last completed round; None if it does not say."""
    try:
        done = [int(file.name) for file in (folder / "commits").iterdir() if file.name.isdigit()]
        return ends_in(folder / "offsets" / str(max(done)))
    except (OSError, ValueError, RoundUnreadable):
        return None


def _options(tape: StreamSpec, handover: Handover) -> dict[str, str]:
    said = handover.kafka(tape.connection.for_java("consumer"))
    client = {f"kafka.{key}": value for key, value in said.items()}
    starts: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in tape.starts.items():
        starts.setdefault(topic, {})[str(partition)] = offset
    return (
        THROUGHPUT
        | client
        | {
            "subscribe": ",".join(starts),
            "startingOffsets": json.dumps(starts),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            "maxOffsetsPerTrigger": str(MOST_RECORDS),
            "groupIdPrefix": "playhead-live",
        }
    )


def _decoded(frame: "DataFrame", decoding: Decoding, handover: Handover) -> "DataFrame":
    from playhead.spark import arrow_rows

    return frame.mapInArrow(handover.task(_Decoder(decoding)), arrow_rows.DECODED_SCHEMA)


def write_round(frame: "DataFrame", round_: Round) -> list[Outcome]:
    """Write a round; a small one in a single task with one connection."""
    if round_.is_alone:
        frame = frame.coalesce(1)
    return _reported(frame, _WriteTask(round_))


def read_round(
    spark: "SparkSession", round_: Round, raising: RaisingRecords, source: Source, tape: StreamSpec
) -> list[Outcome]:
    """Write a round with our own reader: what Spark would change, and rejected records."""
    from playhead.spark import arrow_rows
    from playhead.spark.transform import apply, forgiving

    decoding = raising.rejecting(tape.decoding)
    with forgiving(spark), handing(spark) as handover:
        reader = _Reader(source, round_.slices, decoding)
        frame = spark.range(0, 1, 1, 1).mapInArrow(handover.task(reader), arrow_rows.DECODED_SCHEMA)
        if not tape.transform.changes_nothing:
            frame = apply(frame, tape.transform)
        return write_round(frame, round_)


def write_rest(spark: "SparkSession", round_: Round) -> list[Outcome]:
    """Write slices without any record, which no single task could recognise."""
    return _reported(spark.range(0, 1, 1, 1), _EmptySliceTask(round_))


def _reported(frame: "DataFrame", task: Task) -> list[Outcome]:
    with handing(frame.sparkSession) as handover:
        try:
            found = frame.mapInArrow(handover.task(task), REPORT).collect()
        except Exception as exc:
            raise failure(exc) from exc
    return [Outcome.from_document(json.loads(row.report)) for row in found]


class _Decoder(Task):
    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import arrow_rows

        decoder = _decoder(self._decoding)
        for part in parts:
            for run in arrow_rows.runs(part):
                for decoded in in_parts(decoder, run.records):
                    yield arrow_rows.of(decoded, 0, None)


class _Reader(Task):
    def __init__(self, source: Source, slices: Sequence[Slice], decoding: Decoding) -> None:
        self._source, self._slices, self._decoding = source, slices, decoding

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import arrow_rows

        for _ in parts:
            with self._source.open() as source:
                reader = reading(source, self._decoding)
                for slice_ in self._slices:
                    for records in reader.read(slice_):
                        yield arrow_rows.of(records, 0, None)


_kept: tuple[Decoding, Decoder] | None = None
"""The decoder of the last round in this process, with its schemas."""


def _decoder(decoding: Decoding) -> Decoder:
    global _kept  # noqa: PLW0603 - it outlives the task that opened it
    if _kept is None or _kept[0] != decoding:
        _kept = decoding, decoding.open()
    return _kept[1]


class _RoundTask(Task):
    def __init__(self, round_: Round) -> None:
        self._round = round_


class _WriteTask(_RoundTask):
    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import arrow_rows

        runs = (run for part in parts for run in arrow_rows.runs(part))
        yield _row(write(self._round, ((each.records, each.verdicts) for each in runs)))


class _EmptySliceTask(_RoundTask):
    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for _ in parts:
            yield _row(write(self._round, ()))


def _row(outcome: Outcome) -> "pa.RecordBatch":
    import pyarrow as pa

    text = json.dumps(outcome.as_document())
    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["report"])
