"""The contract suites see every source and target that breaks the contract."""

import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from playhead.account import ErrorRule
from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.source import Bounds, SourceFacts
from playhead.target import AlreadyCommitted, Inspection
from playhead.testing import (
    ListSource,
    ListTarget,
    exercise_source,
    exercise_target,
    sample_records,
)

R0, R1 = (
    Record("laps", 0, offset, 1_000, TimestampType.CREATE_TIME, None, b"lap") for offset in range(2)
)
BAD = replace(R0, value=b"bad")


def refuses(record: Record) -> str | None:
    return "cannot be written" if record.value == b"bad" else None


class Mapped(ListSource):
    """Gives what `change` makes of a record."""

    def read(self, slice_, /):
        return (Records.of(map(self.change, run)) for run in super().read(slice_))


class ClosedEnd(ListSource):
    def read(self, slice_, /):
        held = self.bounds()[slice_.topic, slice_.partition]
        end = min(slice_.to_offset + 1, held.stable_end)
        return super().read(replace(slice_, to_offset=max(end, slice_.to_offset)))


class OpenStart(ListSource):
    def read(self, slice_, /):
        for run in super().read(slice_):
            yield run.pick([n for n, at in enumerate(run.offsets) if at != slice_.from_offset])


class InclusiveBounds(ListSource):
    def bounds(self):
        return {
            place: Bounds(held.earliest, held.stable_end - 1, held.stable_end - 1)
            for place, held in super().bounds().items()
        }


class RunsBackwards(ListSource):
    def read(self, slice_, /):
        return reversed(list(super().read(slice_)))


class BackwardsInRuns(ListSource):
    def read(self, slice_, /):
        return (run.pick(range(len(run))[::-1]) for run in super().read(slice_))


class TwiceAtTheSeam(ListSource):
    def read(self, slice_, /):
        last = None
        for run in super().read(slice_):
            yield run if last is None else Records.of([last, *run])
            last = run.record(len(run) - 1)


class FillsGaps(ListSource):
    def read(self, slice_, /):
        held = {each.offset: each for run in super().read(slice_) for each in run}
        filler = replace(R0, topic=slice_.topic, partition=slice_.partition)
        for offset in range(slice_.from_offset, slice_.to_offset):
            yield Records.of([held.get(offset, replace(filler, offset=offset))])


class EmptyForNull(Mapped):
    def change(self, record):
        return replace(record, key=record.key or b"")


class HeadersAsDict(Mapped):
    def change(self, record):
        return replace(record, headers=tuple(dict(record.headers).items()))


class SilentlyShort(ListSource):
    def read(self, slice_, /):
        return self._walk(slice_)


class ShortAfterTheEnd(ListSource):
    def read(self, slice_, /):
        held = self.bounds()[slice_.topic, slice_.partition]
        beyond = slice_.from_offset >= held.stable_end
        return iter(()) if beyond else super().read(slice_)


class KeepsAConnection(ListSource):
    def read(self, slice_, /):
        self.connection = sys.stdout
        return super().read(slice_)


class OnlyGoesOn(ListSource):
    """One reader cannot go back."""

    def open(self):
        end = {}

        class OnlyForward:
            def read(_, slice_, /):  # noqa: N805
                place = slice_.topic, slice_.partition
                for run in self.read(slice_):
                    if run.offsets[-1] >= end.get(place, 0):
                        end[place] = run.offsets[-1] + 1
                        yield run

        return nullcontext(OnlyForward())


class NamesNoTopic(ListSource):
    def facts(self):
        return SourceFacts("list", {})


class ChangesItsIdentity(ListSource):
    def facts(self):
        return SourceFacts(str(id(self)), super().facts().topics)


class TimeAfter(ListSource):
    def offsets_at(self, instant_ms, /):
        return super().offsets_at(instant_ms + 1)


class TimeOfTheLast(ListSource):
    """As a search by halves would, that takes times to be in order."""

    def offsets_at(self, instant_ms, /):
        found = dict(super().offsets_at(instant_ms))
        for each in self._records:
            if each.timestamp_ms < instant_ms:
                found[each.topic, each.partition] = each.offset + 1
        return found


class NoTimeIsTheStart(ListSource):
    def offsets_at(self, instant_ms, /):
        ends = {place: held.stable_end for place, held in self.bounds().items()}
        found = super().offsets_at(instant_ms)
        return {place: at if at < ends[place] else 0 for place, at in found.items()}


class SilentAboutTimes(ListSource):
    def offsets_at(self, instant_ms, /):
        ends = {place: held.stable_end for place, held in self.bounds().items()}
        found = super().offsets_at(instant_ms)
        return {place: at for place, at in found.items() if at < ends[place]}


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        (ClosedEnd, AssertionError, "returned offsets"),
        (OpenStart, AssertionError, "returned offsets"),
        (InclusiveBounds, AssertionError, "is not half-open"),
        (RunsBackwards, AssertionError, "returned offsets"),
        (BackwardsInRuns, AssertionError, "returned offsets"),
        (TwiceAtTheSeam, AssertionError, "returned offsets"),
        (FillsGaps, AssertionError, "returned offsets"),
        (EmptyForNull, AssertionError, "found Record.*key=b'', .*needed Record.*key=None"),
        (HeadersAsDict, AssertionError, "found Record.*needed Record"),
        (SilentlyShort, AssertionError, "is outside"),
        (ShortAfterTheEnd, AssertionError, "is outside"),
        (KeepsAConnection, TypeError, "pickle"),
        (OnlyGoesOn, AssertionError, "returned offsets"),
        (NamesNoTopic, AssertionError, r"facts\(\) lacks contract"),
        (ChangesItsIdentity, AssertionError, "one system, two identities"),
        (TimeAfter, AssertionError, r"offsets_at\(1000\) is 1 for .*, needed 0"),
        (TimeOfTheLast, AssertionError, r"offsets_at\(\d+\) is \d for .*, needed \d"),
        (NoTimeIsTheStart, AssertionError, r"offsets_at\(\d+\) is 0 for "),
        (SilentAboutTimes, AssertionError, r"offsets_at\(\d+\) lacks"),
    ],
)
def test_the_source_contract_sees_a_breach(broken, error, text):
    with pytest.raises(error, match=text):
        exercise_source(lambda: broken(sample_records()), sample_records())


def test_the_source_contract_wants_every_case_shown_or_named_as_lacking():
    plain = [R0, R1]
    with pytest.raises(AssertionError, match=r"expected_records contain no .*absent offset"):
        exercise_source(lambda: ListSource(plain), plain)
    with pytest.raises(AssertionError, match=r"lacks names \{'nul key'\}"):
        exercise_source(lambda: ListSource(plain), plain, lacks=["nul key"])
    lacks = ["empty key", "null value", "empty value", "repeated header", "null header"]
    exercise_source(lambda: ListSource(plain), plain, lacks=[*lacks, "absent offset"])


class SaysNothing(ListTarget):
    """Keeps records."""


class Broken(ListTarget):
    """Says what a `ListTarget` says of itself, and does not keep it."""

    def __init_subclass__(cls):
        cls.__doc__ = ListTarget.__doc__


class Forgets(Broken):
    def entries(self, replay_id, /):
        return ()


class SkipsEmptySlices(Broken):
    def commit(self, replay_id, account, records, /):
        drawn = list(records)
        if drawn:
            super().commit(replay_id, account, drawn)


class TakesOverlaps(Broken):
    def _refuse_overlap(self, replay_id, slice_):
        if slice_ in [entry.slice for entry in self._ledger.get(replay_id, ())]:
            super()._refuse_overlap(replay_id, slice_)


class RefusesNeighbours(Broken):
    def _refuse_overlap(self, replay_id, slice_):
        super()._refuse_overlap(replay_id, replace(slice_, to_offset=slice_.to_offset + 1))


class ForgetsThePartition(Broken):
    def _refuse_overlap(self, replay_id, slice_):
        super()._refuse_overlap(replay_id, replace(slice_, partition=0))


class WritesAsItDraws(Broken):
    def commit(self, replay_id, account, records, /):
        self._refuse_overlap(replay_id, account.slice)
        for run in records:
            self._rows += [(replay_id, each) for each in run]
        super().commit(replay_id, account, [])


class LedgerFirst(Broken):
    def commit(self, replay_id, account, records, /):
        super().commit(replay_id, account, [])
        self._rows += [(replay_id, each) for run in records for each in run]


class ClosesFirst(Broken):
    """Takes the account when the records have not been counted yet."""

    def commit(self, replay_id, account, records, /):
        entry = account.close()
        super().commit(replay_id, account, records)
        self._ledger[replay_id][-1] = entry


class CommitsWhatItGot(Broken):
    def commit(self, replay_id, account, records, /):
        drawn = []
        try:
            drawn.extend(run for run in records if not drawn.append(run))
        finally:
            super().commit(replay_id, account, {id(run): run for run in drawn}.values())


class SwallowsErrors(Broken):
    def commit(self, replay_id, account, records, /):
        try:
            drawn = list(records)
        except Exception:
            return
        super().commit(replay_id, account, drawn)


class OneLedgerForAll(Broken):
    def entries(self, replay_id, /):
        every = [entry for ledger in self._ledger.values() for entry in ledger]
        return sorted(every, key=lambda entry: entry.slice)


class NullForEmpty(Broken):
    def commit(self, replay_id, account, records, /):
        changed = (replace(each, value=each.value or None) for run in records for each in run)
        super().commit(replay_id, account, (Records.of([each]) for each in changed))


class Unordered(Broken):
    def entries(self, replay_id, /):
        return super().entries(replay_id)[::-1]


class JoinsEntries(Broken):
    def entries(self, replay_id, /):
        entries = super().entries(replay_id)
        joined = {}
        for entry in entries:
            before = joined.get((entry.slice.topic, entry.slice.partition))
            if before and before.slice.to_offset == entry.slice.from_offset:
                whole = replace(before.slice, to_offset=entry.slice.to_offset)
                read = before.read + entry.read
                joined[whole.topic, whole.partition] = replace(
                    before, slice=whole, read=read, written=read
                )
            else:
                joined[entry.slice.topic, entry.slice.partition] = entry
        return list(joined.values())


class StartsOverWhenPrepared(Broken):
    def prepare(self, replay_id, inspection, terms, /):
        self._ledger.pop(replay_id, None)
        return super().prepare(replay_id, inspection, terms)


class HasTermsLate(Broken):
    def terms(self, replay_id, /):
        return super().terms(replay_id) if self._ledger.get(replay_id) else None


class TakesTheLatestTerms(Broken):
    def prepare(self, replay_id, inspection, terms, /):
        self._terms.pop(replay_id, None)
        return super().prepare(replay_id, inspection, terms)


class ComparesTermsUntilTheFirstCommit(Broken):
    def prepare(self, replay_id, inspection, terms, /):
        if self._ledger.get(replay_id) and replay_id in self._terms:
            return ()
        return super().prepare(replay_id, inspection, terms)


class ForgetsWhoBeganWithoutTerms(Broken):
    def prepare(self, replay_id, inspection, terms, /):
        super().prepare(replay_id, inspection, terms)
        return ()


class WritesToLook(Broken):
    def inspect(self, look, /):
        self._rows.append(("", R0))
        return super().inspect(look)


class PreviewWrites(Broken):
    def preview(self, records, /):
        self._rows += [("", each) for each in records]
        return super().preview(records)


class NeedsAnObject(Broken):
    def inspect(self, look, /):
        return Inspection(self.identity(), needs={"table": object()})


class DetailsOfItsOwnKind(Broken):
    def entries(self, replay_id, /):
        return [replace(each, details={"rows": {1: 2}}) for each in super().entries(replay_id)]


class OneWriterAtATime(Broken):
    """The writer opened last fences off the others, as one name for all would."""

    @contextmanager
    def open(self, replay_id, /):
        with super().open(replay_id) as writer:
            before, self.latest = getattr(self, "latest", None), writer
            if before is not None:
                before.is_usable = False
            yield writer


class LetsEverybodyIn(Broken):
    def hold(self, replay_id, /):
        return nullcontext()


class HoldsForGood(Broken):
    @contextmanager
    def hold(self, replay_id, /):
        with super().hold(replay_id):
            yield
        self._held.add(replay_id)


class WritesWhatItRefused(Broken):
    def _refused(self, account, record):
        super()._refused(account, record)
        return False


class DropsInSilence(Broken):
    def _refused(self, account, record):
        return self._refuses(record) is not None


class FailsInItsOwnWords(Broken):
    def _refused(self, account, record):
        if self._refuses(record):
            raise ValueError("bad")
        return False


class BuriesAtOnce(Broken):
    """For each record, and again before the commit."""

    def _refused(self, account, record):
        refused = super()._refused(account, record)
        if refused and account._rule == ErrorRule("dlq", "d"):
            account._write_dead_letters(account.slice, list(account._letters.values()))
        return refused


class BuriesAfterwards(Broken):
    def commit(self, replay_id, account, records, /):
        drawn = list(records)
        bury, account._write_dead_letters = account._write_dead_letters, lambda *_: None
        super().commit(replay_id, account, drawn)
        if bury and account._letters:
            bury(account.slice, list(account._letters.values()))


class RefusesTheNext(Broken):
    """Says of the wrong record that it is bad."""

    def commit(self, replay_id, account, records, /):
        refuse = account.refuse

        def refuse_next(record, **why):
            refuse(replace(record, offset=record.offset + 1), **why)

        account.refuse = refuse_next
        super().commit(replay_id, account, records)


class SeesNoDifference(Broken):
    def compare(self, replay_id, entry, records, /):
        found = super().compare(replay_id, entry, records)
        return replace(found, differences=(), different=0)


class ComparesOffsets(Broken):
    def compare(self, replay_id, entry, records, /):
        found = super().compare(replay_id, entry, records)
        left = tuple(each for each in found.differences if each.kind != "changed")
        return replace(found, differences=left, different=len(left))


class ComparesWhatIsThere(Broken):
    def compare(self, replay_id, entry, records, /):
        found = super().compare(replay_id, entry, records)
        left = tuple(each for each in found.differences if each.kind != "missing")
        return replace(found, differences=left, different=len(left))


class MissesWhatItSkipped(Broken):
    def compare(self, replay_id, entry, records, /):
        refuses, self._refuses = self._refuses, lambda _: None
        try:
            return super().compare(replay_id, entry, records)
        finally:
            self._refuses = refuses


class ComparesWithItself(Broken):
    """Remembers what it was given, and never looks."""

    def commit(self, replay_id, account, records, /):
        drawn = list(records)
        super().commit(replay_id, account, drawn)
        given = [each for run in drawn for each in run if self._refuses(each) is None]
        self.remembered = [(replay_id, each) for each in given]

    def compare(self, replay_id, entry, records, /):
        rows, self._rows = self._rows, self.remembered
        try:
            return super().compare(replay_id, entry, records)
        finally:
            self._rows = rows


def exercise(target: ListTarget) -> None:
    exercise_target(
        lambda: target,
        lambda: target.records,
        exclusive=True,
        bad_record=BAD,
        damage=lambda: target.lose(target.records[-1]),
    )


def test_what_is_not_broken_passes():
    class Whole(Broken):
        pass

    exercise(Whole(refuses=refuses))
    exercise(Whole(refuses=refuses, is_ordered=True))


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (SaysNothing, "has no 'ordering:'"),
        (Forgets, "after a commit: the ledger has"),
        (SkipsEmptySlices, "after a slice without records: the ledger has"),
        (TakesOverlaps, "overlaps a committed slice, and was not refused"),
        (WritesAsItDraws, "while records are still being given: uncommitted records"),
        (LedgerFirst, "after a commit: the ledger has"),
        (ClosesFirst, "after a commit: the ledger has"),
        (CommitsWhatItGot, "after a failed commit: uncommitted records"),
        (SwallowsErrors, "an error while records are read ended in None"),
        (OneLedgerForAll, "the ledger has"),
        (NullForEmpty, "after a commit: uncommitted records"),
        (Unordered, "not in order"),
        (JoinsEntries, "after slices that only touch: the ledger has"),
        (HasTermsLate, "no terms after being prepared"),
        (TakesTheLatestTerms, "were not refused"),
        (ComparesTermsUntilTheFirstCommit, "were not refused"),
        (ForgetsWhoBeganWithoutTerms, "begun without terms"),
        (StartsOverWhenPrepared, "after being prepared again: the ledger has"),
        (WritesToLook, "after a look: uncommitted records"),
        (PreviewWrites, "after a look: uncommitted records"),
        (DetailsOfItsOwnKind, "does not survive JSON"),
        (LetsEverybodyIn, "accepted a second run of"),
        (WritesWhatItRefused, "rule skip: uncommitted records"),
        (DropsInSilence, "rule fail: ended in None"),
        (FailsInItsOwnWords, "rule fail: ended in ValueError"),
        (BuriesAtOnce, "were written 2 times"),
        (BuriesAfterwards, "while dead letters are written: uncommitted records"),
        (RefusesTheNext, "a bad record was refused as"),
        (SeesNoDifference, "no difference, though a record is changed"),
        (ComparesOffsets, "no difference, though a record is changed"),
        (ComparesWhatIsThere, "no difference, though a record is missing"),
        (MissesWhatItSkipped, "misses a record that was skipped"),
        (ComparesWithItself, "no difference, though the target was damaged"),
    ],
)
def test_the_target_contract_sees_a_breach(broken, text):
    with pytest.raises(AssertionError, match=text):
        exercise(broken(refuses=refuses))


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        (RefusesNeighbours, AlreadyCommitted, "it has already committed"),
        (ForgetsThePartition, AlreadyCommitted, "it has already committed"),
        (HoldsForGood, Exception, "is running already"),
        (NeedsAnObject, TypeError, "not JSON serializable"),
        (OneWriterAtATime, ValueError, "needed a new one"),
    ],
)
def test_the_target_contract_meets_an_error_without_reason(broken, error, text):
    with pytest.raises(error, match=text):
        exercise(broken(refuses=refuses))


def test_the_target_contract_sees_a_ledger_that_does_not_last():
    store = ListTarget()

    def make_target() -> ListTarget:
        opened = ListTarget()
        opened._rows = store._rows
        return opened

    with pytest.raises(AssertionError, match="after being prepared again: the ledger has|reopened"):
        exercise_target(make_target, lambda: store.records)


def test_the_target_contract_sees_a_copy_that_was_not_replaced_and_one_that_was():
    target = ListTarget()
    with pytest.raises(AssertionError, match="after two replays of the same slice: uncommitted"):
        exercise_target(lambda: target, lambda: target.records, replaces=True)
    replacing = Replaces()
    exercise_target(lambda: replacing, lambda: replacing.records, replaces=True)
    with pytest.raises(AssertionError, match="after two replays of the same slice: missing"):
        exercise_target(lambda: replacing, lambda: replacing.records)


class Replaces(Broken):
    """Keeps one record for each place."""

    @property
    def records(self):
        at = {(each.topic, each.partition, each.offset): each for _, each in self._rows}
        return tuple(at.values())
