"""The sandbox's Kafka: one KRaft node, broker and controller in one process, on loopback."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

from playhead.errors import SandboxError
from playhead.host import jars
from playhead.host.faults import abort_point
from playhead.host.folders import opened, read_plain
from playhead.host.runtimes import Java, find_java
from playhead.sandbox.folder import (
    LOOPBACK,
    SandboxState,
    give,
    hand,
    move_aside,
    new_unfinished,
    within_reach,
)
from playhead.sandbox.process import Server, User, await_server, run_to_end, tail

_COORDINATOR_WITHIN_S = 30.0
_STOP_PATIENCE_S = 10.0

_LONGEST_META = 65_536

_JAVA_OPTIONS = (
    "-Xms96m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # Otherwise it would leave files in the temporary folder.
    "-XX:ErrorFile=crash-%p.log",
    "-Djava.awt.headless=true",
)
_LOGGING_FILE = "kafka.log4j2.yaml"
_LOGGING = """\
Configuration:
  status: error
  Appenders:
    RollingFile:
      name: file
      fileName: server.log
      filePattern: "server.log.%i"
      PatternLayout: {pattern: "%d %p %c{1} %m%n"}
      Policies: {SizeBasedTriggeringPolicy: {size: 10MB}}
      DefaultRolloverStrategy: {max: 3}
  Loggers:
    Root: {level: info, AppenderRef: {ref: file}}
"""


class Broker:
    """A Kafka broker with its data in `<sandbox>/kafka`."""

    title = "the Kafka broker"

    def __init__(self, directory: Path, *, user: User | None, extra: dict[str, str]) -> None:
        self.directory = directory / "kafka"
        self._user = user
        self._extra = extra
        # Visible in `ps`, and the marker of the process: it contains the folder.
        self.server = Server("kafka", self.directory, f"-Dplayhead.sandbox={self.directory}", user)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def _settings_file(self) -> Path:
        """Beside the server's own folder: root must not write where the servers' user can put a link."""
        return self.directory.with_name("kafka.properties")

    @property
    def log(self) -> Path:
        log = self.directory / "server.log"
        return log if log.exists() else self.server.output

    def prepare(self, memory: SandboxState) -> list[str]:
        """Format the log folder if there is no usable one; report what was wrong."""
        give(self.directory, self._user)
        data = self.data
        remarks = []
        if data.exists() and not _is_formatted(data, memory.cluster_id):
            aside = move_aside(data)
            remarks.append(
                f"Kafka's data folder was not usable (half formatted?); it is kept as {aside}"
            )
        if not data.exists():
            unfinished = new_unfinished(data)
            # Separate settings: an orphan of a killed `up` must not read ours.
            for left in self.directory.parent.glob("kafka.*.new.properties"):
                left.unlink(missing_ok=True)
            settings = self.directory.with_name(f"kafka.{unfinished.name}.properties")
            self._configure(memory, unfinished.name, settings)
            self._format(memory.cluster_id, settings)
            abort_point("sandbox.broker.formatted")
            settings.unlink()
            unfinished.rename(data)
        self._configure(memory, data.name, self._settings_file)
        return remarks

    def start(self) -> "subprocess.Popen[bytes]":
        command = self._java_command("kafka.Kafka", str(self._settings_file))
        process = self.server.spawn(command)
        abort_point("sandbox.broker.started")
        return process

    def wait_until_ready(
        self, memory: SandboxState, process: "subprocess.Popen[bytes] | None"
    ) -> None:
        """Return when *this* cluster answers metadata requests and transactions can begin."""
        await_server(self, process, lambda: _answers(memory))
        _load_coordinators(memory)

    def stop(self) -> bool:
        return self.server.stop(graceful=signal.SIGTERM, patience_s=_STOP_PATIENCE_S)

    def lost_its_port(self) -> bool:
        """Return whether the last start failed because another process took the port."""
        said = "\n".join(tail(self.log, 200) + tail(self.server.output, 200))
        return "Address already in use" in said or "BindException" in said

    def _configure(self, memory: SandboxState, data: str, file: Path) -> None:
        settings = _settings(memory, data) | self._extra
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        # A caller's own listener and ours are in one list.
        text = text.replace("{broker_port}", str(memory.broker_port))
        text = text.replace("{controller_port}", str(memory.controller_port))
        hand(file, text, self._user)
        hand(self.directory.with_name(_LOGGING_FILE), _LOGGING, self._user)

    def _format(self, cluster_id: str, properties: Path) -> None:
        command = self._java_command(
            "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)
        )
        run_to_end(
            "formatting Kafka's data folder", command, directory=self.directory, user=self._user
        )

    def _java_command(self, *arguments: str) -> list[str]:
        java, class_path = self._programs()
        options = [
            *_JAVA_OPTIONS,
            f"-Dlog4j2.configurationFile=../{_LOGGING_FILE}",
            # It unpacks libraries there to load them; a killed one leaves them.
            f"-Djava.io.tmpdir={self.directory}",
            self.server.marker,
        ]
        return [str(java), *options, "-cp", class_path, *arguments]

    def _programs(self) -> tuple[Path, str]:
        java: Java = find_java()
        files = jars.ensure("broker")
        home = (
            within_reach(java.home.parent, (java.home,), self.directory.parent, self._user)
            / java.home.name
        )
        folder = jars.jar_dir()
        folder = (
            within_reach(folder.parent, (folder,), self.directory.parent, self._user) / folder.name
        )
        return home / "bin" / "java", os.pathsep.join(str(folder / file.name) for file in files)


def _settings(memory: SandboxState, data: str) -> dict[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{memory.controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{memory.broker_port},"
        f"CONTROLLER://{LOOPBACK}:{memory.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{memory.broker_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # Relative to the working directory, so that no path is too long or has odd characters.
        "log.dirs": data,
        # A replay writes old timestamps; retention by time would delete them on arrival.
        "log.retention.ms": -1,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def _is_formatted(data: Path, cluster_id: str) -> bool:
    try:
        with opened(data.parent, data.name) as handle:
            text = read_plain("meta.properties", most=_LONGEST_META, folder=handle).decode()
    except (OSError, ValueError):
        return False
    return re.search(rf"^cluster\.id={re.escape(cluster_id)}$", text, re.MULTILINE) is not None


def _answers(memory: SandboxState) -> bool:
    """Return whether our own cluster answers: another broker may have the port meanwhile."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient(_client(memory))
    with contextlib.suppress(KafkaException):
        return bool(client.list_topics(timeout=1.0).cluster_id == memory.cluster_id)
    return False


def _load_coordinators(memory: SandboxState) -> None:
    """Load the transaction coordinator, so that the first transaction need not wait for it."""
    from confluent_kafka import KafkaException, Producer

    producer = Producer({**_client(memory), "transactional.id": "playhead-sandbox-ready"})
    try:
        producer.init_transactions(_COORDINATOR_WITHIN_S)
    except KafkaException as exc:
        raise SandboxError(
            f"the Kafka broker answers, but its transaction coordinator does not: {exc}",
            hint="run `playhead sandbox down`, then up again",
        ) from exc


def _client(memory: SandboxState) -> dict[str, object]:
    return {
        "bootstrap.servers": f"{LOOPBACK}:{memory.broker_port}",
        "client.id": "playhead-sandbox",
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
