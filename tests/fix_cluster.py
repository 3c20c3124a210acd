"""A real Spark cluster and a real Spark Connect server on loopback, as other people's would be."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from playhead.host.runtimes import find_java, find_spark_home
from playhead.sandbox.folder import free_port
from playhead.spark import jvm

_WITHIN_S = 60.0
_WORKERS = 2


@pytest.fixture(scope="session")
def java_home(servers_folder: Path) -> Path:
    """A JAVA_HOME whose `java` leaves out the module that a small runtime lacks.

    Spark's own launcher, which starts executors, always asks for it.
    """
    home = servers_folder / "java-home"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        'for a do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(find_java().program))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return home


@pytest.fixture(scope="session")
def cluster(java_home: Path, servers_folder: Path) -> Iterator[str]:
    """The address of a standalone master with two workers of one core each."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with _daemon("master", [*master, "--webui-port", str(free_port())], java_home, servers_folder):
        _await_port(port)
        workers = [
            _worker(number, address, java_home, servers_folder) for number in range(_WORKERS)
        ]
        with workers[0], workers[1]:
            yield address


def _worker(number: int, master: str, java_home: Path, folder: Path):  # type: ignore[no-untyped-def]
    words = ["org.apache.spark.deploy.worker.Worker", master, "--host", "127.0.0.1"]
    words += ["--cores", "1", "--memory", "600m", "--webui-port", str(free_port())]
    words += ["--work-dir", str(folder / f"work-{number}")]
    return _daemon(f"worker-{number}", words, java_home, folder)


@pytest.fixture(scope="session")
def connect_server(java_home: Path, servers_folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server."""
    port = free_port()
    with spark_connect(port, java_home, servers_folder):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def spark_connect(port: int, java_home: Path, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A Spark Connect server at this port, which may have had another one."""
    properties = {
        "spark.master": "local[1]",
        "spark.app.name": "connect server",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    words = ["org.apache.spark.sql.connect.service.SparkConnectServer"]
    with _daemon(f"connect-{port}", words, java_home, folder, properties) as process:
        _await_port(port)
        yield process


@contextmanager
def _daemon(
    name: str,
    words: list[str],
    java_home: Path,
    folder: Path,
    properties: dict[str, str] | None = None,
) -> "Iterator[subprocess.Popen[bytes]]":
    blueprint = jvm.blueprint_for("512m")
    options = [
        *blueprint.options,
        "-Xmx512m",
        *(f"-D{key}={value}" for key, value in (properties or {}).items()),
    ]
    class_path = os.pathsep.join(str(jar) for jar in blueprint.class_path)
    environment = os.environ | {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(find_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(java_home / "bin" / "java"), *options, "-cp", class_path, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(_WITHIN_S)


def _await_port(port: int) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")
