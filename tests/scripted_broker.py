"""A broker that answers what a test tells it to: for what no real one says, or not when it is wanted."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from playhead.capture.frames import Framer
from playhead.capture.protocol import read_head

Answer = Callable[[int, int, int, bytes], bytes | None]
"""From API, version, correlation and the whole frame to what is sent back; None says nothing."""


class ScriptedBroker:
    """Listens on a free port of this machine, for as many clients as come."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self.heard: list[bytes] = []
        self.ended = 0
        self._links: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self._door.close()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._door.accept()
            except OSError:
                return
            self._links.append(link)
            Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        framer = Framer()
        with link:
            while data := _received(link):
                for frame in framer.take(data):
                    self.heard.append(frame)
                    api, version, correlation = read_head(frame[4:])
                    said = self.answer(api, version, correlation, frame)
                    if said is not None:
                        with suppress(OSError):  # whoever asked may have been shown out
                            link.sendall(said)
        self.ended += 1

    @property
    def open_links(self) -> int:
        """How many clients have come and not gone."""
        return len(self._links) - self.ended


class Client:
    """A connection that sends frames and reads frames."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.link = socket.create_connection((host, port), 20)

    def ask(self, frame: bytes) -> bytes:
        """The next frame, or nothing when the connection is closed instead."""
        self.link.sendall(frame)
        return self.read()

    def read(self) -> bytes:
        head = self._read(4)
        return head + self._read(struct.unpack(">i", head)[0]) if len(head) == 4 else b""

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count and (part := _received(self.link, count - len(found))):
            found += part
        return found

    def close(self) -> None:
        self.link.close()


def _received(link: socket.socket, most: int = 1 << 16) -> bytes:
    try:
        return link.recv(most)
    except OSError:
        return b""
