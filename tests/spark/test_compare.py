"""A target held against a span of its source, without a run that says what went where."""

from pathlib import Path

import pytest

from playhead.errors import PlayheadError, Refused, UsageError
from playhead.record import Record, TimestampType
from playhead.replay.verify import Verification
from tests.fix_replay import T0_MS, Deck, ran

COLUMNS = "seq int, car text, speed float8, _topic text, _partition int, _offset bigint"
KEYED = f"{COLUMNS}, PRIMARY KEY (_topic, _partition, _offset)"
SPAN = f"{T0_MS + 10_000}..{T0_MS + 20_000}"


def compared(deck: Deck, source: str, target: str, **asked: object) -> Verification:
    return deck.plan(source, target, **asked).compare()


def test_a_table_is_compared_by_its_rows(deck: Deck, laps: str) -> None:
    table = deck.table(KEYED)
    ran(deck.plan(f"kafka:{laps}", f"postgres:{table}"))
    found = compared(deck, f"kafka:{laps}", f"postgres:{table}")
    assert (found.agrees, found.verdict()) == (
        True,
        "verified: 60 records read back, 0 differences",
    )
    deck.sql(f"DELETE FROM {table} WHERE seq = 12")
    deck.sql(f"UPDATE {table} SET car = 'x' WHERE seq = 13 OR seq = 50")
    found = compared(deck, f"kafka:{laps}", f"postgres:{table}", span=SPAN)
    assert not found.agrees
    assert [(each["kind"], each["partition"]) for each in found.differences] == [
        ("missing", 0),
        ("changed", 1),
    ]
    assert sum(each.expected for each in found.partitions) == 10


@pytest.mark.parametrize("columns", [COLUMNS, KEYED])
def test_tombstones_without_a_rule_are_unknown_and_counted_once(deck: Deck, columns: str) -> None:
    topic, kind = deck.topic("gone"), TimestampType.CREATE_TIME
    values = [b'{"seq": 0}', None, b'{"seq": 2}', None]
    deck.write([Record(topic, 0, n, T0_MS, kind, b"k", each) for n, each in enumerate(values)])
    ends = (f"kafka:{topic}", f"postgres:{deck.table(columns)}")
    ran(deck.plan(*ends, tombstones="skip"))
    assert compared(deck, *ends, tombstones="skip").agrees
    found = compared(deck, *ends)
    assert found.verdict() == (
        "CANNOT BE TOLD: 4 records read back, 0 differences, 2 that could not be compared"
    )
    assert (found.same, found.unknown) == (2, 2)
    assert "there is no --tombstones rule" in found.differences[0]["text"]


def test_an_archive_is_compared_record_by_record(deck: Deck, laps: str, tmp_path: Path) -> None:
    ran(deck.plan(f"kafka:{laps}", f"parquet:{tmp_path}", span=SPAN, lateness_ms=0))
    asked = {"span": SPAN, "lateness_ms": 0}
    found = compared(deck, f"kafka:{laps}", f"parquet:{tmp_path}", **asked)
    assert (found.agrees, sum(each.found for each in found.partitions)) == (True, 10)
    whole = compared(deck, f"kafka:{laps}", f"parquet:{tmp_path}")
    assert not whole.agrees
    assert {each["kind"] for each in whole.differences} == {"missing"}
    assert sum(each.different for each in whole.partitions) == 50


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_copy_is_compared_by_counts_and_a_checksum(
    deck: Deck, laps: str, partitions: int
) -> None:
    copy = deck.topic("copy", partitions)
    ran(deck.plan(f"kafka:{laps}", f"kafka:{copy}"))
    assert compared(deck, f"kafka:{laps}", f"kafka:{copy}").agrees
    assert compared(deck, f"kafka:{laps}", f"kafka:{copy}", span=SPAN).agrees
    deck.delete_before(copy, 0, 1)
    found = compared(deck, f"kafka:{laps}", f"kafka:{copy}")
    [check] = found.partitions
    assert (found.agrees, check.partition, check.expected, check.found) == (False, None, 60, 59)
    assert found.verdict() == (
        "DIFFERENT: 60 records read back, 1 differences, 59 that could not be compared"
    )


def test_what_a_copy_cannot_tell_is_refused(deck: Deck, laps: str) -> None:
    copy, stamped = deck.topic("copy", 3), deck.topic("s", message_timestamp_type="LogAppendTime")
    with pytest.raises(UsageError, match="do not apply to a copy"):
        compared(deck, f"kafka:{laps}", f"kafka:{copy}", span=f"{laps}:0:3-5")
    with pytest.raises(Refused, match="sets the times of its records itself"):
        compared(deck, f"kafka:{laps}", f"kafka:{stamped}")
    with pytest.raises(UsageError, match="compared only with their run"):
        compared(deck, f"kafka:{laps}", f"kafka:{copy}", where="offset > 3")
    with pytest.raises(PlayheadError):
        compared(deck, f"kafka:{laps}", "kafka:there-is-no-such-topic")
