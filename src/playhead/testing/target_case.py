"""Helpers of the target contract suite: records to commit, and checks of the result."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any
from uuid import uuid4

from playhead.account import Account
from playhead.ledger import Entry
from playhead.record import Headers, Record, Slice
from playhead.records import Records
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest, SliceComparison, Target, Writer
from playhead.terms import Terms
from playhead.testing.source_contract import sample_records

MakeTarget = Callable[[], Target]

# Every slice has its own offsets, so that a target that keeps one record per offset keeps all of them.
_STEP = 100
_steps = count(1)


class Fault(Exception):
    """The error that a check raises during a commit."""


class Onlooker:
    """Compares the target's records with those at the onlooker's creation."""

    def __init__(self, read_back: Callable[[], Iterable[Record]]) -> None:
        self._read_back = read_back
        self._before = Counter(map(_content, read_back()))

    def assert_gained(self, needed: Iterable[Record], when: str) -> None:
        now, wanted = Counter(map(_content, self._read_back())), Counter(map(_content, needed))
        lost, gained = self._before - now, now - self._before
        assert not lost, f"{when}: records are lost: {dict(lost)}"
        assert not gained - wanted, f"{when}: uncommitted records {dict(gained - wanted)}"
        assert not wanted - gained, f"{when}: missing {dict(wanted - gained)}"


def _content(record: Record) -> tuple[bytes | None, bytes | None, Headers, int]:
    return record.key, record.value, record.headers, record.timestamp_ms


@dataclass(frozen=True)
class Case:
    """A new replay id, a slice with absent offsets, and the slice's records."""

    replay_id: str
    slice: Slice
    records: list[Record]

    @classmethod
    def new(cls) -> "Case":
        base = next(_steps) * _STEP
        moved = [replace(each, offset=each.offset + base) for each in sample_records()]
        records = [each for each in moved if each.partition == 0]
        return cls(f"contract-{uuid4().hex}", Slice("contract", 0, base, base + 10), records)

    def part(self, start: int, end: int, *, partition: int = 0, topic: str = "contract") -> Slice:
        """Return a part of the slice; offsets are relative to its start."""
        base = self.slice.from_offset
        return Slice(topic, partition, base + start, base + end)

    def within(self, slice_: Slice) -> list[Record]:
        return [record for record in self.records if record in slice_]

    def of(self, replay_id: str) -> "Case":
        """Return the same slice for another replay."""
        return replace(self, replay_id=replay_id)

    @property
    def bad_offset(self) -> int:
        """An offset that is absent from the records."""
        return self.slice.from_offset + 2

    def with_bad(self, bad: Record) -> list[Record]:
        """Return the records with a bad one among them."""
        moved = replace(bad, topic="contract", partition=0, offset=self.bad_offset)
        return sorted([*self.records, moved], key=lambda record: record.offset)

    def entry(self, bad: Record, *, dead: int = 0, skipped: int = 0) -> Entry:
        """Return the ledger entry of the slice with a bad record in it."""
        account, records = Account(self.slice), self.with_bad(bad)
        for _ in runs_of(account, records):
            pass
        return replace(
            account.close(), written=len(records) - dead - skipped, dead=dead, skipped=skipped
        )

    def prepared(self, make_target: MakeTarget) -> Target:
        """Return a target that was prepared for the replay twice, as a resume does."""
        for _ in range(2):
            target = make_target()
            inspection = target.inspect(look())
            needs = json.loads(json.dumps(inspection.needs))
            target.prepare(self.replay_id, replace(inspection, needs=needs), terms())
        return make_target()


def terms(*topics: str, **changes: Any) -> Terms:
    """Return the terms of a replay of these topics; default: the topics of `look`."""
    names = topics or ("contract", "other")
    plain = Terms("a plan", "contract", dict.fromkeys(names, "an id"), "a target", {})
    return replace(plain, **changes)


def look() -> InspectRequest:
    samples = sample_records()
    topics = {"contract": TopicFacts(), "other": TopicFacts()}
    runs = [Records.of([each for each in samples if each.partition == n]) for n in range(2)]
    oldest_ms = min(record.timestamp_ms for record in samples)
    return InspectRequest(
        SourceFacts("contract", topics), {"contract": 2, "other": 1}, runs, oldest_ms
    )


def compared(writer: Writer, entry: Entry, runs: Iterable[Records]) -> SliceComparison:
    """Return the comparison of one slice, from `compare` or from `conclude`."""
    found = writer.compare(entry, runs)
    if found is None:
        [found] = writer.conclude()
    else:
        assert not writer.conclude(), "conclude() repeats the result of compare()"
    return found


def assert_all_told(found: SliceComparison) -> None:
    """Assert that each record counts as same, different or unknown."""
    told = found.same + found.different + found.unknown
    assert told >= found.expected, f"compare() leaves some records out: {found}"
    assert found.same + found.unknown <= found.expected, (
        f"compare() counts too many records: {found}"
    )


def runs_of(account: Account, records: Sequence[Record]) -> Iterator[Records]:
    """Yield the records in pairs, and count them in the account, as a run does."""
    for start in range(0, len(records), 2):
        run = Records.of(records[start : start + 2])
        account.read += len(run)
        seen = [time for time in (account.first_ms, account.last_ms) if time is not None]
        times = [*run.timestamps_ms, *seen]
        account.first_ms, account.last_ms = min(times), max(times)
        yield run


def commit(writer: Writer, slice_: Slice, records: Sequence[Record]) -> Entry:
    """Commit the records; return the entry that the ledger must then contain."""
    account = Account(slice_)
    writer.commit(account, runs_of(account, records))
    return account.close()


def commit_alone(target: Target, case: Case) -> Entry:
    with target.open(case.replay_id) as writer:
        return commit(writer, case.slice, case.records)


def assert_ledger(target: Target, case: Case, needed: Sequence[Entry], when: str) -> None:
    """Assert the entries of the ledger, without their details, which belong to the target."""
    found = [replace(entry, details={}) for entry in target.entries(case.replay_id)]
    for before, after in pairwise(found):
        assert before.slice < after.slice, f"{when}: {after.slice} is not in order"
    assert found == list(needed), f"{when}: the ledger has {found}, needed {list(needed)}"
    for entry in target.entries(case.replay_id):
        assert Entry.from_json(entry.as_json()) == entry, f"{when}: {entry} does not survive JSON"


def failure_of(
    target: Target, case: Case, account: Account, runs: Iterable[Records]
) -> Exception | None:
    try:
        with target.open(case.replay_id) as writer:
            writer.commit(account, runs)
    except Exception as error:  # noqa: BLE001 - a target may translate it, `from` the first
        return error
    return None


def caused_by_fault(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, Fault) or caused_by_fault(error.__cause__))
