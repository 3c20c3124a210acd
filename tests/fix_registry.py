"""A schema registry for tests, on Python's http.server: the calls of Confluent's that a decoder makes.

It is no real registry: it checks no compatibility and compiles nothing. What it answers, ids from 1 on,
guids, versions of subjects, error codes, `?format=serialized` for Protobuf, is as Confluent's own
answers; Confluent's Python client registered and wrote the records of `tests/golden/schemas` with it.
"""

import base64
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

_TEXT_OF_PROTO = 'syntax = "proto3"; // what a registry shows to people'


@dataclass
class TestRegistry:
    """What it holds, and what it was asked."""

    __test__ = False
    url: str = ""
    user: str | None = None
    """`name:password` that it wants, if any."""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failing: int = 0
    """So many of the next requests get a 500."""
    breaking: int = 0
    """So many of the next answers break off."""
    redirect_to: str | None = None
    is_other: bool = False
    """Whether it is some other server, which knows nothing of schemas."""

    def register(self, subject: str, document: dict[str, Any]) -> int:
        """The id of a schema; the same schema has the same one in every subject."""
        kept = {"schemaType": "AVRO", "references": []} | {
            key: document[key]
            for key in ("schema", "schemaType", "references")
            if document.get(key) is not None
        }
        if kept not in self.schemas:
            self.schemas.append(kept)
        number = self.schemas.index(kept) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def guid(self, number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(self.schemas[number - 1])))

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        form = parse_qs(parts.query).get("format", [""])[0]
        match [method, *words]:
            case ["GET", "schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self._shown(int(number), form)
            case ["GET", "schemas", "guids", guid]:
                for number in range(1, len(self.schemas) + 1):
                    if self.guid(number) == guid:
                        return 200, self._shown(number, form)
            case ["GET", "subjects", subject, "versions", version]:
                return self._version(subject, version, form)
            case ["POST", "subjects", subject, "versions"]:
                number = self.register(subject, json.loads(body))
                return 200, self._registered(subject, number)
            case ["POST", "subjects", subject]:
                return 200, self._registered(subject, self.register(subject, json.loads(body)))
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _registered(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return self.schemas[number - 1] | {
            "id": number,
            "guid": self.guid(number),
            "subject": subject,
            "version": version,
        }

    def _version(self, subject: str, version: str, form: str) -> tuple[int, dict[str, Any]]:
        held = self.subjects.get(subject)
        if held is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        index = len(held) if version == "latest" else int(version)
        if not 0 < index <= len(held):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = held[index - 1]
        return 200, self._registered(subject, number) | self._shown(number, form)

    def _shown(self, number: int, form: str) -> dict[str, Any]:
        """As Confluent's: no type for Avro, and a .proto file as text unless asked for otherwise."""
        shown = dict(self.schemas[number - 1]) | {"guid": self.guid(number)}
        if shown["schemaType"] == "AVRO":
            del shown["schemaType"]
        elif (
            shown["schemaType"] == "PROTOBUF"
            and form != "serialized"
            and "{" not in shown["schema"]
        ):
            shown["schema"] = _TEXT_OF_PROTO
        return shown


def _handler(registry: TestRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            registry.asked.append(self.path)
            login = self.headers.get("Authorization", "")
            if (
                registry.user
                and login != "Basic " + base64.b64encode(registry.user.encode()).decode()
            ):
                self._say(401, {"error_code": 401, "message": "Unauthorized"})
            elif registry.redirect_to is not None:
                self._say(302, {}, Location=registry.redirect_to)
            elif registry.is_other:
                self._say(404, {"message": "no such page"})
            elif registry.failing > 0:
                registry.failing -= 1
                self._say(500, {"error_code": 50001, "message": "Error in the backend"})
            else:
                self._say(*registry.answer(self.command, self.path, body))

        def _say(self, code: int, document: dict[str, Any], **headers: str) -> None:
            data = json.dumps(document).encode()
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            is_broken, registry.breaking = registry.breaking > 0, max(0, registry.breaking - 1)
            self.wfile.write(data[: len(data) // 2] if is_broken else data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    """A registry of this test's own, on loopback."""
    found = TestRegistry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(found))
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()
