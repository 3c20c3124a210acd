"""Files in S3 or a compatible store: an object appears when its upload is complete."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import SplitResult, urlsplit

from pyarrow import fs

from playhead import secrets
from playhead.config import exposed_logins
from playhead.errors import BadValue
from playhead.files.errors import AccessDenied, NoSuchBucket, StoreFailed, StoreUnavailable
from playhead.files.stores.store import MOST_SMALL_BYTES, Piece, expect_size
from playhead.host import named_files, paths
from playhead.host.threads import call_within

_SCHEME = "s3://"
_READERS = 16
_CONNECT_S, _REQUEST_S = 5.0, 60.0
# The library tries three times, and a server that sends single bytes exceeds the time of any try. A
# list may also go on for ever: each thousand files name the next ones.
_ANSWER_WITHIN_S, _LIST_WITHIN_S = 4 * _REQUEST_S, 300.0
_LEAST_BYTES_A_SECOND = 100_000
_CALL = "the answer of S3"
_ENVIRONMENT = "the environment"
_YES = ("1", "true", "yes", "on")
_OF_CREDENTIALS = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
_CREDENTIAL = re.compile(r"(?im)^\s*aws_(?:secret_access_key|session_token)\s*=\s*(\S+)")
_USUAL_REGION = "us-east-1"
# The region of the same signatures in which AWS's library follows no redirect. It has no other switch, and
# Arrow none at all.
_WITHOUT_REDIRECTS = "aws-global"

_CODE = re.compile(r"AWS Error (?P<code>[A-Z_0-9]+)(?: \(HTTP status (?P<status>\d+)\))?")
_AWAY = {
    "NETWORK_CONNECTION",
    "REQUEST_TIMEOUT",
    "REQUEST_EXPIRED",
    "SERVICE_UNAVAILABLE",
    "SLOW_DOWN",
    "THROTTLING",
    "INTERNAL_FAILURE",
}
_DENIED = {
    "ACCESS_DENIED",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "MISSING_AUTHENTICATION_TOKEN",
    "UNRECOGNIZED_CLIENT",
}


@dataclass(frozen=True, slots=True)
class S3Store:
    """A bucket and a prefix in it; without locks, and without partial objects."""

    base: str
    """`bucket/prefix`, as Arrow takes it."""
    file_system: fs.S3FileSystem

    @classmethod
    def at(cls, root: str) -> "S3Store":
        """Return the store at an address, with credentials from the places that the AWS command line uses."""
        base = root.removeprefix(_SCHEME)
        with _translated(root):
            return cls(base, _file_system(base.partition("/")[0]))

    @property
    def identity(self) -> str:
        return f"{_SCHEME}{self.base}"

    @property
    def excludes(self) -> bool:
        return False

    def read(self, path: str, /, most: int = MOST_SMALL_BYTES) -> bytes | None:
        where = f"{self.identity}/{path}"
        with _translated(where), suppress(FileNotFoundError):
            return call_within(partial(self._read, path, where, most), _within_s(most), name=_CALL)
        return None

    def _read(self, path: str, where: str, most: int) -> bytes:
        with self.file_system.open_input_file(f"{self.base}/{path}") as file:
            size = file.size()
            expect_size(where, size, most)
            data: bytes = file.read(size)
        return data

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        with ThreadPoolExecutor(_READERS) as threads:
            return list(threads.map(self.read, paths))

    def publish(
        self, path: str, pieces: Sequence[Piece], /, aside: Callable[[], None] = lambda: None
    ) -> None:
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        published = partial(self._publish, path, data, aside)
        with _translated(f"{self.identity}/{path}"):
            call_within(published, _within_s(len(data)), name=_CALL)

    def _publish(self, path: str, data: Piece, aside: Callable[[], None]) -> None:
        # One write: leaving the stream between two, by any exception, would complete the upload of
        # a part.
        stream = self.file_system.open_output_stream(f"{self.base}/{path}")
        stream.write(data)
        aside()
        stream.close()

    def remove(self, path: str, /) -> None:
        removed = partial(self.file_system.delete_file, f"{self.base}/{path}")
        with _translated(f"{self.identity}/{path}"), suppress(FileNotFoundError):
            call_within(removed, _LIST_WITHIN_S, name=_CALL)

    def files(self, folder: str, /) -> Sequence[str]:
        return [*self.sizes(folder)]

    def sizes(self, folder: str, /) -> Mapping[str, int]:
        return {
            each.path.removeprefix(f"{self.base}/"): each.size
            for each in self._listed(folder, recursive=True)
            if each.type == fs.FileType.File
        }

    def settle(self, folders: Sequence[str], /) -> None:
        """Do nothing: an object that is visible is durable."""

    def folders(self, folder: str, /) -> Sequence[str]:
        return sorted(
            each.path.removeprefix(f"{self.base}/")
            for each in self._listed(folder, recursive=False)
            if each.type == fs.FileType.Directory
        )

    def alone(self, folder: str, /, *others: str) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def held(self, replay_id: str, folder: str, /) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def look(self) -> tuple[bool, int | None]:
        looked = partial(self.file_system.get_file_info, self.base.partition("/")[0])
        with _translated(self.identity):
            found: fs.FileInfo = call_within(looked, _LIST_WITHIN_S, name=_CALL)
        if found.type == fs.FileType.NotFound:
            raise NoSuchBucket(self.identity)
        return True, None

    def _listed(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        top = f"{self.base}/{folder}".rstrip("/")
        with _translated(f"{self.identity}/{folder}"):
            selector = fs.FileSelector(top, recursive=recursive, allow_not_found=True)
            listed = partial(self.file_system.get_file_info, selector)
            found: list[fs.FileInfo] = call_within(listed, _LIST_WITHIN_S, name=_CALL)
        return found


def _within_s(size: int) -> int:
    return round(_ANSWER_WITHIN_S + size / _LEAST_BYTES_A_SECOND)


def _file_system(bucket: str) -> fs.S3FileSystem:
    environment = os.environ
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    where = _endpoint(endpoint) if endpoint else None
    _remember_credentials()
    if region is None and where is None:
        region = fs.resolve_s3_region(bucket)
    is_anonymous = environment.get("AWS_NO_SIGN_REQUEST", "").lower() in _YES
    if where is not None and not is_anonymous:
        exposed_logins.of_http("what is said to S3, with any session token,", where.geturl())
    return fs.S3FileSystem(
        anonymous=is_anonymous,
        region=_signing_region(region, has_endpoint=where is not None),
        scheme=where.scheme if where else "https",
        endpoint_override=where.netloc + where.path.rstrip("/") if where else None,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        # One request for a small object, instead of three for an upload in parts.
        allow_delayed_open=True,
    )


def _remember_credentials() -> None:
    """Redact from now on what AWS's library reads and sends by itself: a server may repeat it in an error."""
    for variable in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        secrets.remember(os.environ.get(variable, ""))
    for variable, usual in _OF_CREDENTIALS.items():
        # The files name programs too that provide credentials; a clone may have files of these names.
        file = paths.of_variable(variable) or paths.at_home(usual)
        with suppress(OSError):
            for value in _CREDENTIAL.findall(named_files.text_of(file, errors="replace")):
                secrets.remember(value)


def _signing_region(region: str | None, *, has_endpoint: bool) -> str:
    """Return the region for Arrow; with an endpoint of the user's, one in which it stays at that address.

    Another server would get the session token and the records, and what is read would be its.
    """
    if has_endpoint and region in (None, "", _USUAL_REGION):
        return _WITHOUT_REDIRECTS
    return region or _USUAL_REGION


def _endpoint(text: str) -> SplitResult:
    """Return the parts of an endpoint's URL; refuse one with a login, because credentials are
    configured elsewhere.
    """
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    has_login = "@" in parts.netloc or secrets.is_behind_host(parts)
    if parts.scheme not in ("http", "https") or not parts.hostname or has_login:
        needed = "https://host:port, without a login"
        found = secrets.shown_address(text)
        raise BadValue("AWS_ENDPOINT_URL", found=found, needed=needed, where=_ENVIRONMENT)
    return parts


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StoreUnavailable(where, reason=str(error)) from error
    except OSError as error:
        raise _translation(where, str(error)) from error


def _translation(
    where: str, reason: str
) -> StoreUnavailable | AccessDenied | NoSuchBucket | StoreFailed:
    match = _CODE.search(reason)
    code = match["code"] if match else ""
    status = match["status"] if match and match["status"] else ""
    if code in _AWAY or status.startswith("5") or status == "429":
        return StoreUnavailable(where, reason=reason)
    if code in _DENIED or status in ("401", "403"):
        return AccessDenied(where, reason=reason)
    if code == "NO_SUCH_BUCKET":
        return NoSuchBucket(where)
    if status.startswith("3"):
        reason = (
            f"the server redirects to another address, which is not followed (HTTP status {status})"
        )
    return StoreFailed(where, reason=reason)
