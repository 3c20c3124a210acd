"""Cars on a track send telemetry by UDP; every car numbers its datagrams, so that each loss is
visible.

A datagram is a function of seed, car, number and time. `python -m playhead.demo.cars HOST PORT`
starts the process that sends.
"""

import argparse
import json
import math
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from threading import Thread
from typing import Self

from playhead.host.runtimes import command_of

HOST = "127.0.0.1"
CARS, RATE_PER_SECOND = 20, 1_200.0
_LAP_KM = 5.3
_STATUS_EVERY_S = 0.2
_MOST_AT_ONCE = 64
_STARTED_WITHIN_S = 20.0
_ENDED_WITHIN_S = 20.0
_IDLE_S = 0.001


class Car:
    """One car; the seed decides how it drives."""

    def __init__(self, number: int, seed: int) -> None:
        source = random.Random(f"{seed}:{number}")  # noqa: S311  a race, not a secret
        self.name = f"car-{number:02}"
        self._phase = source.uniform(0, math.tau)
        self._turns_per_lap = source.randint(9, 13)
        self._kmh = source.uniform(196, 214)

    def datagram(self, seq: int, at_ms: int, driven_s: float) -> bytes:
        """Return telemetry as JSON, about 130 bytes; `driven_s` is the time since the car's start."""
        lap = self._kmh / 3_600 * driven_s / _LAP_KM
        wave = math.sin(lap * self._turns_per_lap * math.tau + self._phase)
        return (
            f'{{"car":"{self.name}","seq":{seq},"ts":{at_ms},"lap":{1 + int(lap)},'
            f'"speed_kmh":{220 + 90 * wave:.1f},"rpm":{9_000 + 2_500 * wave:.0f},'
            f'"gear":{5 + round(2 * wave)},"fuel_kg":{max(110 - 1.9 * lap, 0):.2f},'
            f'"brake":{max(0.0, -wave):.2f}}}'
        ).encode()


class Race:
    """Which car sends which datagram when: datagram n belongs to car n modulo the number of cars."""

    def __init__(self, count: int, rate_per_second: float, seed: int, start_ms: int) -> None:
        self._cars = [Car(number, seed) for number in range(count)]
        self._rate, self._start_ms = rate_per_second, start_ms

    def datagram(self, number: int) -> bytes:
        """Return datagram `number`, counted from 0; its timestamp is the time at which it is due."""
        seq, car = divmod(number, len(self._cars))
        due_s = number / self._rate
        return self._cars[car].datagram(seq, self._start_ms + int(due_s * 1_000), due_s)

    def sent(self, total: int) -> dict[str, int]:
        """Return how many of `total` datagrams each car has sent; each car numbers its own from 0."""
        whole, rest = divmod(total, len(self._cars))
        return {car.name: whole + (number < rest) for number, car in enumerate(self._cars)}


class Cars:
    """A race in its own process, from `start` to `stop` or during a `with` block.

    The process ends when this one ends, for whatever reason.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = HOST,
        count: int = CARS,
        rate_per_second: float = RATE_PER_SECOND,
        seed: int = 0,
    ) -> None:
        self._drives = (count, rate_per_second, seed)
        self._words = [host, str(port), "--cars", str(count), "--rate", str(rate_per_second)]
        self._words += ["--seed", str(seed)]
        self._process: subprocess.Popen[str] | None = None
        self._listening: Thread | None = None
        self._total = 0
        self.start_ms: int | None = None
        """When the race began; set when `start` returns."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process, and return when it sends datagrams."""
        self._process = subprocess.Popen(
            [*command_of("playhead.demo.cars"), *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._listening = Thread(target=self._listen, name="cars", daemon=True)
        self._listening.start()
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while self.start_ms is None and self._process.poll() is None:
            if time.monotonic() > deadline:
                self._process.kill()
                raise TimeoutError("the cars did not start")
            time.sleep(_IDLE_S)

    def stop(self) -> Mapping[str, int]:
        """Stop the race and return how many datagrams each car sent; a second call returns the same."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(_ENDED_WITHIN_S)
            if self._listening is not None:
                self._listening.join(_ENDED_WITHIN_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
        return self.sent

    @property
    def race(self) -> Race:
        """The race itself, which can reproduce every datagram that was sent."""
        return Race(*self._drives, self.start_ms or 0)

    @property
    def total(self) -> int:
        """How many datagrams were sent a moment ago; exact after `stop`."""
        return self._total

    @property
    def sent(self) -> dict[str, int]:
        """How many datagrams each car has sent."""
        return self.race.sent(self._total)

    def _listen(self) -> None:
        assert self._process is not None  # noqa: S101  started before us
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            status = json.loads(line)
            self._total = status["sent"]
            self.start_ms = status["start_ms"]


def drive(host: str, port: int, count: int, rate_per_second: float, seed: int) -> None:
    """Send until stdin is closed; print the start time and the count to stdout."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, *_, address = min(addresses, key=lambda address: address[0] != socket.AF_INET)
    start_ms, began = time.time_ns() // 1_000_000, time.monotonic()
    race = Race(count, rate_per_second, seed, start_ms)
    sent, next_status_s = 0, 0.0
    # Not connected: otherwise an absent receiver's ICMP errors would end the sending.
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        while not select.select([sys.stdin], [], [], 0)[0]:
            now_s = time.monotonic() - began
            if now_s >= next_status_s:
                _print_status(start_ms, sent)
                next_status_s = now_s + _STATUS_EVERY_S
            due = min(int(now_s * rate_per_second) + 1, sent + _MOST_AT_ONCE)
            for number in range(sent, due):
                sender.sendto(race.datagram(number), address)
            if due == sent:
                time.sleep(_IDLE_S)
            sent = due
    _print_status(start_ms, sent)


def _print_status(start_ms: int, sent: int) -> None:
    sys.stdout.write(json.dumps({"start_ms": start_ms, "sent": sent}) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m playhead.demo.cars", description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--cars", type=int, default=CARS)
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE_PER_SECOND,
        help="datagrams a second of all cars together",
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    drive(arguments.host, arguments.port, arguments.cars, arguments.rate, arguments.seed)


if __name__ == "__main__":
    main()
