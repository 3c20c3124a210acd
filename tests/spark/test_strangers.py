"""Who is on this machine too finds every door of a running engine closed, and nothing lying about."""

import contextlib
import os
import re
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.read.source import KafkaSource
from playhead.postgres.target import PostgresTarget
from playhead.record import Slice
from playhead.sandbox.folder import free_port
from playhead.spark import closed_ports, process_habits, run, session
from playhead.spark.task_secrets import Handover, handing
from playhead.task.job import Job
from playhead.task.slicer import Filter
from playhead.transform.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY = 65534
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
_LISTENS = "0A"
_PATIENCE_S = 1.0
# Spark's wire: a frame's length, its kind, and of a request its number and the length of its body.
_REQUEST, _RESPONSE = 3, 4


def listeners(*pids: int) -> dict[int, str]:
    """The ports on which processes listen, with the addresses as the kernel writes them."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            address, port = words[1].split(":")
            if words[3] == _LISTENS and words[9] in inodes:
                found[int(port, 16)] = address
    return found


def _sockets(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = link.readlink() if link.is_symlink() else ""
        with_number = re.fullmatch(r"socket:\[(\d+)\]", str(target))
        if with_number:
            yield with_number[1]


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for task in children.parent.parent.iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def answer(port: int, said: bytes) -> bytes:
    """All that a port says to it until it hangs up, or for a while."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as stranger:
        try:
            stranger.sendall(said)
            while more := stranger.recv(65_536):
                heard += more
        except OSError:
            pass
    return heard


def request(body: bytes) -> bytes:
    content = struct.pack(">BQI", _REQUEST, 1, len(body)) + body
    return struct.pack(">Q", 8 + len(content)) + content


def text(words: str) -> bytes:
    return struct.pack(">I", len(words)) + words.encode()


def open_blocks(app: str) -> bytes:
    """A request to the block manager for what all tasks of the first job are made of."""
    blocks = ["broadcast_0", "broadcast_0_piece0", "broadcast_1_piece0"]
    listed = struct.pack(">I", len(blocks)) + b"".join(map(text, blocks))
    return request(b"\x00" + text(app) + text("driver") + listed)


def java_object(port: int) -> bytes:
    """A request to an endpoint of the driver, with an object for it to read."""
    host = b"\x00\x09127.0.0.1"
    there = b"\x01" + host + struct.pack(">I", port)
    return request(b"\x00" + there + b"\x00\x11endpoint-verifier" + b"\xac\xed\x00\x05t\x00\x01x")


def replies(heard: bytes) -> list[int]:
    """The kinds of the frames that came."""
    kinds, at = [], 0
    while at + 9 <= len(heard):
        (length,) = struct.unpack_from(">Q", heard, at)
        kinds.append(heard[at + 8])
        at += max(length, 9)
    return kinds


@pytest.fixture
def doors(spark: "SparkSession") -> dict[int, str]:
    """Every port of the engine: its JVM's, its Python workers', and ours for what it calls back."""
    process_habits.start_callbacks()
    spark.range(4).mapInArrow(lambda parts: parts, "id long").count()
    ours = spark.sparkContext._gateway._callback_server.get_listening_port()
    jvm = session.jvm_pid()
    assert jvm is not None
    return listeners(*family(jvm)) | {
        port: at for port, at in listeners(os.getpid()).items() if port == ours
    }


def test_every_door_is_on_loopback_and_there_are_three(doors: dict[int, str]) -> None:
    assert set(doors.values()) <= _LOOPBACK
    assert len(doors) == 3, (
        "the driver's blocks, PySpark's gateway, and our end of it; not the driver"
    )


def test_a_large_result_of_a_task_arrives(spark: "SparkSession") -> None:
    """The driver fetches what is over a mebibyte through the port of its blocks."""
    found = spark.range(0, 2, 1, 2).selectExpr("repeat('x', 3000000 + int(id)) AS held").collect()
    assert sorted(len(row.held) for row in found) == [3_000_000, 3_000_001]


def test_spark_serves_no_file_of_its_user(spark: "SparkSession", tmp_path: Path) -> None:
    """Its driver answers this before it requires the secret; where executors are processes, it has a port."""
    secret = tmp_path / "secret"
    secret.write_text("of the user")
    spark.range(4).mapInArrow(lambda parts: parts, "id long").count()
    served = spark._jvm.org.apache.spark.SparkEnv.get().rpcEnv().fileServer()
    for way in ("", "/x", "/../.."):
        for up in range(12):
            assert served.openStream(f"/artifacts{way}{'/..' * up}{secret}") is None
    for folder in ("classes", "directories", "jars", "files"):
        with contextlib.suppress(Exception):
            assert served.openStream(f"/{folder}/../../../..{secret}") is None


def test_a_port_that_cannot_be_closed_ends_the_start_but_for_the_users_own_spark(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_ports, "_SERVER_OF_DRIVER", "no field of this Spark")
    said: list[str] = []
    with pytest.raises(Py4JError):
        closed_ports.close_or_say(spark.sparkContext, said.append)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    closed_ports.close_or_say(spark.sparkContext, said.append)
    assert "the port of the driver stays open" in said[0]


def test_no_door_gives_a_stranger_anything(spark: "SparkSession", doors: dict[int, str]) -> None:
    app = spark.sparkContext.applicationId
    for port in doors:
        for said in (open_blocks(app), open_blocks("spark-app"), java_object(port)):
            heard = answer(port, said)
            assert _RESPONSE not in replies(heard), f"port {port} answered {heard!r}"
            assert b"endpoint" not in heard, f"port {port} read the object: {heard!r}"
        for said in (
            b"c\nz:java.lang.System\ngetProperty\nsjava.home\ne\n",
            b"r\nu\norg.apache.spark.SparkEnv\ne\n",
            b"c\np0\ntoString\ne\n",
            b"A\nguessed\ne\n",
        ):
            heard = answer(port, said)
            assert not heard.startswith((b"!y", b"y")), f"port {port} answered {heard!r}"
            assert b"Object ID unknown" not in heard, f"port {port} looked for it: {heard!r}"


ROUNDS = """
from playhead.spark import process_habits, session
spark = session.session("rounds", master="local[1]", memory="600m")
stream = spark.readStream.format("rate").load().writeStream
process_habits.for_each_round(stream, lambda frame, number: None)
print(spark.sparkContext._gateway._callback_server.get_listening_port(), flush=True)
input()
"""


def test_a_pipeline_asks_who_calls_it_back() -> None:
    """In an engine of its own: PySpark starts its server once, as it was first asked to."""
    command = [sys.executable, "-c", ROUNDS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pipeline:
        assert pipeline.stdout is not None
        port = int(pipeline.stdout.readline())
        heard = answer(port, b"c\np0\ntoString\ne\n")
        pipeline.communicate("\n", timeout=60)
    assert heard == b"", "nothing is looked for that a stranger names"


def test_nobody_else_can_look_into_the_folder_of_the_engine(doors: dict[int, str]) -> None:
    folder = session.own_folder()
    assert folder is not None
    sockets = [path for path in folder.iterdir() if stat.S_ISSOCK(path.stat().st_mode)]
    assert sockets, "Python's workers are reached in here, and at no port"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if os.geteuid() != 0:
        pytest.skip("only root can look as another user; the mode of the folder was looked at")
    looked = subprocess.run(
        ["/usr/bin/find", str(folder)], user=NOBODY, group=NOBODY, extra_groups=(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert looked.returncode != 0
    assert "Permission denied" in looked.stderr
    assert all(path.name not in looked.stdout + looked.stderr for path in sockets)


def canary_job(canary: str) -> Job:
    """A job with passwords for servers that are not there."""
    connection = KafkaConnection.from_properties(
        {
            "bootstrap.servers": f"127.0.0.1:{free_port()}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": f"{canary}-kafka",
        },
        where="test",
    )
    url = f"postgresql://me:{canary}-database@127.0.0.1:{free_port()}/db?connect_timeout=2"
    works = (((Slice("t", 0, 0, 1),),),)
    return Job(
        "r1", KafkaSource(connection, topics=("t",)), PostgresTarget(url, "t"), works, Filter()
    )


def memory_of(pid: int) -> Iterator[bytes]:
    """What a process has in its writable memory, piece by piece."""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights = line.split()[:2]
            start, end = (int(part, 16) for part in where.split("-"))
            if not rights.startswith("rw"):
                continue
            for at in range(start, end, 1 << 24):
                try:
                    memory.seek(at)
                    yield memory.read(min(1 << 24, end - at))
                except OSError:
                    break


@pytest.mark.parametrize("transform", [None, Transform(where="key IS NULL")])
def test_the_engine_never_has_a_password(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, transform: Transform | None
) -> None:
    from pyspark.serializers import CloudPickleSerializer

    canary = "ca" + os.urandom(6).hex()
    sent: list[bytes] = []
    dumps = CloudPickleSerializer.dumps

    def recorded(self: CloudPickleSerializer, what: object) -> bytes:
        sent.append(dumps(self, what))
        return sent[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", recorded)
    with contextlib.suppress(PlayheadError):  # its servers are not there
        run.run(spark, canary_job(canary), transform)
    assert sent
    assert not [each for each in sent if canary.encode() in each]
    jvm = session.jvm_pid()
    assert jvm is not None
    spellings = (canary.encode(), canary.encode("utf-16-le"))
    assert not [1 for part in memory_of(jvm) if any(each in part for each in spellings)]


def test_what_tasks_read_is_gone_with_the_job(spark: "SparkSession") -> None:
    folder = session.own_folder()
    assert folder is not None
    with handing(spark) as handover:
        handover.task(lambda parts: parts)
        said = {
            "sasl.jaas.config": 'x password="a:b\\"c\nü𝄞";',
            "client.rack": "${playhead:/etc/passwd:root}",
            "client.id": "me",
        }
        given = handover.kafka(said)
        assert given["client.id"] == "me"
        files = list(folder.glob("playhead-tasks-*/*"))
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        provider = spark._jvm.org.apache.kafka.common.config.provider.FileConfigProvider()
        provider.configure({})
        for name in ("sasl.jaas.config", "client.rack"):
            _, path, key = given[name][2:-1].split(":")
            assert provider.get(path).data()[key] == said[name]
    assert not list(folder.glob("playhead-tasks-*"))


def test_tasks_elsewhere_get_all_of_it_in_the_job() -> None:
    assert Handover(None).task(print) is print
    assert Handover(None).kafka({"sasl.jaas.config": "x"}) == {"sasl.jaas.config": "x"}


def test_what_a_killed_engine_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from playhead.spark.engine_folder import EngineFolder\n"
        "folder = EngineFolder()\n"
        "(folder.path / 'secret').touch()\n"
        "print(folder.path, flush=True)\n"
        "os._exit(9) if sys.argv[1] == 'die' else input()\n"
    )
    where = os.environ | {"SPARK_LOCAL_DIRS": "", "TMPDIR": str(tmp_path)}

    def start(how: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", program, how], env=where, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    with start("live") as living:
        assert living.stdout is not None
        kept = Path(living.stdout.readline().strip())
        with start("die") as dead:
            left = Path(dead.communicate()[0].strip())
        assert left.exists()
        with start("die") as another:
            another.communicate()
        assert not left.exists()
        assert kept.exists(), "that one is at work"
        living.communicate("\n")
