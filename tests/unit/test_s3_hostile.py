"""An S3 endpoint that lies, drips or goes on for ever is an error of ours in time, and fills no memory."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from time import sleep

import pytest

from playhead import secrets
from playhead.errors import PlayheadError
from playhead.files.errors import Damaged, StoreFailed, StoreUnavailable
from playhead.files.stores import s3
from playhead.files.stores.s3 import S3Store
from playhead.files.stores.store import MOST_SMALL_BYTES
from playhead.host.threads import BackgroundCall
from tests.empty_listener import EmptyListener

ENDS_WITHIN_S, STARTS_WITHIN_S = 30.0, 30.0
PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>x</NextContinuationToken></ListBucketResult>"
)


class Hostile(BaseHTTPRequestHandler):
    """Has every object, with 20 GB; a list has always one more page."""

    protocol_version = "HTTP/1.1"
    is_over = False

    def do_HEAD(self) -> None:
        self._begin(200, 100 if "drip" in self.path else 20 << 30)

    def do_PUT(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if "list-type" in self.path and not self.is_over:
            self._begin(200, len(PAGE))
            self.wfile.write(PAGE.encode())
            return
        self._begin(404 if self.is_over else 206, 0 if self.is_over else 100)
        # Not after the test: the library waits for its end before it opens another store.
        while not self.is_over:
            self.wfile.write(b"x")
            sleep(0.5)
        self.close_connection = True

    def _begin(self, status: int, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True


@contextmanager
def served(kind: type["Hostile"]) -> Iterator[str]:
    """Run a server; yields its address, and waits for the calls that were left behind meanwhile.

    The library reads the environment in threads of C. While a later test changes it, that would be a crash.
    """
    before = set(enumerate_threads())
    handler = type(kind.__name__, (kind,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    handler.is_over = True
    for thread in set(enumerate_threads()) - before:
        if not thread.name.startswith("Thread-"):  # those of the server
            thread.join(ENDS_WITHIN_S)
            assert not thread.is_alive(), thread.name
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setattr(s3, "_ANSWER_WITHIN_S", 1.0, raising=False)
    monkeypatch.setattr(s3, "_LIST_WITHIN_S", 1.0, raising=False)
    monkeypatch.setattr(s3, "_LEAST_BYTES_A_SECOND", 1 << 30, raising=False)
    with served(Hostile) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        yield S3Store.at("s3://bucket/archive")


def test_a_file_that_is_too_large_is_not_read(store):
    """It was read whole: 20 GB for a file of 35 bytes."""
    with pytest.raises(Damaged, match=f"needed at most {MOST_SMALL_BYTES:,}"):
        store.read("_playhead/archive.json")


def test_a_file_in_drips_is_not_waited_for(store):
    read = BackgroundCall(lambda: store.read("drip"), name="read")
    assert read.is_over(10)
    with pytest.raises(StoreUnavailable, match="did not end within"):
        read.result()


def test_an_upload_whose_answer_comes_in_drips_is_not_waited_for(store):
    published = BackgroundCall(lambda: store.publish("drip", [b"records"]), name="publish")
    assert published.is_over(10)
    with pytest.raises(StoreUnavailable, match="did not end within"):
        published.result()


def test_a_list_without_an_end_is_not_waited_for(store):
    listed = BackgroundCall(lambda: store.files("ledger"), name="list")
    assert listed.is_over(10)
    with pytest.raises(StoreUnavailable, match="did not end within"):
        listed.result()


class Redirecting(Hostile):
    """Sends everyone to another server."""

    to = ""

    def do_HEAD(self) -> None:
        self.send_response(307)
        self.send_header("Location", f"http://{self.to}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def do_PUT(self) -> None:
        self.close_connection = True
        self.do_HEAD()


@pytest.mark.parametrize("region", [None, "us-east-1"])
def test_no_redirect_is_followed(monkeypatch, region):
    """The other server got the session token and the records."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    if region is not None:
        monkeypatch.setenv("AWS_REGION", region)
    with EmptyListener() as other, served(Redirecting) as address:
        monkeypatch.setattr(Redirecting, "to", other.address)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        store = S3Store.at("s3://bucket/archive")
        for ask in (
            lambda: store.read("_playhead/archive.json"),
            lambda: store.files("ledger"),
            lambda: store.publish("data", [b"records"]),
            store.look,
        ):
            with pytest.raises(StoreFailed, match="redirects to another address"):
                ask()
        assert other.brought() == []


class Repeating(Hostile):
    """Refuses everyone, and repeats the token that came with the question."""

    def do_GET(self) -> None:
        said = f"<Error><Code>{self.code}</Code><Message>not by {self.token}</Message></Error>"
        self._begin(403, len(said))
        self.wfile.write(said.encode())

    @property
    def code(self) -> str:
        return "AccessDenied" if "denied" in self.path else "Other"

    @property
    def token(self) -> str:
        return self.headers["x-amz-security-token"]


@pytest.mark.parametrize("folder", ["denied", "other"])
@pytest.mark.parametrize(
    "place", ["environment", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "home"]
)
def test_a_session_token_that_a_server_repeats_is_hidden(tmp_path, monkeypatch, folder, place):
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    held = {name: f"{name.lower()}-of/{place}/{folder}" for name in names}
    for name in (*names, "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".aws" / "credentials"
    file.parent.mkdir()
    if place == "environment":
        for name, value in held.items():
            monkeypatch.setenv(name, value)
    else:
        lines = [f"{name.lower()} = {value}" for name, value in held.items()]
        file.write_text("\n".join(["[default]", *lines, ""]))
        if place != "home":
            monkeypatch.setenv(place, str(file.rename(tmp_path / "elsewhere")))
    with served(Repeating) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        with pytest.raises(PlayheadError, match=f"-of/{place}") as refused:
            S3Store.at("s3://bucket/archive").files(folder)
    assert held["AWS_SESSION_TOKEN"] in str(refused.value)
    assert place not in secrets.redact(str(refused.value))


class Moving(Hostile):
    """Says that the bucket is in a region of a long name: the library asks again and again."""

    is_asked, is_answered = Event(), Event()

    def do_HEAD(self) -> None:
        self.is_asked.set()
        self.send_response(404 if self.is_over else 400)
        if self.is_over:
            self.is_answered.set()
        else:
            self.send_header("x-amz-bucket-region", "a-region-that-is-nowhere")
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize("asked", [S3Store.look, lambda store: store.remove("terms")])
def test_a_question_that_is_asked_for_ever_is_not_waited_for(store, monkeypatch, asked):
    Moving.is_answered.clear()
    with served(Moving) as address:
        monkeypatch.delenv("AWS_REGION")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        moved = S3Store.at("s3://bucket/archive")
        asking = BackgroundCall(lambda: asked(moved), name="ask")
        assert asking.is_over(10)
        with pytest.raises(StoreUnavailable, match="did not end within"):
            asking.result()
        # Otherwise the library would wait for the answer at the end of this process.
        monkeypatch.setattr(Moving, "is_over", True)
        assert Moving.is_answered.wait(ENDS_WITHIN_S)


COMMAND = """
import sys
from playhead.cli import start
from playhead.files.stores import s3
s3._ANSWER_WITHIN_S, s3._LEAST_BYTES_A_SECOND = float(sys.argv.pop(1)), 1 << 30
start.main()
"""


def command_at(address: str, *, within_s: float) -> "subprocess.Popen[str]":
    """Start a command that reads an archive of this server."""
    logins = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "any")
    ends = ("parquet:s3://bucket/archive", "kafka:copy", "-b", "127.0.0.1:1", "--dry-run")
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(within_s), "replay", *ends],
        env=os.environ | logins | {"AWS_ENDPOINT_URL": f"http://{address}"},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_command_that_waited_long_enough_ends():
    """It said so and stayed: Arrow waits at the end of a process for its calls."""
    with served(Moving) as address:
        command = command_at(address, within_s=1.0)
        try:
            _, said = command.communicate(timeout=ENDS_WITHIN_S)
        finally:
            command.kill()
    assert command.returncode == 1
    assert "did not end within 1 s" in said


def test_sigterm_ends_a_command_that_waits_for_s3():
    Moving.is_asked.clear()
    with served(Moving) as address:
        command = command_at(address, within_s=600.0)
        try:
            assert Moving.is_asked.wait(STARTS_WITHIN_S)
            command.terminate()
            _, said = command.communicate(timeout=ENDS_WITHIN_S)
        finally:
            command.kill()
    assert (command.returncode, said) == (143, "terminated\n")
