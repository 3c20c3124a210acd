"""The Spark session of a replay, started when it is needed or while planning."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from playhead.config.context import Configuration
from playhead.config.settings import BY_NAME
from playhead.errors import PlayheadError, RunsAlone
from playhead.host import lifetime
from playhead.ledger import remaining
from playhead.records import Records
from playhead.spark.engine_settings import refuse_bad_master
from playhead.task.job import Job
from playhead.task.raising_records import RaisingRecords, RecordsRaise, until_stopped
from playhead.transform.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOTS_ELSEWHERE = 8
MOST_LOCAL_SLOTS = 32


@contextmanager
def _named_if_it_ends() -> Iterator[None]:
    """Turn PySpark's errors of a broken connection into our error of an engine that has ended."""
    try:
        yield
    except PlayheadError:
        raise
    except Exception as exc:
        from playhead.spark.failures import of_the_engine

        raise of_the_engine(exc) or exc from exc


@dataclass(frozen=True, slots=True)
class EngineUse:
    """How a plan uses the engine."""

    share: float | None = None
    """The share of this machine's cores; None for all of them."""
    is_warmed: bool = False
    """Whether the engine starts while the plan is made."""
    say: Callable[[str], None] = lambda _: None
    """Says what takes long."""


class Engine:
    """One session with settings of its own; two threads can ask for it.

    Runs of one process share the JVM: each has its session, and a tag on its jobs, so that planning one does
    not change how another reads a text, and cancelling one leaves the others.
    """

    def __init__(
        self,
        configuration: Configuration,
        transform: Transform | None = None,
        *,
        wanted_slots: int = 0,
        share: float | None = None,
    ) -> None:
        self._configuration, self._transform = configuration, transform
        self._wanted_slots, self._share = wanted_slots, share
        # Read now, so that invalid ones are refused before anything is asked or written.
        self._memory = configuration.get("spark_memory")
        refuse_bad_master(configuration.get("spark_master") or "")
        _need_lent_engine_to_do(configuration)
        self._lock = Lock()
        self._session: SparkSession | None = None
        self._tag = f"playhead-{uuid4().hex}"
        self._raising = RaisingRecords()

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and see its files."""
        master = self._configuration.get("spark_master") or "local[*]"
        return not self._configuration.get("spark_remote") and master.startswith("local")

    @property
    def slots(self) -> int:
        """About how many tasks can run at once; with a share of this machine, no more than that."""
        if not self.is_local:
            return max(1, int(_SLOTS_ELSEWHERE * (self._share or 1)))
        cores = os.cpu_count() or 1
        if self._wanted_slots:
            return max(cores, min(self._wanted_slots, MOST_LOCAL_SLOTS))
        return max(1, int(cores * (self._share or 1)))

    @property
    def is_bounded(self) -> bool:
        """Whether the rest of the machine is reserved for others."""
        return self._share is not None

    @_named_if_it_ends()
    def paced_slots(self) -> int:
        """How many tasks run at once, as the started engine reports."""
        from playhead.spark import attached, session

        spark = self.session()
        return self.slots if attached.lent() is not None else session.slots(spark)

    @property
    def is_there(self) -> bool:
        """Whether the session has started, in the background or not."""
        from playhead.spark import attached

        return self._session is not None or attached.lent() is not None

    def warm(self) -> None:
        """Start in the background; the first use waits for it."""

        def begin() -> None:
            with suppress(Exception):  # The first use starts again, and gets the error.
                self.session()

        Thread(target=begin, name="engine", daemon=True).start()

    @_named_if_it_ends()
    def session(self) -> "SparkSession":
        from playhead.spark import own_session, session

        with self._lock:
            if self._session is not None and session.has_died():
                session.shut_down()
                self._session = None
            if self._session is None:
                master = self._configuration.get("spark_master")
                is_ours = self._wanted_slots or self.is_bounded
                if self.is_local and is_ours and master in (None, "local[*]"):
                    master = f"local[{self.slots}]"
                found = session.session(
                    "playhead replay",
                    master=master,
                    remote=self._configuration.get("spark_remote"),
                    memory=self._memory or session.DEFAULT_MEMORY,
                    # Without a transform, no record passes through the JVM.
                    is_brief=lifetime.is_of_one_command and self._transform is None,
                )
                self._session = own_session.with_own_settings(found)
            return self._session

    def tell(self, say: Callable[[str], None]) -> None:
        """Tell what takes long in this way."""
        self._raising.say = say

    def check_words(self) -> None:
        """Refuse a transform by its text alone, without asking the engine."""
        if self._transform is not None:
            from playhead.spark.allowed_functions import check_calls

            for expression in self._transform.expressions():
                check_calls(expression)

    @_named_if_it_ends()
    def check(self) -> None:
        """Refuse a transform that Spark cannot understand, before anything runs."""
        if self._transform is not None:
            from playhead.spark import own_session
            from playhead.spark.transform import check

            spark = self.session()
            with own_session.tagged(spark, self._tag):
                check(spark, self._transform)

    @_named_if_it_ends()
    def run_job(self, job: Job) -> list[Mapping[str, Any]]:
        """Run a job; raise `RecordsRaise` if some records have to be rejected first."""
        from playhead.spark.failures import EngineLost, is_of_a_record

        while True:
            spark = self.session()
            try:
                return self._run(spark, job)
            except EngineLost as exc:
                if exc.has_lost_all:
                    self._leave(spark)
                raise
            except PlayheadError as exc:
                if not is_of_a_record(exc) or not self._finds_raising(spark, job):
                    self._raising.refuse_too_many()
                    raise
                if job.compares is None:  # Some slices are committed: the rest is another job.
                    raise RecordsRaise(str(exc), self._raising.count) from exc

    def _run(self, spark: "SparkSession", job: Job) -> list[Mapping[str, Any]]:
        from playhead.spark import own_session, run, session

        session.describe(spark, f"playhead replay {job.replay_id}")
        if self._transform is not None:
            job = replace(job, decoding=self._raising.rejecting(job.decoding))
        with own_session.tagged(spark, self._tag):
            return run.run(spark, job, self._transform)

    def _finds_raising(self, spark: "SparkSession", job: Job) -> bool:
        """Look for the records for which the expressions raise, where the job can have met them."""
        from playhead.spark.run import why_not

        if self._transform is None:
            return False
        why = until_stopped(partial(why_not, spark, self._transform), job.is_stopped)
        works = [work for task in job.tasks for work in task]
        if job.compares is None:
            entries = job.target.entries(job.replay_id)
            works = [(*remaining(work, [each.slice for each in entries]),) for work in works]
        else:
            rejected = {at for at, entry in job.compares.items() if entry.dead + entry.skipped}
            slices = [at for work in works for at in work]
            works = [(at,) for at in slices if at in rejected or not rejected]
        return self._raising.look_in(job.source, job.decoding, works, job.filter, why)

    @_named_if_it_ends()
    def transformed(self, samples: Sequence[Records]) -> Sequence[Records]:
        """Return samples as the transform changes them, with those marked for which it raises."""
        if self._transform is None:
            return samples
        from playhead.spark import own_session, run
        from playhead.spark.failures import is_of_a_record

        spark = self.session()
        why = partial(run.why_not, spark, self._transform)
        with own_session.tagged(spark, self._tag):
            marked = [self._raising.marked(records) for records in samples]
            try:
                found = run.transformed(spark, marked, self._transform)
                self._raising.note_fitting(found)
                return found
            except PlayheadError as exc:
                if not is_of_a_record(exc):
                    raise
                if not self._raising.count:
                    self._raising.say_search()
                kept = self._raising.computable(marked, why)
                if not kept and not (self._raising.count and self._raising.fits_samples):
                    raise
            return run.transformed(spark, kept, self._transform) if kept else []

    def _leave(self, spark: "SparkSession") -> None:
        """Give up a session that cannot run a job any more; the next job gets a new one."""
        from playhead.spark import attached, session

        with self._lock:
            if self._session is spark and attached.lent() is None:
                session.leave(spark)
                self._session = None

    def cancel(self) -> None:
        """End the running jobs; the targets undo what is not committed."""
        from playhead.spark import own_session

        with self._lock:
            if self._session is not None:
                own_session.interrupt(self._session, self._tag)


def _need_lent_engine_to_do(configuration: Configuration) -> None:
    """Refuse a borrowed engine if the configuration asks for a different one: the command then runs alone."""
    from playhead.spark import attached

    if attached.lent() is None:
        return
    for name in ("spark_master", "spark_remote", "spark_memory"):
        found = configuration.settings.get(name)
        if found is not None and found.value != BY_NAME[name].default:
            raise RunsAlone(f"{name} is set in {found.origin}")
