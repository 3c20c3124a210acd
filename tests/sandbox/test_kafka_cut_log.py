"""A log that loses its last records, as after an unclean election, tells by the epochs of its leaders."""

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.read.source import KafkaSource
from playhead.live.log_cut import ReadLog, ReadLogWasCut
from playhead.sandbox import Sandbox
from playhead.testing.kafka_writer import Writer

_PLACE = ("laps", 0)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with tempfile.TemporaryDirectory(prefix="playhead-box-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' user has to enter it
        sandbox = Sandbox(Path(name) / "box")
        yield sandbox
        sandbox.down()


def write(sandbox: Sandbox, *values: bytes) -> KafkaSource:
    """Write a batch for each record."""
    connection = KafkaConnection(sandbox.up().bootstrap_servers)
    for value in values:
        with Writer(connection) as writer:
            writer.write("laps", key=None, value=value, timestamp_ms=1_000)
    return KafkaSource(connection, ("laps",))


def cut(sandbox: Sandbox, offset: int) -> None:
    """Take the records from an offset on out of the log of a broker that is down."""
    sandbox.down()
    [file] = sandbox.directory.glob("kafka/data*/laps-0/*.log")
    data, at = file.read_bytes(), 0
    while struct.unpack(">q", data[at : at + 8])[0] < offset:
        at += 12 + struct.unpack(">i", data[at + 8 : at + 12])[0]
    os.truncate(file, at)
    # Without these files the broker reads the log itself when it starts.
    for other in [*file.parent.glob("*index"), *file.parent.glob("*.snapshot")]:
        other.unlink()
    (file.parent.parent / ".kafka_cleanshutdown").unlink()


@pytest.mark.torture
def test_records_of_a_later_leader_do_not_count_for_those_that_were_read(box: Sandbox) -> None:
    with Admin(KafkaConnection(box.up().bootstrap_servers)) as admin:
        admin.create_topic("laps", partitions=1)
    source = write(box, *(b"first %d" % number for number in range(5)))
    epochs = {_PLACE: source.facts().topics["laps"].leader_epochs[0]}
    assert source.leader_epochs() == epochs
    pipeline = ReadLog("laps", source, {}, lambda _: None)
    pipeline.confirm({_PLACE: 5})
    assert source.ends_of_epochs(epochs) == {_PLACE: 5}
    box.down()
    box.up()
    write(box, b"first 5")
    assert source.ends_of_epochs(epochs) == {_PLACE: 5}, "a restart loses nothing"
    pipeline.confirm({_PLACE: 6})
    assert pipeline.read == {_PLACE: (6, source.leader_epochs()[_PLACE])}

    cut(box, 3)
    write(box, *(b"other %d" % number for number in range(9)))
    assert source.bounds()[_PLACE].stable_end == 12
    assert source.ends_of_epochs(epochs) == {_PLACE: 3}
    with pytest.raises(ReadLogWasCut, match="laps:0:3-6"):
        pipeline.confirm({_PLACE: 6})
    now = source.facts().topics["laps"].leader_epochs[0]
    assert now > epochs[_PLACE]
    assert source.ends_of_epochs({_PLACE: now}) == {_PLACE: 12}


@pytest.mark.torture
def test_records_of_a_cluster_from_a_copy_do_not_count_for_those_that_were_read(
    box: Sandbox,
) -> None:
    with Admin(KafkaConnection(box.up().bootstrap_servers)) as admin:
        admin.create_topic("laps", partitions=1)
    write(box, *(b"first %d" % number for number in range(3)))
    box.down()
    copy = box.directory.with_name("copy")
    subprocess.run(["cp", "-a", box.directory, copy], check=True)
    for _ in range(2):  # each start of the broker is an election
        box.up()
        box.down()
    source = write(box, *(b"later %d" % number for number in range(3)))
    epochs = {_PLACE: source.facts().topics["laps"].leader_epochs[0]}
    pipeline = ReadLog("laps", source, {}, lambda _: None)
    pipeline.confirm({_PLACE: 6})
    box.down()
    shutil.rmtree(box.directory)
    copy.rename(box.directory)
    source = pipeline.log = write(box, *(b"other %d" % number for number in range(9)))
    assert source.bounds()[_PLACE].stable_end == 12
    assert source.ends_of_epochs(epochs) == {_PLACE: 0}
    with pytest.raises(ReadLogWasCut, match="laps:0:0-6"):
        pipeline.confirm({_PLACE: 6})
