"""The commands of the sandbox and the doctor, and the demo's end, as a person runs them."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from playhead.config.kafka_connection import KafkaConnection
from playhead.sandbox import Endpoints, Sandbox
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from playhead.testing.kafka_writer import Writer
from tests.fix_commands import Playhead
from tests.fix_environment import processes_that_mention

WITHIN_S = 30.0


def address_of(endpoints: Endpoints) -> dict[str, str]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": endpoints.bootstrap_servers,
        "DATABASE_URL": endpoints.database_url,
    }


def test_the_life_of_a_sandbox(playhead: Playhead, folder: Path) -> None:
    here = {"PLAYHEAD_SANDBOX_DIR": str(folder)}
    down = playhead("sandbox", "status", "-o", "json", **here)
    assert down.returncode == 1
    assert json.loads(down.stdout)["up"] is False

    assert playhead("sandbox", "env", **here).returncode == 1
    dry = playhead("sandbox", "up", "--dry-run", "-o", "json", **here)
    assert [row["would_start"] for row in json.loads(dry.stdout)["servers"]] == [True, True]
    assert not folder.exists()

    up = playhead("sandbox", "up", "-o", "json", **here)
    assert up.returncode == 0, up.stderr
    assert json.loads(up.stdout)["up"] is True

    exported = playhead("sandbox", "env", **here).stdout
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL=postgresql://", "PLAYHEAD_SANDBOX_DIR"):
        assert f"export {name}" in exported

    doctor = playhead("doctor", "-o", "json", **here)
    found = json.loads(doctor.stdout)
    assert [c for c in found["checks"] if c["state"] != "ok"] == []
    assert found["context"] == "sandbox"
    assert {"runtime", "jars", "cache", "disk", "broker", "database", "clock"} <= {
        c["check"] for c in found["checks"]
    }

    chosen = playhead("context", "show", "--origin", "-c", "sandbox", "-o", "jsonl", **here)
    rows = {row["setting"]: row for row in map(json.loads, chosen.stdout.splitlines())}
    assert rows["kafka.bootstrap.servers"]["origin"] == "context sandbox"
    assert "********" in rows["database"]["value"]

    refused = playhead("sandbox", "up", "--fresh", **here)
    assert refused.returncode == 6
    assert "--yes" in refused.stderr

    assert playhead("sandbox", "down", **here).returncode == 0
    assert processes_that_mention(str(folder)) == {}
    gone = playhead("doctor", "-c", "sandbox", **here)
    assert gone.returncode == 1
    assert "playhead sandbox up" in gone.stderr


def test_ctrl_c_while_coming_up_leaves_nothing(
    start_playhead: Callable[..., "Popen[str]"], folder: Path
) -> None:
    process = start_playhead("sandbox", "up", PLAYHEAD_SANDBOX_DIR=str(folder))
    deadline = time.monotonic() + WITHIN_S
    while Sandbox(folder).broker.server.pid() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert out == ""
    assert processes_that_mention(str(folder)) == {}


def test_sigterm_in_the_demo_leaves_nothing(
    start_playhead: Callable[..., "Popen[str]"], folder: Path
) -> None:
    process = start_playhead("demo", "--dir", str(folder))
    deadline = time.monotonic() + WITHIN_S
    while Sandbox(folder).broker.server.pid() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 143, err
    assert "Traceback" not in err
    deadline = time.monotonic() + WITHIN_S
    while (left := processes_that_mention(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == {}


def test_the_doctor_names_what_fails_and_the_way_out(playhead: Playhead) -> None:
    nowhere = {"DATABASE_URL": "postgresql://me:hunter22@127.0.0.1:1/x"}
    found = playhead("doctor", "-b", "127.0.0.1:1", "-o", "json", **nowhere)
    assert found.returncode == 1
    states = {c["check"]: c for c in json.loads(found.stdout)["checks"]}
    assert states["broker"]["state"] == states["database"]["state"] == "fail"
    assert "127.0.0.1:1" in states["broker"]["found"]
    assert "playhead sandbox up" in states["broker"]["hint"]
    assert "Connection refused" in states["database"]["found"]
    assert "hunter22" not in found.stdout + found.stderr
    assert "Traceback" not in found.stderr


def test_the_doctor_gives_up_on_a_stalled_link_within_its_bound(
    playhead: Playhead, linked_kafka: KafkaConnection, broker_link: LinkProxy
) -> None:
    broker_link.stall()
    try:
        began = time.monotonic()
        found = playhead("doctor", "-b", str(linked_kafka.bootstrap_servers), "-o", "json")
        took = time.monotonic() - began
    finally:
        broker_link.resume()
    states = {c["check"]: c["state"] for c in json.loads(found.stdout)["checks"]}
    assert states["broker"] == "fail"
    assert took < WITHIN_S
    again = playhead("doctor", "-b", str(linked_kafka.bootstrap_servers), "-o", "json")
    states = {c["check"]: c["state"] for c in json.loads(again.stdout)["checks"]}
    assert states["broker"] == "ok"


def test_the_doctor_looks_at_a_topic_and_a_group(
    playhead: Playhead, sandbox: Endpoints, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    where = address_of(sandbox)
    found = json.loads(playhead("doctor", "--topic", topic, "-o", "json", **where).stdout)
    assert {
        "check": "topic",
        "state": "ok",
        "found": f"{topic}: 3 partitions",
        "hint": None,
    } in found["checks"]
    missing = playhead("doctor", "--topic", "no-such", "--group", "none", "-o", "json", **where)
    assert missing.returncode == 1
    states = {c["check"]: c["state"] for c in json.loads(missing.stdout)["checks"]}
    assert (states["topic"], states["group"]) == ("fail", "fail")


def test_the_shell_completes_topics_and_groups(
    playhead: Playhead, sandbox: Endpoints, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    from confluent_kafka import Consumer

    topic = make_topic()
    with Writer(kafka) as writer:
        writer.write(topic, key=None, value=b"x", timestamp_ms=1)
    group = f"group-of-{topic}"
    consumer = Consumer(
        {**kafka.for_librdkafka("consumer"), "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert consumer.poll(WITHIN_S) is not None
    consumer.commit(asynchronous=False)
    consumer.close()

    def complete(words: str) -> list[str]:
        asked = playhead(
            **address_of(sandbox),
            _PLAYHEAD_COMPLETE="bash_complete",
            COMP_WORDS="\n".join(words.split()),
            COMP_CWORD=str(len(words.split()) - 1),
        )
        return [line.removeprefix("plain,") for line in asked.stdout.split()]

    assert complete(f"playhead doctor --topic {topic[:-3]}") == [topic]
    assert complete(f"playhead doctor --group {group[:-3]}") == [group]
    where = sandbox.bootstrap_servers
    assert complete(f"playhead doctor -b {where} --topic {topic[:-3]}") == [topic]
    assert complete(f"playhead doctor -b 127.0.0.1:1 --topic {topic[:-3]}") == []


def test_nobody_reads_our_output(playhead: Playhead) -> None:
    import subprocess
    import sys

    piped = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m playhead.cli.app -X list | head -1"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert piped.stdout.startswith("PROPERTY")
    assert "Traceback" not in piped.stderr
