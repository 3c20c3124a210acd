"""Headers by rule, and those of dead letters: written, read and taken off again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import DeadLetter
from playhead.errors import BadValue
from playhead.kafka.write.dead_letter_headers import (
    COUNT_HEADER,
    Origin,
    letter_headers,
    origin_of,
    without_errors,
)
from playhead.kafka.write.headers import HeaderRules, unsendable
from playhead.record import Headers, Record, TimestampType

HEADERS = st.lists(
    st.tuples(st.text("abc", max_size=2), st.none() | st.binary(max_size=3)), max_size=6
).map(tuple)


def record(headers=(), **more) -> Record:  # type: ignore[no-untyped-def]
    kept = {"topic": "orders", "partition": 3, "offset": 41, "timestamp_ms": 1_234} | more
    kind = TimestampType.CREATE_TIME
    return Record(**kept, timestamp_type=kind, key=b"k", value=b"v", headers=headers)


@given(HEADERS)
def test_keep_is_the_identity(headers) -> None:
    assert HeaderRules.parse(()).apply(headers) == headers
    assert HeaderRules.parse(("keep",)).apply(headers) == headers


@given(HEADERS)
def test_drop_and_add_leave_the_rest_in_order(headers) -> None:
    rules = HeaderRules.parse(("drop:a", "add:z=1", "add:z="))
    rest = tuple(each for each in headers if each[0] != "a")
    assert rules.apply(headers) == (*rest, ("z", b"1"), ("z", b""))


@pytest.mark.parametrize("rule", ["", "drop:", "add:", "add:x", "add:=1", "keep:x", "take:x"])
def test_a_rule_that_is_none(rule: str) -> None:
    with pytest.raises(BadValue, match="--headers"):
        HeaderRules.parse((rule,))


@pytest.mark.parametrize(
    ("name", "sent"), [("", True), ("é\U0001f600", True), ("a\0", False), ("\udc80", False)]
)
def test_names_that_cannot_be_sent(name: str, sent: bool) -> None:
    assert (unsendable(((name, b""),)) is None) is sent


@given(HEADERS)
def test_a_dead_letter_says_where_it_comes_from_and_gives_its_headers_back(headers) -> None:
    buried = record(letter_headers(DeadLetter(record(headers), "kind", "why"), "7f3a"))
    assert origin_of(buried) == Origin("orders", 3, 1_234, 1)
    assert without_errors(buried.headers, 1) == (*headers, (COUNT_HEADER, b"1"))


def test_a_record_that_dies_again_carries_its_count() -> None:
    died = record()
    for count in range(1, 4):
        died = record(letter_headers(DeadLetter(died, "kind", "why"), "7f3a"))
        names = [name for name, _ in died.headers]
        assert len(names) == len(set(names)) == 8
        origin = origin_of(died)
        assert origin is not None
        assert origin.count == count
        died = record(without_errors(died.headers, origin.count))


CONNECT = (
    ("kept", b"1"),
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"3"),
    ("__connect.errors.offset", b"41"),
    ("__connect.errors.connector.name", b"sink"),
    ("__connect.errors.exception.stacktrace", b"\xff"),
)
SPRING = (
    ("kept", b"1"),
    ("kafka_dlt-exception-message", b"no"),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", b"\x00\x00\x00\x03"),
    ("kafka_dlt-original-offset", b"\x00\x00\x00\x00\x00\x00\x00\x29"),
    ("kafka_dlt-original-timestamp", (1_234).to_bytes(8)),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("retry_topic-attempts", b"\x00\x00\x00\x04"),
)


# Those that a broker of Kafka 4.4.0 writes (KIP-1191).
SHARE_GROUP = (
    ("kept", b"1"),
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"3"),
    ("__dlq.errors.offset", b"41"),
    ("__dlq.errors.group", b"workers"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)


@pytest.mark.parametrize(
    ("headers", "timestamp_ms"), [(CONNECT, None), (SPRING, 1_234), (SHARE_GROUP, None)]
)
def test_letters_of_others(headers, timestamp_ms) -> None:
    assert origin_of(record(headers)) == Origin("orders", 3, timestamp_ms, 1)
    assert without_errors(headers, 1) == (("kept", b"1"), (COUNT_HEADER, b"1"))
    again = (*headers, (COUNT_HEADER, b"4"))
    found = origin_of(record(again))
    assert found is not None
    assert found.count == 5


@pytest.mark.parametrize(
    ("key", "value", "is_empty"), [(None, None, True), (b"k", None, False), (None, b"v", False)]
)
def test_a_share_group_s_letter_may_be_without_its_record(key, value, is_empty: bool) -> None:
    letter = replace(record(SHARE_GROUP), key=key, value=value)
    lacking = "the broker did not copy the record (errors.deadletterqueue.copy.record.enable)"
    assert origin_of(letter) == Origin("orders", 3, None, 1, lacking if is_empty else "")
    connect = replace(record(CONNECT), key=key, value=value)
    assert origin_of(connect) == Origin("orders", 3, None, 1), "Connect copies the record"


def test_a_connector_that_fails_at_a_share_group_s_letter_returns_it_there() -> None:
    headers = (*SHARE_GROUP, ("__connect.errors.topic", b"dlq.orders"))
    assert origin_of(record(headers)) == Origin("dlq.orders", None, None, 1)


def buried(headers: Headers) -> Headers:
    return letter_headers(DeadLetter(record(headers), "kind", "why"), "7f3a")


@pytest.mark.parametrize(
    ("letter", "was"),
    [
        (buried(SPRING), SPRING),
        (buried(CONNECT), CONNECT),
        (buried(SHARE_GROUP), SHARE_GROUP),
        ((*SHARE_GROUP, *CONNECT[1:]), SHARE_GROUP),
        ((*SPRING, *CONNECT[1:]), SPRING),
    ],
)
def test_a_letter_that_died_again_is_returned_as_the_letter_that_it_was(letter, was) -> None:
    assert without_errors(letter, 2) == (*was, (COUNT_HEADER, b"2"))
    assert origin_of(record(was)) == origin_of(record(without_errors(letter, 0)))


def test_the_last_death_counts() -> None:
    twice = (*SPRING, ("kafka_dlt-original-topic", b"orders-retry"))
    found = origin_of(record(twice))
    assert found is not None
    assert found.topic == "orders-retry"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((COUNT_HEADER, b"2"),),
        (("__connect.errors.topic", None),),
        (("__connect.errors.topic", b""),),
        (("__connect.errors.topic", b"\xff"),),
        (("kafka_dlt-original-partition", b"\x00\x00\x00\x03"),),
    ],
)
def test_without_an_origin(headers) -> None:
    assert origin_of(record(headers)) is None


@pytest.mark.parametrize(
    "partition", [None, b"", b"three", b"-1", b"9" * 5_000, b"\xff", b"\x00\x00\x00\x03"]
)
def test_an_origin_without_a_partition(partition) -> None:
    headers = (("__connect.errors.topic", b"orders"), ("__connect.errors.partition", partition))
    found = origin_of(record(headers))
    assert found is not None
    assert found.partition is None


def test_a_letter_whose_headers_cannot_be_sent_can_be_buried() -> None:
    letter = DeadLetter(record((("a\0b", b"1"), ("\ud800", b"2"))), "headers", "bad \ud800")
    assert unsendable(letter_headers(letter, "7f3a")) is None
