"""The contract suite that every target must pass."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused
from playhead.ledger import remaining
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.target import AlreadyCommitted, InUse, SliceComparison, Target, Writer
from playhead.testing.target_case import (
    Case,
    Fault,
    MakeTarget,
    Onlooker,
    assert_all_told,
    assert_ledger,
    caused_by_fault,
    commit,
    commit_alone,
    compared,
    failure_of,
    look,
    runs_of,
)
from playhead.testing.target_terms import CHECKS_OF_TERMS

Damage = Callable[[], None]


def exercise_target(
    make_target: MakeTarget,
    read_back: Callable[[], Iterable[Record]],
    *,
    replaces: bool = False,
    exclusive: bool = False,
    bad_record: Record | None = None,
    damage: Damage | None = None,
) -> None:
    """Check a target against its contract.

    `make_target` returns a description of the same store each time, which accepts every record; `read_back` returns
    its current records. Records are compared by key, value, headers and timestamp, not by offset, which the target
    may choose. Their topics are "contract", with partitions 0 and 1, and "other".

    `replaces`: a slice committed under two replays is stored once, as in its own file. `exclusive`: `hold` refuses
    a second run. `bad_record` cannot be written; the suite changes its offset as needed. `damage` changes a record
    of the last commit.
    """
    _states_its_guarantees(make_target())
    _writes_nothing_to_look(make_target, Onlooker(read_back))
    for check in (
        _commits_records_with_their_entry,
        _remembers_when_reopened,
        _counts_a_slice_without_records,
        _refuses_an_overlap,
        _takes_what_touches_and_does_not_overlap,
        _lets_two_writers_work_at_once,
        _shows_nothing_before_its_commit,
        _leaves_nothing_after_a_failure,
        _finds_what_is_not_as_it_was,
        _may_join_endless_slices,
        _is_watched,
        *CHECKS_OF_TERMS,
    ):
        check(make_target, Onlooker(read_back))
    _keeps_replays_apart(make_target, Onlooker(read_back), replaces)
    _holds_one_run_of_a_replay(make_target, exclusive)
    if bad_record is not None:
        for rule in (_fails_at, _skips, _buries, _keeps_the_dead_out_when_burying_fails):
            rule(make_target, Onlooker(read_back), bad_record)
    if damage is not None:
        _finds_damage(make_target, damage)


def _states_its_guarantees(target: Target) -> None:
    stated = (type(target).__doc__ or "").lower()
    for guarantee in ("ordering:", "idempotence:", "delivery:"):
        assert guarantee in stated, f"the docstring of {type(target).__name__} has no '{guarantee}'"
    assert isinstance(target.is_ordered, bool), "is_ordered: needed a bool"


def _writes_nothing_to_look(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case, target = Case.new(), make_target()
    assert_ledger(target, case, [], "before anything")
    inspection = target.inspect(look())
    assert inspection.identity, "inspect() returned no identity"
    assert target.identity() == inspection.identity, "identity() differs from that of inspect()"
    rows = inspection.rows or target.preview(Records.of(case.records))
    assert rows, "neither inspect() nor preview() returns rows for records that can be written"
    onlooker.assert_gained([], "after a look")
    assert_ledger(target, case, [], "after a look")
    case.prepared(make_target)
    onlooker.assert_gained([], "after being prepared twice")
    assert_ledger(make_target(), case, [], "after being prepared twice")


def _commits_records_with_their_entry(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    target = case.prepared(make_target)
    entry = commit_alone(target, case)
    onlooker.assert_gained(case.records, "after a commit")
    assert_ledger(target, case, [entry], "after a commit")
    case.prepared(make_target)
    onlooker.assert_gained(case.records, "after being prepared again")
    assert_ledger(target, case, [entry], "after being prepared again")


def _remembers_when_reopened(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    target = case.prepared(make_target)
    entry = commit_alone(target, case)
    # After a commit, when a kept connection would be open.
    copy: Target = pickle.loads(pickle.dumps(target))  # noqa: S301 - our own bytes
    for opened in (make_target(), copy):
        assert_ledger(opened, case, [entry], "reopened")
    onlooker.assert_gained(case.records, "reopened")


def _counts_a_slice_without_records(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    with case.prepared(make_target).open(case.replay_id) as writer:
        entry = commit(writer, case.slice, [])
    assert_ledger(make_target(), case, [entry], "after a slice without records")
    onlooker.assert_gained([], "after a slice without records")


def _may_join_endless_slices(make_target: MakeTarget, onlooker: Onlooker) -> None:
    """The number of entries may differ; the ledger has the same counts for every offset."""
    case = Case.new()
    target = case.prepared(make_target)
    parts = [case.part(0, 3), case.part(3, 6), case.part(8, 10)]
    with target.open(case.replay_id) as writer:
        for part in parts[:2]:
            _commit_endless(writer, case, part)
    with target.open(case.replay_id) as writer:
        _commit_endless(writer, case, parts[2])
        for part in (case.part(0, 1), case.part(4, 5), case.part(9, 12)):
            _assert_refused(writer, part, case)
    onlooker.assert_gained([each for part in parts for each in case.within(part)], "endless")
    found = target.entries(case.replay_id)
    assert remaining([case.slice], [each.slice for each in found]) == [case.part(6, 8)], found
    for count in ("read", "written"):
        total = sum(getattr(each, count) for each in found)
        needed = sum(len(case.within(part)) for part in parts)
        assert total == needed, f"endless: {count} is {total}, needed {needed}"


def _is_watched(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    parts = [case.part(0, 4), case.part(4, 10)]
    with make_target().watch(case.replay_id) as entries:
        assert not entries(), "watched before it was prepared"
        target = case.prepared(make_target)
        with target.open(case.replay_id) as writer:
            for count, part in enumerate(parts, 1):
                commit(writer, part, case.within(part))
                assert [each.slice for each in entries()] == parts[:count], "watched"
    onlooker.assert_gained(case.records, "watched")


def _commit_endless(writer: Writer, case: Case, slice_: Slice) -> None:
    account = Account(slice_, is_endless=True)
    writer.commit(account, runs_of(account, case.within(slice_)))


def _refuses_an_overlap(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    committed = case.part(4, 8)
    target = case.prepared(make_target)
    with target.open(case.replay_id) as writer:
        entry = commit(writer, committed, case.within(committed))
        for start, end in ((4, 8), (0, 5), (7, 9), (5, 6), (0, 10)):
            overlapping = case.part(start, end)
            _assert_refused(writer, overlapping, case)
            with make_target().open(case.replay_id) as another:
                _assert_refused(another, overlapping, case)
    onlooker.assert_gained(case.within(committed), "after refused overlaps")
    assert_ledger(make_target(), case, [entry], "after refused overlaps")


def _assert_refused(writer: Writer, slice_: Slice, case: Case) -> None:
    try:
        commit(writer, slice_, case.within(slice_))
    except AlreadyCommitted:
        return
    raise AssertionError(f"{slice_} overlaps a committed slice, and was not refused")


def _takes_what_touches_and_does_not_overlap(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    target = case.prepared(make_target)
    slices = [case.part(3, 4), case.part(4, 8), case.part(8, 9)]
    slices += [case.part(4, 8, partition=1), case.part(4, 8, topic="other")]
    # A slice that was refused or has failed is committed after later ones, unless the target is ordered.
    order = slices if target.is_ordered else slices[::-1]
    with target.open(case.replay_id) as writer:
        entries = {slice_: commit(writer, slice_, case.within(slice_)) for slice_ in order}
    needed = [entries[slice_] for slice_ in slices]
    assert_ledger(make_target(), case, needed, "after slices that only touch")
    onlooker.assert_gained(case.within(case.part(3, 9)), "after slices that only touch")


def _lets_two_writers_work_at_once(make_target: MakeTarget, onlooker: Onlooker) -> None:
    """Commit two partitions of one replay at once, as two tasks of a run do."""
    case = Case.new()
    target = case.prepared(make_target)
    slices = [case.part(0, 4), case.part(0, 4, partition=1), case.part(4, 10)]
    with target.open(case.replay_id) as one, make_target().open(case.replay_id) as other:
        writers = (one, other, one)
        entries = [
            commit(writer, slice_, case.within(slice_))
            for writer, slice_ in zip(writers, slices, strict=True)
        ]
    needed = sorted(entries, key=lambda entry: entry.slice)
    assert_ledger(make_target(), case, needed, "after two writers at once")
    onlooker.assert_gained(case.records, "after two writers at once")


def _shows_nothing_before_its_commit(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    account = Account(case.slice)

    def watched() -> Iterator[Records]:
        for run in runs_of(account, case.records):
            yield run
            onlooker.assert_gained([], "while records are still being given")
            assert_ledger(make_target(), case, [], "while records are still being given")

    with case.prepared(make_target).open(case.replay_id) as writer:
        writer.commit(account, watched())
    onlooker.assert_gained(case.records, "after a commit")


def _leaves_nothing_after_a_failure(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    target = case.prepared(make_target)
    account = Account(case.slice)

    def broken() -> Iterator[Records]:
        yield from runs_of(account, case.records[:-1])
        raise Fault

    failure = failure_of(target, case, account, broken())
    assert caused_by_fault(failure), f"an error while records are read ended in {failure!r}"
    onlooker.assert_gained([], "after a failed commit")
    assert_ledger(make_target(), case, [], "after a failed commit")
    commit_alone(target, case)
    onlooker.assert_gained(case.records, "after a failed commit and a good one")


def _keeps_replays_apart(make_target: MakeTarget, onlooker: Onlooker, replaces: bool) -> None:
    one = Case.new()
    other = one.of(Case.new().replay_id)
    target = one.prepared(make_target)
    entry = commit_alone(target, one)
    assert_ledger(other.prepared(make_target), other, [], "after the commit of another replay")
    assert_ledger(target, one, [entry], "after another replay was prepared")
    commit_alone(target, other)
    copies = 1 if replaces else 2
    onlooker.assert_gained(one.records * copies, "after two replays of the same slice")
    for case in (one, other):
        assert_ledger(make_target(), case, [entry], "after two replays of the same slice")


def _holds_one_run_of_a_replay(make_target: MakeTarget, exclusive: bool) -> None:
    case, other = Case.new(), Case.new()
    target = case.prepared(make_target)
    for _ in range(2):  # a released hold can be taken again
        with target.hold(case.replay_id), make_target().hold(other.replay_id):
            if exclusive:
                _assert_in_use(make_target(), case.replay_id)
            commit_alone(target, Case.new().of(case.replay_id))


def _assert_in_use(target: Target, replay_id: str) -> None:
    try:
        with target.hold(replay_id):
            pass
    except InUse:
        return
    raise AssertionError(f"hold() accepted a second run of {replay_id}")


# --- records that cannot be written -----------------------------------------------------------


def _fails_at(make_target: MakeTarget, onlooker: Onlooker, bad: Record) -> None:
    case = Case.new()
    target, account = case.prepared(make_target), Account(case.slice, ErrorRule("fail"))
    failure = failure_of(target, case, account, runs_of(account, case.with_bad(bad)))
    assert isinstance(failure, RecordRefused), f"a bad record, rule fail: ended in {failure!r}"
    found = failure.topic, failure.partition, failure.offset
    assert found == ("contract", 0, case.bad_offset), f"a bad record was refused as {found}"
    onlooker.assert_gained([], "after a bad record, rule fail")
    assert_ledger(make_target(), case, [], "after a bad record, rule fail")


def _skips(make_target: MakeTarget, onlooker: Onlooker, bad: Record) -> None:
    case = Case.new()
    target, account = case.prepared(make_target), Account(case.slice, ErrorRule("skip"))
    with target.open(case.replay_id) as writer:
        writer.commit(account, runs_of(account, case.with_bad(bad)))
    onlooker.assert_gained(case.records, "after a bad record, rule skip")
    entry = case.entry(bad, skipped=1)
    assert_ledger(make_target(), case, [entry], "after a bad record, rule skip")
    found = _compare(make_target(), case, case.with_bad(bad))
    assert not found.different, f"compare() misses a record that was skipped: {found}"
    # A target may not be able to tell, without writing, that a constraint refuses the bad record.
    untold = [each.offset for each in found.differences if each.kind == "unknown"]
    assert untold in ([], [case.bad_offset]), f"compare() reports other records as unknown: {found}"
    assert found.unknown == len(untold), f"the counts of compare() differ from its list: {found}"


def _buries(make_target: MakeTarget, onlooker: Onlooker, bad: Record) -> None:
    case = Case.new()
    buried: list[tuple[Slice, list[DeadLetter]]] = []

    def write_dead_letters(slice_: Slice, letters: Sequence[DeadLetter]) -> None:
        onlooker.assert_gained([], "while dead letters are written")
        buried.append((slice_, list(letters)))

    target = case.prepared(make_target)
    account = Account(case.slice, ErrorRule("dlq", "d"), write_dead_letters)
    with target.open(case.replay_id) as writer:
        writer.commit(account, runs_of(account, case.with_bad(bad)))
    onlooker.assert_gained(case.records, "after a bad record, rule dlq")
    entry = case.entry(bad, dead=1)
    assert_ledger(make_target(), case, [entry], "after a bad record, rule dlq")
    assert len(buried) == 1, f"the dead letters of one slice were written {len(buried)} times"
    (slice_, [letter]) = buried[0]
    assert slice_ == case.slice, f"dead letter of {slice_}, needed {case.slice}"
    assert letter.record in case.with_bad(bad), f"dead letter of another slice: {letter.record}"
    assert letter.record.offset == case.bad_offset, (
        f"dead letter with {letter.record}, which is not the bad record"
    )
    assert letter.kind, "a dead letter without a kind"
    assert letter.reason, "a dead letter without a reason"


def _keeps_the_dead_out_when_burying_fails(
    make_target: MakeTarget, onlooker: Onlooker, bad: Record
) -> None:
    case = Case.new()

    def write_dead_letters(_slice: Slice, _letters: Sequence[DeadLetter]) -> None:
        raise Fault

    target = case.prepared(make_target)
    account = Account(case.slice, ErrorRule("dlq", "d"), write_dead_letters)
    failure = failure_of(target, case, account, runs_of(account, case.with_bad(bad)))
    assert caused_by_fault(failure), f"an error while dead letters are written ended in {failure!r}"
    onlooker.assert_gained([], "after dead letters that failed")
    assert_ledger(make_target(), case, [], "after dead letters that failed")


# --- comparing --------------------------------------------------------------------------------


def _compare(target: Target, case: Case, records: Sequence[Record]) -> SliceComparison:
    [entry] = target.entries(case.replay_id)
    with target.open(case.replay_id) as writer:
        return compared(writer, entry, runs_of(Account(case.slice), records))


def _finds_what_is_not_as_it_was(make_target: MakeTarget, onlooker: Onlooker) -> None:
    case = Case.new()
    target = case.prepared(make_target)
    commit_alone(target, case)
    same = _compare(make_target(), case, case.records)
    assert not same.different, f"compare() finds a difference after a good commit: {same}"
    assert same.same == same.expected, (
        f"compare() reports unknown records after a good commit: {same}"
    )
    assert_all_told(same)
    assert (same.expected, same.expected_checksum) == (same.found, same.found_checksum), (
        f"compare() finds no difference, but counts or checksums differ: {same}"
    )
    changed = [replace(case.records[0], value=b"changed"), *case.records[1:]]
    more = case.with_bad(replace(case.records[0], value=b"more"))
    for records, what in ((changed, "changed"), (more, "missing")):
        _assert_different(_compare(make_target(), case, records), f"a record is {what}")
    onlooker.assert_gained(case.records, "after being compared")


def _finds_damage(make_target: MakeTarget, damage: Damage) -> None:
    case = Case.new()
    commit_alone(case.prepared(make_target), case)
    damage()
    _assert_different(_compare(make_target(), case, case.records), "the target was damaged")


def _assert_different(findings: SliceComparison, when: str) -> None:
    assert findings.different, f"compare() finds no difference, though {when}: {findings}"
    assert findings.expected_checksum != findings.found_checksum, (
        f"compare() calculates both checksums from one side, though {when}: {findings}"
    )
    assert_all_told(findings)
    assert findings.differences, f"compare() lists no difference, though {when}: {findings}"
