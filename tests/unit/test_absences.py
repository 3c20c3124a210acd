"""The reason of each absent offset is what the log says, however slices are cut; what a client lost has none."""

import itertools
import struct
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from playhead.absence import Explained, absent_between, total
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.read import log_heads
from playhead.kafka.read.absences import (
    ABORTED,
    COMPACTED,
    MARKER,
    ONCE_COMPACTED,
    LogExplainer,
    RecordsNotGiven,
)
from playhead.kafka.read.log_heads import Head, Heads, heads_in
from playhead.ledger import Entry
from playhead.proof import prove
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.round import Round, let_go, write
from playhead.task.slicer import Filter, Limits
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, partition_plan, plan_of, record

PLACE = (TOPIC, 0)


@dataclass
class Log:
    """A log as its packages, and what a reader of it gets."""

    heads: list[Head] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer, first offset and marker's offset."""
    given: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    most: int = 3
    end: int = 0

    def look(self, place, offsets, *, most_bytes):
        assert place == PLACE
        return [self._from(at, 1 if most_bytes == 1 else self.most) for at in offsets]

    def _from(self, at: int, most: int) -> Heads:
        heads = [each for each in self.heads if each.end > at][:most]
        end = heads[-1].end if heads else at
        within = [(pid, first) for pid, first, marker in self.aborted if marker >= at > first - 1e9]
        return Heads(tuple(heads), tuple((p, f) for p, f in within if f < end))

    def close(self) -> None:
        pass

    # --- being written

    def data(self, count: int, kept: set[int], *, producer: int, fate: str) -> None:
        offsets = range(self.end, self.end + count)
        is_transactional = fate != "plain"
        self.heads.append(Head(self.end, self.end + count, len(kept), producer, is_transactional))
        for index, at in enumerate(offsets):
            if fate == "aborted":
                self.reasons[at] = ABORTED
            elif index in kept:
                self.given.append(at)
            else:
                self.reasons[at] = COMPACTED
        first = self.end
        self.end += count
        if is_transactional:
            if fate == "aborted":
                self.aborted.append((producer, first, self.end))
            self.heads.append(
                Head(self.end, self.end + 1, 1, producer, True, True, fate == "aborted")
            )
            self.reasons[self.end] = MARKER
            self.end += 1

    def nothing(self, count: int) -> None:
        for at in range(self.end, self.end + count):
            self.reasons[at] = COMPACTED
        self.end += count


@st.composite
def logs(draw, *, is_compacted: bool) -> Log:
    log = Log(most=draw(st.integers(1, 4)))
    for _ in range(draw(st.integers(1, 6))):
        fate = draw(st.sampled_from(["plain", "committed", "aborted", "nothing"]))
        count = draw(st.integers(1, 5) | st.just(250))
        if fate == "nothing":
            if is_compacted:
                log.nothing(count)
            continue
        kept = set(range(count))
        if is_compacted and fate != "aborted":
            kept = draw(st.sets(st.integers(0, count - 1)))
        log.data(count, kept, producer=draw(st.integers(1, 2)), fate=fate)
    log.data(1, {0}, producer=9, fate="plain")
    return log


def explainer(log: Log, *, is_compacted: bool) -> LogExplainer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_heads, "make_heads", lambda *_, **__: log)
        made = LogExplainer(KafkaConnection("nowhere:1"), timeout_s=1)
    made._compacted[TOPIC] = is_compacted
    return made


def counted(log: Log, offsets: range) -> dict[str, int]:
    found: dict[str, int] = {}
    for at in offsets:
        if (reason := log.reasons.get(at)) is not None:
            found[reason] = found.get(reason, 0) + 1
    return found


@given(st.booleans().flatmap(lambda c: st.tuples(st.just(c), logs(is_compacted=c))), st.data())
def test_every_absent_offset_has_the_reason_that_the_log_gives(drawn, data):
    is_compacted, log = drawn
    looks = explainer(log, is_compacted=is_compacted)
    cuts = sorted({0, log.end, *data.draw(st.sets(st.integers(0, log.end), max_size=4))})
    for start, end in itertools.pairwise(cuts):
        given_here = [at for at in log.given if start <= at < end]
        blanks = absent_between(start, given_here)
        reached = given_here[-1] + 1 if given_here else start
        blanks += [(reached, end)] if reached < end else []
        assume(blanks)
        assert looks.explain(PLACE, blanks) == Explained(counted(log, range(start, end)))


@given(logs(is_compacted=False), st.data())
def test_a_record_that_the_client_lost_is_never_explained(log, data):
    lost = data.draw(st.sampled_from(log.given))
    given_all = [at for at in log.given if at != lost]
    blanks = absent_between(0, given_all)
    reached = given_all[-1] + 1 if given_all else 0
    blanks += [(reached, log.end)] if reached < log.end else []
    with pytest.raises(RecordsNotGiven):
        explainer(log, is_compacted=False).explain(PLACE, blanks)


def test_a_record_lost_out_of_a_compacted_package_is_missed():
    """The package says how many records compaction has left in it."""
    log = Log()
    log.data(10, {2, 5, 9}, producer=1, fate="plain")
    looks = explainer(log, is_compacted=True)
    assert looks.explain(PLACE, [(0, 2), (3, 5), (6, 9)]).absences == {COMPACTED: 7}
    with pytest.raises(RecordsNotGiven):
        looks.explain(PLACE, [(0, 5), (6, 9)])


@pytest.mark.parametrize("is_compacted", [True, False])
def test_where_there_is_nothing_only_compaction_is_a_reason(is_compacted):
    log = Log()
    log.data(3, {0, 1, 2}, producer=1, fate="committed")
    log.nothing(4)
    log.data(1, {0}, producer=1, fate="plain")
    found = explainer(log, is_compacted=is_compacted).explain(PLACE, [(3, 8)])
    if is_compacted:
        assert found == Explained({COMPACTED: 4, MARKER: 1})
    else:
        assert found == Explained({MARKER: 1}, ((4, 8),))


def test_a_log_that_ends_too_early_explains_nothing_behind_it():
    log = Log()
    log.data(3, {0, 1, 2}, producer=1, fate="plain")
    log.end = 9
    found = explainer(log, is_compacted=False).explain(PLACE, [(3, 9)])
    assert found == Explained({}, ((3, 9),))


@pytest.mark.parametrize("end", [3, 2], ids=["in the slice", "behind it"])
def test_a_transaction_that_is_listed_as_aborted_and_was_committed_is_refused(end):
    """The client believes the list: its records would be absent, and the proof would add up."""
    log = Log(most=1)
    log.data(2, {0, 1}, producer=1, fate="committed")
    log.data(2, {0, 1}, producer=2, fate="aborted")
    log.aborted.append((1, 0, 2))
    with pytest.raises(BadAnswer, match="laps:0 has offset 0 in the list .* committed at offset 2"):
        explainer(log, is_compacted=False).explain(PLACE, [(0, end)])


def test_the_end_of_a_long_aborted_transaction_is_not_looked_for_without_end():
    log = Log(most=1)
    log.data(1, {0}, producer=1, fate="aborted")
    first, end = log.heads
    others = [Head(at, at + 1, 1, 1, True) for at in range(1, 99)]
    log.heads = [first, *others, replace(end, first=99, end=100)]
    log.aborted = [(1, 0, 99)]
    looks = explainer(log, is_compacted=False)
    asked: list[int] = []
    look = log.look
    log.look = lambda place, offsets, **more: (asked.extend(offsets), look(place, offsets, **more))[
        1
    ]  # type: ignore[method-assign]
    assert looks.explain(PLACE, [(0, 1)]) == Explained({ABORTED: 1})
    assert asked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("is_compacted", "reason"), [(True, COMPACTED), (False, ONCE_COMPACTED)])
def test_compaction_shows_in_the_log_itself(is_compacted, reason):
    """The topic may be compacted no more; or something between left records out of its batches."""
    log = Log()
    log.data(5, {1}, producer=1, fate="plain")
    log.nothing(4)
    log.data(1, {0}, producer=1, fate="plain")
    found = explainer(log, is_compacted=is_compacted).explain(PLACE, [(0, 1), (2, 9)])
    assert found == Explained({reason: 8})


# --- the bytes of a log -----------------------------------------------------------------------


def package(first: int, last: int, count: int, attributes: int, body: bytes = b"") -> bytes:
    rest = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, last - first, 8, 9, 7, 0, 0, count)
    return struct.pack(">qi", first, len(rest) + len(body)) + rest + body


def marker(kind: int, time_delta: bytes = b"\0") -> bytes:
    return b"\x20\0" + time_delta + b"\0\x08" + struct.pack(">hh", 0, kind) + b"\x0c" + bytes(7)


def test_heads_are_read_as_kafka_writes_them():
    data = package(3, 7, 5, 0x00, b"x" * 40) + package(8, 9, 2, 0x12, b"y")
    data += package(10, 10, 1, 0x30, marker(0)) + package(11, 11, 1, 0x30, marker(1))
    # With a delete horizon the marker's own time is further off, and takes more bytes.
    data += package(12, 12, 1, 0x70, marker(0, b"\xff\xff\xff\x07"))
    cut = package(13, 20, 8, 0, b"z" * 99)
    for end in range(1, len(cut), 7):
        assert list(heads_in(data + cut[:end])) == [
            Head(3, 8, 5, 7, first_ms=8, latest_ms=9),
            Head(8, 10, 2, 7, True, first_ms=8, latest_ms=9),
            Head(10, 11, 1, 7, True, True, True, first_ms=8, latest_ms=9),
            Head(11, 12, 1, 7, True, True, False, first_ms=8, latest_ms=9),
            Head(12, 13, 1, 7, True, True, True, latest_ms=9),
        ]


# --- in a run, and in a round -----------------------------------------------------------------


class Grave(ListSource):
    """Has no reason for some of its absent offsets."""

    def __init__(self, *items, **given):
        super().__init__(*items, **given)
        self.asked: list[object] = []

    def absences(self):
        from contextlib import nullcontext

        return nullcontext(self)

    def explain(self, place, blanks):
        self.asked += [(place, list(blanks))]
        return Explained({"a reason": total(blanks) - 1}, (blanks[-1],))


LOG = [record(at) for at in (1, 2, 5, 6, 9)]
BOUNDS = {PLACE: Bounds(0, 12, 12)}


def test_a_run_asks_once_for_each_slice_that_lacks_offsets_and_only_then():
    source, target = Grave(LOG, bounds=BOUNDS), ListTarget()
    slices = (Slice(*PLACE, 0, 3), Slice(*PLACE, 5, 7), Slice(*PLACE, 7, 12))
    play(Job("r1", source, target, ((slices,),), Filter()), 0)
    assert source.asked == [(PLACE, [(0, 1)]), (PLACE, [(7, 9), (10, 12)])]
    first, second, third = target.entries("r1")
    assert (first.unexplained, first.unexplained_at) == (1, ((0, 1),))
    assert (second.absences, second.unexplained) == ({}, 0)
    assert (third.absences, third.unexplained_at) == ({"a reason": 3}, ((10, 12),))


def test_a_proof_that_lacks_a_reason_does_not_add_up():
    source, target = Grave(LOG, bounds=BOUNDS), ListTarget()
    play(Job("r1", source, target, (((Slice(*PLACE, 0, 12),),),), Filter()), 0)
    proof = prove(plan_of(partition_plan(0, 12)), target.entries("r1"))
    assert (proof.adds_up, proof.is_finished) == (False, True)
    assert (proof.total("absent"), proof.total("unexplained")) == (6, 1)
    assert "why offsets hold no record" in proof.evidence["source"]


def test_a_round_asks_as_a_run_does():
    let_go()
    source, target = Grave(LOG, bounds=BOUNDS), ListTarget()
    outcomes = []
    for first, end in ((0, 7), (7, 12)):
        read = source.read(Slice(*PLACE, first, end))
        outcomes += [
            write(
                Round("p", "run", target, (Slice(*PLACE, first, end),), source=source),
                ((each, None) for each in read),
            )
        ]
    let_go()
    assert [each.unexplained for outcome in outcomes for each in outcome.written] == [2, 2]
    [entry] = target.entries("p")
    assert entry.absences == {"a reason": 5}
    assert entry.unexplained_at == ((3, 5), (10, 12))


# --- reading both ends again --------------------------------------------------------------------


def findings(source: ListSource, target: ListTarget, entries: list[Entry]):
    lane = tuple(entry.slice for entry in entries)
    compares = {entry.slice: entry for entry in entries}
    job = Job("r1", source, target, ((lane,),), Filter(), compares=compares)
    return [found for report in play(job, 0) for found in report.findings]


def committed(source: ListSource) -> ListTarget:
    target = ListTarget()
    lane = (Slice(*PLACE, 0, 12),)
    play(Job("r1", source, target, ((lane,),), Filter(), limits=Limits(2)), 0)
    return target


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ([record(at) for at in (1, 2, 5, 6)], "0 records now, 1 when it was read"),
        (
            [*LOG[:4], record(9, 7)],
            "1 records as before, but some have changed, or were not complete when they were read",
        ),
    ],
)
def test_a_source_that_is_not_what_was_read_is_a_difference(now, said):
    target = committed(ListSource(LOG, bounds=BOUNDS))
    entries = target.entries("r1")
    assert all(
        found.different == 0 for found in findings(ListSource(LOG, bounds=BOUNDS), target, entries)
    )
    changed = findings(ListSource(now, bounds=BOUNDS), target, entries)
    [found] = [each for each in changed if each.different]
    first = found.differences[0]
    assert first.kind == "source"
    assert first.text.startswith("the source has changed since it was read: laps:0:7-12 has")
    assert first.text.endswith(said)


def test_an_entry_of_old_has_nothing_to_compare_with():
    import json

    target = committed(ListSource(LOG, bounds=BOUNDS))
    old = []
    for entry in target.entries("r1"):
        document = json.loads(entry.as_json()) | {"version": 1}
        old.append(Entry.from_json(json.dumps(document)))
    now = ListSource([*LOG[:4], record(9, 7)], bounds=BOUNDS)
    kinds = {d.kind for found in findings(now, target, old) for d in found.differences}
    assert kinds == {"changed"}, "the target's own comparison"


def test_an_entry_of_version_2_is_compared_by_a_checksum_of_its_own_kind():
    target = committed(ListSource(LOG, bounds=BOUNDS))
    old = []
    for entry in target.entries("r1"):
        records = [each for each in LOG if each in entry.slice]
        number = Records.of(records).checksum(0) if records else 0
        old.append(replace(entry, checksum=number))
    assert any(entry.checksum for entry in old)
    assert not any(it.different for it in findings(ListSource(LOG, bounds=BOUNDS), target, old))
    now = ListSource([*LOG[:4], record(9, 7)], bounds=BOUNDS)
    assert [
        d.text for it in findings(now, target, old) for d in it.differences if d.kind == "source"
    ]


def test_an_unexplained_offset_is_found_again():
    target = committed(ListSource(LOG, bounds=BOUNDS))
    found = findings(Grave(LOG, bounds=BOUNDS), target, target.entries("r1"))
    texts = [d.text for each in found for d in each.differences]
    assert any("offsets of the source gave no record: 10-12" in text for text in texts)
