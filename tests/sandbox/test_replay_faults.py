"""Servers that die, links that break and people who change their mind, while a replay runs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import EXIT_INTERRUPTED, EXIT_REFUSED, EXIT_STOPPED, PlayheadError, Refused
from playhead.plan import Plan
from playhead.record import Record
from playhead.replay.api import Planned
from playhead.replay.guards import RestIsGone
from playhead.sandbox import Sandbox
from playhead.testing.link_proxy import LinkProxy
from tests.fix_commands import Playhead
from tests.fix_replay import (
    LONG_TAPE,
    Deck,
    Ended,
    Performance,
    end_of,
    ended,
    has_stopped,
    lap,
    new_name,
    ran,
    small_slices,
    within,
)
from tests.sandbox.kafka_log import delete_topic

Perform = Callable[..., Performance]
SLICE = 50
PACE = "500/s"


class Rehearsal:
    """A replay in this process that goes slowly enough for something to happen in the middle."""

    def __init__(self, deck: Deck, topic: str, kind: str, folder: Path) -> None:
        self.deck, self.end = deck, end_of(deck, kind, folder)
        self.topic, self.said = topic, list[str]()

    def run(self, midway: Callable[[], None], *, pace: str = PACE) -> Planned:
        """Run it; `midway` happens when a fifth has been written. In the end everything is there once."""
        asked: dict[str, Any] = {"pace": pace}
        if self.end.options:
            asked["on_conflict"] = self.end.options[1]
        planned = self.deck.plan(f"kafka:{self.topic}", self.end.text, **asked)
        failures: list[BaseException] = []
        has_happened: list[Thread] = []

        def happen() -> None:
            try:
                midway()
            except BaseException as exc:
                failures.append(exc)
                raise

        def progress(done: int, total: int, _: Any) -> None:
            if done * 5 >= total and not has_happened:
                has_happened.append(Thread(target=happen))
                has_happened[0].start()

        with small_slices(SLICE):
            proof = ran(planned, say=self.said.append, progress=progress)
        for thread in has_happened:
            thread.join()
        assert not failures, failures
        assert has_happened, "there was no middle to it"
        assert proof.total("written") == LONG_TAPE
        assert self.end.numbers() == [*range(LONG_TAPE)]
        return planned

    @property
    def went_on(self) -> bool:
        return any("continuing from the ledger" in each for each in self.said)


@pytest.fixture
def rehearse(deck: Deck, long_tape: str, tmp_path: Path) -> Callable[..., Rehearsal]:
    def make(kind: str, *, deck: Deck = deck) -> Rehearsal:
        return Rehearsal(deck, long_tape, kind, tmp_path)

    return make


Rehearse = Callable[..., Rehearsal]
deep = pytest.mark.torture


# --- servers


@pytest.mark.parametrize(
    "kind", ["kafka", pytest.param("staged", marks=deep), pytest.param("parquet", marks=deep)]
)
def test_the_broker_is_killed_and_comes_back(
    rehearse: Rehearse, running_sandbox: Sandbox, kind: str
) -> None:
    rehearse(kind).run(lambda: bounce_broker(running_sandbox))


@pytest.mark.parametrize("kind", ["staged", pytest.param("postgres", marks=deep)])
def test_postgres_is_stopped_at_once_and_comes_back(
    rehearse: Rehearse, running_sandbox: Sandbox, kind: str
) -> None:
    it = rehearse(kind)
    it.run(lambda: bounce_database(running_sandbox))
    assert it.went_on


def bounce_broker(sandbox: Sandbox) -> None:
    kill(sandbox.broker.server.pid(), signal.SIGKILL)
    sandbox.up()


def bounce_database(sandbox: Sandbox) -> None:
    """As `pg_ctl stop -m immediate` does: no farewell, and recovery from the log afterwards."""
    kill(sandbox.database.server.pid(), signal.SIGQUIT)
    sandbox.up()


def kill(pid: int | None, sign: signal.Signals) -> None:
    assert pid is not None
    os.kill(pid, sign)
    within(lambda: is_gone(pid), seconds=20, what=f"process {pid} is gone")


def is_gone(pid: int) -> bool:
    """With all of its threads: before that its port is not free, and a server would take another one."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not Path(f"/proc/{pid}").exists()


@deep
@pytest.mark.parametrize("kind", ["postgres", "staged"])
def test_the_disk_of_postgres_is_full_for_a_while(
    rehearse: Rehearse, deck: Deck, running_sandbox: Sandbox, servers_folder: Path, kind: str
) -> None:
    it = rehearse(kind)
    table = it.end.text.removeprefix("postgres:")
    with small_disk(deck, running_sandbox, servers_folder, table) as filler:

        def fill_up() -> None:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            within(lambda: it.went_on, seconds=60, what="PostgreSQL says that its disk is full")
            assert any("disk is full" in each for each in it.said), it.said
            filler.unlink()

        it.run(fill_up)


@contextmanager
def small_disk(deck: Deck, sandbox: Sandbox, folder: Path, table: str) -> Iterator[Path]:
    """The table lies on a disk of its own that a file can fill."""
    disk, name = folder / new_name("disk"), new_name("small").replace("-", "_")
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a disk that can be filled needs the right to mount one")
    try:
        owner = sandbox.database.data.stat()
        (disk / "space").mkdir()
        os.chown(disk / "space", owner.st_uid, owner.st_gid)
        deck.sql(f"CREATE TABLESPACE {name} LOCATION '{disk / 'space'}'")
        deck.sql(f"ALTER TABLE {table} SET TABLESPACE {name}")
        yield disk / "filler"
        deck.sql(f"DROP TABLE {table}")
        deck.sql(f"DROP TABLESPACE {name}")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# --- links


def cut(link: LinkProxy) -> None:
    link.cut()
    time.sleep(2)  # the fault itself: as long as this nobody gets through
    link.restore()


def stall(link: LinkProxy) -> None:
    link.stall()
    time.sleep(4)
    link.resume()


def lose_answers(link: LinkProxy) -> None:
    """What was asked is done, and nobody hears that it was: also of a commit."""
    for _ in range(6):
        link.drop_after(0, "down")
        time.sleep(0.3)
    link.restore()


@deep
@pytest.mark.parametrize("fault", [cut, stall, lose_answers])
@pytest.mark.parametrize("kind", ["kafka", "staged", "parquet"])
def test_the_link_to_the_broker_breaks(
    rehearse: Rehearse,
    deck: Deck,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    kind: str,
    fault: Callable[[LinkProxy], None],
) -> None:
    it = rehearse(kind, deck=replace(deck, connection=linked_kafka))
    it.run(lambda: fault(broker_link))


@pytest.mark.parametrize(
    "fault", [pytest.param(lose_answers), *(pytest.param(f, marks=deep) for f in (cut, stall))]
)
@pytest.mark.parametrize("kind", ["postgres", pytest.param("staged", marks=deep)])
def test_the_link_to_the_database_breaks(
    rehearse: Rehearse,
    deck: Deck,
    database_link: LinkProxy,
    kind: str,
    fault: Callable[[LinkProxy], None],
) -> None:
    it = rehearse(kind, deck=linked(deck, database_link))
    it.run(lambda: fault(database_link))


def linked(deck: Deck, link: LinkProxy) -> Deck:
    """The same with its database behind the link."""
    account, _, rest = deck.database_url.partition("@")
    return replace(deck, database_url=f"{account}@{link.address}/{rest.partition('/')[2]}")


# --- what is to be replayed goes away


def test_records_that_went_before_the_run_are_said(deck: Deck) -> None:
    topic, table = deck.laps(40, 2), deck.table("seq int")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    deck.delete_before(topic, 1, 7)
    with pytest.raises(RestIsGone, match=rf"{topic}:1:0-20 .* begins at offset 7 now"):
        planned.run()
    assert deck.rows(table, "count(*)") == [(0,)]
    # What the next plan takes is what is still there, and that it is not all is said.
    again = deck.plan(f"kafka:{topic}", f"postgres:{table}", span="2021-08-04T12:30:00..")
    assert "expired" in [note.code for note in again.plan.notes]
    assert ran(again).total("written") == 33


def test_a_topic_that_was_made_again_is_another_one(deck: Deck) -> None:
    topic, table = deck.laps(40, 2), deck.table("seq int")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    make_again(deck, topic)
    with pytest.raises(Refused, match=f"topic {topic} of id"):
        planned.run()
    assert deck.rows(table, "count(*)") == [(0,)]


def test_a_topic_that_is_gone_is_said(deck: Deck) -> None:
    topic, table = deck.laps(40, 2), deck.table("seq int")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    delete_topic(deck.connection, topic)
    with pytest.raises(PlayheadError, match=topic):
        planned.run(patience_s=2)


def test_partitions_that_were_added_are_not_of_the_plan(deck: Deck) -> None:
    topic, copy = deck.laps(40, 2), deck.topic("copy", 2)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}")
    add_partition(deck, topic, 3)
    proof = ran(planned)
    assert proof.total("written") == 40
    assert planned.verify().agrees
    assert len(deck.records(copy)) == 40


def make_again(deck: Deck, topic: str) -> None:
    delete_topic(deck.connection, topic)

    def is_made() -> bool:
        with deck.admin() as admin:
            try:
                return bool(admin.create_topic(topic, partitions=2))
            except PlayheadError:
                return False

    within(is_made, seconds=30, what="the topic is made again")
    deck.write([lap(number, topic, 2) for number in range(LONG_TAPE)])


def add_partition(deck: Deck, topic: str, count: int) -> None:
    from confluent_kafka.admin import NewPartitions

    with deck.admin() as admin, admin.asking("adding partitions") as client:
        for answer in client.create_partitions([NewPartitions(topic, count)]).values():
            answer.result(30)
    late = [lap(number, topic, 1) for number in range(5)]
    within(lambda: is_written(deck, late, count - 1), seconds=20, what="the new partition is there")


def is_written(deck: Deck, records: list[Record], partition: int) -> bool:
    from confluent_kafka import KafkaException

    try:
        deck.write([replace(each, partition=partition) for each in records])
    except KafkaException:
        return False
    return True


def delete_some(deck: Deck, topic: str) -> None:
    deck.delete_before(topic, 1, LONG_TAPE // 2 - 10)


@deep
@pytest.mark.parametrize(
    ("change", "needed"),
    [
        (delete_some, "holds 990-1000"),
        (make_again, "is not the planned one"),
        (lambda deck, topic: add_partition(deck, topic, 3), None),
    ],
    ids=["records deleted", "made again", "partition added"],
)
@pytest.mark.parametrize("point", ["run.planned", "job.drawn#3"])
@pytest.mark.parametrize("kind", ["kafka", "staged"])
def test_the_topic_changes_under_a_run(
    perform: Perform,
    servers: Deck,
    kind: str,
    point: str,
    change: Callable[[Deck, str], None],
    needed: str | None,
) -> None:
    """Between the run's last look and its reading, or while it reads."""
    topic = servers.laps(LONG_TAPE, 2, "changing")
    it = perform(kind, topic, LONG_TAPE)
    command = it.start(PLAYHEAD_ABORT_AT=f"{point}=stop")
    somebody_stops(it)
    change(servers, topic)
    found = it.carried_on(command)
    if found.code == 0:
        # Nothing was missed: it had been read before, or it was not of the plan.
        assert needed is None or point != "run.planned"
        it.is_whole(json.loads(found.out))
        return
    assert needed is not None, found.err
    assert found.code in (1, EXIT_REFUSED), found.err
    assert needed in found.err
    assert "Traceback" not in found.err
    so_far = it.end.numbers()
    assert len(so_far) == len(set(so_far)) < LONG_TAPE
    again = ended(it.resume())
    assert again.code in (1, EXIT_REFUSED), "nor does it come back by a resume"


def somebody_stops(it: Performance) -> None:
    what = "a process of the replay stops"
    within(lambda: any(map(has_stopped, it.processes())), seconds=60, what=what)


# --- the same replay more than once


@pytest.mark.parametrize(
    "kind",
    ["staged", *(pytest.param(kind, marks=deep) for kind in ("kafka", "postgres", "parquet"))],
)
def test_the_same_command_twice_at_once(perform: Perform, long_tape: str, kind: str) -> None:
    it = perform(kind, long_tape, LONG_TAPE)
    both = [it.start(), it.start()]
    found = [ended(each) for each in both]
    assert sorted(each.code for each in found)[0] == 0, found
    for each in found:
        assert each.code in (0, EXIT_REFUSED), each.err
        if each.code:
            assert f"replay {it.replay_id} is running already" in each.err
    it.finish()


def elsewhere(it: Performance, folder: Path, plan: Path) -> "subprocess.Popen[str]":
    """The same replay from another machine: it has the plan, and no journal of the first."""
    return it.start("--plan", str(plan), XDG_STATE_HOME=str(folder / "elsewhere"))


def test_a_second_machine_is_kept_out_by_the_database(
    perform: Perform, long_tape: str, tmp_path: Path
) -> None:
    it = perform("staged", long_tape, LONG_TAPE)
    plan = tmp_path / "plan.json"
    first = it.start("--plan", str(plan), PLAYHEAD_ABORT_AT="job.drawn#3=stop")
    somebody_stops(it)
    second = ended(elsewhere(it, tmp_path, plan))
    assert second.code == EXIT_REFUSED, second.err
    assert f"replay {it.replay_id} is running already" in second.err
    found = it.carried_on(first)
    assert found.code == 0, found.err
    it.is_whole(json.loads(found.out))


@deep
@pytest.mark.parametrize("point", ["job.drawn#3", "kafka.records_sent#3", "kafka.ledger_sent#3"])
def test_who_slept_through_a_second_run_is_fenced(
    perform: Perform, long_tape: str, tmp_path: Path, point: str
) -> None:
    """Kafka keeps nobody out: the later run takes over, and the earlier one can write no more."""
    it = perform("kafka", long_tape, LONG_TAPE)
    plan = tmp_path / "plan.json"
    first = it.start("--plan", str(plan), PLAYHEAD_ABORT_AT=f"{point}=stop")
    somebody_stops(it)
    second = ended(elsewhere(it, tmp_path, plan))
    assert second.code == 0, second.err
    it.is_whole(json.loads(second.out))
    found = it.carried_on(first)
    assert found.code in (0, EXIT_REFUSED), found.err
    assert it.end.numbers() == [*range(LONG_TAPE)]


@deep
@pytest.mark.parametrize("kind", ["kafka", "staged", "parquet"])
def test_two_machines_at_once(perform: Perform, long_tape: str, tmp_path: Path, kind: str) -> None:
    it = perform(kind, long_tape, LONG_TAPE, slice_records=20)
    plan = tmp_path / "plan.json"
    assert ended(it.start("--plan", str(plan), "--dry-run")).code == 0
    both = [it.start("--plan", str(plan)), elsewhere(it, tmp_path, plan)]
    found = [ended(each) for each in both]
    assert 0 in [each.code for each in found], found
    assert {each.code for each in found} <= {0, EXIT_REFUSED}, found
    assert it.end.numbers() == [*range(LONG_TAPE)]


@deep
@pytest.mark.parametrize("whom", ["driver", "worker"])
@pytest.mark.parametrize("kind", ["kafka", "staged", "parquet"])
def test_a_process_that_sleeps_for_long_goes_on(
    perform: Perform, long_tape: str, kind: str, whom: str
) -> None:
    """Longer than the broker keeps a transaction open."""
    it = perform(kind, long_tape, LONG_TAPE)
    point = "run.planned" if whom == "driver" else "job.drawn#3"
    command = it.start(PLAYHEAD_ABORT_AT=f"{point}=stop")
    somebody_stops(it)
    time.sleep(75)
    found = it.carried_on(command)
    assert found.code == 0, found.err
    it.is_whole(json.loads(found.out))


# --- stopping it


def started(perform: Perform, tape: str, kind: str, pace: str = "250/s") -> Any:
    it = perform(kind, tape, LONG_TAPE, slice_records=25)
    command = it.start("--pace", pace)
    it.comes_to(0.02)
    return it, command


def is_resumable(it: Performance, found: Ended, code: int) -> None:
    assert found.code == code, found.err
    assert f"playhead resume {it.replay_id}" in found.err
    assert "Traceback" not in found.err
    so_far = it.end.numbers()
    assert 0 < len(so_far) < LONG_TAPE, "it was to be stopped in the middle"
    it.are_gone()
    last_wish = it.end.numbers()
    assert last_wish == so_far, "nobody writes after the command has ended"


@pytest.mark.parametrize(
    "kind", ["kafka", pytest.param("staged", marks=deep), pytest.param("parquet", marks=deep)]
)
@pytest.mark.parametrize("sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=deep)])
def test_ctrl_c_stops_at_a_slice_boundary(
    perform: Perform, long_tape: str, kind: str, sign: signal.Signals
) -> None:
    it, command = started(perform, long_tape, kind)
    command.send_signal(sign)
    found = ended(command, seconds=30)
    is_resumable(it, found, EXIT_STOPPED)
    it.finish()


@pytest.mark.parametrize(
    "kind", ["staged", pytest.param("kafka", marks=deep), pytest.param("parquet", marks=deep)]
)
def test_cancel_is_ctrl_c_from_elsewhere(
    perform: Perform, playhead: Playhead, long_tape: str, kind: str
) -> None:
    it, command = started(perform, long_tape, kind)
    done = playhead("cancel", it.replay_id, "-o", "json", **it.environment())
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "stopped"), done.stderr
    is_resumable(it, ended(command, seconds=5), EXIT_STOPPED)
    again = playhead("cancel", it.replay_id, **it.environment())
    assert again.returncode == 2
    assert "is not running on this machine; it is stopped" in again.stderr


@deep
@pytest.mark.parametrize("kind", ["kafka", "staged", "parquet"])
def test_ctrl_c_twice_stops_at_once(perform: Perform, long_tape: str, kind: str) -> None:
    it = perform(kind, long_tape, LONG_TAPE, slice_records=10)
    # A worker that stands still keeps the first Ctrl-C waiting for the slice boundary.
    command = it.start(PLAYHEAD_ABORT_AT="job.drawn#3=stop")
    somebody_stops(it)
    command.send_signal(signal.SIGINT)
    time.sleep(1)
    assert command.poll() is None, "the first one waits"
    command.send_signal(signal.SIGINT)
    found = ended(command, seconds=40)
    assert found.code == EXIT_INTERRUPTED, found.err
    assert "Traceback" not in found.err
    it.wake()
    it.are_gone()
    it.finish()


@deep
@pytest.mark.parametrize("kind", ["postgres", "staged"])
def test_ctrl_c_twice_while_the_database_does_not_answer(
    perform: Perform, database_link: LinkProxy, long_tape: str, kind: str
) -> None:
    """Neither who writes nor who looks at progress gets an answer, or an error."""
    it = perform(kind, long_tape, LONG_TAPE, slice_records=25)
    it.deck = linked(it.deck, database_link)
    command = it.start("--pace", "250/s")
    it.comes_to(0.02)
    database_link.stall()
    time.sleep(2)  # longer than it is from one look to the next
    command.send_signal(signal.SIGINT)
    time.sleep(1)
    command.send_signal(signal.SIGINT)
    found = ended(command, seconds=40)
    assert found.code == EXIT_INTERRUPTED, found.err
    assert "Traceback" not in found.err
    it.are_gone()
    database_link.resume()
    it.finish()


@deep
def test_a_whole_group_is_interrupted_as_a_terminal_does(perform: Perform, long_tape: str) -> None:
    """Ctrl-C on a terminal reaches driver, engine and workers: all of its process group."""
    it, command = started(perform, long_tape, "kafka")
    os.killpg(command.pid, signal.SIGINT)
    is_resumable(it, ended(command, seconds=30), EXIT_STOPPED)
    it.finish()


def test_a_saved_plan_knows_what_it_was(deck: Deck, tmp_path: Path) -> None:
    """A plan that somebody has cut off or changed is refused, not run in part."""
    text = deck.plan(f"kafka:{deck.laps(4)}", f"json:{tmp_path}").plan.as_json()
    for bad in (text[:-40], "{}", text.replace('"replay_id"', '"replay"')):
        with pytest.raises(PlayheadError):
            Plan.from_json(bad, where="plan.json")
