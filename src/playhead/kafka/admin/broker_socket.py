"""A connection to one broker through a socket, for the few requests that librdkafka lacks."""

import os
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, MissingPiece, Refused
from playhead.host.folders import exposed
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.admin.scram import HASHES, NotScram, Scram

T = TypeVar("T")
_HANDSHAKE, _AUTHENTICATE = 17, 36
_CLIENT = b"playhead"
_MOST_BYTES = 64 << 20
# The limit of an answer before the login.
_MOST_BYTES_OF_A_STRANGER = 64 << 10
_PIECE_BYTES = 256 << 10
"""A long answer has the whole time limit for each piece of this size: links are slow, and record batches large."""


class Wire:
    """An authenticated connection to one broker; `host_and_port` is the advertised address."""

    def __init__(
        self,
        connection: KafkaConnection,
        host_and_port: str,
        *,
        timeout_s: float,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        """Connect and log in; an answer of more than `most_bytes` is refused."""
        self._connection, self._address = connection, host_and_port
        self._correlation = 0
        self._timeout_s, self._most_bytes = timeout_s, _MOST_BYTES_OF_A_STRANGER
        self._deadline = time.monotonic() + timeout_s
        host, _, port = host_and_port.rpartition(":")
        host = host.strip("[]")
        with self._translated(), ExitStack() as stack:
            plain = _connected(host, int(port), self._deadline)
            self._socket = plain
            stack.callback(self.close)
            if connection.protocol.endswith("SSL"):
                self._socket = tls_context(connection).wrap_socket(plain, server_hostname=host)
            if connection.protocol.startswith("SASL"):
                self._log_in()
            self._most_bytes = most_bytes
            stack.pop_all()

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes, read: Callable[[Fields], T]) -> T:
        """Send one request and return what `read` makes of its answer."""
        self._deadline = time.monotonic() + self._timeout_s
        with self._translated():
            return read(Fields(self._ask(api, version, body), until=self._deadline))

    def ask_all(
        self, api: int, version: int, bodies: Sequence[bytes], read: Callable[[Fields], T]
    ) -> list[T]:
        """Send several requests before reading the first answer; return what `read` makes of each."""
        with self._translated():
            first, answers = self._correlation + 1, list[T]()
            self._deadline = time.monotonic() + self._timeout_s
            self._wait_at_most()
            self._socket.sendall(b"".join(self._request(api, version, each) for each in bodies))
            for number in range(len(bodies)):
                self._deadline = time.monotonic() + self._timeout_s
                answer = self._answer(first + number)
                answers.append(read(Fields(answer, until=self._deadline)))
            return answers

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        self._wait_at_most()
        self._socket.sendall(self._request(api, version, body))
        return self._answer(self._correlation)

    def _request(self, api: int, version: int, body: bytes) -> bytes:
        self._correlation += 1
        head = struct.pack(">hhih", api, version, self._correlation, len(_CLIENT)) + _CLIENT
        return struct.pack(">i", len(head) + len(body)) + head + body

    def _answer(self, correlation: int) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        if not 4 <= size <= self._most_bytes:
            raise OSError(f"an answer of {size:,} bytes, needed 4 to {self._most_bytes:,}")
        answer = self._read(size)
        if struct.unpack(">i", answer[:4]) != (correlation,):
            raise OSError("the answer to another request")
        return answer[4:]

    def _read(self, count: int) -> bytes:
        parts, left, enough = [], count, count - _PIECE_BYTES
        while left:
            if left <= enough:
                enough = left - _PIECE_BYTES
                self._deadline = time.monotonic() + self._timeout_s
            self._wait_at_most()
            part = self._socket.recv(min(left, 1 << 20))
            if not part:
                raise OSError("the broker closed the connection")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _wait_at_most(self) -> None:
        """Set the time limit to what is left: slow single bytes must not extend it."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no complete answer within {self._timeout_s:g} s")
        self._socket.settimeout(left_s)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        # A cluster may advertise impossible hosts and ports.
        except (BadAnswer, OSError, struct.error, ValueError, OverflowError) as exc:
            waited_s = round(time.monotonic() - began, 1)
            reason = str(exc) or type(exc).__name__
            raise BrokerUnavailable(self._address, waited_s=waited_s, reason=reason) from exc

    # --- login ------------------------------------------------------------------------------

    def _log_in(self) -> None:
        need_login(self._connection, needed_for=f"a direct request to {self._address}")
        mechanism = self._connection.mechanism or ""
        if Fields(self._ask(_HANDSHAKE, 1, text(mechanism))).int16():
            raise KafkaRefused("logging in", reason=f"the broker does not support {mechanism}")
        user, password = self._connection.username or "", self._connection.password or ""
        if mechanism == "PLAIN":
            self._authenticate(f"\0{user}\0{password}".encode())
        else:
            self._scram(mechanism, user, password)

    def _authenticate(self, token: bytes) -> bytes:
        answer = Fields(self._ask(_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token))
        code, said = answer.int16(), answer.text()
        if code:
            raise KafkaRefused("logging in", reason=said or f"error {code}")
        return answer.bytes_()

    def _scram(self, mechanism: str, user: str, password: str) -> None:
        scram = Scram(mechanism, user, password)
        try:
            challenge = self._authenticate(scram.first())
            scram.confirm(self._authenticate(scram.last(challenge)))
        except NotScram as exc:
            raise KafkaRefused("logging in", reason=str(exc)) from exc


def _connected(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of the host that answers: each has its share of the time that is left."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left, (family, kind, protocol, _, address) in zip(
        range(len(found), 0, -1), found, strict=True
    ):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(max((deadline - time.monotonic()) / left, 0.001))
            made.connect(address)
        except OSError:
            made.close()
            if left == 1:
                raise
        else:
            return made
    raise OSError(f"{host} has no address")


def need_login(connection: KafkaConnection, *, needed_for: str) -> None:
    """Refuse logins that only librdkafka supports."""
    mechanism = connection.mechanism
    if mechanism not in (None, "PLAIN", *HASHES):
        raise MissingPiece(
            "a login by PLAIN, SCRAM or a client certificate",
            needed_for=f"{needed_for}: only librdkafka supports the login {mechanism}, but it lacks this request",
            hint="use a supported login, or Kafka's own kafka-log-dirs and kafka-consumer-groups",
        )


def tls_context(connection: KafkaConnection) -> ssl.SSLContext:
    """Return the TLS settings of the connection: trusted certificates and our own."""
    context = ssl.create_default_context(
        cafile=connection.ca_location, cadata=connection.ca_pem or None
    )
    # Python sets it since 3.13, and librdkafka does not: it refuses what `openssl req -x509` makes.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = connection.verify_hostname
    certificate = connection.certificate_location, connection.certificate_pem
    if any(certificate):
        with tempfile.TemporaryDirectory(prefix="playhead-tls-") as folder:
            chain = _as_file(Path(folder) / "chain", *certificate)
            key = _as_file(Path(folder) / "key", connection.key_location, connection.key_pem)
            context.load_cert_chain(chain, key, connection.key_password)
    return context


def _as_file(path: Path, location: str | None, pem: str | None) -> str:
    """Yield a file for a PEM text, because Python reads certificates only from files."""
    if location is not None:
        return location
    if reason := exposed(path.parent):
        raise Refused(
            f"other users could put a file of theirs in the place of the client's key: {reason}",
            hint="set TMPDIR to a folder of your own",
        )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(pem or "")
    return str(path)


def text(value: str) -> bytes:
    """Encode a string for a request."""
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def array(items: Sequence[bytes]) -> bytes:
    """Encode an array of encoded fields."""
    return struct.pack(">i", len(items)) + b"".join(items)
