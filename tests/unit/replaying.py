"""Whole replays between lists, in this process, and what the tests of the core write down again and again."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from playhead.ledger import Entry
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.record import Headers, Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay.assemble import Wiring
from playhead.replay.journal import Journal
from playhead.replay.runner import Runner
from playhead.request import Request
from playhead.source import Source, SourceFacts, TopicFacts
from playhead.target import Inspection, Target
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Limits

TOPIC = "laps"


def record(
    offset: int, ms: int = 0, *, partition: int = 0, size: int = 1, headers: Headers = ()
) -> Record:
    value = str(offset).encode().ljust(size, b".")
    return Record(TOPIC, partition, offset, ms, TimestampType.CREATE_TIME, None, value, headers)


def runs_of(records: Iterable[Record], chops: Iterable[int]) -> list[Records]:
    """The records in runs that end after so many."""
    rest, runs = list(records), []
    for length in chops:
        if rest[:length]:
            runs.append(Records.of(rest[:length]))
        rest = rest[length:]
    return runs + ([Records.of(rest)] if rest else [])


def request(**changes: Any) -> Request:
    return Request(**{"source": "kafka:laps", "target": "kafka:copy", **changes})


def partition_plan(from_offset: int, to_offset: int, **changes: Any) -> PartitionPlan:
    values = {
        "topic": TOPIC,
        "partition": 0,
        "from_offset": from_offset,
        "span_end": to_offset,
        "to_offset": to_offset,
        "earliest": 0,
        "stable_end": to_offset,
        "high_watermark": to_offset,
    }
    return PartitionPlan(**{**values, **changes})


def plan_of(*partitions: PartitionPlan, **changes: Any) -> Plan:
    topics = {each.topic: TopicFacts() for each in partitions}
    values: dict[str, Any] = {
        "replay_id": "r1",
        "request": request(),
        "made_at_ms": 1_767_268_800_000,
        "from_ms": None,
        "to_ms": None,
        "partitions": partitions,
        "source": SourceFacts("here", topics),
        "target": Inspection("lists"),
        "estimate": Estimate(1, None, None, "a test"),
    }
    return Plan(**{**values, **changes})


def whole_plan(source: Source, **changes: Any) -> Plan:
    """All that a source holds."""
    partitions = [
        PartitionPlan(*place, held.earliest, held.stable_end, held.stable_end, *_of(held))
        for place, held in sorted(source.bounds().items())
    ]
    return plan_of(*partitions, **{"source": source.facts(), **changes})


def _of(held: Any) -> tuple[int, int, int]:
    return held.earliest, held.stable_end, held.high_watermark


def entry(from_offset: int, to_offset: int, partition: int = 0, **counts: Any) -> Entry:
    """All written, unless said; what was not read is explained."""
    slice_ = Slice(TOPIC, partition, from_offset, to_offset)
    left = {
        name: counts[name] for name in ("filtered", "outside", "dead", "skipped") if name in counts
    }
    read = counts.pop("read", len(slice_))
    written = read - sum(left.values())
    absences = {"a marker": len(slice_) - read} if read < len(slice_) else {}
    return Entry(slice_, **{"read": read, "written": written, "absences": absences, **counts})


def play_all(job: Job) -> list[Mapping[str, Any]]:
    """A job's works one after the other, here."""
    return [report.as_document() for index in range(len(job.tasks)) for report in play(job, index)]


class Small:
    """Plays jobs in this process with small slices, so that a handful of records makes several."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.jobs: list[Job] = []

    def __call__(self, job: Job) -> list[Mapping[str, Any]]:
        from dataclasses import replace

        self.jobs.append(job)
        return play_all(replace(job, limits=self.limits))


def runner(plan: Plan, source: Source, target: Target, folder: Path, **changes: Any) -> Runner:
    journal = Journal(folder)
    journal.keep(plan, {})
    given = {"run_job": Small(Limits(2)), "slots": 2, **changes}
    return Runner(plan, Wiring(source, target, None), journal, **given)
