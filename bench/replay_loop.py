"""A copy from topic to topic as one would write it for speed: one process, no exactly-once.

`python bench/replay_loop.py BOOTSTRAP FROM TO [--group-of N]`; prints JSON with its own rate.
"""

import argparse
import json
import time

from confluent_kafka import Consumer, Producer, TopicPartition

_CONSUMER = {
    "group.id": "bench-loop",
    "enable.auto.commit": False,
    "enable.partition.eof": False,
    "fetch.min.bytes": 1,
    "max.partition.fetch.bytes": 8_000_000,
    "fetch.max.bytes": 50_000_000,
    "queued.min.messages": 500_000,
    "queued.max.messages.kbytes": 500_000,
    "check.crcs": False,
}
_PRODUCER = {
    "compression.type": "lz4",
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "batch.num.messages": 20_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 500_000,
    "acks": "all",
}


def copy(bootstrap_servers: str, one: str, other: str, group_of: int) -> tuple[int, float]:
    """Every record up to today's end; returns how many, and seconds from first fetch to last ack."""
    consumer = Consumer(_CONSUMER | {"bootstrap.servers": bootstrap_servers})
    failed: list[str] = []
    producer = Producer(
        _PRODUCER
        | {
            "bootstrap.servers": bootstrap_servers,
            # Only what failed comes back to Python: the usual callback for each record costs a third.
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(str(error)) if error else None,
        }
    )
    numbers = consumer.list_topics(one, 10).topics[one].partitions
    bounds = {n: consumer.get_watermark_offsets(TopicPartition(one, n), 10) for n in numbers}
    wanted = sum(end - first for first, end in bounds.values())
    began = time.perf_counter()
    consumer.assign([TopicPartition(one, n, first) for n, (first, _) in bounds.items()])
    copied, produce = 0, producer.produce
    while copied < wanted:
        for record in consumer.consume(group_of, 1.0):
            if record.error():
                raise SystemExit(str(record.error()))
            while True:
                try:
                    produce(
                        other,
                        record.value(),
                        record.key(),
                        record.partition(),
                        timestamp=record.timestamp()[1],
                    )
                except BufferError:
                    producer.poll(0.1)
                    continue
                break
            copied += 1
        producer.poll(0)
    if producer.flush(120) or failed:
        raise SystemExit(f"not every record was acknowledged: {failed[:1]}")
    took_s = time.perf_counter() - began
    consumer.close()
    return copied, took_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap_servers")
    parser.add_argument("one")
    parser.add_argument("other")
    parser.add_argument("--group-of", type=int, default=10_000)
    given = parser.parse_args()
    copied, took_s = copy(given.bootstrap_servers, given.one, given.other, given.group_of)
    print(json.dumps({"records": copied, "run_s": took_s, "records_per_second": copied / took_s}))


if __name__ == "__main__":
    main()
