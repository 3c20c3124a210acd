"""Runs a job's works as Spark tasks, and brings back what they report."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from playhead.clock import SystemClock, wait_until
from playhead.cutter import Drawn
from playhead.decoding import reading
from playhead.errors import PlayheadError, Stopped, Unavailable
from playhead.job import Job, Report, play
from playhead.record import Slice
from playhead.records import Records
from playhead.spark.lean import without_pandas
from playhead.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MARK = "PLAYHEAD-ERROR "
REPORT = "report string"
_END_NOTED_WITHIN_S = 2.0
# What Spark says, in its own words, when something is gone that it cannot replace.
_LOST = {
    "a worker process": (
        "Python worker exited unexpectedly",
        "PYTHON_WORKER_EXITED",
        "Python worker failed to connect back",
        "java.io.EOFException",
        "Connection reset",
        "Broken pipe",
        "OutOfMemoryError",
    ),
    "an executor": ("ExecutorLostFailure", "executor loss", "Executor heartbeat timed out"),
    "its cluster": (
        "SparkContext was shut down",
        "stopped SparkContext",
        "All masters are unresponsive",
        "StatusCode.UNAVAILABLE",
        "INVALID_HANDLE.SESSION_NOT_FOUND",
        "NO_ACTIVE_SESSION",
    ),
}


class TaskFailed(PlayheadError):
    """A task of the run failed for a reason that trying again would not change."""

    def __init__(self, message: str, *, hint: str | None, exit_code: int) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class TaskAway(Unavailable):
    """A task of the run lost a server; what it had not committed is still to be done."""


class EngineLost(Unavailable):
    """A worker, an executor or the engine itself has ended, and could not say why."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the engine lost {what}",
            hint="often it was short of memory: `dmesg`, or the cluster's own log, may tell; "
            "what is committed stays, and `playhead resume` goes on from there",
        )


class EngineFailed(TaskFailed):
    """The engine stopped with an error of its own, or of one of its own clients."""


def run(
    spark: "SparkSession", job: Job, transform: Transform | None = None
) -> list[Mapping[str, Any]]:
    """Do all works of a job, each in a task of its own; returns their reports."""
    indexes = spark.range(0, len(job.works), 1, len(job.works))
    if transform is None:
        frame = indexes.mapInArrow(_Player(job), REPORT)
    else:
        from playhead.spark import rows
        from playhead.spark.transform import apply

        schema = rows.SCHEMA if job.decoding is None else rows.DECODED_SCHEMA
        word = _Word(uuid4().hex)
        read = indexes.mapInArrow(_Drawer(job, word), schema)
        frame = apply(read, transform).mapInArrow(_Committer(job, word), REPORT)
    try:
        # Spark Connect plans only now, so its rules for bad values must hold until the end.
        with _rules(spark, transform):
            return [json.loads(row.report) for row in frame.collect()]
    except Exception as exc:
        raise failure(exc) from exc


def _rules(spark: "SparkSession", transform: Transform | None) -> AbstractContextManager[object]:
    if transform is None:
        return nullcontext()
    from playhead.spark.transform import forgiving

    return forgiving(spark)


def transformed(
    spark: "SparkSession", samples: Iterable[Records], transform: Transform
) -> list[Records]:
    """Records as the transform leaves them, those that it keeps: for samples and checks."""
    import pyarrow as pa

    from playhead.cutter import KEPT
    from playhead.spark import rows
    from playhead.spark.transform import apply

    drawn = []
    for number, records in enumerate(samples):
        table = pa.Table.from_batches([rows.of(records, number, None)])
        with _rules(spark, transform):
            arrow = apply(spark.createDataFrame(table), transform).toArrow()
        for part in arrow.to_batches():
            for each in rows.read(part):
                if isinstance(each, rows.Run):
                    kept = [i for i, verdict in enumerate(each.verdicts) if verdict == KEPT]
                    drawn.append(each.records.pick(kept))
    return drawn


def failure(exc: Exception) -> PlayheadError:
    """What the task itself raised, found in what Spark makes of it; or what Spark has lost."""
    text = str(exc)
    at = text.find(_MARK)
    if at < 0:
        return _foreign(exc, text)
    document, _ = json.JSONDecoder().raw_decode(text, at + len(_MARK))
    if document.pop("is_away"):
        return TaskAway(document["message"], hint=document["hint"])
    message = document.pop("message")
    return TaskFailed(message, **document)


def _foreign(exc: Exception, text: str) -> PlayheadError:
    if _has_ended(exc):
        return EngineLost("its Java process")
    for what, phrases in _LOST.items():
        if any(phrase in text for phrase in phrases):
            return EngineLost(what)
    # The JVM's stack is for whoever reports it: it stays in the chain, which -vv shows.
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    first = (causes[-1] if causes else text.strip().partition("\n")[0]).removeprefix("Caused by: ")
    return EngineFailed(
        f"the engine failed with {type(exc).__name__}: {first[:500]}",
        hint="-vv shows all that it said; what is committed stays",
        exit_code=PlayheadError.exit_code,
    )


def _has_ended(exc: Exception) -> bool:
    """Whether the connection to the engine broke because that has ended; its end may be noted later."""
    from playhead.spark import session

    if not isinstance(exc, ConnectionError | EOFError) and "py4j" not in type(exc).__module__:
        return False
    deadline_s = _END_NOTED_WITHIN_S if not _is_said_by_java(exc) else 0
    clock = SystemClock()
    return bool(wait_until(session.has_died, deadline_s=deadline_s, clock=clock, every_s=0.02))


def _is_said_by_java(exc: Exception) -> bool:
    return type(exc).__name__ == "Py4JJavaError"


def _said(error: PlayheadError) -> str:
    return json.dumps(
        {
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
            "is_away": isinstance(error, Unavailable),
        }
    )


class Task:
    """A function that Spark calls in a Python worker; what it has to know is its only luggage."""

    def __call__(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        try:
            with without_pandas():
                yield from self.work(parts)
        except PlayheadError as exc:
            raise RuntimeError(_MARK + _said(exc)) from exc
        except Exception as exc:
            fault = PlayheadError(
                f"a task failed with {type(exc).__name__}: {exc}",
                hint="this is a fault of Playhead's; -vv shows the traceback to report",
            )
            raise RuntimeError(_MARK + _said(fault)) from exc

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Word:
    """What the worker that writes tells the one that reads for it, on the same machine: read no more.

    To take no more would not tell it: with the first of two workers still giving, Spark came to no end.
    """

    name: str

    def give(self, index: int) -> None:
        self._file(index).touch()

    def is_given(self, index: int) -> bool:
        return self._file(index).exists()

    def take_back(self, index: int) -> None:
        self._file(index).unlink(missing_ok=True)

    def _file(self, index: int) -> Path:
        return Path(tempfile.gettempdir()) / f"playhead-word-{self.name}-{index}"


class _Player(Task):
    """Reads and writes in one worker: the JVM stands beside the data's way."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for index in _indexes(parts):
            yield _reported(play(self._job, index))


class _Drawer(Task):
    """Reads slices and gives their records to Spark, each slice between two rows of control."""

    def __init__(self, job: Job, word: _Word) -> None:
        self._job, self._word = job, word

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import rows

        for index in _indexes(parts):
            slices = [slice_ for lane in self._job.works[index] for slice_ in lane]
            is_decoded = self._job.decoding is not None
            with self._job.source.open() as source:
                reader = reading(source, self._job.decoding)
                for number, slice_ in enumerate(slices):
                    yield rows.begin(index, number, is_decoded=is_decoded)
                    for records in reader.read(slice_):
                        if self._job.is_stopped() or self._word.is_given(index):
                            return
                        yield rows.of(records, number, self._job.filter.verdicts(records))
                    yield rows.end(index, number, is_decoded=is_decoded)


class _Committer(Task):
    """Takes the records that Spark has transformed, and writes them."""

    def __init__(self, job: Job, word: _Word) -> None:
        self._job, self._word = job, word

    def work(self, parts: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from playhead.spark import rows

        stream = (each for part in parts for each in rows.read(part))
        for first in stream:
            if not isinstance(first, rows.Begin):
                continue  # what a work that gave up, or was stopped, has left behind
            reports = play(self._job, first.work, _from(stream))
            yield _reported(reports)
            if any(report.away for report in reports):
                # Or all that is left would be read before the run hears of it.
                self._word.give(first.work)
                for _ in stream:
                    pass
                self._word.take_back(first.work)


def _from(stream: Iterator[Any]) -> Any:
    """Draws a work's slices from the stream, whose first control row has been read."""
    from playhead.spark import rows

    has_begun = True

    def draw(slice_: Slice) -> Iterator[Drawn]:
        nonlocal has_begun
        if not has_begun and next(stream, None) is None:
            raise Stopped(f"stopped before {slice_}")
        has_begun = False
        for each in stream:
            if isinstance(each, rows.End):
                return
            yield each.records, each.verdicts
        # The reader was told to stop: what it had not read is not absent.
        raise Stopped(f"stopped within {slice_}")

    return draw


def _indexes(parts: "Iterator[pa.RecordBatch]") -> Iterator[int]:
    for part in parts:
        yield from part.column(0).to_pylist()


def _reported(reports: list[Report]) -> "pa.RecordBatch":
    import pyarrow as pa

    texts = [json.dumps(report.as_document()) for report in reports]
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["report"])
