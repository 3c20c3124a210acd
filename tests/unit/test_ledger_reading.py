"""The ledger is read as it is, whatever a client loses on the way, and however its keys are spelled."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.kafka.admin import clients
from playhead.kafka.read import log_heads
from playhead.kafka.read.log_heads import Head, Heads
from playhead.kafka.write import ledger_reading
from playhead.kafka.write.ledger import folded
from playhead.kafka.write.ledger_keys import (
    LEDGER_TOPIC,
    former_transactional_id,
    key_of,
    names_key,
    new_writer,
    parsed,
    terms_key,
    transactional_id,
)
from playhead.kafka.write.ledger_reading import LedgerUnsteady, read_ledger
from playhead.ledger import Entry
from playhead.record import Slice

Value = tuple[bytes, bytes | None]
KAFKA = KafkaConnection("127.0.0.1:1")


@dataclass
class Message:
    """What a client gives: a record, or the end that it believes to see."""

    at: int
    record: Value | None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.record[0] if self.record else None

    def value(self) -> bytes | None:
        return self.record[1] if self.record else None

    def error(self) -> KafkaError | None:
        return None if self.record else KafkaError(KafkaError._PARTITION_EOF)


@dataclass
class Log:
    """One partition; each client that is made loses the records that the next of `lost` names."""

    records: Mapping[int, Value]
    end: int
    lost: list[set[int]] = field(default_factory=list)
    looks: int = 0
    is_asked: bool = False

    def look(self, _place: object, offsets: Sequence[int], *, most_bytes: int) -> list[Heads]:
        """What the log itself holds; all offsets without a record are markers here."""
        self.is_asked = True
        return [
            Heads(
                tuple(
                    Head(at, at + 1, 1, is_marker=at not in self.records)
                    for at in range(start, min(self.end, start + (1 if most_bytes == 1 else 5)))
                )
            )
            for start in offsets
        ]

    def close(self) -> None:
        pass

    def consumer(self, _settings: object) -> "Client":
        self.looks += 1
        return Client(self, self.lost.pop(0) if self.lost else set())


class Client:
    def __init__(self, log: Log, lost: set[int]) -> None:
        self._log, self._lost = log, lost
        self._left: list[Message] = []

    def assign(self, places: Sequence[object]) -> None:
        start = places[0].offset  # type: ignore[attr-defined]
        there = sorted(self._log.records.items())
        self._left = [
            Message(at, each) for at, each in there if at >= start and at not in self._lost
        ]
        self._left.append(Message(self._log.end, None))

    def consume(self, count: int, _wait_s: float) -> list[Message]:
        given, self._left = self._left[: min(count, 3)], self._left[min(count, 3) :]
        return given

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_reading, "_PATIENCE_S", 1.0)
        yield


def read(log: Log, start: int = 0) -> tuple[list[Value], int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "make_consumer", log.consumer)
        patch.setattr(log_heads, "make_heads", lambda *_, **__: log)
        found, position = read_ledger(
            KAFKA,
            start=start,
            end=log.end,
            wanted=lambda key: not key.startswith(b"other"),
        )
    return [(each.key, each.value) for each in found], position


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Transactions as replays write them, with markers behind them, aborted and compacted ones between."""
    records: dict[int, Value] = {}
    at = 0
    for number in range(draw(st.integers(0, 12))):
        key = draw(st.sampled_from([b"mine", b"other"])) + b"%d" % number
        kind = draw(st.sampled_from(["entry", "fold", "aborted", "compacted"]))
        values: list[bytes | None] = [b"entry"]
        if kind == "fold":
            values += [b"whole", *[None] * draw(st.integers(2, 4))]
        if kind in ("entry", "fold"):
            records |= {at + n: (key, value) for n, value in enumerate(values)}
        at += len(values) + 1 + (draw(st.integers(0, 5)) if kind == "compacted" else 0)
    return Log(records, at)


@given(logs(), st.data())
def test_no_record_is_forgotten_that_the_log_holds(log: Log, data: st.DataObject) -> None:
    times = {
        at: data.draw(st.sets(st.integers(0, 4), max_size=5), label=f"lost {at}")
        for at in log.records
    }
    log.lost = [{at for at, when in times.items() if look in when} for look in range(5)]
    mine = [each for _, each in sorted(log.records.items()) if each[0].startswith(b"mine")]
    assert read(log) == (mine, log.end)


@given(logs())
def test_the_log_is_asked_only_about_gaps(log: Log) -> None:
    held = dict(enumerate(each for _, each in sorted(log.records.items())))
    whole = Log(held, len(held))
    read(whole)
    assert (whole.looks, whole.is_asked) == (1, False)


def test_a_record_that_two_clients_lose_in_the_same_place() -> None:
    # This wrote a slice twice, when the second client was believed.
    records = {at: (b"mine", b"%d" % at) for at in range(0, 20, 2)}
    log = Log(records, 20, lost=[{14, 16, 18}, {14, 16}, {14}])
    assert read(log) == ([*records.values()], 20)
    assert log.looks == 4


def test_a_single_record_between_two_others_is_no_marker() -> None:
    records = {at: (b"mine", b"%d" % at) for at in range(5)}
    log = Log(records, 6, lost=[{2}])
    assert read(log) == ([*records.values()], 6)
    assert log.looks == 2


class Silent:
    """A client that gets nothing."""

    def __init__(self, _told: object) -> None:
        pass

    def assign(self, _places: object) -> None:
        pass

    def consume(self, _count: int, _wait_s: float) -> list[Message]:
        return []

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("stable", "error"),
    [(0, "a transaction has been open at offset 0"), (4, "reading the ledger: nothing came")],
)
def test_a_transaction_is_named_only_if_one_is_open(
    monkeypatch: pytest.MonkeyPatch, stable: int, error: str
) -> None:
    monkeypatch.setattr(clients, "consumer", Silent)
    monkeypatch.setattr(ledger_reading, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(ledger_reading, "Admin", lambda _: nullcontext())
    ends = {(LEDGER_TOPIC, 0): stable}
    monkeypatch.setattr(ledger_reading, "stable_ends", lambda *_: ends)
    with pytest.raises(Unavailable, match=error):
        read_ledger(KAFKA, start=0, end=4, wanted=lambda _: True)


def test_a_ledger_that_no_client_returns_is_refused() -> None:
    records = {at: (b"mine", b"%d" % at) for at in range(0, 40, 2)}
    with pytest.raises(LedgerUnsteady, match="was read 10 times"):
        read(Log(records, 40, lost=[{20}] * 12))


# --- keys ---------------------------------------------------------------------------------------

names = st.text("ab-._|/%é0", min_size=1, max_size=6)
ids = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,5}(/dlq)?", fullmatch=True)


@given(ids, names, st.integers(0, 99), st.integers(0, 99))
def test_a_key_says_its_place_and_its_writer(
    replay_id: str, topic: str, partition: int, at: int
) -> None:
    writer = new_writer()
    found = parsed(key_of(replay_id, Slice(topic, partition, at, at + 1), writer))
    assert found is not None
    assert (found.place, found.writer) == ((topic, partition), writer)


@given(ids, st.text("ab-._", min_size=1), st.integers(0, 99), st.integers(0, 99))
def test_keys_of_before_are_understood(replay_id: str, topic: str, partition: int, at: int) -> None:
    found = parsed(f"{replay_id}|{topic}|{partition}|{at}".encode())
    assert found is not None
    assert (found.place, found.writer) == ((topic, partition), None)


@given(ids)
def test_what_holds_for_all_of_a_replay_is_no_entry(replay_id: str) -> None:
    assert parsed(terms_key(replay_id)) is None
    assert parsed(names_key(replay_id)) is None
    for number in ("9" * 20, "1" * 5_000):  # Anybody who may write to the topic chooses its keys.
        assert parsed(f"{replay_id}|t|{number}|0".encode()) is None
        assert parsed(f"{replay_id}|t|{number}|0|w0123456789abcdef".encode()) is None


places = st.tuples(ids, st.tuples(names, st.integers(0, 99)))


@given(places, places)
def test_no_two_have_one_transactional_id(one, other) -> None:
    assert (transactional_id(*one) == transactional_id(*other)) == (one == other)
    assert transactional_id(*one) != former_transactional_id(*other) or "/" in other[0]


def test_the_ids_that_collided() -> None:
    one, other = ("x", ("y-z", 0)), ("x-y", ("z", 0))
    assert former_transactional_id(*one) == former_transactional_id(*other)
    assert transactional_id(*one) != transactional_id(*other)


# --- folding ------------------------------------------------------------------------------------


def entry(start: int, stop: int) -> Entry:
    slice_ = Slice("laps", 0, start, stop)
    return Entry(slice_, len(slice_), len(slice_))


def held(*spans: tuple[int, int]) -> dict[bytes, Entry]:
    return {b"%d-%d" % span: entry(*span) for span in spans}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8))
def test_folding_changes_no_offset_and_hides_nothing(found: list[tuple[int, int]]) -> None:
    before = held(*((start, start + length) for start, length in found))
    after = dict(before)
    for number, (keys, whole) in enumerate(folded(before)):
        for key in keys:
            del after[key]
        after[b"whole %d" % number] = whole

    def times(entries: Mapping[bytes, Entry]) -> list[int]:
        every = [each.slice for each in entries.values()]
        return [sum(at in each for each in every) for at in range(40)]

    assert times(after) == times(before)
    if before:
        last = max(before, key=lambda key: before[key].slice)
        assert last in after, "who wrote it may have written more"


def test_take_overs_leave_no_more_than_a_few_entries() -> None:
    entries = held((0, 100))
    for at in range(100, 2_000, 100):
        for keys, whole in [*folded(entries)]:
            for key in keys:
                del entries[key]
            entries[b"whole to %d" % at] = whole
        entries[b"writer %d" % at] = entry(at, at + 100)
    assert len(entries) == 3
    assert sum(each.written for each in entries.values()) == 2_000


def test_what_was_written_twice_stays_to_be_seen() -> None:
    assert [*folded(held((0, 120), (100, 110), (120, 130)))] == []


def test_every_client_of_the_ledger_checks_what_the_log_kept_against_its_checksums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A digit that the disk has changed is still JSON; `verify` blamed the source for it."""
    log, seen = Log({0: (b"mine", b"entry")}, 1, lost=[{0}]), list[Mapping[str, object]]()
    plain = log.consumer

    def consumer(settings: Mapping[str, object]) -> Client:
        seen.append(settings)
        return plain(settings)

    monkeypatch.setattr(log, "consumer", consumer)
    read(log)
    assert seen
    assert all(each.get("check.crcs") is True for each in seen)
