"""What topics hold: written as Kafka's clients write it, and read as readers of committed records see it."""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import SystemClock, wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import bounds_of, stable_ends
from playhead.record import Record, TimestampType
from playhead.source import TopicPartition

_SILENCE_S = 10.0


def records_in(connection: KafkaConnection, *topics: str) -> list[Record]:
    """Every committed record, by topic, partition and offset."""
    with Admin(connection) as admin:
        known = admin.cluster().topics
    places = [
        ClientPartition(topic, partition, 0)
        for topic in topics
        for partition in range(known.get(topic, 0))
    ]
    if not places:
        return []
    consumer = Consumer(
        connection.for_librdkafka("consumer")
        | {
            "group.id": "onlooker",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
    )
    ends = _await_markers(connection, [(each.topic, each.partition) for each in places])
    try:
        consumer.assign(places)
        return sorted(_read(consumer, ends), key=lambda r: (r.topic, r.partition, r.offset))
    finally:
        consumer.close()


def _await_markers(
    connection: KafkaConnection, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """A commit is answered before its markers stand in every partition; an open one is not waited for long.

    Whoever writes on and on always has one open: what was there when we came is what counts.
    """
    with Admin(connection) as admin:
        wanted = {place: held.high_watermark for place, held in bounds_of(admin, places).items()}

        def are_there() -> bool:
            ends = stable_ends(admin, places)
            return all(ends[place] >= end for place, end in wanted.items())

        wait_until(are_there, deadline_s=3, clock=SystemClock(), every_s=0.05)
    return wanted


def _read(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> list[Record]:
    found: list[Record] = []
    left = {place for place, end in ends.items() if end}
    while left:
        each = consumer.poll(_SILENCE_S)
        assert each is not None, "a partition that was to be read to its end said nothing"
        place = (each.topic(), each.partition())
        if each.error() is None:
            found.append(_record(each))
            # Where somebody writes on and on, the end itself may never be told.
            if each.offset() >= ends[place] - 1:
                left.discard(place)
        elif each.error().code() == KafkaError._PARTITION_EOF:
            left.discard(place)
        else:
            raise KafkaException(each.error())
    return found


def _record(each) -> Record:  # type: ignore[no-untyped-def]
    kind, timestamp_ms = each.timestamp()
    return Record(
        each.topic(),
        each.partition(),
        each.offset(),
        timestamp_ms,
        TimestampType(kind - 1),
        each.key(),
        each.value(),
        tuple(each.headers() or ()),
    )


def write(connection: KafkaConnection, records: Sequence[Record]) -> None:
    """Put records where they say, in their order; offsets are the topic's own."""
    more = {"linger.ms": 5, "message.max.bytes": 50_000_000}
    producer = Producer(connection.for_librdkafka("producer") | more)
    failures: list[str] = []

    def note(error, _) -> None:  # type: ignore[no-untyped-def]
        if error is not None:
            failures.append(str(error))

    for each in records:
        producer.produce(
            each.topic,
            each.value,
            each.key,
            each.partition,
            note,
            None,
            each.timestamp_ms,
            list(each.headers),
        )
    assert producer.flush(_SILENCE_S) == 0
    assert not failures, failures[0]


def content(record: Record):  # type: ignore[no-untyped-def]
    """What a record carries, wherever it stands."""
    return record.key, record.value, record.headers, record.timestamp_ms


def odd_records(topic: str, partitions: int) -> list[Record]:
    """Null and empty, bytes that are no text, separators, headers that repeat and come without a value."""
    bodies: Sequence[bytes | None] = [
        None,
        b"",
        b"plain",
        "Å\u2028\x85".encode(),
        b"\xff\x00\xfe",
        b"a\tb\nc\r\n",
    ]
    headers = [(), (("h", b"1"), ("h", None)), (("Ü", b"\xff"), ("", b""))]
    return [
        Record(
            topic,
            number % partitions,
            number,
            1_600_000_000_000 + number if number % 5 else -1,
            TimestampType.CREATE_TIME,
            bodies[number % len(bodies)],
            bodies[number * 5 // 3 % len(bodies)],
            headers[number % len(headers)],
        )
        for number in range(60)
    ]


def timed(topic: str, partition: int, *times: int) -> list[Record]:
    return [
        Record(topic, partition, n, at, TimestampType.CREATE_TIME, b"k%d" % n, b"v%d" % at)
        for n, at in enumerate(times)
    ]


def wait_for_topic(connection: KafkaConnection, topic: str) -> None:
    with Admin(connection) as admin:
        # A shipper that begins anew reads all that the server's log has from earlier tests.
        found = wait_until(lambda: topic in admin.cluster().topics, deadline_s=180, every_s=0.2)
    assert found, f"there is no topic {topic}"
