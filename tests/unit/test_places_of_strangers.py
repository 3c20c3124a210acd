"""Nothing is lost or left waiting in places that strangers can change, and one's own odd places work."""

import errno
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError, Refused, SandboxError
from playhead.host import private_files, shared_files
from playhead.host.atomic_file import write_whole
from playhead.kafka.admin import broker_socket
from playhead.replay import engine_warmup
from playhead.sandbox.folder import prepare
from playhead.source import SourceFacts, TopicFacts
from playhead.sqlite.target import SqliteTarget
from playhead.target import Inspection, InspectRequest
from playhead.testing.target_case import terms
from tests.fix_strangers import NEEDS_A_STRANGER, STRANGER, as_stranger, strangers_folder

WRITERS = {"plan": write_whole, "report": shared_files.write, "private": private_files.write}
WRITES = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@pytest.fixture
def theirs(servers_folder, tmp_path):
    return strangers_folder(servers_folder / f"places-{tmp_path.name}")


@NEEDS_A_STRANGER
@pytest.mark.parametrize("name", ["kept", "not there"])
def test_a_database_is_not_where_a_strangers_link_leads(theirs, tmp_path, name):
    (tmp_path / "kept").touch()
    assert as_stranger("ln", "-s", str(tmp_path / name), str(theirs / "it.db")).returncode == 0
    target = SqliteTarget(str(theirs / "it.db"), "t")
    with pytest.raises(Refused, match="a link of"):
        target.make()
    with pytest.raises(Refused, match="a link of"), target.opened(writes=True):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_a_database_is_where_a_link_of_ones_own_leads(tmp_path):
    (tmp_path / "link.db").symlink_to("real.db")
    target = SqliteTarget(str(tmp_path / "link.db"), "t")
    target.make()
    assert (tmp_path / "real.db").is_file()
    assert target.identity() == f"sqlite:{tmp_path.resolve() / 'real.db'}"


def test_a_journal_that_names_a_file_elsewhere_deletes_nothing(tmp_path):
    """SQLite takes this name for the journal of a transaction over several databases, which it deletes."""
    (tmp_path / "clone").mkdir()
    file, other = tmp_path / "clone" / "a.db", tmp_path / "precious"
    other.write_text("precious")
    journal, head = file.with_name("a.db-journal"), _journal_of(file)
    name = str(other).encode()
    end = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">2I", len(name), sum(name))
    journal.write_bytes(head + end + head[:8])
    with pytest.raises(Refused, match="would delete the file that it names"):
        SqliteTarget(str(file), "t").terms("r")
    assert other.read_text() == "precious"
    assert journal.exists()


def test_a_pipe_in_the_place_of_a_journal_is_refused(tmp_path):
    """SQLite would wait for its other end, without an end."""
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    os.mkfifo(tmp_path / "a.db-journal")
    code = "import sys; from playhead.sqlite.target import SqliteTarget; SqliteTarget(sys.argv[1], 't').terms('r')"
    asked = [sys.executable, "-c", code, str(tmp_path / "a.db")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    assert "a.db-journal cannot be used: it is not a regular file" in done.stderr


def test_a_journal_that_names_no_other_file_is_rolled_back(tmp_path):
    file = tmp_path / "a.db"
    journal = file.with_name("a.db-journal")
    journal.write_bytes(_journal_of(file))
    assert SqliteTarget(str(file), "t").terms("r") is None
    assert not journal.exists()


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"


@pytest.mark.parametrize(
    "planted",
    [
        f"CREATE VIEW playhead_replays AS {ENDLESS} SELECT n AS replay, n AS terms FROM c",
        f"CREATE VIEW Playhead_Replays AS {ENDLESS} SELECT n AS replay, n AS terms FROM c",
        "CREATE TABLE playhead_replays (replay AS (hex(zeroblob(9))), terms)",
        "CREATE VIRTUAL TABLE playhead_replays USING rtree(replay, terms, x)",
    ],
)
def test_code_of_a_database_is_no_ledger(tmp_path, planted):
    """Who made the file would decide how long a plan takes, and what it reads."""
    file = tmp_path / "cloned.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(planted)
    with pytest.raises(Refused, match="playhead_replays .* is not an ordinary table"):
        SqliteTarget(str(file), "t").terms("r")


_UNNAMED = (
    "INSERT INTO sqlite_master SELECT 'table', name, tbl_name, rootpage, NULL FROM sqlite_master "
    "WHERE type = 'index'"
)
_LEDGER = (
    "CREATE TABLE playhead_entries (replay TEXT, topic TEXT, partition INTEGER, from_offset INTEGER, "
    "to_offset INTEGER, entry TEXT, PRIMARY KEY (replay, topic, partition, from_offset){conflicts})"
)
_TRIGGER = "CREATE TRIGGER sly AFTER INSERT ON {of} BEGIN DELETE FROM {gone}; END"


@pytest.mark.parametrize(
    "planted",
    [
        (_LEDGER.format(conflicts=""), _TRIGGER.format(of="playhead_entries", gone="t")),
        (_LEDGER.format(conflicts=""), _TRIGGER.format(of="t", gone="[Playhead_Entries]")),
        (_LEDGER.format(conflicts=" ON CONFLICT IGNORE"),),
        (_LEDGER.format(conflicts="").replace("entry TEXT", "entry TEXT CHECK (1)"),),
    ],
    ids=["rows", "entries", "conflicts", "check"],
)
def test_a_ledger_that_a_file_changes_by_itself_is_refused(tmp_path, planted):
    """Rows that the ledger counts would be gone, or its entries: their records would be written again."""
    file = _cloned(tmp_path, *planted)
    with pytest.raises(Refused, match="not an ordinary table of|the trigger sly .* names playhead"):
        SqliteTarget(str(file), "t").entries("r")


def test_a_ledger_of_ours_stays_one_with_views_and_indexes_of_its_owner(tmp_path):
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (id)")
        connection.execute(_TRIGGER.format(of="t", gone="t WHERE 0"))
    target = SqliteTarget(str(file), "t")
    target.prepare("r", Inspection("", (), (), {}), terms("t"))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE VIEW told AS SELECT * FROM playhead_entries")
        connection.execute("CREATE INDEX tells ON playhead_entries (topic)")
    assert target.entries("r") == []
    assert target.terms("r") is not None


def test_a_schema_that_is_not_utf8_is_an_error_of_ours(tmp_path):
    """Python cannot read SQLite's error, which has the name of the table."""
    file = tmp_path / "cloned.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (value)")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = 'CREATE'")
        connection.commit()
    with pytest.raises(PlayheadError, match="its schema is damaged, and not UTF-8"):
        SqliteTarget(str(file), "t").terms("r")


@pytest.mark.parametrize(
    "planted",
    [
        ("CREATE TABLE PRAGMA_foreign_key_list (a, b)",),
        ("CREATE VIEW pragma_table_xinfo AS SELECT 1",),
        (
            "CREATE TABLE u (id)",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET rootpage = 2 WHERE name = 'u'",
        ),
        ("CREATE INDEX playhead_entries ON t (id)", "PRAGMA writable_schema = ON", _UNNAMED),
    ],
)
def test_a_schema_that_answers_in_another_place_is_an_error(tmp_path, planted):
    """It would say that nothing follows a row, or that another table has lost it."""
    file = _cloned(tmp_path, *planted)
    with pytest.raises(PlayheadError, match="its schema is damaged, or hides what it has"):
        SqliteTarget(str(file), "t").terms("r")


@pytest.mark.parametrize("column", ["type", "name", "tbl_name", "sql"])
@pytest.mark.parametrize("odd", ["CAST({} AS BLOB)", "{} || char(0)", "{} || char(0) || 'x'"])
def test_a_schema_that_hides_what_it_has_is_an_error(tmp_path, column, odd):
    """SQLite takes it for texts, and no question for the triggers of the file finds one."""
    file = tmp_path / "cloned.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (value)")
        connection.execute(_TRIGGER.format(of="t", gone="t"))
        connection.execute("PRAGMA writable_schema = ON")
        change = f"UPDATE sqlite_master SET {column} = {odd.format(column)} WHERE name = 'sly'"
        connection.execute(change)
        connection.commit()
    look = InspectRequest(SourceFacts("contract", {"t": TopicFacts()}), {"t": 1}, [])
    with pytest.raises(PlayheadError, match="its schema is damaged|malformed database schema"):
        SqliteTarget(str(file), "t").inspect(look)


def test_a_clients_key_is_not_written_where_others_can_exchange_its_folder(tmp_path, monkeypatch):
    """They would put a file of theirs there, into which the key is written."""
    (tmp_path / "shared").mkdir(mode=0o700)
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    connection = KafkaConnection("localhost:9", certificate_pem="CERTIFICATE", key_pem="KEY")
    with pytest.raises(Refused, match="in the place of the client's key: .*everyone can write it"):
        broker_socket.tls_context(connection)


def _cloned(folder, *planted):
    """Make a database as a stranger made it, with a table for records."""
    file = folder / "cloned.db"
    with closing(sqlite3.connect(file)) as connection:
        for each in ("CREATE TABLE t (id)", *planted):
            connection.execute(each)
        connection.commit()
    return file


def _journal_of(file):
    """Make a database; return the beginning of a journal that SQLite rolls back when it opens the database."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 0, 1, 2, 512, 4096)
    return head.ljust(512, b"\0")


@NEEDS_A_STRANGER
def test_a_sandbox_folder_that_becomes_a_strangers_link_is_not_opened_up(
    theirs, tmp_path, monkeypatch
):
    """In a folder like /tmp, the name is free until it is taken."""
    place, shared = tmp_path / "ours", theirs / "tmp"
    place.mkdir(mode=0o700)
    shared.mkdir()
    os.chown(theirs, 0, 0)
    shared.chmod(0o1777)
    real = {"exists": Path.exists, "is_dir": Path.is_dir}

    def looked(kind):
        def look(path, **options):
            was_there = real[kind](path, **options)
            if path == shared / "sandbox" and not was_there:
                assert as_stranger("ln", "-s", str(place), str(path)).returncode == 0
            return was_there

        return look

    for kind in real:
        monkeypatch.setattr(Path, kind, looked(kind))
    with pytest.raises(SandboxError):
        prepare(shared / "sandbox", SimpleUser)
    assert place.stat().st_mode & 0o777 == 0o700


class SimpleUser:
    name, uid, gid = "nobody", 65534, 65534


@NEEDS_A_STRANGER
@WRITES
def test_a_second_name_of_a_file_elsewhere_is_not_written_through(theirs, tmp_path, write):
    """Where the system lets everybody make second names (fs.protected_hardlinks=0)."""
    (tmp_path / "kept").write_text("precious")
    (tmp_path / "kept").chmod(0o644)
    (theirs / "file").hardlink_to(tmp_path / "kept")
    write(theirs / "file", "new")
    assert (theirs / "file").read_text() == "new"
    assert (tmp_path / "kept").read_text() == "precious"
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o644


@NEEDS_A_STRANGER
def test_a_report_is_not_written_into_a_strangers_file(theirs):
    assert as_stranger("sh", "-c", f"echo theirs > {theirs}/r && chmod 666 {theirs}/r")
    with (theirs / "r").open() as held:
        shared_files.write(theirs / "r", "new")
        assert held.read() == "theirs\n"
    assert ((theirs / "r").read_text(), (theirs / "r").stat().st_uid) == ("new", 0)


@NEEDS_A_STRANGER
@pytest.mark.parametrize("write", [shared_files.write, private_files.write])
def test_a_strangers_pipe_that_comes_late_is_not_waited_for(theirs, monkeypatch, write):
    real, failed = os.open, []

    def late(name, flags, *others, **options):
        if name == "file" and not (theirs / "file").exists():
            assert as_stranger("mkfifo", "-m", "666", str(theirs / "file")).returncode == 0
        return real(name, flags, *others, **options)

    def writing():
        try:
            write(theirs / "file", "new")
        except OSError as exc:
            failed.append(str(exc))

    monkeypatch.setattr(os, "open", late)
    thread = threading.Thread(target=writing, daemon=True)
    thread.start()
    thread.join(20)
    assert failed
    assert "a pipe of" in failed[0]


@WRITES
def test_ones_own_pipe_waits_for_its_reader(tmp_path, write):
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []

    def reading():
        threading.Event().wait(0.2)
        read.append((tmp_path / "pipe").read_text())

    thread = threading.Thread(target=reading)
    thread.start()
    write(tmp_path / "pipe", "text")
    thread.join(20)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("to_file", [True, False])
@pytest.mark.parametrize(
    "write", ["shared_files.write", "private_files.write", "atomic_file.write_whole"]
)
def test_a_name_of_the_standard_output_stays(tmp_path, write, to_file):
    """Root could replace /dev/stdout, and /dev/null, by a file."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    module = write.split(".", maxsplit=1)[0]
    text = f"from pathlib import Path; from playhead.host import {module}; {write}(Path('stdout'), 'yes')"
    with (tmp_path / "out").open("w") as out:
        (tmp_path / "out").chmod(0o644)
        subprocess.run(
            [sys.executable, "-c", text],
            stdout=out if to_file else subprocess.PIPE,
            cwd=tmp_path,
            timeout=60,
            check=True,
        )
    assert (tmp_path / "stdout").readlink() == Path("/proc/self/fd/1")
    assert (tmp_path / "out").read_text() == ("yes" if to_file else "")


@pytest.mark.parametrize("write", [shared_files.write, private_files.write])
def test_a_link_of_ones_own_stays_and_its_file_is_written(tmp_path, write):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o644)
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@WRITES
@pytest.mark.parametrize("name", ["/", ".", "..", ""])
def test_a_folder_is_no_file_to_write(tmp_path, monkeypatch, write, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError):
        write(Path(name), "text")


@NEEDS_A_STRANGER
@WRITES
def test_folders_above_the_current_one_may_be_closed(theirs, monkeypatch, write):
    """As after `sudo -u`, in a folder of a home that others cannot enter."""
    (theirs / "in").mkdir()
    monkeypatch.chdir(theirs / "in")
    os.chown(theirs / "in", STRANGER.pw_uid, -1)
    os.chown(theirs, 0, 0)
    theirs.chmod(0o700)
    os.seteuid(STRANGER.pw_uid)
    try:
        write(Path("file"), "text")
    finally:
        os.seteuid(0)
    assert (theirs / "in" / "file").read_text() == "text"


@WRITES
@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="links are opened as such on Linux only")
def test_a_folder_that_is_mounted_on_demand_is_mounted(tmp_path, monkeypatch, write):
    """The system mounts it for an open that needs a folder, and not for a handle on its name."""
    for each in ("home", "before the mount"):
        (tmp_path / each / "me").mkdir(parents=True)
    (tmp_path / "before the mount" / "me").rmdir()
    real = os.open

    def mounting(name, flags, *others, **options):
        is_early = name == "home" and not flags & os.O_DIRECTORY
        return real("before the mount" if is_early else name, flags, *others, **options)

    monkeypatch.setattr(os, "open", mounting)
    write(tmp_path / "home" / "me" / "file", "text")
    assert (tmp_path / "home" / "me" / "file").read_text() == "text"


@pytest.mark.parametrize("write", [shared_files.write, private_files.write])
def test_a_file_that_is_mounted_into_an_open_folder_is_written(tmp_path, monkeypatch, write):
    def busy(name, **_options):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)

    tmp_path.chmod(0o777)
    (tmp_path / "file").write_text("an old one")
    monkeypatch.setattr(os, "unlink", busy)
    write(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"


def test_one_process_makes_a_cache_in_a_folder_that_is_open_to_everyone(tmp_path):
    """As a container's volume often is."""
    tmp_path.chmod(0o777)
    with (
        engine_warmup._alone(tmp_path / "lock") as first,
        engine_warmup._alone(tmp_path / "lock") as second,
    ):
        assert (first, second) == (True, False)
