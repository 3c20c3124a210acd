"""SQLite, killed at any step, and as the target of whole commands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

import playhead
from playhead.account import Account
from playhead.host.faults import abort_points
from playhead.ledger import remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.request import TableRules
from playhead.source import SourceFacts, TopicFacts
from playhead.sqlite.target import SqliteTarget
from playhead.target import InspectRequest, InUse
from playhead.testing.target_case import terms
from tests.fix_commands import RunBytes
from tests.unit.test_sqlite import everything, rows

FOLDER = Path(playhead.__file__).parent
POINTS = sorted(name for name in abort_points(FOLDER) if name.startswith(("sqlite.", "tables.")))
TERMS = ("tables.terms_looked", "tables.terms_written", "tables.terms_committed")
ONCE = ("sqlite.file_made", *TERMS)
SLICES = [Slice("t", 0, 0, 100), Slice("t", 1, 50, 60), Slice("t", 0, 100, 130)]
RUN = "import sys; from tests.sandbox.test_sqlite import run; run(sys.argv[1])"


def records_of(slice_: Slice) -> list[Record]:
    """Every second offset has a record."""
    create, offsets = TimestampType.CREATE_TIME, range(slice_.from_offset, slice_.to_offset, 2)
    return [Record("t", slice_.partition, n, 7 * n, create, None, b"%d" % n) for n in offsets]


def run(file: str) -> None:
    """The replay, from the start or on from where it died."""
    rules = TableRules(tombstones="null", form="bytes", create=True)
    target = SqliteTarget(file, "kept", rules)
    look = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 2}, [])
    target.prepare("r", target.inspect(look), terms("t"))
    with target.hold("r"), target.open("r") as writer:
        for slice_ in remaining(SLICES, [entry.slice for entry in target.entries("r")]):
            account, records = Account(slice_), records_of(slice_)
            account.read = len(records)
            writer.commit(account, [Records.of(records)])


def started(file: Path, point: str = "") -> "subprocess.CompletedProcess[str]":
    armed = {"PLAYHEAD_ABORT_AT": point} if point else {}
    return subprocess.run(
        [sys.executable, "-c", RUN, str(file)],
        env={**os.environ, "PYTHONPATH": f"{FOLDER.parent}:{Path(__file__).parents[2]}", **armed},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_there_are_points_to_die_at() -> None:
    assert len(POINTS) == 7


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("point", [*POINTS, *(f"{each}#2" for each in POINTS if each not in ONCE)])
def test_killed_it_holds_whole_slices_and_goes_on(tmp_path: Path, point: str) -> None:
    file = tmp_path / "kept.db"
    dead = started(file, point)
    assert dead.returncode == -9, f"it died at {point}: {dead.stderr}"
    committed = [entry.slice for entry in SqliteTarget(str(file), "kept").entries("r")]
    is_made = rows(file, "SELECT 1 FROM sqlite_master WHERE name = 'kept'")
    kept = everything(file) if is_made else []
    assert in_order(kept) == in_order(each for slice_ in committed for each in records_of(slice_))
    run(str(file))
    needed = in_order(each for slice_ in SLICES for each in records_of(slice_))
    assert in_order(everything(file)) == needed


def in_order(records):
    return sorted((each.partition, each.offset, each.value) for each in records)


def test_a_second_run_is_kept_out_while_the_first_lives(tmp_path: Path) -> None:
    target = SqliteTarget(str(tmp_path / "kept.db"), "kept")
    with target.hold("r"):
        second = started(tmp_path / "kept.db")
        assert second.returncode == 1
        assert "replay r is running already" in second.stderr
        with pytest.raises(InUse), target.hold("r"):
            pytest.fail("held twice")


def test_a_whole_replay_and_what_verify_says_of_it(on_sandbox: RunBytes, tmp_path: Path) -> None:
    topic, file = f"sqlite-{uuid4().hex[:8]}", tmp_path / "laps.db"
    target = f"sqlite:{file}?table=laps"
    on_sandbox("topics", "create", topic, "--partitions", "3")
    lines = b"".join(b'{"car": %d, "lap": %d}\n' % (n % 7, n) for n in range(500))
    on_sandbox("produce", topic, stdin=lines)
    words = ["replay", f"kafka:{topic}", target, "--create", "--id", topic, "--yes"]
    on_sandbox(*words)
    assert rows(file, "SELECT count(*), count(DISTINCT lap), sum(car) FROM laps") == [
        (500, 500, sum(n % 7 for n in range(500)))
    ]
    again = on_sandbox(*words).stderr.decode()  # it is done, and done again it changes nothing
    assert f"replay {topic} was done before; nothing was written now" in again
    assert "starting the engine" not in again
    on_sandbox("verify", topic)
    gaps = json.loads(
        on_sandbox("gaps", f"kafka:{topic}", target, "--by", "ledger", "-o", "json").stdout
    )
    assert not gaps["gaps"], gaps
    rows(file, "UPDATE laps SET car = 99 WHERE lap = 7")
    rows(file, "DELETE FROM laps WHERE lap = 8")
    found = json.loads(on_sandbox("verify", topic, "-o", "json", code=4).stdout)
    assert sorted(each["kind"] for each in found["differences"]) == ["changed", "missing"]


def test_a_replay_whose_records_were_deleted_meanwhile_leads_to_gaps(
    on_sandbox: RunBytes, tmp_path: Path
) -> None:
    topic, target = f"gone-{uuid4().hex[:8]}", f"sqlite:{tmp_path}/laps.db?table=laps"
    on_sandbox("topics", "create", topic, "--partitions", "1", "--yes")
    on_sandbox("produce", topic, stdin=b'{"lap": 1}\n' * 10)
    words = ["replay", f"kafka:{topic}", target, "--create", "--id", topic]
    on_sandbox(*words, "--plan", str(tmp_path / "plan"), "--dry-run")
    on_sandbox("topics", "trim", topic, "--offsets", "0:-4", "--yes")
    told = on_sandbox(*words, "--plan", str(tmp_path / "plan"), "--yes", code=1).stderr.decode()
    assert f"{topic}:0:0-10 is still to be written, but the log begins at offset 4 now" in told
    assert f"hint: playhead gaps kafka:{topic} {target} --replay" in told
    again = on_sandbox("resume", topic, "--yes", code=1).stderr.decode()
    assert f"replay {topic} cannot be completed" in again
