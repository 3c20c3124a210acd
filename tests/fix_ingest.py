"""`playhead ingest` as a process of its own: what it listens at, what it says, how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from typing import Any

import pytest

from playhead.host.clock import SystemClock, wait_until
from playhead.sandbox import Endpoints
from tests.fix_commands import COMMAND

_WITHIN_S = 60.0
# Where nobody has raised the kernel's limit its buffer has room for some five hundred small ones.
_AT_ONCE = 200
HERE = "udp://127.0.0.1:0"


class Ingesting:
    """One that runs; ready to receive when it is made."""

    def __init__(self, words: list[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "ingest", *words, "-o", "json"],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.said: list[str] = []
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()
        self.await_line("receiving")
        self.host, port = re.findall(r"udp://(\S+):(\d+),", self.await_line("listening at"))[0]
        self.port = int(port)
        host = self.host.strip("[]")
        self._sender = socket.socket(
            socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM
        )
        self._place = (host, self.port)

    def send(self, *datagrams: bytes) -> None:
        for number, datagram in enumerate(datagrams, 1):
            self._sender.sendto(datagram, self._place)
            if number % _AT_ONCE == 0:
                time.sleep(0.002)

    @property
    def peer(self) -> str:
        """The address that it gets datagrams from."""
        return f"{self.host}:{self._sender.getsockname()[1]}"

    def await_line(self, text: str) -> str:
        """The first line on stderr with this text, said or still to be said."""

        def find() -> str | None:
            return next((line for line in list(self.said) if text in line), None)

        self.await_true(lambda: find() or self.process.poll() is not None)
        if self.process.poll() is not None:
            self._listening.join(_WITHIN_S)
        found = find()
        assert found is not None, "\n".join(self.said)
        return found

    def told(self) -> dict[str, Any]:
        """The last of the counts that `--progress json` gives."""
        lines = [line for line in list(self.said) if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    def await_counts(self, **wanted: int) -> None:
        """Return when it has told at least so many of each."""

        def are_there() -> bool:
            told = self.told()
            return bool(told) and all(told[name] >= count for name, count in wanted.items())

        assert self.await_true(are_there), f"{wanted} did not come: {self.told()}"

    def await_true(self, probe: Callable[[], Any]) -> Any:
        return wait_until(probe, deadline_s=_WITHIN_S, clock=SystemClock(), every_s=0.02)

    def stop(self, *, code: int = 0, by: signal.Signals = signal.SIGINT) -> dict[str, Any]:
        """End it as a person does; the counts that it gives in the end."""
        self.process.send_signal(by)
        return self.result(code=code)

    def result(self, *, code: int = 0) -> dict[str, Any]:
        """The counts of one that ends by itself."""
        assert self.process.stdout is not None
        self.process.wait(_WITHIN_S)
        self._listening.join(_WITHIN_S)
        out = self.process.stdout.read()
        assert self.process.returncode == code, "\n".join([*self.said, out])
        assert not any("Traceback" in line for line in self.said), "\n".join(self.said)
        found = json.loads(out)
        assert found["adds_up"], found
        return dict(found)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(_WITHIN_S)

    def close(self) -> None:
        self.kill()
        self._listening.join(_WITHIN_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        sender = getattr(self, "_sender", None)
        if sender is not None:
            sender.close()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))


Start = Callable[..., Ingesting]


@pytest.fixture
def start_ingest(own_environment: None, sandbox: Endpoints) -> Iterator[Start]:
    """Starts one for a topic of the sandbox; keywords are environment variables."""
    started: list[Ingesting] = []

    def start(
        topic: str, *words: str, at: str = HERE, servers: str | None = None, **more: str
    ) -> Ingesting:
        where = ["-b", servers or sandbox.bootstrap_servers]
        ingesting = Ingesting([at, f"kafka:{topic}", *words, *where], more)
        started.append(ingesting)
        return ingesting

    yield start
    for each in started:
        each.close()
