"""The plan: everything that is decided before anything is written, so that a run does what its dry run showed."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import Any

from playhead.errors import UsageError
from playhead.grammar.field_types import need_kinds, need_shallow
from playhead.note import Note
from playhead.printable import json_text
from playhead.record import Slice
from playhead.request import Request
from playhead.shown import plan_html, plan_lines, sample_lines, text
from playhead.source import SourceFacts, TopicFacts, TopicPartition
from playhead.span import are_named_to_the_end
from playhead.target import Inspection
from playhead.terms import Terms
from playhead.time_span import OPEN_TRANSACTION

VERSION = 2
# Journals and ledgers may still have plans of version 1. They have no digest, and their target's
# needs contain statements, which no longer run.
_UNSEALED = 1
_DIGEST = "sha256"
_BY_PARTITION = ("bytes_by_partition", "leader_epochs")
# An ID becomes a part of file names, transactional ids and ledger keys.
REPLAY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """A run of frozen offsets of one partition, with the partition's bounds at that time.

    A partition has several if its offsets were named in separate runs; they are in order and apart.
    `[from_offset, to_offset)` is read. `span_end` is Kafka's answer for the time of the span's end; the
    offsets after it are read for late records.
    """

    topic: str
    partition: int
    from_offset: int
    span_end: int
    to_offset: int
    earliest: int
    stable_end: int
    high_watermark: int

    def __post_init__(self) -> None:
        offsets = (self.from_offset, self.span_end, self.to_offset)
        if not (isinstance(self.topic, str) and self.topic):
            raise TypeError(f"PartitionPlan: found {self.topic!r}, needed a topic name")
        if not all(type(each) is int and each >= 0 for each in (self.partition, *offsets)):
            raise TypeError(
                f"PartitionPlan of {self.topic}: partition and offsets must be numbers, 0 or more"
            )
        if not self.from_offset <= self.span_end <= self.to_offset:
            raise ValueError(
                f"PartitionPlan of {self.topic}:{self.partition}: found {offsets}, "
                "needed from_offset <= span_end <= to_offset"
            )

    @property
    def place(self) -> TopicPartition:
        return (self.topic, self.partition)

    @property
    def planned(self) -> int:
        """The number of offsets to account for."""
        return self.to_offset - self.from_offset

    def slice(self) -> Slice | None:
        """All planned offsets as one slice; None if there are none."""
        if self.planned == 0:
            return None
        return Slice(self.topic, self.partition, self.from_offset, self.to_offset)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of the run; None for values that nothing is known about."""

    records: int
    size_bytes: int | None
    seconds: float | None
    based_on: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact work of a replay; the run executes it unchanged."""

    replay_id: str
    request: Request
    made_at_ms: int
    from_ms: int | None
    """The record times of the span; None on a side that is not bounded by time."""
    to_ms: int | None
    partitions: tuple[PartitionPlan, ...]
    source: SourceFacts
    target: Inspection
    estimate: Estimate
    notes: tuple[Note, ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()
    """Sample rows as the target shows them, in JSON values."""

    def __post_init__(self) -> None:
        if not REPLAY_ID.fullmatch(self.replay_id):
            raise ValueError(
                f"replay id {self.replay_id!r}: needed letters, digits, '.', '_' and '-', at most 64"
            )
        object.__setattr__(self, "samples", tuple(_plain(row) for row in self.samples))

    def __str__(self) -> str:
        return text([*plan_lines(self), *sample_lines(self)])

    def _repr_html_(self) -> str:
        return plan_html(self)

    @property
    def planned(self) -> int:
        return sum(each.planned for each in self.partitions)

    def slices(self) -> list[Slice]:
        """The slices to read, in order."""
        return [slice_ for each in self.partitions if (slice_ := each.slice()) is not None]

    def places(self) -> set[TopicPartition]:
        """The partitions of the plan, including those without offsets to read."""
        return {each.place for each in self.partitions}

    @property
    def unstable(self) -> int:
        """How many offsets may be of a span by time, but could not be read behind an open transaction."""
        is_by_time = self.from_ms is not None or self.to_ms is not None
        return self.hidden if is_by_time else 0

    @property
    def hidden(self) -> int:
        """How many offsets behind an open transaction a span reaches that names no end before them."""
        if all(note.code != OPEN_TRANSACTION for note in self.notes):
            return 0
        named = self.request.spec.span.offsets
        ends = [
            each
            for each in self.partitions
            if each.to_offset == each.stable_end and not are_named_to_the_end(named, each.place)
        ]
        return sum(each.high_watermark - each.stable_end for each in ends)

    def span_ends(self) -> dict[TopicPartition, int]:
        """The end of the span in each partition; with several runs, the end of the last one."""
        return {each.place: each.span_end for each in self.partitions}

    def terms(self, *, is_endless: bool = False) -> Terms:
        """Return the terms for the target's ledger; those of a live pipeline contain no plan."""
        document = replace(
            self, samples=()
        ).as_document()  # A ledger must not store samples of records.
        return Terms(
            "" if is_endless else self.digest(),
            self.source.identity,
            {name: facts.topic_id or "" for name, facts in self.source.topics.items()},
            self.target.identity,
            self.request.said(),
            None if is_endless else document,
        )

    def digest(self) -> str:
        """A digest that equal work has in common: the same request and the same offsets."""
        runs = [
            (*each.place, each.from_offset, each.span_end, each.to_offset)
            for each in self.partitions
        ]
        work = [self.replay_id, self.request.said(), self.from_ms, self.to_ms, runs]
        return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()

    def as_document(self) -> dict[str, Any]:
        """Return the complete plan for JSON, with a digest of its content.

        The digest reveals accidental changes only: an attacker can compute a new one. Therefore a plan
        contains no code, and everything that matters is shown before it runs.
        """
        document = {"version": VERSION, **asdict(self), "planned": self.planned}
        del document["target"]["rows"]  # they are the samples
        for facts in document["source"]["topics"].values():
            for name in _BY_PARTITION:
                facts[name] = {str(number): held for number, held in facts[name].items()}
        return document | {_DIGEST: _digest(document)}

    def as_json(self) -> str:
        """Return the plan as UTF-8 text; lone surrogates in samples are escaped."""
        return json_text(json.dumps(self.as_document(), indent=2, ensure_ascii=False))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Plan":
        """Read a document of `as_document`, or one of an earlier version."""
        need_shallow(document)
        if document.get("version") not in (_UNSEALED, VERSION):
            raise UsageError(
                f"a plan of version {document.get('version')!r}; this Playhead knows {VERSION}",
                hint="run the same command again to make a new plan",
            )
        if document["version"] == VERSION and document[_DIGEST] != _digest(document):
            raise UsageError(
                "the plan was changed after it was made: its digest does not match",
                hint="run the same command with another --plan FILE to make a new plan",
            )
        partitions = tuple(PartitionPlan(**each) for each in document["partitions"])
        plan = cls(
            document["replay_id"],
            Request.from_document(document["request"]),
            document["made_at_ms"],
            document["from_ms"],
            document["to_ms"],
            partitions,
            _facts(document["source"]),
            _inspection(document["target"]),
            Estimate(**document["estimate"]),
            tuple(Note(**each) for each in document["notes"]),
            tuple(document["samples"]),
        )
        need_kinds(plan, "plan")
        _need_apart(plan.slices())
        return plan

    @classmethod
    def from_file(cls, text: str, *, where: str) -> "Plan":
        """Read a plan file, which another user may have written; require a digest."""
        plan = cls.from_json(text, where=where)
        if json.loads(text)["version"] == _UNSEALED:
            raise UsageError(
                f"{where} is a plan of an earlier version without a digest: changes in it cannot be detected",
                hint="run the same command with another --plan FILE to make a new plan",
            )
        return plan

    @classmethod
    def from_json(cls, text: str, *, where: str) -> "Plan":
        try:
            return cls.from_document(json.loads(text))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            raise UsageError(
                f"{where} is not a plan: {_why_none(exc)}",
                hint="`playhead replay … --plan FILE` writes one",
            ) from exc


def _why_none(exc: Exception) -> str:
    """Return why a document is not a plan, without Python's words for a value of another kind."""
    if isinstance(exc, KeyError):
        return f"it has no {exc}"
    is_ours = not isinstance(exc, TypeError | AttributeError) or str(exc).startswith("plan.")
    return str(exc) if is_ours else "a part of it is of another kind than in a plan"


def _need_apart(slices: Sequence[Slice]) -> None:
    """Refuse a plan that has an offset twice: no proof of it would add up."""
    for first, second in pairwise(sorted(slices, key=lambda each: (*each.place, each.from_offset))):
        if first.place == second.place and first.to_offset > second.from_offset:
            raise ValueError(f"{first} and {second} overlap")


def _digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a document, independent of its layout."""
    said = {name: each for name, each in document.items() if name != _DIGEST}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON values; targets may show bytes, dates and decimals."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # A lone surrogate.
    if value is None or isinstance(value, int) or (type(value) is float and isfinite(value)):
        return value
    return str(value)


def _facts(document: Mapping[str, Any]) -> SourceFacts:
    topics = {
        name: TopicFacts(
            **{
                **facts,
                **{
                    field: {int(number): held for number, held in facts.get(field, {}).items()}
                    for field in _BY_PARTITION
                },
            }
        )
        for name, facts in document["topics"].items()
    }
    notes = tuple(Note(**each) for each in document["notes"])
    return SourceFacts(document["identity"], topics, notes)


def _inspection(document: Mapping[str, Any]) -> Inspection:
    notes = tuple(Note(**each) for each in document["notes"])
    creates = tuple(document["creates"])
    return Inspection(document["identity"], notes, creates, document["needs"])
