"""Builds the document of captured traffic for a request and its response."""

import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from playhead.capture.decode import decoded, response_at
from playhead.capture.decode_records import MEMORY_BYTES, Bounds, Document, undecoded
from playhead.capture.frames import SIZE_BYTES
from playhead.capture.protocol import (
    Side,
    constant_of,
    name_of,
    read_header,
    shape_of,
)
from playhead.unpacking import Malformed
from playhead.version import __version__

# These requests contain credentials or may contain a password: only the name and the size are recorded.
_NAMES_WITHHELD: Final = frozenset(
    {
        "SaslAuthenticate",
        "AlterUserScramCredentials",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
        "AlterConfigs",
        "IncrementalAlterConfigs",
    }
)
# The longest name that Kafka allows, and more topics than most clusters have: some ten megabytes.
_LONGEST_NAME: Final = 249
_MOST_NAMES: Final = 100_000
_UNKNOWN: Final = "undefined"
_NS: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Connection:
    """A client's connection to a broker through the proxy."""

    number: int
    broker: str
    """The broker's address, as the cluster advertises it."""
    begun_ns: int
    connected_ns: int
    client_host: str
    client_port: int
    broker_host: str
    broker_port: int


class Captured(NamedTuple):
    """A request and its response as forwarded, each with its length in front."""

    connection: int
    at_ns: int
    took_ns: int
    request: bytes
    response: bytes
    """The response; empty if there was none."""
    request_bytes: int
    response_bytes: int
    was_awaited: bool
    """Whether the client expects a response."""


@cache
def is_withheld(api: int) -> bool:
    """Return whether only name and size of the request may be recorded."""
    return name_of(api) in _NAMES_WITHHELD


class Topics:
    """Topic names by topic id, as far as responses contained both.

    Requests do not count: a client could give a topic the name of one that is recorded.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, document: Document) -> None:
        for topic in document.get("topics", ()):
            name, key = topic.get("name"), topic.get("topicId")
            if not name or not key or len(name) > _LONGEST_NAME:
                continue
            if key not in self._names and len(self._names) >= _MOST_NAMES:
                del self._names[next(iter(self._names))]
            self._names[key] = name

    def name(self, document: Document) -> None:
        """Add the names to topic ids without a name."""
        for topic in document.get("topics", ()):
            known = self._names.get(topic.get("topicId", ""))
            if known and not topic.get("name"):
                topic["name"] = known


class Described(NamedTuple):
    """A document of captured traffic, and the reasons why parts of it could not be decoded."""

    document: Document
    reasons: list[str]
    content_bytes: int
    """Bytes of the pair, and of what its records decompress to."""


class Describer:
    """Builds the documents of pairs in order; remembers connections and topics."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes, self._content_bytes = memory_bytes, 0
        self.connections: dict[int, Connection] = {}
        self._topics = Topics()
        self._sequence = 0

    def describe(self, found: Captured) -> Described:
        request = found.request[SIZE_BYTES:]
        header = read_header(request)
        reasons: list[str] = []
        self._content_bytes = len(found.request) + len(found.response)
        kafka: Document = {
            "request": {
                **_identity(header.api, header.version, header.correlation, header.client),
                "size": found.request_bytes,
            }
        }
        if found.response_bytes:
            kafka["response"] = {
                "correlationId": header.correlation,
                "size": found.response_bytes,
            }
        if not is_withheld(header.api):
            self._put(
                kafka["request"],
                (header.api, header.version, "request"),
                (request, header.body_at),
                reasons,
            )
            if found.response:
                response = found.response[SIZE_BYTES:]
                at = response_at(header.api, header.version, response)
                self._put(
                    kafka["response"],
                    (header.api, header.version, "response"),
                    (response, at),
                    reasons,
                )
        self._sequence += 1
        document = self._envelope(found, header.api, header.client, kafka)
        return Described(document, reasons, self._content_bytes)

    def _put(
        self,
        into: Document,
        what: tuple[int, int, Side],
        where: tuple[bytes, int],
        reasons: list[str],
    ) -> None:
        """Add the fields under Kafka's name for them, or all bytes if they do not match their schema."""
        (api, version, side), (frame, at) = what, where
        bounds = Bounds.of(len(frame), self._memory_bytes)
        most = bounds.unpacked_bytes
        try:
            fields, found = decoded(api, version, side, frame, at, bounds)
        except Malformed as exc:
            reasons.append(f"{side}: {exc}")
            into["undecoded"] = undecoded(frame[at:], str(exc))
            return
        self._content_bytes += most - bounds.unpacked_bytes
        reasons += [f"{side}: {reason}" for reason in found]
        if side == "response":
            self._topics.learn(fields)
        self._topics.name(fields)
        into[shape_of(api, side, version).name] = fields

    def _envelope(self, found: Captured, api: int, client: str | None, kafka: Document) -> Document:
        connection = self.connections[found.connection]
        service = client or _UNKNOWN
        document: Document = {
            "msgType": "rrpair",
            "resource": service,
            "ts": moment(found.at_ns),
            "l7protocol": "kafka",
            "duration": found.took_ns // _NS_PER_MS,
            "tags": {
                "captureMode": "proxy",
                "proxyLocation": "out",
                "proxyProtocol": "tcp:kafka",
                "proxyVersion": f"playhead {__version__}",
                "sequence": str(self._sequence),
                "source": "playhead",
            },
            "uuid": b64encode(os.urandom(16)).decode(),
            "direction": "OUT",
            "cluster": _UNKNOWN,
            "namespace": _UNKNOWN,
            "service": service,
            "tech": "Kafka",
            "network_address": connection.broker,
            "command": name_of(api),
            "location": "N/A",
            "status": "NO RESPONSE" if found.was_awaited and not found.response_bytes else "OK",
            "wireformatSize": found.request_bytes + found.response_bytes,
            "kafka": kafka,
            "netinfo": _netinfo(connection, found),
        }
        if not document["duration"]:
            del document["duration"]
        return document


def _identity(api: int, version: int, correlation: int, client: str | None) -> Document:
    known: Document = {"apiKey": constant_of(api), "apiVersion": version}
    if client:
        known["clientId"] = client
    return known | {"correlationId": correlation}


def _netinfo(connection: Connection, found: Captured) -> Document:
    return {
        "id": str(connection.number),
        "startTime": moment(connection.begun_ns),
        "downstream": {
            "established": moment(connection.begun_ns),
            "ipAddress": connection.client_host,
            "port": connection.client_port,
            "bytesSent": str(found.request_bytes),
        },
        "upstream": {
            "established": moment(connection.connected_ns),
            "ipAddress": connection.broker_host,
            "port": connection.broker_port,
            "hostname": connection.broker.rpartition(":")[0].strip("[]"),
            "bytesSent": str(found.response_bytes),
        },
    }


def moment(at_ns: int) -> str:
    """`2026-03-02T10:00:00.012345678Z`."""
    seconds, rest = divmod(at_ns, _NS)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def partitions_of(document: Document) -> Iterator[tuple[str | None, Document]]:
    """Yield every partition in a pair, with the name of its topic."""
    kafka: dict[str, Any] = document["kafka"]
    for side in ("request", "response"):
        for fields in kafka.get(side, {}).values():
            if isinstance(fields, dict):
                for topic in fields.get("topics", ()):
                    for partition in topic.get("partitions", ()):
                        if isinstance(partition, dict):
                            yield topic.get("name"), partition
