"""What one pair may cost the process that decodes and writes."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from playhead.capture import pair_document
from playhead.capture.decode_records import Bounds
from playhead.capture.pair_document import Captured, Connection, Describer
from playhead.capture.recorder import Recorder, RecorderConfig
from playhead.capture.snapshot_writer import Rotation, Snapshot
from tests.kafka_bytes import request_frame, response_frame, set_of
from tests.unit.test_capture_fields import repacked

# In a process of its own, because the peak of its memory is measured.
_RECORD = """
import sys
from pathlib import Path
from playhead.capture.pair_document import Captured, Connection
from playhead.capture.recorder import Recorder, RecorderConfig
from playhead.capture.snapshot_writer import Rotation, Snapshot

def peak_kib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

import pyarrow
frame, folder = Path(sys.argv[1]).read_bytes(), sys.argv[2]
snapshot = Snapshot(Path(folder), Rotation())
recorder = Recorder(RecorderConfig(folder), snapshot)
recorder.take(Connection(1, "b:1", 0, 0, "127.0.0.1", 1, "127.0.0.1", 2))
before = peak_kib()
recorder.take(Captured(1, 0, 0, frame, b"", len(frame), 0, False))
snapshot.close()
print(peak_kib() - before)
"""


def produced(*sets: bytes) -> bytes:
    partition = {"index": 0, "records": b"".join(sets)}
    topic = {"name": "orders", "partitionData": [partition]}
    values = {"transactionalId": None, "acks": 0, "timeoutMs": 1, "topicData": [topic]}
    return request_frame(0, 9, values)


def recorded(folder: Path, frame: bytes) -> tuple[int, Path]:
    """By how many bytes the memory grew, and what was written."""
    (folder / "frame").write_bytes(frame)
    (folder / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _RECORD, str(folder / "frame"), str(folder / "out")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return int(done.stdout) << 10, folder / "out" / "raw.jsonl"


def sets_in(path: Path) -> list[dict[str, Any]]:
    request = json.loads(path.read_text())["kafka"]["request"]["ProduceRequest"]
    return [each["records"] for each in request["topics"][0]["partitions"]]


def test_a_small_request_costs_little_memory_and_disk(tmp_path):
    """4 KB that unpack to 127 MB of zeros took 3 GB of memory, and 762 MB of the disk."""
    grown_bytes, path = recorded(tmp_path, produced(repacked(set_of(bytes(100 << 20)), 4)))
    assert path.stat().st_size < 1 << 20
    assert grown_bytes < 60 << 20
    (found,) = sets_in(path)
    assert "decompresses to more than" in found["undecoded"]["reason"]


@pytest.mark.slow  # writes 180 MB
def test_a_line_is_not_in_memory_as_a_whole(tmp_path):
    sets = repacked(set_of(bytes(30 << 20)), 4), set_of(b"x" * 40_000)
    grown_bytes, path = recorded(tmp_path, produced(*sets))
    assert path.stat().st_size > 180 << 20
    assert grown_bytes < 200 << 20
    zeros, text = sets_in(path)
    assert zeros["records"][0]["valueString"] == "\0" * (30 << 20)
    assert text["records"][0]["valueString"] == "x" * 40_000


TOPIC_ID = bytes(range(16))


def recorder_of(folder: Path, **more: Any) -> tuple[Recorder, Snapshot]:
    snapshot = Snapshot(folder, Rotation())
    recorder = Recorder(RecorderConfig(str(folder), **more), snapshot)
    recorder.take(Connection(1, "b:1", 0, 0, "127.0.0.1", 1, "127.0.0.1", 2))
    return recorder, snapshot


def asked(request: bytes) -> Captured:
    return Captured(1, 0, 0, request, b"", len(request), 0, False)


@pytest.mark.parametrize("cut", [1, 2])
def test_with_topics_no_bytes_of_others_are_kept_where_a_pair_cannot_be_decoded(tmp_path, cut):
    recorder, snapshot = recorder_of(tmp_path, topics=["pay*"])
    whole = produced(set_of(b"SECRET"))  # of the topic `orders`
    recorder.take(asked(struct.pack(">i", len(whole) - 4 - cut) + whole[4:-cut]))
    snapshot.flush()
    (found,) = map(json.loads, (tmp_path / "raw.jsonl").read_text().splitlines())
    assert found["kafka"]["request"]["undecoded"]["base64"] == "[redacted]"
    assert found["kafka"]["request"]["undecoded"]["reason"] in str(recorder.told().undecodable)


def test_with_topics_records_without_a_topics_name_are_not_of_other_topics(tmp_path):
    """After a restart of the proxy, a client may go on with the ID that it knows."""
    recorder, snapshot = recorder_of(tmp_path, topics=["pay*"])
    topic = {"topicId": TOPIC_ID, "partitionData": [{"index": 0, "records": set_of(b"a")}]}
    values = {"transactionalId": None, "acks": 0, "timeoutMs": 1, "topicData": [topic]}
    recorder.take(asked(request_frame(0, 13, values)))
    snapshot.flush()
    told = recorder.told()
    assert (told.left_out, told.unreadable, told.pairs) == (0, 1, 0)
    assert "a topic that has only an ID" in str(told.undecodable)
    recorder.take(metadata(named("other"), is_answered=True))
    recorder.take(asked(request_frame(0, 13, values)))
    assert (recorder.told().left_out, recorder.told().unreadable) == (1, 1)


def named(name: str, topic_id: bytes = TOPIC_ID) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a Metadata request and its response say about a topic."""
    asked = {"topicId": topic_id, "name": name}
    return asked, asked | {"errorCode": 0, "isInternal": False, "partitions": []}


def metadata(*topics: tuple[dict[str, Any], dict[str, Any]], is_answered: bool) -> Captured:
    request = request_frame(
        3, 12, {"topics": [asked for asked, _ in topics], "allowAutoTopicCreation": False,
                "includeTopicAuthorizedOperations": False},
    )  # fmt: skip
    response = b""
    if is_answered:
        answers = [told | {"topicAuthorizedOperations": 0} for _, told in topics]
        values = {"throttleTimeMs": 0, "brokers": [], "clusterId": None, "controllerId": 0}
        response = response_frame(3, 12, values | {"topics": answers})
    return Captured(1, 0, 0, request, response, len(request), len(response), True)


def name_of_topic(describer: Describer) -> str | None:
    partition = {"index": 0, "records": set_of(b"a")}
    topic = {"topicId": TOPIC_ID, "partitionData": [partition]}
    values = {"transactionalId": None, "acks": 0, "timeoutMs": 1, "topicData": [topic]}
    frame = request_frame(0, 13, values)
    document = describer.describe(Captured(1, 0, 0, frame, b"", len(frame), 0, False)).document
    (found,) = document["kafka"]["request"]["ProduceRequest"]["topics"]
    name: str | None = found.get("name")
    return name


@pytest.fixture
def describer() -> Describer:
    describer = Describer()
    describer.connections[1] = Connection(1, "b:1", 0, 0, "127.0.0.1", 1, "127.0.0.1", 2)
    return describer


def test_only_a_broker_names_topics(describer):
    describer.describe(metadata(named("orders"), is_answered=False))
    assert name_of_topic(describer) is None
    describer.describe(metadata(named("secret"), is_answered=True))
    describer.describe(metadata(named("orders"), is_answered=False))
    assert name_of_topic(describer) == "secret"


def test_names_of_topics_do_not_fill_the_memory(describer, monkeypatch):
    monkeypatch.setattr(pair_document, "_MOST_NAMES", 10, raising=False)
    describer.describe(metadata(named("x" * 250), is_answered=True))
    assert name_of_topic(describer) is None
    describer.describe(metadata(named("orders"), is_answered=True))
    describer.describe(metadata(named("orders"), is_answered=True))
    for number in range(9):
        describer.describe(metadata(named("x" * 249, bytes([number + 1] * 16)), is_answered=True))
        assert name_of_topic(describer) == "orders"
    describer.describe(metadata(named("y", bytes([99] * 16)), is_answered=True))
    assert name_of_topic(describer) is None, "the oldest is forgotten"


def test_numbers_that_json_does_not_have_are_texts(describer):
    entity = {"entityType": "user", "entityName": "x"}
    numbers = [float("nan"), float("inf"), float("-inf"), 1.5]
    quotas = [{"key": "k", "value": number, "remove": False} for number in numbers]
    values = {"entries": [{"entity": [entity], "ops": quotas}], "validateOnly": False}
    frame = request_frame(49, 0, values)
    document = describer.describe(Captured(1, 0, 0, frame, b"", len(frame), 0, False)).document
    (entry,) = document["kafka"]["request"]["AlterClientQuotasRequest"]["entries"]
    assert [each["value"] for each in entry["ops"]] == ["NaN", "Infinity", "-Infinity", 1.5]
    json.dumps(document, allow_nan=False)


def test_the_bound_follows_the_memory_and_the_size():
    def found(size: int, memory_bytes: int) -> int:
        return Bounds.of(size, memory_bytes).unpacked_bytes

    assert found(100, 64 << 20) == 1 << 20
    assert found(4_096, 64 << 20) == 4_096_000
    assert found(1 << 20, 64 << 20) == 64 << 20
    assert found(1 << 20, 1 << 30) == 128 << 20
    assert found(100, 1 << 20) == 1 << 20
