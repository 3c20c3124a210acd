"""Dead letters on their way back, by whole replays: filtered, paced, previewed, and each of them once."""

import pytest

from playhead.account import RecordRefused
from playhead.kafka.write.dead_letter_headers import COUNT_HEADER
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.record import Headers, Record, TimestampType
from tests.fix_replay import T0_MS, Deck, ran, small_slices, totals

OWN: Headers = (("trace", b"1"), ("trace", None))


def connect_says(topic: str, partition: int) -> Headers:
    return (
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.partition", str(partition).encode()),
        ("__connect.errors.offset", b"77"),
        ("__connect.errors.connector.name", b"billing"),
        ("__connect.errors.exception.message", b"no"),
        ("__connect.errors.exception.stacktrace", None),
    )


def spring_says(topic: str, partition: int) -> Headers:
    return (
        ("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException"),
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", partition.to_bytes(4)),
        ("kafka_dlt-original-offset", (77).to_bytes(8)),
        ("kafka_dlt-original-timestamp", T0_MS.to_bytes(8)),
        ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    )


def playhead_says(topic: str, partition: int) -> Headers:
    said = {"topic": topic, "partition": partition, "timestamp": T0_MS, "count": 2}
    return tuple((f"__playhead.errors.{name}", str(it).encode()) for name, it in said.items())


FAMILIES = (playhead_says, connect_says, spring_says)


def letters(deck: Deck, home: str, count: int) -> str:
    """A topic of dead letters of all families, which came from the three partitions of another."""
    topic = deck.topic("letters", 2)
    deck.write(
        [
            Record(
                topic,
                number % 2,
                number // 2,
                T0_MS + 1_000 * number,
                TimestampType.CREATE_TIME,
                None if number % 5 == 0 else b"k%d" % number,
                b"%d" % number,
                OWN + FAMILIES[number % 3](home, number % 3),
            )
            for number in range(count)
        ]
    )
    return topic


def numbers(found: list[Record]) -> list[int]:
    return sorted(int(each.value or b"") for each in found)


def test_letters_of_all_families_go_back_once(deck: Deck) -> None:
    home = deck.topic("home", 3)
    topic = letters(deck, home, 24)
    with small_slices(5):
        planned = deck.plan(f"kafka:{topic}", "kafka:", redrive=True)
        assert home in str(planned.plan.as_document()), "the plan shows where they go"
        assert totals(ran(planned)) == {"written": 24}
        deck.play_again(planned.plan)
    back = deck.records(home)
    assert numbers(back) == list(range(24)), "and not again by a second run"
    for each in back:
        number = int(each.value or b"")
        assert each.partition == number % 3
        assert each.key == (None if number % 5 == 0 else b"k%d" % number)
        # Of the three only Kafka Connect keeps the time of the record itself.
        assert each.timestamp_ms == (T0_MS + 1_000 * number if number % 3 == 1 else T0_MS)
        assert each.headers == (*OWN, (COUNT_HEADER, b"2" if number % 3 == 0 else b"1"))


def test_only_those_that_are_asked_for_go_back(deck: Deck) -> None:
    home = deck.topic("home", 3)
    topic = letters(deck, home, 24)
    where = "CAST(CAST(value AS string) AS int) % 4 = 1 AND timestamp IS NOT NULL"
    proof = deck.play(f"kafka:{topic}", "kafka:", redrive=True, where=where, pace="200/s")
    assert totals(proof) == {"written": 6, "filtered": 18}
    back = deck.records(home)
    assert numbers(back) == [1, 5, 9, 13, 17, 21]
    assert all(each.partition == int(each.value or b"") % 3 for each in back)
    assert all(each.headers[:2] == OWN for each in back)


def test_a_letter_without_a_way_back_stops_it_or_is_kept_with_the_reason(deck: Deck) -> None:
    home, lost = deck.topic("home", 3), deck.topic("lost")
    topic = letters(deck, home, 6)
    forged = Record(
        topic, 0, 3, T0_MS, TimestampType.CREATE_TIME, b"x", b"99", connect_says(LEDGER_TOPIC, 0)
    )
    deck.write([forged])
    with pytest.raises(Exception, match="no record may return") as caught:
        deck.play(f"kafka:{topic}", "kafka:", redrive=True)
    assert isinstance(caught.value, RecordRefused) or "offset 3" in str(caught.value)
    others = deck.topic("home", 3)
    topic = letters(deck, others, 6)
    deck.write([forged.__class__(topic, 0, 3, T0_MS, forged.timestamp_type, b"x", b"99")])
    proof = deck.play(f"kafka:{topic}", "kafka:", redrive=True, on_error=f"dlq:{lost}")
    assert totals(proof) == {"written": 6, "dead": 1}
    assert numbers(deck.records(others)) == list(range(6))
    [kept] = deck.records(lost)
    assert kept.value == b"99"
    assert dict(kept.headers)["__playhead.errors.kind"] == b"no-origin"


@pytest.mark.parametrize("said", [10**20 - 1, 2**63 - 1, -5, -(2**63), -(10**19) + 1])
def test_a_time_that_no_record_can_have_is_that_letter_alone(deck: Deck, said: int) -> None:
    """Anyone can write the headers; the letters around it go back, whatever one of them says."""
    home, topic = deck.topic("home", 1), deck.topic("letters", 1)
    deck.write(
        [
            Record(
                topic, 0, number, T0_MS, TimestampType.CREATE_TIME, b"k", b"%d" % number,
                (*playhead_says(home, 0)[:2], ("__playhead.errors.timestamp", str(time).encode())),
            )
            for number, time in enumerate((T0_MS, said, T0_MS))
        ]
    )  # fmt: skip
    with small_slices(5):
        planned = deck.plan(f"kafka:{topic}", "kafka:", redrive=True, on_error="skip")
        found = totals(ran(planned))
    assert sum(found.values()) == 3, found
    back = deck.records(home)
    assert {0, 2} <= set(numbers(back))
    assert {each.timestamp_ms for each in back} <= {T0_MS, said}, "a letter keeps its own time"
