"""The other two of the ingest suite: `sender` sends datagrams at a rate, `plain` is the script one would write.

`python -m bench.ingest_parts sender PORT RATE SECONDS` and `python -m bench.ingest_parts plain SERVERS TOPIC`
"""

import json
import signal
import socket
import sys
import time
from types import FrameType

from confluent_kafka import Producer

BYTES = 130
_CARS = 20
_MOST_WAIT_S = 0.0005
_NO_RATE_AT_ONCE = 100


def datagram(number: int, at_ms: int) -> bytes:
    """Telemetry of one car, 130 bytes, like no other."""
    text = (
        f'{{"car":"car-{number % _CARS:02}","seq":{number // _CARS},"ts":{at_ms + number // 50},'
        f'"speed_kmh":{200 + number % 90},"rpm":{9_000 + number % 2_500},"gear":{number % 8},"x":""}}'
    )
    return text.replace('"x":""', f'"x":"{"-" * (BYTES - len(text))}"').encode()


def send(port: int, rate_per_second: float, seconds: float) -> None:
    """As many as the rate says, evenly; with rate 0 as many as can be sent. All are made before the first is sent."""
    at_ms = int(time.time() * 1000)
    total = int(rate_per_second * seconds) or 400_000
    ready = [datagram(number, at_ms) for number in range(total)]
    place, sent = ("127.0.0.1", port), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        began = time.perf_counter()
        while sent < total:
            now_s = time.perf_counter() - began
            due = (
                min(int(now_s * rate_per_second) + 1, total)
                if rate_per_second
                else sent + _NO_RATE_AT_ONCE
            )
            for each in ready[sent:due]:
                sending.sendto(each, place)
            if due == sent:
                time.sleep(_MOST_WAIT_S)
            sent = min(due, total)
        took_s = time.perf_counter() - began
    print(json.dumps({"sent": sent, "seconds": took_s, "bytes": sum(map(len, ready))}))


def take_plainly(servers: str, topic: str) -> None:
    """A datagram at a time: receive, decode, produce; drops nothing, counts what arrived, until SIGTERM."""
    stopped = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    producer.list_topics(topic, 10)
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    listening.bind(("127.0.0.1", 0))
    listening.settimeout(0.05)
    sys.stderr.write(f"listening at udp://127.0.0.1:{listening.getsockname()[1]}, receiving\n")
    sys.stderr.flush()
    found = {"datagrams": 0, "delivered": 0}

    def note(error: object, _: object) -> None:
        found["delivered"] += error is None

    while not stopped:
        try:
            datagram, _ = listening.recvfrom(65_535)
        except TimeoutError:
            continue
        found["datagrams"] += 1
        said = json.loads(datagram)
        producer.produce(topic, datagram, said["car"], timestamp=said["ts"], on_delivery=note)
        producer.poll(0)
    producer.flush(30)
    print(json.dumps(found))


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "sender":
        send(int(words[0]), float(words[1]), float(words[2]))
    else:
        take_plainly(*words)


if __name__ == "__main__":
    main()
