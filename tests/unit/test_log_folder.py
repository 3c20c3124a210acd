"""Logs that are followed: whatever happens to their files, each row is given out once, or its loss is named."""

import gzip
import os
import random
import shutil
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

import pytest

from playhead.host.threads import call_within
from playhead.queries import log_file, log_folder
from playhead.queries.log_file import LogFile, open_log
from playhead.queries.log_folder import KeptLog, LogFolder, _matching
from playhead.querylog.cutting import cutter_of, rows_of
from playhead.querylog.located import LocatedRow
from playhead.querylog.stderr_prefix import KNOWN_PREFIXES
from tests.fix_deep_folders import folder_of_many_levels
from tests.fix_strangers import NEEDS_A_STRANGER, as_stranger, strangers_folder

DATA = Path(__file__).parent.parent / "data" / "querylog"
CSV = sorted(DATA.glob("pg*.csv"))


class Follower:
    """One that keeps what was committed, and can be begun anew with it."""

    def __init__(self, pattern: Path) -> None:
        self.pattern, self.kept, self.given = str(pattern), dict[str, KeptLog](), list[bytes]()
        self.places: list[tuple[int, int]] = []
        self.said: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A new process, with what the ledger has."""
        self.folder = LogFolder(self.pattern, KNOWN_PREFIXES, dict(self.kept), self.said.append)

    def catch_up(self, *, steps: int = 10_000, commits: bool = True) -> None:
        self.folder.look()
        for _ in range(steps):
            step = self.folder.step()
            if not step:
                return
            if not commits:
                continue
            for log, rows in step:
                self.given += [row.value for row in rows]
                self.places += [(log.sequence, row.start) for row in rows]
                self.kept[log.identity] = KeptLog(
                    log.sequence, log.position, log.tail_at(log.position)
                )

    def die(self) -> None:
        """With rows that were read and not committed."""
        self.catch_up(steps=1, commits=False)
        self.folder.close()
        self.begin()


@pytest.fixture
def follow() -> Iterator[Callable[[Path], Follower]]:
    made: list[Follower] = []

    def start(pattern: Path) -> Follower:
        made.append(Follower(pattern))
        return made[-1]

    yield start
    for each in made:
        each.folder.close()


Follow = Callable[[Path], Follower]


def rows(data: bytes) -> list[bytes]:
    return [row.removesuffix(b"\n") for row in rows_of(iter([data]), cutter_of("csvlog"))]


@pytest.mark.parametrize("seed", range(40))
def test_files_that_grow_are_renamed_and_packed_while_the_reader_dies(
    seed: int, tmp_path: Path, follow: Follow
) -> None:
    dice = random.Random(seed)
    follower, written = follow(tmp_path / "*"), b""
    # In the order of their times, as those of one server are.
    for number, data in enumerate(sorted(each.read_bytes() for each in dice.sample(CSV, 4))):
        at = 0
        path = tmp_path / f"{number}.csv"
        while at < len(data):
            size = dice.choice((1, 50, 3_000, 40_000))
            with path.open("ab") as file:
                file.write(data[at : at + size])
            at += size
            match dice.randrange(6):
                case 0:
                    follower.die()
                case 1 if number:
                    follower.catch_up(steps=2)
                case 2:
                    path = path.rename(tmp_path / f"{number}.{at}.csv")
                case 3:
                    follower.catch_up()
        written += data
        if dice.random() < 0.5:
            follower.catch_up()
            packed = tmp_path / f"{number}.gz"
            packed.write_bytes(gzip.compress(path.read_bytes()))
            if dice.random() < 0.5:
                path.unlink()
    follower.catch_up()
    assert sorted(follower.given) == sorted(rows(written))
    by_place = [row for _, row in sorted(zip(follower.places, follower.given, strict=True))]
    assert by_place == follower.given, "the order of places is that in which rows are given out"
    assert len(set(follower.places)) == len(follower.places)
    assert follower.folder.maybe_lost == 0


def test_the_rest_of_a_log_comes_before_the_next_one(
    tmp_path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted((CSV[0].read_bytes(), CSV[1].read_bytes()))
    (tmp_path / "a.csv").write_bytes(first[:5_000])
    (tmp_path / "b.csv").write_bytes(second[:2_000])
    follower = follow(tmp_path / "*")
    follower.catch_up()
    read = LogFile.read

    def grown(log: LogFile) -> list[LocatedRow]:
        if log.path.name == "b.csv":
            # The server finishes one log and writes to the next, just after the first one was read.
            (tmp_path / "a.csv").write_bytes(first)
            (tmp_path / "b.csv").write_bytes(second)
        return read(log)

    monkeypatch.setattr(LogFile, "read", grown)
    rest = [row for row in rows(first) if row not in follower.given]
    before = len(follower.given)
    follower.catch_up(steps=1)
    assert follower.given[before:][: len(rest)] == rest
    assert follower.given[-1] == rows(second)[-1]


def test_truncated_under_its_name_it_is_another_log(tmp_path: Path, follow: Follow) -> None:
    first, second = CSV[0].read_bytes(), CSV[1].read_bytes()
    log = tmp_path / "a.csv"
    log.write_bytes(first)
    follower = follow(log)
    follower.catch_up()
    # Truncated and longer than before, all between two looks, with the same inode.
    inode = log.stat().st_ino
    with log.open("wb") as file:
        file.write(second + second)
    assert log.stat().st_ino == inode
    follower.catch_up()
    follower.catch_up()
    assert follower.given == rows(first + second + second)


def test_what_was_truncated_before_it_was_read_is_said_to_be_lost(
    tmp_path: Path, follow: Follow
) -> None:
    first, second = CSV[0].read_bytes(), CSV[1].read_bytes()
    log = tmp_path / "a.csv"
    log.write_bytes(first[:-20])
    follower = follow(log)
    follower.catch_up()
    log.write_bytes(second)
    follower.catch_up()
    follower.catch_up()
    assert follower.folder.maybe_lost == 1
    assert "a.csv was truncated or replaced" in follower.said[0]
    assert follower.given == rows(first)[:-1] + rows(second)


def test_an_older_copy_that_was_restored_and_went_on_is_read_from_its_beginning(
    tmp_path: Path, follow: Follow
) -> None:
    file, given = tmp_path / "a.csv", rows(CSV[0].read_bytes())
    assert len(given) > 30
    file.write_bytes(b"".join(row + b"\n" for row in given[:10]))
    reader = follow(file)
    reader.catch_up()
    assert reader.given == given[:10]
    # Longer than what was read, so that the position is in the middle of other rows.
    file.write_bytes(b"".join(row + b"\n" for row in [*given[:5], *given[12:]]))
    reader.folder.close()
    reader.begin()
    reader.catch_up()
    assert reader.given == [*given[:10], *given[:5], *given[12:]]
    assert "has other content before byte" in reader.said[-1]
    with file.open("ab") as more:
        more.write(given[10] + b"\n")
    reader.folder.close()
    reader.begin()
    reader.catch_up()
    assert reader.given[-1] == given[10]
    assert len(reader.said) == 1, "a log that has only grown goes on at its position"


def test_a_shorter_copy_beside_a_log_repeats_nothing(tmp_path: Path, follow: Follow) -> None:
    given = rows(CSV[0].read_bytes())
    (tmp_path / "b.csv").write_bytes(b"".join(row + b"\n" for row in given))
    reader = follow(tmp_path / "*.csv")
    reader.catch_up()
    (tmp_path / "a.csv").write_bytes(b"".join(row + b"\n" for row in given[:5]))
    reader.folder.close()
    reader.begin()
    reader.catch_up()
    reader.catch_up()
    assert reader.given == given


def test_a_copy_that_was_made_before_the_truncation_has_the_rest(
    tmp_path: Path, follow: Follow
) -> None:
    first, second = CSV[0].read_bytes(), CSV[1].read_bytes()
    log = tmp_path / "a.csv"
    log.write_bytes(first[:3_000])
    follower = follow(tmp_path / "*")
    follower.catch_up()
    log.write_bytes(first)
    shutil.copy(log, tmp_path / "a.csv.1")
    log.write_bytes(second)
    for _ in range(3):
        follower.catch_up()
    assert sorted(follower.given) == sorted(rows(first) + rows(second))


def test_what_was_deleted_while_it_is_open_is_read_to_its_end(
    tmp_path: Path, follow: Follow
) -> None:
    data, log = CSV[0].read_bytes(), tmp_path / "a.csv"
    log.write_bytes(data[:3_000])
    follower = follow(tmp_path / "*")
    follower.catch_up()
    with log.open("ab") as file:
        log.unlink()
        file.write(data[3_000:])
    follower.catch_up()
    assert follower.given == rows(data)


def test_hundreds_of_logs_need_few_open_files(tmp_path: Path, follow: Follow) -> None:
    lines = rows(CSV[0].read_bytes())
    expected = []
    for number in range(300):
        line = lines[0].replace(
            b"2026-11-21", b"2026-%02d-%02d" % (1 + number // 28, 1 + number % 28)
        )
        expected.append(line)
        (tmp_path / f"{number}.csv").write_bytes(line + b"\n")
    before = len([*Path("/proc/self/fd").iterdir()])
    follower = follow(tmp_path / "*")
    follower.catch_up()
    assert len([*Path("/proc/self/fd").iterdir()]) - before <= 70
    assert follower.given == expected
    with (tmp_path / "0.csv").open("ab") as file:
        file.write(lines[1] + b"\n")
    follower.catch_up()
    assert follower.given[-1] == lines[1]


@pytest.mark.parametrize("name", ["notes.csv", "broken.gz"])
def test_what_is_no_log_is_named(name: str, tmp_path: Path, follow: Follow) -> None:
    (tmp_path / "notes.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(CSV[0].read_bytes())[:-200])
    (tmp_path / "half.csv").write_bytes(CSV[0].read_bytes()[:30])
    (tmp_path / "empty.csv").write_bytes(b"")
    follower = follow(tmp_path / "*")
    follower.catch_up()
    assert any(name in text for text in follower.said)
    assert not any("half" in text or "empty" in text for text in follower.said)


def test_many_logs_with_incomplete_rows_do_not_fill_the_memory_together(
    tmp_path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kept up to the longest row; a file of NULs takes no room on the disk."""
    monkeypatch.setattr(log_folder, "_MOST_KEPT", 1 << 20)
    for number in range(10):
        session = b"2026-11-21 03:33:17.580 UTC,,,1,,%d.1," % (10 + number)
        (tmp_path / f"{number}.csv").write_bytes(session + b'1,,\n"' + bytes(900_000))
    follower = follow(tmp_path / "*.csv")
    follower.catch_up()
    logs = follower.folder.logs
    assert len(logs) == 10
    assert all(log.held_bytes > 900_000 for log in logs)
    assert sum(log.kept_bytes for log in logs) < 2 << 20


def test_a_row_longer_than_what_is_read_at_once(tmp_path: Path, follow: Follow) -> None:
    row = rows(CSV[0].read_bytes())[7].replace(
        b'"statement: ', b'"statement: ' + b"x\n" * 3_000_000, 1
    )
    log = tmp_path / "a.csv"
    log.write_bytes(CSV[0].read_bytes() + row + b"\n")
    follower = follow(log)
    follower.catch_up()
    assert follower.given[-1] == row


@pytest.mark.parametrize("size", [70_000, 200_000, 9_000_000])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_log_whose_first_row_is_long(
    size: int, is_packed: bool, tmp_path: Path, follow: Follow
) -> None:
    first, *others = rows(CSV[0].read_bytes())[:4]
    fields = first.split(b",")
    long = b",".join([*fields[:13], b'"SELECT ""' + b"x" * size + b'"""', *fields[14:]])
    data = b"\n".join([long, *others, b""])
    (tmp_path / "a.csv").write_bytes(gzip.compress(data) if is_packed else data)
    follower = follow(tmp_path / "*.csv")
    follower.catch_up(steps=1)
    follower.die()
    follower.catch_up()
    assert follower.given == rows(data)
    assert follower.said == []


@pytest.mark.parametrize("form", [gzip.compress, bytes], ids=["packed", "plain"])
def test_a_log_without_a_row_for_long_is_left_where_the_shipper_stops(
    tmp_path: Path, follow: Follow, form: Callable[[bytes], bytes]
) -> None:
    whole = CSV[0].read_bytes()
    first = next(iter(rows(whole)))
    (tmp_path / "a.csv").write_bytes(form(first + b'\n"' + b"x" * (20 << 20)))
    (tmp_path / "b.csv").write_bytes(CSV[1].read_bytes())
    follower = follow(tmp_path / "*.csv")
    follower.folder.look()
    [[(log, found)]] = [follower.folder.step()]
    assert [row.value for row in found] == [first]

    follower.folder.stopping.set()

    assert follower.folder.step() == [], (
        "rows of a later log came before the rest of an earlier one"
    )
    assert log.held_bytes < 4 << 20


def test_of_a_long_file_that_is_no_log_only_the_beginning_is_read(
    tmp_path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_bytes(b"no log\n" * 100_000)
    sizes: list[int] = []
    first_row = log_file._first_row

    def seen(found: bytes, prefix: str) -> LocatedRow | None:
        sizes.append(len(found))
        return first_row(found, prefix)

    monkeypatch.setattr(log_file, "_first_row", seen)
    follow(tmp_path / "*.csv").catch_up()
    assert set(sizes) == {1 << 16}


@pytest.mark.parametrize("way", ["file", "folder", "later", "packed"])
def test_a_link_out_of_the_folder_is_named_and_not_read(
    way: str, tmp_path: Path, follow: Follow
) -> None:
    """The server's user, who may write to the folder, has a shipper with more rights read another file."""
    secret, logs = tmp_path / "secret", tmp_path / "log"
    secret.mkdir()
    logs.mkdir()
    data = CSV[0].read_bytes()
    (secret / "a.csv").write_bytes(gzip.compress(data) if way == "packed" else data)
    follower = follow(logs / "*" / "*.csv" if way == "folder" else logs / "*.csv")
    if way == "later":
        (logs / "a.csv").write_bytes(CSV[1].read_bytes())
        follower.catch_up()
        assert follower.given == rows(CSV[1].read_bytes())
        (logs / "a.csv").unlink()
    if way == "folder":
        (logs / "sub").symlink_to(secret)
    else:
        (logs / "a.csv").symlink_to(secret / "a.csv")
    before = len(follower.given)
    for _ in range(3):
        follower.catch_up()
    assert len(follower.given) == before
    assert follower.folder.unreadable
    assert sum(f"a link out of {logs}" in each for each in follower.said) == 1


def test_a_link_to_another_log_of_the_folder_is_the_same_log(
    tmp_path: Path, follow: Follow
) -> None:
    """Some servers keep a link to the newest log; and the folder itself may be a link of the user's."""
    logs = tmp_path / "data" / "log"
    logs.mkdir(parents=True)
    (logs / "a.csv").write_bytes(CSV[0].read_bytes())
    (logs / "current.csv").symlink_to("a.csv")
    (tmp_path / "link").symlink_to(logs)
    follower = follow(tmp_path / "link" / "*.csv")
    follower.catch_up()
    assert follower.given == rows(CSV[0].read_bytes())
    assert not follower.folder.unreadable


@NEEDS_A_STRANGER
@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="links are opened as such on Linux only")
def test_a_link_of_the_servers_user_in_the_place_of_the_folder_leads_nowhere(
    tmp_path: Path, servers_folder: Path, follow: Follow
) -> None:
    """Who owns the folder above can exchange the folder, which is how the pattern is written."""
    secret = servers_folder / f"secret-{tmp_path.name}"
    secret.mkdir()
    (secret / "a.csv").write_bytes(CSV[0].read_bytes())
    data = strangers_folder(servers_folder / f"data-{tmp_path.name}")
    assert as_stranger("ln", "-s", str(secret), str(data / "log")).returncode == 0
    follower = follow(data / "log" / "*.csv")
    follower.catch_up()
    assert follower.given == []
    assert any("a link of daemon leads to it" in each for each in follower.said)
    (data / "log").unlink()
    strangers_folder(data / "log")
    (data / "log" / "a.csv").write_bytes(CSV[0].read_bytes())
    (tmp_path / "link").symlink_to(data / "log")
    for pattern in (data / "log" / "*.csv", tmp_path / "link" / "*.csv", data / "l*" / "*.csv"):
        follower = follow(pattern)
        follower.catch_up()
        assert follower.given == rows(CSV[0].read_bytes())


def test_a_pipe_in_the_place_of_a_log_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    assert open_log(tmp_path / "a.csv", KNOWN_PREFIXES, tmp_path) is None


def test_a_log_that_becomes_a_circle_of_links_while_it_is_opened_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, opened = tmp_path / "a.csv", os.open
    log.write_bytes(CSV[0].read_bytes())

    def swapped(path: Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        log.unlink()
        log.symlink_to(log)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapped)
    assert open_log(log, KNOWN_PREFIXES, tmp_path) is None


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_that_is_a_file_while_it_is_resolved_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """Who can write in the folder exchanges both names again and again, and it is a link before and after."""
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    for folder in (logs / "sub", secret):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(CSV[0].read_bytes())
    log = logs / "sub" / "a.csv"
    name, leads_to = (log, secret / "a.csv") if swapped == "file" else (log.parent, secret)
    aside, resolve = tmp_path / "aside", Path.resolve

    def be_a_link() -> None:
        name.rename(aside)
        name.symlink_to(leads_to)

    def resolved(path: Path, strict: bool = False) -> Path:
        name.unlink()
        aside.rename(name)
        found = resolve(path, strict)
        be_a_link()
        return found

    be_a_link()
    monkeypatch.setattr(Path, "resolve", resolved)
    assert open_log(log, KNOWN_PREFIXES, logs) is None


def test_links_in_circles_do_not_keep_a_pattern_of_all_folders(tmp_path):
    """Two links of the server's user to their own folder are 2 to the power of 40 paths."""
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    for name in ("a", "a/b", "z"):
        (logs / name).mkdir(parents=True)
        shutil.copy(CSV[0], logs / name / "log.csv")
    (outside / "deep").mkdir(parents=True)
    for place in (outside, outside / "deep"):
        shutil.copy(CSV[0], place / "log.csv")
    for name, to in (("c", "."), ("d", "."), ("a/up", ".."), ("e", "a/b"), ("out", outside)):
        (logs / name).symlink_to(to)
    found = call_within(lambda: [*_matching(logs / "**" / "*.csv")], 20, name="looking")
    assert {path.resolve() for path in found} == {
        *(logs / name / "log.csv" for name in ("a", "a/b", "z")), outside / "log.csv",
    }  # fmt: skip
    assert len(found) == 4
    everything = [path for path in _matching(logs / "**") if path.is_file()]
    assert {path.resolve() for path in everything} == {path.resolve() for path in found}


def test_a_link_to_itself_among_the_folders_ends_nothing(tmp_path):
    """Before Python 3.13, Path.resolve raises an error that is no OSError."""
    shutil.copytree(DATA, tmp_path / "day" / "pg")
    (tmp_path / "loop").symlink_to("loop")
    found = {*_matching(tmp_path / "*" / "**" / "*.csv")}
    assert found == {tmp_path / "day" / "pg" / each.name for each in CSV}


def test_a_log_that_becomes_a_link_to_itself_while_it_is_looked_at_ends_nothing(
    tmp_path, follow, monkeypatch
):
    (tmp_path / "a.csv").write_text("no row yet\n")
    (tmp_path / "loop").symlink_to("loop")
    follower = follow(tmp_path / "a.csv")

    def swapped(path: Path, *_):
        (tmp_path / "loop").replace(path)

    monkeypatch.setattr(log_folder, "open_log", swapped)
    follower.catch_up()
    assert follower.folder.unknown == set()


@pytest.mark.parametrize("name", ["d", "[d"])
def test_a_pattern_of_all_folders_stands_thousands_of_levels(tmp_path, name):
    (tmp_path / "a.csv").write_text("x")
    with folder_of_many_levels(tmp_path / "top", name):
        assert [*_matching(tmp_path / "**" / "*.csv")] == [tmp_path / "a.csv"]


def test_a_pattern_of_all_folders_finds_what_the_shell_would(tmp_path):
    for name in ("x.csv", "a/x.csv", "a/b/x.csv", "a/[b]/x.csv", ".hidden/x.csv", "a/y.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for pattern in (
        "**/*.csv",
        "a/**/x.csv",
        "**/b/*.csv",
        "**",
        "a/**/**/*",
        "a**/*.csv",
        "none/**/*",
    ):
        wanted = {Path(each) for each in glob(str(tmp_path / pattern), recursive=True)}  # noqa: PTH207
        found = [*_matching(tmp_path / pattern)]
        assert {path for path in found if path.is_file()} == {
            path for path in wanted if path.is_file()
        }
        assert len(found) == len(set(found))
