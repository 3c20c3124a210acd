"""Jars come from a repository that cuts, lies and refuses, and only the locked bytes are ever handed out."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import playhead
from playhead.errors import BadValue, NotFetched
from playhead.host import jars
from playhead.host.threads import BackgroundCall

ONE = "org.example:one:1.0"
TWO = "org.example.deep:two:2.1-b"
SOURCE_FOLDER = Path(playhead.__file__).parents[1]


@dataclass
class Repository:
    """What a server on the loopback address serves, what goes wrong there, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut_once_after: int | None = None
    knows_ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.asked.append((handler.path, wanted))
        body = self.files.get(handler.path)
        if body is None:
            handler.send_error(404)
            return
        begin = int(wanted[len("bytes=") : -1]) if wanted and self.knows_ranges else 0
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(body) - begin))
        handler.end_headers()
        cut, self.cut_once_after = self.cut_once_after, None
        handler.wfile.write(body[begin:cut])


@pytest.fixture
def repository(monkeypatch):
    served = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        served.url = f"http://127.0.0.1:{server.server_port}/maven"
        monkeypatch.setenv("PLAYHEAD_MAVEN_URL", served.url + "/")
        yield served
        server.shutdown()


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "LOCK", tmp_path / "jars.lock")
    return tmp_path / "home"


def content(coordinate: str, size: int = 600_000) -> bytes:
    return hashlib.shake_128(coordinate.encode()).digest(size)


@pytest.fixture
def lock(tmp_path, repository):
    """Two jars in the lock and in the repository."""
    lines = ["# a comment", ""]
    for coordinate in (ONE, TWO):
        data = content(coordinate)
        lines.append(f"set {coordinate} {len(data)} {hashlib.sha256(data).hexdigest()}")
        repository.files[f"/maven/{jar_of(coordinate).path}"] = data
    (tmp_path / "jars.lock").write_text("\n".join(lines) + "\n")
    return tmp_path / "jars.lock"


@pytest.fixture
def one_jar(lock):
    """Only the first jar stays in the lock."""
    lock.write_text("\n".join(line for line in lock.read_text().splitlines() if TWO not in line))
    return jars.read_lock(lock)[0]


def jar_of(coordinate: str) -> jars.Jar:
    return jars.Jar("set", coordinate, 0, "")


def cached(coordinate: str = ONE) -> Path:
    return jars.jar_dir() / jar_of(coordinate).file_name


def put(file: Path, data: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def parts() -> list[str]:
    return [file.name for file in jars.jar_dir().glob("*.part")]


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_coordinate_says_where_a_repository_keeps_the_jar():
    assert jar_of(TWO).path == "org/example/deep/two/2.1-b/two-2.1-b.jar"


def test_the_committed_lock_is_well_formed():
    locked = jars.read_lock()
    assert {jar.set_name for jar in locked} == {"engine", "broker", "tools"}
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in locked)
    names = {}
    for jar in locked:  # a file name shared by two coordinates would be fetched for ever
        assert names.setdefault(jar.file_name, jar.coordinate) == jar.coordinate


def test_jars_are_fetched_once(lock, repository):
    first = jars.ensure("set")
    assert [file.read_bytes() for file in first] == [content(ONE), content(TWO)]
    assert jars.ensure("set") == first
    assert Counter(path for path, _ in repository.asked) == dict.fromkeys(repository.files, 1)
    assert parts() == []


def test_the_usual_call_reads_no_jar(lock, repository, monkeypatch):
    jars.ensure("set")
    jars.ensure("set")
    monkeypatch.setattr(jars, "_sha256", lambda file: pytest.fail(f"{file} was read"))
    jars.ensure("set")


def test_only_the_sets_asked_for_are_fetched(lock, repository):
    assert jars.ensure("another") == []
    assert repository.asked == []


def test_an_interrupted_transfer_goes_on_where_it_ended(one_jar, repository):
    repository.cut_once_after = 400_000
    steps: list[tuple[str, int, int]] = []
    (file,) = jars.ensure("set", progress=lambda *step: steps.append(step))
    assert file.read_bytes() == content(ONE)
    assert [wanted for _, wanted in repository.asked] == [None, "bytes=400000-"]
    counts = [done for _, done, _ in steps]
    assert counts == sorted(counts)
    assert steps[-1] == (file.name, one_jar.size, one_jar.size)


def test_a_server_that_ignores_ranges_starts_again(one_jar, repository):
    repository.cut_once_after, repository.knows_ranges = 400_000, False
    (file,) = jars.ensure("set")
    assert file.read_bytes() == content(ONE)
    assert len(repository.asked) == 2


def test_a_corrupted_file_is_fetched_again(one_jar, repository):
    jars.ensure("set")
    (file,) = jars.ensure("set")  # now there is a note that it was seen whole
    file.write_bytes(b"x" + content(ONE)[1:])
    assert jars.missing("set") == [one_jar]
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert len(repository.asked) == 2


def test_a_corrupted_file_is_not_handed_out_when_it_cannot_be_fetched(one_jar, repository):
    put(cached(), b"x" + content(ONE)[1:])
    repository.files.clear()
    with pytest.raises(NotFetched):
        jars.ensure("set")


def test_a_truncated_file_is_fetched_again(one_jar, repository):
    put(cached(), content(ONE)[:-1])
    assert jars.ensure("set")[0].read_bytes() == content(ONE)


@pytest.mark.parametrize("wrong", [content("other"), content("other", 700_000), b"<html>"])
def test_wrong_bytes_are_refused_and_thrown_away(one_jar, repository, wrong):
    repository.files[f"/maven/{one_jar.path}"] = wrong
    with pytest.raises(NotFetched) as caught:
        jars.ensure("set")
    assert (caught.value.coordinate, caught.value.url) == (ONE, f"{repository.url}/{one_jar.path}")
    assert len(repository.asked) == 3
    assert not cached().exists()
    if len(wrong) >= one_jar.size:
        assert "SHA-256" in str(caught.value)
        assert parts() == []


def test_progress_never_exceeds_the_total_even_when_too_much_is_served(one_jar, repository):
    repository.files[f"/maven/{one_jar.path}"] = content("other", 2_000_000)
    steps: list[tuple[str, int, int]] = []
    with pytest.raises(NotFetched):
        jars.ensure("set", progress=lambda *step: steps.append(step))
    assert steps
    assert all(done <= total == one_jar.size for _, done, total in steps)


def test_a_server_that_sends_without_end_fills_no_disk(one_jar, repository, monkeypatch):
    """A mirror that was taken over; the lock file says how large a jar is."""
    repository.files[f"/maven/{one_jar.path}"] = content("other", 40_000_000)
    largest = 0
    sha256 = jars._sha256

    def looked_at(file: Path) -> str:
        nonlocal largest
        largest = max(largest, file.stat().st_size)
        return sha256(file)

    monkeypatch.setattr(jars, "_sha256", looked_at)
    with pytest.raises(NotFetched, match="SHA-256"):
        jars.ensure("set")
    assert largest == one_jar.size + 1


def test_progress_adds_up_over_all_jars(lock):
    steps: list[tuple[str, int, int]] = []
    jars.ensure("set", progress=lambda *step: steps.append(step))
    counts = [done for _, done, _ in steps]
    assert counts == sorted(counts)
    assert steps[-1][1:] == (1_200_000, 1_200_000)


def test_a_jar_that_is_not_there_is_named_with_its_address(one_jar, repository):
    repository.files.clear()
    with pytest.raises(NotFetched, match="HTTP 404") as caught:
        jars.ensure("set")
    assert ONE in str(caught.value)
    assert f"{repository.url}/org/example/one/1.0/one-1.0.jar" in str(caught.value)
    assert "PLAYHEAD_MAVEN_URL" in (caught.value.hint or "")


def test_a_refused_connection_is_named_with_its_address(one_jar, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("PLAYHEAD_MAVEN_URL", url)
        with pytest.raises(NotFetched, match="refused") as caught:
            jars.ensure("set")
    assert caught.value.url == f"{url}/{one_jar.path}"


def test_a_server_that_does_not_speak_http_is_an_error_of_ours(one_jar, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PLAYHEAD_MAVEN_URL", f"http://127.0.0.1:{server.getsockname()[1]}")

        def talk() -> None:
            for _ in range(3):
                peer = server.accept()[0]
                with peer:
                    peer.recv(4096)
                    peer.sendall(b"SSH-2.0-OpenSSH\r\n")

        talker = threading.Thread(target=talk)
        talker.start()
        with pytest.raises(NotFetched, match=r"SSH-2\.0"):
            jars.ensure("set")
        talker.join(10)


def endless(monkeypatch, first: bytes, on_and_on: bytes, pause_s: float) -> socket.socket:
    """Name a mirror that begins with some bytes and then sends others for ever."""

    def talk(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.recv(4096)
            peer.sendall(first)
            while True:
                peer.sendall(on_and_on)
                time.sleep(pause_s)

    def take() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=take, daemon=True).start()
    monkeypatch.setenv("PLAYHEAD_MAVEN_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
    return server


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("first", "on_and_on", "pause_s"),
    [
        (OK + b"Content-Length: 600000\r\n\r\n", b"x", 0.05),
        (OK, b"x", 0.05),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n", 0.01),
    ],
    ids=["body", "headers", "continue", "trailers"],
)
def test_a_mirror_that_never_comes_to_an_end_is_not_waited_for(
    one_jar, monkeypatch, first, on_and_on, pause_s
):
    """Each byte came within the time of a wait, so the download had no end."""
    monkeypatch.setattr(jars, "_BLOCK_WITHIN_S", 0.3)
    with endless(monkeypatch, first, on_and_on, pause_s):
        call = BackgroundCall(lambda: jars.ensure("set"), name="fetch")
        assert call.is_over(20)
        with pytest.raises(NotFetched, match="did not end within"):
            call.result()


def test_the_body_of_a_redirect_is_not_read(one_jar, monkeypatch):
    """Python reads it whole: a mirror filled the memory with one that has no end."""
    first = b"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n"
    with endless(monkeypatch, first, b"x" * 100_000, 0.01):
        call = BackgroundCall(lambda: jars.ensure("set"), name="fetch")
        assert call.is_over(20)
        with pytest.raises(NotFetched, match="HTTP 302"):
            call.result()


def test_a_redirect_to_a_port_that_no_machine_has_is_an_error_of_ours(one_jar, monkeypatch):
    first = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % 10**20
    with (
        endless(monkeypatch, first, b"x", 0.01),
        pytest.raises(NotFetched, match="too large|not known|not supported"),
    ):
        jars.ensure("set")


def test_an_address_that_is_none_is_an_error_of_ours(one_jar, monkeypatch):
    monkeypatch.setenv("PLAYHEAD_MAVEN_URL", "repo1.maven.org")
    with pytest.raises(NotFetched, match=f"{ONE} from repo1.maven.org/org"):
        jars.ensure("set")


@pytest.mark.parametrize(
    "url", ["http://deploy:s3cret-pw@127.0.0.1:9/m2", "https://deploy:s3c/ret-pw@repo.example/m2"]
)
def test_an_address_with_a_login_is_refused_without_its_password(one_jar, monkeypatch, url):
    """Python would ask DNS for the whole login as a host."""
    monkeypatch.setenv("PLAYHEAD_MAVEN_URL", url)
    with pytest.raises(BadValue, match="PLAYHEAD_MAVEN_URL .* without a login") as caught:
        jars.ensure("set")
    assert "s3c" not in str(caught.value)
    assert "ret-pw" not in str(caught.value)


def test_an_empty_address_means_the_usual_one(monkeypatch):
    monkeypatch.setenv("PLAYHEAD_MAVEN_URL", "")
    assert jars.repository() == jars.DEFAULT_REPOSITORY


def test_a_whole_jar_of_mavens_own_folder_is_used(one_jar, repository, home):
    put(home / ".m2/repository" / one_jar.path, content(ONE))
    steps: list[tuple[str, int, int]] = []
    (file,) = jars.ensure("set", progress=lambda *step: steps.append(step))
    assert file.read_bytes() == content(ONE)
    assert repository.asked == []
    assert steps == [("one-1.0.jar (from ~/.m2)", one_jar.size, one_jar.size)]


def test_a_wrong_jar_of_mavens_own_folder_is_ignored(one_jar, repository, home):
    put(home / ".m2/repository" / one_jar.path, content("other"))
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert len(repository.asked) == 1


def test_a_jar_of_mavens_own_folder_that_is_exchanged_after_a_look_does_not_run(
    one_jar, repository, home, monkeypatch
):
    """HOME may be another user's, who can exchange the file between two looks at it."""
    local = put(home / ".m2/repository" / one_jar.path, content(ONE))
    look = jars._sha256

    def looked_at(file):
        found = look(file)
        local.write_bytes(content("other"))
        return found

    monkeypatch.setattr(jars, "_sha256", looked_at)
    assert jars.ensure("set")[0].read_bytes() == content(ONE)


def test_what_a_dead_process_had_got_is_gone_on_with(one_jar, repository):
    put(cached().with_name(f"one-1.0.jar.{dead_pid()}.part"), content(ONE)[:123_456])
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert [wanted for _, wanted in repository.asked] == ["bytes=123456-"]
    assert parts() == []


def test_what_a_dead_process_had_got_wrong_does_no_harm(one_jar, repository):
    put(cached().with_name(f"one-1.0.jar.{dead_pid()}.part"), content("other")[:1000])
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert [wanted for _, wanted in repository.asked] == ["bytes=1000-", None]


@pytest.mark.parametrize("pid", ["9" * 40, "²٣"])
def test_a_part_of_no_process_is_left_alone(one_jar, repository, pid):
    part = put(cached().with_name(f"one-1.0.jar.{pid}.part"), b"something")
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert part.read_bytes() == b"something"


@pytest.mark.parametrize("what", ["the part", "the cache"])
def test_a_cache_that_is_deleted_meanwhile_is_an_error_of_ours(
    one_jar, repository, monkeypatch, what
):
    real = jars._sha256

    def deleted(file: Path) -> str:
        if what == "the part":
            file.unlink()
            return real(file)
        found = real(file)
        shutil.rmtree(file.parent)
        return found

    monkeypatch.setattr(jars, "_sha256", deleted)
    with pytest.raises(NotFetched, match="No such file"):
        jars.ensure("set")


def test_a_folder_in_a_jars_place_is_an_error_of_ours(one_jar, repository):
    cached().mkdir(parents=True)
    with pytest.raises(NotFetched, match="Is a directory"):
        jars.ensure("set")


def test_what_a_living_process_is_writing_is_left_alone(one_jar, repository):
    part = put(cached().with_name(f"one-1.0.jar.{os.getppid()}.part"), b"being written")
    jars.ensure("set")
    assert part.read_bytes() == b"being written"
    assert [wanted for _, wanted in repository.asked] == [None]


def test_two_processes_at_once_end_with_whole_files(lock, repository):
    program = (
        "import sys; from pathlib import Path; from playhead.host import jars;"
        "jars.LOCK = Path(sys.argv[1]);"
        "sys.stdin.readline(); jars.ensure('set')"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(lock)],
            stdin=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(SOURCE_FOLDER)},
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=30)
    assert [process.returncode for process in both] == [0, 0]
    assert [cached(each).read_bytes() for each in (ONE, TWO)] == [content(ONE), content(TWO)]
    assert parts() == []


def test_two_threads_at_once_fetch_each_jar_once(lock, repository):
    barrier, failed = threading.Barrier(2), []

    def fetch() -> None:
        barrier.wait(10)
        try:
            files = jars.ensure("set")
            assert [file.read_bytes() for file in files] == [content(ONE), content(TWO)]
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert len(repository.asked) == 2


def test_a_cache_that_cannot_be_written_serves_what_it_has(one_jar, repository):
    jars.ensure("set")
    cached().with_name("one-1.0.jar.ok").mkdir()  # as good as read-only, also for root
    assert jars.ensure("set")[0].read_bytes() == content(ONE)
    assert len(repository.asked) == 1


def test_a_cache_that_cannot_be_made_is_an_error_of_ours(one_jar, repository, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(NotFetched, match="Not a directory|File exists"):
        jars.ensure("set")
    assert repository.asked == []


def test_after_the_first_jar_that_cannot_be_fetched_no_other_is_asked_for(lock, repository):
    """Each would take as long: a server that sends a byte now and then, three minutes."""
    count = 60
    lock.write_text("".join(f"set org.example:j{n}:1 9 {n:064x}\n" for n in range(count)))

    def late(handler: BaseHTTPRequestHandler) -> None:
        repository.asked.append((handler.path, None))
        time.sleep(0.3)
        handler.send_error(404)

    repository.answer = late
    with pytest.raises(NotFetched, match="HTTP 404"):
        jars.ensure("set")
    assert len(repository.asked) < count // 2


def test_a_download_that_runs_ends_when_another_jar_cannot_be_fetched(
    lock, repository, monkeypatch
):
    monkeypatch.setattr(jars, "_BLOCK", 1_000)
    lock.write_text(f"set {ONE} 200000 {1:064x}\nset {TWO} 9 {2:064x}\n")
    sent = []

    def slow(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.endswith(jar_of(TWO).path):
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", "200000")
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(200):
                handler.wfile.write(bytes(1_000))
                sent.append(1_000)
                time.sleep(0.02)

    repository.answer = slow
    with pytest.raises(NotFetched, match="HTTP 404"):
        jars.ensure("set")
    assert len(sent) < 100
