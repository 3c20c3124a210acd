"""Beside Kafka's own ConsumerGroupCommand, on the same groups: the same offsets, numbers and files."""

import json
from pathlib import Path

import pytest

from playhead.sandbox import Endpoints
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import Playhead
from tests.fix_groups import KafkaGroups, Readers, rows_of, write_csv
from tests.sandbox.test_commands import address_of

# What both are told; TOPIC stands for the topic's name.
MODES = {
    "to-datetime": ["--to-datetime", "2021-08-04T12:30:42.000"],
    "to-datetime with a zone": ["--to-datetime", "2021-08-04T18:00:42.500+05:30"],
    "to-datetime before all": ["--to-datetime", "2001-01-01T00:00:00.000"],
    "to-datetime after all": ["--to-datetime", "2022-01-01T00:00:00.000Z"],
    "by-duration": ["--by-duration", "PT2H0M0S"],
    "by-duration of years": ["--by-duration", "P9999DT2H"],
    "shift on": ["--shift-by", "7"],
    "shift back": ["--shift-by", "-7"],
    "shift beyond the end": ["--shift-by", "70"],
    "shift before the start": ["--shift-by", "-70"],
    "to-offset": ["--to-offset", "40"],
    "to-offset beyond the end": ["--to-offset", "999"],
    "to-offset 0": ["--to-offset", "0"],
    "to-earliest": ["--to-earliest"],
    "to-latest": ["--to-latest"],
    "to-current": ["--to-current"],
}
STANDS = {0: 50, 1: 60, 2: 0, 3: 20}


@pytest.mark.parametrize("mode", MODES, ids=lambda name: name.replace(" ", "-"))
def test_every_mode_leads_to_the_same_offsets(
    mode: str,
    tape: str,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
) -> None:
    stands = {(tape, partition): at for partition, at in STANDS.items()}
    theirs, ours = readers.group(stands), readers.group(stands)
    words = [*MODES[mode], "--topic", tape]
    kafka_groups("--reset-offsets", "--group", theirs, *words, "--execute")
    done = playhead("groups", "reset", ours, *words, "--execute", **address_of(sandbox))
    assert done.returncode == 0, done.stderr
    assert readers.offsets(ours) == readers.offsets(theirs)
    assert len(readers.offsets(ours)) == 4
    undone = playhead("groups", "undo", ours, "--yes", **address_of(sandbox))
    assert undone.returncode == 0, undone.stderr
    assert readers.offsets(ours) == stands


def test_scopes_and_files_lead_to_the_same_offsets(
    tape: str,
    make_topic: MakeTopic,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
    tmp_path: Path,
) -> None:
    other = make_topic(2)
    stands = {(tape, 0): 50, (tape, 3): 20, (other, 1): 0}
    file = write_csv(tmp_path, f'"{tape}",0,7\n"{tape}",1,5\n{tape},3,400\n')
    for words in (
        ["--to-earliest", "--topic", f"{tape}:0,2"],
        ["--to-latest", "--topic", tape, "--topic", f"{other}:0"],
        ["--to-current", "--topic", tape],
        ["--to-earliest", "--all-topics"],
        ["--from-file", file],
    ):
        theirs, ours = readers.group(stands), readers.group(stands)
        kafka_groups("--reset-offsets", "--group", theirs, *words, "--execute")
        done = playhead("groups", "reset", ours, *words, "--execute", **address_of(sandbox))
        assert done.returncode == 0, done.stderr
        assert readers.offsets(ours) == readers.offsets(theirs), words


def test_plans_travel_between_the_two_as_files(
    tape: str,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
    tmp_path: Path,
) -> None:
    where = address_of(sandbox)
    group = readers.group({(tape, 0): 50, (tape, 3): 20})
    words = ["--shift-by", "-5", "--topic", f"{tape}:0,3", "--export"]
    theirs = kafka_groups("--reset-offsets", "--group", group, *words)
    ours = playhead("groups", "reset", group, *words, **where)
    assert ours.returncode == 0, ours.stderr
    assert sorted(ours.stdout.splitlines()) == sorted(theirs.splitlines())
    assert readers.offsets(group) == {(tape, 0): 50, (tape, 3): 20}

    their_file = write_csv(tmp_path, theirs)
    read = playhead("groups", "reset", group, "--from-file", their_file, "--yes", **where)
    assert read.returncode == 0, read.stderr
    assert readers.offsets(group) == {(tape, 0): 45, (tape, 3): 15}

    playhead("groups", "undo", group, "--yes", **where)
    our_file = write_csv(tmp_path, ours.stdout)
    kafka_groups("--reset-offsets", "--group", group, "--from-file", our_file, "--execute")
    assert readers.offsets(group) == {(tape, 0): 45, (tape, 3): 15}


def test_plans_of_several_groups_travel_too(
    tape: str,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
    tmp_path: Path,
) -> None:
    where = address_of(sandbox)
    one, other = readers.group({(tape, 0): 50}), readers.group({(tape, 0): 20})
    named = ["--group", one, "--group", other]
    words = ["--to-offset", "33", "--topic", f"{tape}:0", "--export"]
    theirs = kafka_groups("--reset-offsets", *named, *words)
    ours = playhead("groups", "reset", one, other, *words, "--execute", **where)
    assert sorted(ours.stdout.splitlines()) == sorted(theirs.splitlines())
    assert readers.offsets(one) == readers.offsets(other) == {(tape, 0): 33}
    file = write_csv(tmp_path, theirs.replace(",33", ",34"))
    read = playhead("groups", "reset", "--from-file", file, "--yes", **where)
    assert read.returncode == 0, read.stderr
    assert readers.offsets(one) == readers.offsets(other) == {(tape, 0): 34}


def test_all_groups_are_the_same_groups(
    tape: str,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
) -> None:
    readers.group({(tape, 0): 50})
    words = ["--all-groups", "--all-topics", "--to-earliest", "--export"]
    theirs = kafka_groups("--reset-offsets", *words)
    ours = playhead("groups", "reset", *words, **address_of(sandbox))
    assert ours.returncode == 0, ours.stderr
    assert tape in theirs
    assert sorted(ours.stdout.split()) == sorted(theirs.split())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_descriptions_have_the_same_numbers(
    protocol: str,
    tape: str,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
    kafka_groups: KafkaGroups,
) -> None:
    where = address_of(sandbox)
    group = readers.group({(tape, 0): 50, (tape, 2): 0, (tape, 3): 20})
    readers.reader(group, tape, group_protocol=protocol)

    theirs = rows_of(kafka_groups("--describe", "--group", group))
    said = playhead("groups", "describe", group, "-o", "json", **where)
    (found,) = json.loads(said.stdout)["groups"]
    assert found["state"] == "stable"
    assert found["type"] == protocol
    ours = [
        {
            "PARTITION": str(row["partition"]),
            "CURRENT-OFFSET": _or_dash(row["committed"]),
            "LOG-END-OFFSET": str(row["end"]),
            "LAG": _or_dash(row["lag"]),
            "CONSUMER-ID": row["member"],
            "HOST": f"/{row['host']}",
            "CLIENT-ID": row["client"],
        }
        for row in found["partitions"]
    ]
    by_partition = sorted(theirs, key=lambda row: row["PARTITION"])
    assert ours == [{name: row[name] for name in ours[0]} for row in by_partition]
    assert found["partitions"][1]["committed"] is None
    assert found["partitions"][1]["lag"] is None

    theirs = rows_of(kafka_groups("--describe", "--group", group, "--members"))
    members = json.loads(playhead("groups", "members", group, "-o", "json", **where).stdout)
    assert [row["CONSUMER-ID"] for row in theirs] == [row["member"] for row in members["members"]]
    assert members["members"][0]["assignment"] == f"{tape}:0,1,2,3"
    assert members["members"][0]["session_ms"] == 45_000

    theirs = rows_of(kafka_groups("--list", "--state", "--type"))
    listed = json.loads(playhead("groups", "list", "-o", "json", **where).stdout)["groups"]
    (row,) = [row for row in theirs if row["GROUP"] == group]
    (our_row,) = [row for row in listed if row["group"] == group]
    assert our_row == {"group": group, "type": row["TYPE"].lower(), "state": row["STATE"].lower()}


def test_deletions_leave_the_same(
    tape: str, readers: Readers, playhead: Playhead, sandbox: Endpoints, kafka_groups: KafkaGroups
) -> None:
    where = address_of(sandbox)
    stands = {(tape, 0): 50, (tape, 2): 0, (tape, 3): 20}
    theirs, ours = readers.group(stands), readers.group(stands)
    kafka_groups("--delete-offsets", "--group", theirs, "--topic", f"{tape}:0,2")
    words = ["--topic", f"{tape}:0,2", "--yes"]
    assert playhead("groups", "delete-offsets", ours, *words, **where).returncode == 0
    assert readers.offsets(ours) == readers.offsets(theirs) == {(tape, 3): 20}
    assert playhead("groups", "undo", ours, "--yes", **where).returncode == 0
    assert readers.offsets(ours) == stands

    kafka_groups("--delete", "--group", theirs)
    assert playhead("groups", "delete", ours, "--yes", **where).returncode == 0
    listed = kafka_groups("--list").split()
    assert ours not in listed
    assert theirs not in listed
    assert playhead("groups", "undo", ours, "--yes", **where).returncode == 0
    assert readers.offsets(ours) == stands


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
