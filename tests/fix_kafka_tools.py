"""Kafka's own command line tools, run from the jars that are locked for comparisons."""

import os
import subprocess
from collections.abc import Callable

import pytest

from playhead.host import jars
from playhead.host.runtimes import find_java
from playhead.sandbox import Endpoints

KafkaTool = Callable[..., "subprocess.CompletedProcess[bytes]"]
_PACKAGE = "org.apache.kafka.tools."
# A tool runs for a second or two: what a server's JVM would optimise is lost time.
_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@pytest.fixture(scope="session")
def kafka_tool(sandbox: Endpoints) -> KafkaTool:
    """Runs a tool by the name of its class on the run's broker; expects it to succeed unless told."""
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("tools"))
    java = str(find_java().program)

    def run(  # type: ignore[no-untyped-def]
        name: str, *words: str, stdin: bytes = b"", code: int = 0, servers: str | None = None
    ):
        tool = name if "." in name and name.startswith("kafka.") else _PACKAGE + name
        command = [java, *_OPTIONS, "-cp", class_path, tool]
        command += ["--bootstrap-server", servers or sandbox.bootstrap_servers, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
        assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
        return done

    return run
