"""The search for records for which an expression raises, against a plain list of them."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.live.progress import PipelineProgress
from playhead.live.round_loop import Rounds
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay.engine import Engine
from playhead.spark.failures import EngineFailed
from playhead.task import raising_records
from playhead.task.job import Job
from playhead.task.raising_records import (
    RaisingRecords,
    RecordsRaise,
    RejectingDecoding,
    TooManyRaise,
    until_stopped,
)
from playhead.task.round import Outcome, RoundWritten
from playhead.task.slicer import Filter
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import record, runner, whole_plan

TOPIC = "laps"


def records(offsets: range, partition: int = 0) -> Records:
    kind = TimestampType.CREATE_TIME
    return Records.of(
        Record(TOPIC, partition, at, at, kind, b"k", str(at).encode(), ()) for at in offsets
    )


class Expressions:
    """Raise for some values, and count how often they were computed."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.times = {str(each).encode() for each in bad}, 0

    def why_not(self, given: Records) -> str | None:
        self.times += 1
        rows = zip(given.offsets, given.readable, strict=True)
        raised = [value for at, value in rows if value in self.bad and at not in given.undecoded]
        return f"overflow at {raised[0].decode()}" if raised else None


class Log:
    """A source whose records come in runs of ten."""

    @contextmanager
    def open(self) -> "Iterator[Log]":
        yield self

    def read(self, slice_: Slice) -> Iterator[Records]:
        for start in range(slice_.from_offset, slice_.to_offset, 10):
            stop = min(start + 10, slice_.to_offset)
            yield records(range(start, stop), slice_.partition)


@pytest.mark.parametrize("seed", range(40))
def test_exactly_those_are_found(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([1, 2, 3, 100, 1_000])
    bad = set(chance.sample(range(count), min(count, chance.choice([0, 1, 2, 9]))))
    expressions, raising = Expressions(bad), RaisingRecords()
    assert raising.look(records(range(count)), expressions.why_not) == bool(bad)
    marked = raising.marked(records(range(count)))
    assert set(marked.undecoded) == bad
    assert marked.readable == marked.values
    assert expressions.times <= 3 + 2 * len(bad) * count.bit_length()
    assert raising.look(marked, expressions.why_not) is False, "those are known"


def test_the_reason_is_that_of_the_record() -> None:
    raising = RaisingRecords()
    raising.look(records(range(8)), Expressions({2, 7}).why_not)
    assert raising.marked(records(range(8))).undecoded == {
        at: f"an expression cannot be computed for it: overflow at {at}" for at in (2, 7)
    }


def test_an_engine_that_fails_for_each_record_is_no_fault_of_theirs() -> None:
    raising = RaisingRecords()
    assert not raising.look(records(range(8)), lambda _: "no space left on device")
    assert raising.count == 0


def test_an_engine_that_breaks_in_the_search_blames_no_record() -> None:
    calls = iter(range(1_000))
    raising = RaisingRecords()
    bad = Expressions({5}).why_not

    def why_not(given: Records) -> str | None:
        return bad(given) if next(calls) < 2 else "no space left on device"

    assert not raising.look(records(range(8)), why_not)
    assert raising.count == 0


def test_the_second_half_is_not_asked_if_the_first_has_none() -> None:
    expressions = Expressions({1_023})
    assert RaisingRecords().look(records(range(1_024)), expressions.why_not)
    assert expressions.times <= 1 + 10 + 1 + 2, "all, each first half, the record, two with nothing"


@pytest.mark.parametrize("failing", range(8))
def test_an_engine_that_fails_once_blames_no_record(failing: int) -> None:
    calls = iter(range(1_000))
    raising = RaisingRecords()

    def why_not(_: Records) -> str | None:
        return "try again" if next(calls) == failing else None

    raising.look(records(range(64)), why_not)
    assert raising.count == 0


def look_in(raising: RaisingRecords, bad: set[int], *works: tuple[Slice, ...]) -> bool:
    why_not = Expressions(bad).why_not
    return raising.look_in(Log(), None, works, Filter(from_ms=5), why_not)  # type: ignore[arg-type]


def test_each_work_is_looked_at_but_not_what_no_expression_reads() -> None:
    raising = RaisingRecords()
    works = (Slice(TOPIC, 0, 0, 50), Slice(TOPIC, 0, 50, 60)), (Slice(TOPIC, 1, 0, 30),)
    assert look_in(raising, {3, 21, 22, 55}, *works)
    assert set(raising.marked(records(range(60))).undecoded) == {21, 22, 55}, "3 is outside"
    assert set(raising.marked(records(range(30), 1)).undecoded) == {21, 22}
    assert not look_in(raising, {3, 21, 22, 55}, *works)


def test_the_search_goes_on_behind_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    work = (Slice(TOPIC, 0, 0, 200),)
    raising = RaisingRecords()
    assert look_in(raising, {10, 95, 199}, work)
    assert set(raising.marked(records(range(200))).undecoded) == {10, 95, 199}
    monkeypatch.setattr(raising_records, "_FURTHER", 90)
    raising = RaisingRecords()
    assert look_in(raising, {10, 95, 199}, work)
    assert set(raising.marked(records(range(200))).undecoded) == {10, 95}


def test_a_run_does_not_lose_its_patience_with_them(tmp_path: Path) -> None:
    """Each time the rest is another job, and nothing is waited for."""
    source, target = ListSource([record(at) for at in range(50)]), ListTarget()
    running = runner(whole_plan(source), source, target, tmp_path, patience_s=0.1)
    plays, times = running.run_job, iter(range(100))

    def raises(job: Job) -> list[Mapping[str, Any]]:
        if next(times) < 60:
            raise RecordsRaise("overflow", 3)
        return plays(job)

    running.run_job = raises
    assert running.run().adds_up
    assert len(target.records) == 50


def test_too_many_are_not_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raising_records, "_MOST", 3)
    assert look_in(RaisingRecords(), {11, 12, 13}, (Slice(TOPIC, 0, 0, 50),))
    raising = RaisingRecords()
    assert not look_in(raising, {11, 12, 13, 14}, (Slice(TOPIC, 0, 0, 50),))
    with pytest.raises(TooManyRaise, match=r"more than 3 records; the last reason: overflow at 14"):
        raising.refuse_too_many()
    RaisingRecords().refuse_too_many()


def test_the_search_ends_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression that does not fit the topic raises for millions, and each costs a query."""
    monkeypatch.setattr(raising_records, "_MOST", 3)
    expressions, raising = Expressions(set(range(4_000))), RaisingRecords()
    assert raising.look(records(range(4_000)), expressions.why_not)
    assert raising.count == 4
    assert expressions.times < 40
    works = [(Slice(TOPIC, partition, 0, 4_000),) for partition in (1, 2, 3)]
    assert not raising.look_in(Log(), None, works, Filter(), expressions.why_not)  # type: ignore[arg-type]
    assert expressions.times < 60


def test_an_engine_that_fails_for_each_record_is_asked_twice() -> None:
    asked: list[Records] = []

    def why_not(given: Records) -> str:
        asked.append(given)
        return "no space left on device"

    assert not RaisingRecords().look(records(range(8_000)), why_not)
    assert len(asked) == 2


def test_neighbours_cost_a_query_each() -> None:
    expressions, raising = Expressions(set(range(2_000, 2_500))), RaisingRecords()
    assert raising.look(records(range(8_000)), expressions.why_not)
    assert raising.count == 500
    assert expressions.times < 540


def test_an_engine_that_fails_for_several_together_is_not_asked_for_long() -> None:
    asked: list[int] = []

    def why_not(given: Records) -> str | None:
        asked.append(len(given))
        return "no memory" if len(given) > 2 else None

    assert not RaisingRecords().look(records(range(8_000)), why_not)
    assert len(asked) < 40


def test_a_long_search_says_how_many_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raising_records, "_TOLD_EVERY_S", 0.0)
    said: list[str] = []
    raising = RaisingRecords(said.append)
    assert look_in(raising, {11, 12, 40}, (Slice(TOPIC, 0, 0, 50),))
    assert said[0] == "an expression cannot be computed for some records: searching for them"
    assert [text.split()[0] for text in said[1:]] == ["1", "2", "3"]
    assert said[1] == "1 found so far"


def test_samples_are_left_out_where_each_record_raises() -> None:
    expressions, raising = Expressions({3, *range(100, 1_000)}), RaisingRecords()
    samples = [records(range(start, start + 50)) for start in range(0, 1_000, 50)]
    kept = raising.computable(samples, expressions.why_not)
    assert [each.offsets[0] for each in kept] == [0, 50]
    assert set(kept[0].undecoded) == {3}
    assert expressions.times < 150


def test_samples_before_too_many_that_raise_are_kept() -> None:
    expressions, raising = Expressions({1, *range(20, 100)}), RaisingRecords()
    (kept,) = raising.computable([records(range(100))], expressions.why_not)
    assert kept.offsets == [*range(69)], "50 of them are known"
    assert set(kept.undecoded) == {1, *range(20, 69)}


def test_samples_that_all_raise_are_refused_with_the_reason() -> None:
    expressions = Expressions(set(range(100)))
    refused = "for any of the sampled records; the last reason: overflow at 49"
    with pytest.raises(TooManyRaise, match=refused):
        RaisingRecords().computable([records(range(100))], expressions.why_not)
    broken: list[Records] = RaisingRecords().computable([records(range(9))], lambda _: "no space")
    assert broken == [], "an engine that fails for each says why itself"


def test_further_samples_that_all_raise_are_left_out_if_earlier_ones_did_not() -> None:
    bad = {*range(1, 400, 2)}
    why_not, raising = Expressions(bad).why_not, RaisingRecords()
    assert raising.computable([records(range(200))], why_not)
    wider = [records(range(start, start + 3)) for start in (201, 301)]
    assert raising.computable(wider, why_not) == [], "no more are searched for"

    raising = RaisingRecords()
    raising.note_fitting([records(range(1))])
    assert raising.computable([records(range(1, 2))], why_not) == []


def engine_of(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that is never started."""
    nothing_said = SimpleNamespace(get=lambda _: None, settings={})
    engine = Engine(nothing_said, SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setattr(engine, "session", lambda: None)
    monkeypatch.setattr("playhead.spark.own_session.tagged", lambda *_: nullcontext())
    return engine


def test_a_plan_says_that_it_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Expressions({*range(0, 100, 2)})

    def transformed(_spark: object, samples: list[Records], _transform: object) -> list[Records]:
        for each in samples:
            if reason := bad.why_not(each):
                raise EngineFailed(reason, hint=None, exit_code=1)
        return samples

    monkeypatch.setattr("playhead.spark.run.transformed", transformed)
    said: list[str] = []
    engine = engine_of(monkeypatch)
    engine.tell(said.append)
    (kept,) = engine.transformed([records(range(100))])
    assert (len(kept), len(kept.undecoded)) == (100, 50)
    assert said == ["an expression cannot be computed for some records: searching for them"]
    assert len(engine.transformed([records(range(99, 100))])) == 1
    bad.bad.add(b"101")
    assert engine.transformed([records(range(101, 102))]) == [], "too many are known"

    fits = engine_of(monkeypatch)
    assert len(fits.transformed([records(range(99, 100))])) == 1
    assert fits.transformed([records(range(0, 100, 2))]) == [], (
        "the first sample shows that others fit"
    )


def test_a_stop_ends_the_search() -> None:
    expressions, raising = Expressions({7, 21, 22}), RaisingRecords()
    why_not = until_stopped(expressions.why_not, lambda: expressions.times >= 3)
    work = (Slice(TOPIC, 0, 0, 50),)
    assert raising.look_in(Log(), None, [work], Filter(), why_not)  # type: ignore[arg-type]
    assert expressions.times == 3


def test_no_more_is_read_than_a_failed_task_can_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raising_records, "_LOOKED_AT", 20)
    assert look_in(RaisingRecords(), {19}, (Slice(TOPIC, 0, 0, 50),))
    assert not look_in(RaisingRecords(), {20}, (Slice(TOPIC, 0, 0, 50),))


def test_a_known_one_is_rejected_by_what_decodes_the_others() -> None:
    reasons = {(TOPIC, 0): {4: "overflow"}}
    given = records(range(3, 6))
    found = RejectingDecoding(None, reasons).open().decoded_first(given)
    assert (found.undecoded, found.readable) == ({4: "overflow"}, given.values)
    other = RejectingDecoding(None, reasons).open().decoded_first(records(range(3, 6), 1))
    assert other.undecoded == {}

    class Upper:
        def open(self) -> "Upper":
            return self

        def decoded_first(self, part: Records) -> Records:
            return replace(part, decoded=[b"X", b"Y", None], undecoded={5: "not JSON"})

        def kinds(self, _: object) -> dict[str, str]:
            return {"a": "text"}

    decoder = RejectingDecoding(Upper(), reasons).open()  # type: ignore[arg-type]
    found = decoder.decoded_first(given)
    assert found.readable == [b"X", b"Y", None]
    assert found.undecoded == {4: "overflow", 5: "not JSON"}
    assert decoder.kinds([found]) == {"a": "text"}


def test_a_pipeline_that_is_stopped_in_the_search_takes_nothing_for_absent() -> None:
    """What is left of a round whose tasks have seen everything is written as slices without records."""

    def fails(*_: object) -> None:
        raise EngineFailed("long overflow", hint=None, exit_code=1)

    engine = SimpleNamespace(write=fails, write_rest=lambda _: pytest.fail("written as absent"))
    ground = SimpleNamespace(
        standing=PipelineProgress({(TOPIC, 0): 0}),
        wish=SimpleNamespace(request=SimpleNamespace(spec=SimpleNamespace(is_transformed=True))),
        is_stopped=lambda: True,
        hold=SimpleNamespace(renew=lambda: None),
        say=lambda _: None,
    )
    rounds = Rounds(ground, engine)  # type: ignore[arg-type]
    rounds._round = lambda due, **_: SimpleNamespace(slices=due, is_alone=False)  # type: ignore[assignment]
    assert rounds._try(None, [Slice(TOPIC, 0, 0, 5)]) == "a stop was requested"  # type: ignore[arg-type]
    assert ground.standing.at == {(TOPIC, 0): 0}


def test_a_pipeline_reads_one_round_itself_after_the_engine_had_no_memory() -> None:
    """The record that is too large for Spark's reader is among those of the next round."""
    used: list[str] = []

    def outcome(way: str, slices: Sequence[Slice]) -> list[Outcome]:
        used.append(way)
        written = [
            RoundWritten(*each.place, each.from_offset, each.to_offset, 1, 1, 5) for each in slices
        ]
        return [Outcome(written=written, is_whole=True)]

    engine = SimpleNamespace(
        write=lambda _, round_: outcome("spark", round_.slices),
        read=lambda round_, _: outcome("ourselves", round_.slices),
    )
    ground = SimpleNamespace(
        standing=PipelineProgress({(TOPIC, 0): 0}),
        wish=SimpleNamespace(
            name="p", request=SimpleNamespace(spec=SimpleNamespace(is_transformed=False))
        ),
        is_stopped=lambda: False,
        ends=SimpleNamespace(target=SimpleNamespace(entries=lambda _: [])),
        hold=SimpleNamespace(renew=lambda: None),
        move_group=lambda _: None,
        say=lambda _: None,
    )
    rounds = Rounds(ground, engine, begins_without_spark=True)  # type: ignore[arg-type]
    rounds._round = lambda due, **_: SimpleNamespace(slices=due, is_alone=False)  # type: ignore[assignment]
    for end in (5, 9, 12):
        rounds._play(None, {(TOPIC, 0): end})  # type: ignore[arg-type]
    assert used == ["ourselves", "spark", "spark"]
    assert ground.standing.at == {(TOPIC, 0): 12}
