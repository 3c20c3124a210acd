"""Which records lie among the dead letters is known offset by offset, in little space, and never forgotten."""

import base64
import json
import random
import zlib
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account, DeadLetter
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.write.dead_letters import _DeadLetterWriter
from playhead.kafka.write.ledger import Ledger
from playhead.kafka.write.written_dead_letters import DETAIL, Burials, packed, unpacked
from playhead.ledger import Entry
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

PLACE = ("laps", 0)

offsets = st.sets(st.integers(0, 60))


def entry(slice_: Slice, written: int, details: dict) -> bytes:
    return Entry(slice_, written, written, details=details).as_json().encode()


def held(entries: dict[bytes, bytes], position: int) -> Ledger:
    """A ledger that was read so far, and has these entries."""
    ledger = Ledger(KafkaConnection("127.0.0.1:1"), "r1")
    ledger._next, ledger._found = position + 1, {PLACE: entries}
    return ledger


def said(slice_: Slice, buried: set[int]) -> bytes:
    return entry(slice_, len(buried), {DETAIL: packed(buried)})


@given(st.sets(st.integers(0, 2**62), max_size=50) | offsets)
def test_offsets_come_out_as_they_went_in(given_: set[int]) -> None:
    runs = unpacked(packed(given_))
    assert [offset for run in runs for offset in run] == sorted(given_)
    assert all(one.stop < other.start for one, other in pairwise(runs))


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_the_offsets_of_a_large_slice_fit_into_an_entry(share: float) -> None:
    chosen = random.Random(1)
    assert len(packed(at for at in range(200_000) if chosen.random() < share)) < 300_000


BOMB = base64.b64encode(zlib.compress(b"\x01" * 100_000_000)).decode()
ENDLESS = base64.b64encode(zlib.compress(b"\xff" * 1_000_000)).decode()
CUT = base64.b64encode(zlib.compress(b"\x01\x01")[:-4]).decode()


@pytest.mark.parametrize(
    "text",
    ["?", "AAAA", pytest.param(BOMB, id="bomb"), pytest.param(ENDLESS, id="endless"), CUT],
)
def test_what_is_no_such_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="offsets of dead letters"):
        unpacked(text)


@given(st.lists(st.tuples(offsets, st.booleans()), max_size=6), offsets)
def test_missing_is_who_was_never_buried(
    before: list[tuple[set[int], bool]], now: set[int]
) -> None:
    burials, there = Burials(), set[int]()
    for number, (buried, is_own) in enumerate(before):
        if not buried:
            continue
        slice_ = Slice("laps", 0, min(buried), max(buried) + 1)
        if is_own:
            burials.add(slice_, buried)
        else:
            burials.take_in(held({b"%d" % number: said(slice_, buried)}, number), PLACE)
        there |= buried
    whole = Slice("laps", 0, 10, 50)
    letters = {at for at in now if at in whole}
    assert set(burials.missing(whole, letters)) == letters - there
    assert burials.others(whole, letters) == len({at for at in there if at in whole} - letters)


def test_burials_of_before_are_known_by_the_map_of_their_copies() -> None:
    burials = Burials()
    map_ = {"topics": ["dlq"], "offsets": [[3, 0, 70, 2], [9, 0, 72, 1]], "ends": [], "exact": True}
    burials.take_in(held({b"one": entry(Slice("laps", 0, 0, 10), 3, map_)}, 1), PLACE)
    burials.take_in(held({b"none": entry(Slice("laps", 0, 10, 20), 0, {})}, 2), PLACE)
    whole = Slice("laps", 0, 0, 20)
    assert burials.missing(whole, [2, 3, 4, 9, 15]) == [2, 15]
    assert burials.others(whole, [3]) == 2


def test_a_map_of_before_that_is_not_exact_may_hold_anybody() -> None:
    burials = Burials()
    map_ = {"topics": ["dlq"], "offsets": [[3, 0, 70, 1]], "ends": [], "exact": False}
    burials.take_in(held({b"one": entry(Slice("laps", 0, 0, 10), 5, map_)}, 1), PLACE)
    assert burials.missing(Slice("laps", 0, 0, 20), [2, 3, 15]) == [15]


def test_the_text_is_json() -> None:
    assert json.loads(said(Slice("laps", 0, 0, 9), {1, 5}))["details"][DETAIL]


# --- at whatever moments ------------------------------------------------------------------------


class Lost(Exception):
    """The answer of a commit, or the commit itself, did not come."""


@dataclass
class Cluster:
    """A ledger that all runs share, and the topic of dead letters."""

    entries: dict[bytes, bytes] = field(default_factory=dict)
    topic: list[int] = field(default_factory=list)
    fate: str = "well"

    def ledger(self) -> "FakeLedger":
        return FakeLedger(self)


@dataclass
class FakeLedger:
    cluster: Cluster
    position: int = 0
    _read: dict[bytes, bytes] = field(default_factory=dict)

    def is_held_up(self) -> bool:
        return False

    def catch_up(self) -> None:
        self._read = dict(self.cluster.entries)
        self.position = len(self._read)

    def raw_of(self, _place: object) -> dict[bytes, bytes]:
        return self._read


@dataclass
class FakeWriter:
    """As a writer of topics: it opens its lane once, and again after an end that is not known."""

    cluster: Cluster
    ledger: FakeLedger
    is_open: bool = False

    def committed(self, _place: object) -> None:
        if not self.is_open:
            self.ledger.catch_up()
            self.is_open = True

    def commit(self, account: Account, runs: list[Records]) -> None:
        fate, self.cluster.fate = self.cluster.fate, "well"
        if fate != "refused":
            key = b"%d" % len(self.cluster.entries)
            self.cluster.entries[key] = account.close({}).as_json().encode()
            self.cluster.topic += [at for run in runs for at in run.offsets]
        if fate != "well":
            self.is_open = False
            raise Lost


def letter(at: int) -> DeadLetter:
    kind = TimestampType.CREATE_TIME
    return DeadLetter(Record("laps", 0, at, 1, kind, None, b"v"), "type", "no")


moments = st.tuples(
    st.integers(0, 40),
    st.integers(1, 25),
    offsets,
    st.sampled_from(["well", "well", "refused", "answer lost"]),
    st.booleans(),
)


@given(st.lists(moments, max_size=10))
def test_at_whatever_moments_a_record_dies_it_is_buried_once(
    given_: list[tuple[int, int, set[int], str, bool]],
) -> None:
    cluster = Cluster()
    ledger = cluster.ledger()
    sexton = _DeadLetterWriter(FakeWriter(cluster, ledger), ledger, "r1")  # type: ignore[arg-type]
    for start, length, dead, fate, is_new_run in given_:
        if is_new_run:
            ledger = cluster.ledger()
            sexton = _DeadLetterWriter(FakeWriter(cluster, ledger), ledger, "r1")  # type: ignore[arg-type]
        slice_ = Slice("laps", 0, start, start + length)
        found = {at for at in dead if at in slice_}
        cluster.fate = fate
        try:
            others = sexton.write(slice_, [letter(at) for at in sorted(found)])
        except Lost:
            others = sexton.write(slice_, [letter(at) for at in sorted(found)])
        cluster.fate = "well"
        assert len(cluster.topic) == len(set(cluster.topic)), "somebody was buried twice"
        there = {at for at in cluster.topic if at in slice_}
        assert found <= there
        assert others == len(there - found)
