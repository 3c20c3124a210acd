"""Dead letters are read back: each that the ledger counts is there once, with what its record carries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from playhead.account import ErrorRule
from playhead.record import Record
from playhead.replay.assemble import Wiring
from playhead.replay.verify import Verification, verify
from playhead.source import TopicPartition
from playhead.task.job import Job
from playhead.task.slicer import Filter, Limits
from playhead.testing.memory import ListSource, ListTarget
from tests.unit.replaying import TOPIC, play_all, record, whole_plan


@dataclass
class Lain:
    """Letters in a dictionary, as a test has laid them."""

    by_offset: dict[int, list[int]] = field(default_factory=dict)
    is_whole: bool = True
    where: str = "a list"

    def of(self, place: TopicPartition, /) -> Mapping[int, Sequence[int]]:
        return dict(sorted(self.by_offset.items())) if place == (TOPIC, 0) else {}

    def digest(self, record: Record, /) -> int:
        return hash(record.value)

    def letters(self, _replay_id: str, /) -> "Lain":
        return self

    def lay(self, record: Record) -> None:
        self.by_offset.setdefault(record.offset, []).append(self.digest(record))


BAD = (3, 5)


@pytest.fixture
def lain() -> Lain:
    return Lain()


def verified(lain: Lain, tamper=lambda _: None) -> Verification:  # type: ignore[no-untyped-def]
    """After a replay of ten records, of which two died."""
    source = ListSource(record(n) for n in range(10))
    target = ListTarget(refuses=lambda each: "bad" if each.offset in BAD else None)
    plan = whole_plan(source)

    class Grave:
        def open(self, _replay_id):  # type: ignore[no-untyped-def]
            from contextlib import nullcontext

            return nullcontext(lambda _slice, letters: [lain.lay(x.record) for x in letters] and 0)

    [planned] = plan.slices()
    lanes = (((planned,),),)
    rule = ErrorRule("dlq", "dead")
    job = Job(plan.replay_id, source, target, lanes, Filter(), rule, Grave(), limits=Limits(4))
    play_all(job)
    tamper(lain)
    return verify(plan, Wiring(source, target, lain), play_all, 1)  # type: ignore[arg-type]


def test_each_is_there_once(lain):
    found = verified(lain)
    assert found.agrees, found
    assert (found.expected, found.same) == (10, 10)
    assert found.verdict() == "verified: 10 records read back, 0 differences"


@pytest.mark.parametrize(
    ("tamper", "kind", "text"),
    [
        (lambda lain: lain.by_offset.pop(3), "missing", "1 dead letters of"),
        (lambda lain: lain.by_offset[3].append(lain.by_offset[3][0]), "extra", "several dead"),
        (lambda lain: lain.by_offset.update({3: [7]}), "changed", "has different content"),
    ],
)
def test_what_is_not_as_it_was(lain, tamper, kind, text):
    found = verified(lain, tamper)
    assert not found.agrees
    assert found.different == 1
    assert found.differences[0]["kind"] == kind
    assert text in found.differences[0]["text"]


def test_one_that_somebody_may_have_deleted_cannot_be_told(lain):
    def tamper(lain):
        lain.by_offset.pop(3)
        lain.is_whole = False

    found = verified(lain, tamper)
    assert (found.same, found.different, found.unknown) == (9, 0, 1)
    assert found.verdict().startswith(
        "CANNOT BE TOLD: 10 records read back, 0 differences, 1 that could not be compared"
    )


def test_a_letter_of_a_record_that_was_written_is_one_too_many(lain):
    found = verified(lain, lambda lain: lain.lay(record(4)))
    assert (found.different, found.agrees) == (1, False)
    assert "more dead letters" in found.differences[0]["text"]
