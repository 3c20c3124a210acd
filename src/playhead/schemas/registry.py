"""A client of a schema registry with Confluent's REST API, which requests each schema once."""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from typing import Any, Generic, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from playhead import secrets
from playhead.config import exposed_logins
from playhead.errors import BadValue, PlayheadError, Unavailable
from playhead.host.cuttable_links import CuttableLinks
from playhead.host.threads import call_within
from playhead.schemas.schema_id import SchemaId

_WITHIN_S = 10.0
_WHOLE_WITHIN_S = 60.0
_TRIES = 3
_PAUSE_S = 0.3
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# A registry keeps a schema in one record of a topic, which has a megabyte; and a parsed one takes ten
# to thirty times its text.
_MOST_BYTES = 8 << 20
_MOST_KEPT = 32 << 20
_SMALLEST = 1_000
MOST_REFERENCES = 300
"""Of a schema to others, as deep as they can be followed, one through the other."""
_MOST_UNKNOWN = 1_000
"""An author of records decides how many unknown ids there are."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key; beyond the limit, what was kept first goes first."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._values: dict[K, V] = {}
        self._sizes: dict[K, int] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def keep(self, key: K, value: V, size: int) -> None:
        """Keep a value that is new; one that is larger than the limit is kept alone."""
        while self._values and self._size + size > self._most:
            oldest = next(iter(self._values))
            del self._values[oldest]
            self._size -= self._sizes.pop(oldest)
        self._values[key], self._sizes[key] = value, size
        self._size += size


class RegistryUnavailable(Unavailable):
    """The schema registry does not answer."""

    def __init__(self, url: str, *, reason: str) -> None:
        # A server may say what it was sent, and the text may become a part of a dead letter or a plan.
        self.url, self.reason = url, secrets.redact(reason)
        super().__init__(
            f"no schema registry answered at {url}: {self.reason}",
            hint="check --schema-registry or SCHEMA_REGISTRY_URL, and the server",
        )


class RegistryRefused(PlayheadError):
    """The schema registry refused the request."""

    def __init__(self, url: str, *, asked: str, reason: str, hint: str | None = None) -> None:
        self.url, self.asked, self.reason = url, secrets.redact(asked), secrets.redact(reason)
        text = f"the schema registry at {url} has no {self.asked}: {self.reason}"
        super().__init__(text, hint=hint)


class UnknownSchema(RegistryRefused):
    """The schema registry has no such schema, or one that is too large to be parsed: its records cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of a schema to another, with the name it uses."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its type in the registry's word, and its references."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()

    @property
    def size(self) -> int:
        """Return about how many bytes it is, without what it refers to."""
        return _SMALLEST + len(self.text)


@dataclass(slots=True)
class Registry:
    """A registry at an address, which may contain a user and a password; answers are cached."""

    url: str
    _base: str = field(init=False)
    _login: str | None = field(init=False)
    _known: Kept[str, Schema] = field(default_factory=lambda: Kept(_MOST_KEPT), init=False)
    _unknown: dict[str, UnknownSchema] = field(default_factory=dict, init=False)
    """The latest refusals."""

    def __post_init__(self) -> None:
        parts = _address(self.url)
        place = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self._login = None
        if parts.username is not None:
            # In the process of a task, no other code has read this address.
            secrets.without_password(self.url)
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = base64.b64encode(pair.encode()).decode()
            self._login = f"Basic {secrets.remember(encoded)}"
            exposed_logins.of_http("the login to the schema registry", self.url)

    def schema(self, schema_id: SchemaId) -> Schema:
        """Return the schema with this id."""
        if schema_id.guid is not None:
            return self._ask(f"schemas/guids/{schema_id.guid}", f"schema {schema_id}")
        return self._ask(f"schemas/ids/{schema_id.number}", f"schema {schema_id}")

    def referred(self, reference: Reference) -> Schema:
        """Return the schema of a reference."""
        asked = f"version {reference.version} of {reference.subject}"
        return self._ask(_path(reference), asked)

    def whole_size(self, schema: Schema) -> int:
        """Return about how many bytes a schema is with all that it refers to, as far as that was asked for."""
        size, waiting, seen = 0, [schema], set[str]()
        while waiting:
            each = waiting.pop()
            size += each.size
            paths = {_path(reference) for reference in each.references} - seen
            seen |= paths
            waiting += [known for path in paths if (known := self._known.get(path)) is not None]
        return size

    def _ask(self, path: str, asked: str) -> Schema:
        if (unknown := self._unknown.get(path)) is not None:
            raise unknown.with_traceback(None)
        if (known := self._known.get(path)) is None:
            try:
                known = self._fetched(path, asked)
                self._known.keep(path, known, known.size)
            except UnknownSchema as exc:
                self._unknown[path] = exc
                if len(self._unknown) > _MOST_UNKNOWN:
                    del self._unknown[next(iter(self._unknown))]
                raise
        return known

    def _fetched(self, path: str, asked: str) -> Schema:
        said = self._get(path, asked)
        kind = str(said.get("schemaType") or "AVRO")
        if kind == "PROTOBUF":
            # Compiled if the registry supports it; else the text of a .proto file.
            joined = "&" if "?" in path else "?"
            said = self._get(f"{path}{joined}format=serialized", asked)
        try:
            references = tuple(map(_reference, said.get("references") or ()))
            return Schema(kind, _text(said["schema"]), references)
        except (TypeError, ValueError, KeyError) as exc:
            raise RegistryRefused(
                self._base, asked=asked, reason="the answer has no schema"
            ) from exc

    def _get(self, path: str, asked: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._base}/{path}", headers=self._headers())  # noqa: S310  checked above
        deadline = time.monotonic() + _WHOLE_WITHIN_S
        for tried in range(1, _TRIES + 1):
            try:
                left_s = deadline - time.monotonic()
                return self._document(_body_within(request, left_s, name=f"GET {path}"), asked)
            except _Refusal as exc:
                if exc.status < HTTPStatus.INTERNAL_SERVER_ERROR or _is_last(tried, deadline):
                    raise self._refusal(exc, asked) from exc
            except (OSError, HTTPException) as exc:
                if _is_last(tried, deadline):
                    reason = str(getattr(exc, "reason", "") or exc) or type(exc).__name__
                    raise RegistryUnavailable(self._base, reason=reason) from exc
            time.sleep(_PAUSE_S)
        raise AssertionError("the last try returned or raised")

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        return headers if self._login is None else headers | {"Authorization": self._login}

    def _document(self, body: bytes, asked: str) -> dict[str, Any]:
        if len(body) > _MOST_BYTES:
            # Who registers schemas decides this, as the author of a record decides its id.
            reason = f"the answer has more than {_MOST_BYTES >> 20} MiB"
            raise UnknownSchema(self._base, asked=asked, reason=reason)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise RegistryRefused(self._base, asked=asked, reason="the answer is not JSON") from exc
        if not isinstance(found, dict) or "schema" not in found:
            raise RegistryRefused(self._base, asked=asked, reason="the answer has no schema")
        return found

    def _refusal(self, exc: "_Refusal", asked: str) -> PlayheadError:
        code, status = exc.code, exc.status
        reason = f"{exc.said} (HTTP {status})"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
            return RegistryUnavailable(self._base, reason=reason)
        if status == HTTPStatus.NOT_FOUND and code is not None:
            hint = "another registry may have written it, or the bytes have another form"
            return UnknownSchema(self._base, asked=asked, reason=reason, hint=hint)
        hints: dict[int, str] = {
            HTTPStatus.UNAUTHORIZED: "write the address as https://${SR_USER}:${SR_PASSWORD}@host",
            HTTPStatus.FORBIDDEN: "this user must not read it: it needs the right to read schemas",
            HTTPStatus.NOT_FOUND: "the address may be incomplete, or not a schema registry's",
        }
        return RegistryRefused(self._base, asked=asked, reason=reason, hint=hints.get(status))


class _Refusal(Exception):
    """A registry answered with an error: its status, and what its body says."""

    def __init__(self, status: int, code: int | None, said: str) -> None:
        self.status, self.code, self.said = status, code, said
        super().__init__(said)


def _path(reference: Reference) -> str:
    # Schemas deleted since are still needed for the bytes.
    subject = quote(reference.subject, safe="")
    return f"subjects/{subject}/versions/{reference.version}?deleted=true"


def _address(url: str) -> SplitResult:
    """Return the parts of a registry's URL; errors do not contain its login."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:
        parts, host = urlsplit(""), b""
    # Python cannot send another path, and that would look like a fault of each record.
    is_plain = (parts.path + parts.query).isascii()
    is_web = parts.scheme in ("http", "https") and host
    if not (is_web and is_plain) or secrets.is_behind_host(parts):
        found = secrets.shown_address(url)
        needed = "https://host:port"
        hint = "in a login write %2F for /, %3F for ?, %23 for #; in a path %40 for @, %C3%A9 for é"
        raise BadValue(
            "schema_registry", found=found, needed=needed, where="the settings", hint=hint
        )
    return parts


def _is_last(tried: int, deadline: float) -> bool:
    """Whether there is no further try, or no time for it."""
    return tried == _TRIES or time.monotonic() + _PAUSE_S >= deadline


def _body_within(request: urllib.request.Request, seconds: float, *, name: str) -> bytes:
    links = CuttableLinks()
    try:
        # A server that sends single bytes would exceed the time of any single wait.
        return call_within(lambda: _body(request, links), seconds, name=name)
    finally:
        links.cut()


def _body(request: urllib.request.Request, links: CuttableLinks) -> bytes:
    handlers: list[Any] = [_NoRedirects, *links.handlers()]
    if not exposed_logins.is_elsewhere([urlsplit(request.full_url).hostname or ""]):
        # A proxy has no business with servers of this machine, and would get the login.
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_WITHIN_S) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
            # Python does not say it of a read with a limit.
            if answer.length and len(body) <= _MOST_BYTES:
                raise IncompleteRead(body, answer.length)
    except urllib.error.HTTPError as exc:
        with exc:  # Its body is read here too, within the same time.
            raise _Refusal(exc.code, *_said(exc)) from exc
    return body


def _reference(said: Mapping[str, Any]) -> Reference:
    version = said["version"]
    if type(version) is not int:
        raise TypeError("a version is a number")
    return Reference(_text(said["name"]), _text(said["subject"]), version)


def _text(said: object) -> str:
    if not isinstance(said, str):
        raise TypeError("needed a text")
    said.encode()  # A lone surrogate is not text.
    return said


def _said(exc: urllib.error.HTTPError) -> tuple[int | None, str]:
    """Return a registry's own error number, which other servers lack, and its text."""
    try:
        return error_in(exc.read(1 << 16))
    except (OSError, ValueError, HTTPException):
        return None, str(exc.reason)


def error_in(body: bytes) -> tuple[int, str]:
    """Return the number and the text of an error in a registry's form; ValueError for any other body."""
    try:
        document = json.loads(body)
        return int(document["error_code"]), str(document["message"])
    # Python reads 1e999 as an infinity, of which no number can be made.
    except (OverflowError, KeyError, TypeError, RecursionError) as exc:
        raise ValueError("the body has no error of a registry") from exc


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because a registry could send our password elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None
