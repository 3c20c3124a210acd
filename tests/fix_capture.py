"""`playhead capture` as a process of its own: where clients reach it, how it ends, and what it wrote."""

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import SystemClock, wait_until
from playhead.sandbox import Endpoints
from tests.fix_commands import COMMAND

_WITHIN_S = 60.0


class Caught(NamedTuple):
    """A record as the snapshot has it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Capturing:
    """One that runs; clients can come when it is made."""

    def __init__(self, upstream: str, folder: Path, words: tuple[str, ...]) -> None:
        self.folder = folder
        more = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [
                *COMMAND,
                "capture",
                "--upstream",
                upstream,
                "--out",
                str(folder),
                *more,
                *words,
                "-o",
                "json",
            ],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.said: list[str] = []
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()
        found = self._await_line("listening at")
        self.place = re.findall(r"listening at (\S+) for", found)[0]

    @property
    def kafka(self) -> KafkaConnection:
        """How clients reach the broker through it."""
        return KafkaConnection(self.place)

    def stop(self, *, code: int = 0, by: signal.Signals = signal.SIGINT) -> dict[str, Any]:
        """End it as a person does; the counts that it gives in the end."""
        os.killpg(self.process.pid, by)
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        self.process.wait(_WITHIN_S)
        self._listening.join(_WITHIN_S)
        assert self.process.returncode == code, "\n".join([*self.said, out])
        assert not any("Traceback" in line for line in self.said), "\n".join(self.said)
        found = dict(json.loads(out))
        assert found["waiting"] == 0, found
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(_WITHIN_S)

    def pairs(self) -> list[dict[str, Any]]:
        """What the snapshot has, the numbered files first."""
        files = sorted(self.folder.glob("raw*.jsonl"))
        return [
            json.loads(line)
            for file in files
            for line in file.read_text(encoding="utf-8").split("\n")[:-1]
        ]

    def caught(self, command: str, topic: str) -> list[Caught]:
        """The records of a topic in its Produces or Fetches, each once, by partition and offset."""
        found = {
            (each.partition, each.offset): each
            for pair in self.pairs()
            if pair["command"] == command
            for each in _records(pair["kafka"], command)
            if each.topic == topic
        }
        return [found[place] for place in sorted(found)]

    def close(self) -> None:
        self.kill()
        self._listening.join(_WITHIN_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _await_line(self, text: str) -> str:
        def find() -> str | None:
            return next((line for line in list(self.said) if text in line), None)

        wait_until(
            lambda: find() or self.process.poll() is not None,
            deadline_s=_WITHIN_S,
            clock=SystemClock(),
            every_s=0.02,
        )
        assert find(), "\n".join(self.said)
        return find() or ""

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))


def _records(kafka: dict[str, Any], command: str) -> Iterator[Caught]:
    if command == "Fetch":
        fields = kafka.get("response", {}).get("FetchResponse", {})
        firsts: dict[Any, int] = {}
    else:
        fields = kafka["request"]["ProduceRequest"]
        told = kafka.get("response", {}).get("ProduceResponse", {})
        firsts = {
            (_name(topic), partition.get("index", 0)): int(partition.get("baseOffset", 0))
            for topic in told.get("topics", ())
            for partition in topic.get("partitions", ())
        }
    for topic in fields.get("topics", ()):
        for partition in topic.get("partitions", ()):
            place = (_name(topic), partition.get("index", 0))
            found = partition.get("records", {})
            first = firsts.get(place, 0) + int(found.get("baseOffset", 0))
            if "ATTRIBUTE_CONTROL" not in found.get("attributes", ()):
                for each in found.get("records", ()):
                    yield _record(each, found, place, first)


def _name(topic: dict[str, Any]) -> str:
    return str(topic.get("name", topic.get("topicId")))


def _record(
    each: dict[str, Any], found: dict[str, Any], place: tuple[str, int], first: int
) -> Caught:
    own = each.get("timestamp")
    base = int(found["baseTimestamp"]) + int(each.get("timestampDelta", 0))
    headers = tuple((h.get("keyString", ""), _bytes(h, "value")) for h in each.get("headers", ()))
    return Caught(
        *place,
        first + each.get("offsetDelta", 0),
        int(own) if own else base,
        _bytes(each, "key"),
        _bytes(each, "value"),
        headers,
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    if name in found:
        return base64.b64decode(found[name])
    text = found.get(f"{name}String")
    return None if text is None else text.encode()


StartCapture = Callable[..., Capturing]


@pytest.fixture
def start_capture(
    own_environment: None, sandbox: Endpoints, tmp_path: Path
) -> Iterator[StartCapture]:
    """Starts one before the sandbox's broker."""
    started: list[Capturing] = []

    def start(*words: str, folder: str = "snapshot", upstream: str | None = None) -> Capturing:
        capturing = Capturing(upstream or sandbox.bootstrap_servers, tmp_path / folder, words)
        started.append(capturing)
        return capturing

    yield start
    for each in started:
        each.close()
