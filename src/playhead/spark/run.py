"""Runs a job's tasks in Spark, and returns their reports."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from playhead.decoding import reading
from playhead.errors import PlayheadError, Stopped
from playhead.record import Slice
from playhead.records import Records
from playhead.spark.failures import MARK, WorkerOutOfMemory, as_text, failure, is_of_a_record
from playhead.spark.plan_check import can_be_asked
from playhead.spark.process_habits import without_pandas
from playhead.spark.task_secrets import Handover, handing
from playhead.task.job import Job, Report
from playhead.task.play import play
from playhead.task.slicer import ReadRun
from playhead.transform.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

REPORT = "report string"
# A larger sample is transformed in several steps, because all of it passes through the heap.
_AT_ONCE_BYTES = 16 << 20


def run(
    spark: "SparkSession", job: Job, transform: Transform | None = None
) -> list[Mapping[str, Any]]:
    """Run all tasks of a job; return their reports."""
    with handing(spark) as handover:
        frame = _frame(spark, job, transform, handover)
        try:
            # Spark Connect plans only at this point, so its rules for bad values must hold until
            # the end.
            with _rules(spark, transform):
                return [json.loads(row.report) for row in frame.collect()]
        except Exception as exc:
            raise failure(exc) from exc


def _frame(
    spark: "SparkSession", job: Job, transform: Transform | None, handover: Handover
) -> "DataFrame":
    indexes = spark.range(0, len(job.tasks), 1, len(job.tasks))
    if transform is None:
        return indexes.mapInArrow(handover.task(_ReplayTask(job)), REPORT)
    from playhead.spark import arrow_rows
    from playhead.spark.transform import apply

    schema = arrow_rows.SCHEMA if job.decoding is None else arrow_rows.DECODED_SCHEMA
    word = _StopSignal(uuid4().hex, handover.folder)
    read = indexes.mapInArrow(handover.task(_ReadTask(job, word)), schema)
    return apply(read, transform).mapInArrow(handover.task(_WriteTask(job, word)), REPORT)


def _rules(spark: "SparkSession", transform: Transform | None) -> AbstractContextManager[object]:
    if transform is None:
        return nullcontext()
    from playhead.spark.transform import forgiving

    return forgiving(spark)


def transformed(
    spark: "SparkSession", samples: Iterable[Records], transform: Transform
) -> list[Records]:
    """Transform sample records, and return those that are kept."""
    import pyarrow as pa

    from playhead.spark import arrow_rows
    from playhead.spark.transform import apply
    from playhead.task.slicer import KEPT

    transformed = []
    for parts in _together([part for each in samples for part in _parts_of(each)]):
        rows = [arrow_rows.of(records, number, None) for number, records in enumerate(parts)]
        table = pa.Table.from_batches(rows)
        try:
            with _rules(spark, transform):
                frame = apply(spark.createDataFrame(table), transform)
                _compute(frame)
                arrow = frame.toArrow()
        except Exception as exc:
            raise failure(exc) from exc
        for part in arrow.to_batches():
            for each in arrow_rows.runs(part):
                kept = [i for i, verdict in enumerate(each.verdicts) if verdict == KEPT]
                transformed.append(each.records.pick(kept))
    return transformed


def why_not(spark: "SparkSession", transform: Transform, records: Records) -> str | None:
    """Say why the expressions raise for some of these records; None if they do not."""
    try:
        transformed(spark, [records], transform)
    except PlayheadError as exc:
        if not is_of_a_record(exc):
            raise
        return str(exc)
    return None


def _compute(frame: "DataFrame") -> None:
    """Compute a small frame, which Spark does when it plans; in the thread of `toArrow`, a full stack is lost.

    The socket would stay open then, and Python would read from it forever.
    """
    if can_be_asked(frame.sparkSession):
        frame._jdf.queryExecution().executedPlan()


def _together(parts: Sequence[Records]) -> Iterator[list[Records]]:
    """Group parts for one query each, within the same bytes: a query costs more than its records."""
    group: list[Records] = []
    size = 0
    for part in parts:
        more = sum(part.sizes_bytes())
        is_alike = not group or (group[0].decoded is None) == (part.decoded is None)
        if group and (size + more > _AT_ONCE_BYTES or not is_alike):
            yield group
            group, size = [], 0
        group.append(part)
        size += more
    if group:
        yield group


def _parts_of(records: Records) -> Iterator[Records]:
    """Split the records into parts of this many bytes; a larger record is a part of its own."""
    start = size = 0
    for index, more in enumerate(records.sizes_bytes()):
        if index > start and size + more > _AT_ONCE_BYTES:
            yield records.cut(start, index)
            start, size = index, 0
        size += more
    yield records.cut(start, len(records))


class Task:
    """A function for a Python worker, with everything it needs."""

    _mark: str

    def __new__(cls, *_: object, **__: object) -> Self:
        """Take this process's mark along, because a worker has its own."""
        made = super().__new__(cls)
        made._mark = MARK
        return made

    def __call__(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        try:
            with without_pandas():
                yield from self.work(parts)
        except PlayheadError as exc:
            raise RuntimeError(as_text(exc, self._mark)) from exc
        except MemoryError as exc:
            raise RuntimeError(as_text(WorkerOutOfMemory(), self._mark)) from exc
        except Exception as exc:
            fault = PlayheadError(
                f"a task failed with {type(exc).__name__}: {exc}",
                hint="this is a fault of Playhead's; -vv shows the traceback to report",
            )
            raise RuntimeError(as_text(fault, self._mark)) from exc

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _StopSignal:
    """Tells the reading worker on the same machine to stop.

    Closing the iterator is not enough: while the first worker keeps producing, the Spark stage
    never ends.
    """

    name: str
    folder: Path | None = None
    """A private folder; None on a cluster, whose machines do not share one."""

    def give(self, index: int) -> None:
        # Never follow a link that another user made.
        with suppress(FileExistsError):
            os.close(os.open(self._file(index), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def is_given(self, index: int) -> bool:
        return self._file(index).exists()

    def take_back(self, index: int) -> None:
        self._file(index).unlink(missing_ok=True)

    def _file(self, index: int) -> Path:
        folder = self.folder or Path(tempfile.gettempdir())
        return folder / f"playhead-word-{self.name}-{index}"


class _ReplayTask(Task):
    """Reads and writes in one worker, so that the data does not pass through the JVM."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for index in _indexes(parts):
            yield _reported(play(self._job, index))


class _ReadTask(Task):
    """Reads slices and passes their records to Spark, each slice between two control rows."""

    def __init__(self, job: Job, word: _StopSignal) -> None:
        self._job, self._word = job, word

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import arrow_rows

        for index in _indexes(parts):
            slices = [slice_ for work in self._job.tasks[index] for slice_ in work]
            is_decoded = self._job.decoding is not None
            with self._job.source.open() as source:
                reader = reading(source, self._job.decoding)
                for number, slice_ in enumerate(slices):
                    yield arrow_rows.begin(index, number, is_decoded=is_decoded)
                    for records in reader.read(slice_):
                        if self._job.is_stopped() or self._word.is_given(index):
                            return
                        yield arrow_rows.of(records, number, self._job.filter.verdicts(records))
                    yield arrow_rows.end(index, number, is_decoded=is_decoded)


class _WriteTask(Task):
    """Writes the records that Spark has transformed."""

    def __init__(self, job: Job, word: _StopSignal) -> None:
        self._job, self._word = job, word

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import arrow_rows

        stream = (each for part in parts for each in arrow_rows.read(part))
        for first in stream:
            if not isinstance(first, arrow_rows.Begin):
                continue  # The rest of a work that gave up or was stopped.
            reports = play(self._job, first.work, _from(stream))
            yield _reported(reports)
            if any(report.away for report in reports):
                # Otherwise everything left would be read before the run learns of the stop.
                self._word.give(first.work)
                for _ in stream:
                    pass
                self._word.take_back(first.work)


def _from(stream: Iterator[Any]) -> Any:
    """Yield a work's slices from the stream, whose first control row has been read."""
    from playhead.spark import arrow_rows

    has_begun = True

    def read_slice(slice_: Slice) -> Iterator[ReadRun]:
        nonlocal has_begun
        if not has_begun and next(stream, None) is None:
            raise Stopped(f"stopped before {slice_}")
        has_begun = False
        for each in stream:
            if isinstance(each, arrow_rows.End):
                return
            yield each.records, each.verdicts
        # The reader was stopped: what it did not read is not absent.
        raise Stopped(f"stopped within {slice_}")

    return read_slice


def _indexes(parts: "Iterator[pa.RecordBatch]") -> Iterator[int]:
    for part in parts:
        yield from part.column(0).to_pylist()


def _reported(reports: list[Report]) -> "pa.RecordBatch":
    import pyarrow as pa

    texts = [json.dumps(report.as_document()) for report in reports]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["report"])
