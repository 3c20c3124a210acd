"""A playhead.toml that came with a clone reaches nobody and reads nothing before the user trusts it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import playhead
from playhead import secrets
from playhead.cli import completion
from playhead.cli.app import main
from playhead.config import project, trust
from playhead.config.context import configure
from playhead.config.project import NotTrusted, find_project_file
from playhead.errors import Refused, UsageError
from playhead.host import paths
from playhead.host.folders import why_not_ours
from playhead.host.runtimes import command_of, workers_path
from tests.empty_listener import EmptyListener

SECRET = "a-private-key-of-the-users"
Command = Callable[..., tuple[int, str, str]]

HOSTILE = {
    "kafka.bootstrap.servers": '[kafka]\nbootstrap.servers = "{at}"\n',
    "kafka.metadata.broker.list": '[kafka]\n"metadata.broker.list" = "{at}"\n',
    "bootstrap_servers": 'bootstrap_servers = "{at}"\n',
    "kafka.sasl.mechanism": '[kafka]\nsasl.mechanism = "PLAIN"\nsecurity.protocol = "SASL_PLAINTEXT"\n'
    'bootstrap.servers = "{at}"\nsasl.username = "${{VICTIM}}"\nsasl.password = "file:{key}"\n',
    "kafka.ssl.key.location": '[kafka]\nssl.key.location = "{key}"\n',
    "kafka.security.protocol": '[kafka]\nsecurity.protocol = "PLAINTEXT"\n',
    "kafka.client.id": '[kafka]\n"client.id" = "${{VICTIM}}"\n',
    "database": 'database = "postgresql://u:${{VICTIM}}@{at}/db?sslmode=disable"\n',
    "schema_registry": 'schema_registry = "http://u:${{VICTIM}}@{at}"\n',
    "spark_master": 'spark_master = "spark://{at}"\n',
    "spark_remote": 'spark_remote = "sc://{at}/;token=${{VICTIM}}"\n',
    "context": 'context = "prod"\n',
    "timezone in it refers": 'timezone = "${{VICTIM}}"\n',
}
COMMANDS = (
    ("doctor",),
    ("doctor", "--topic", "t", "--group", "g"),
    ("topics", "list"),
    ("topics", "describe", "t"),
    ("consume", "t"),
    ("groups", "list"),
    ("timeline", "t"),
    ("replay", "kafka:t", "postgres:t", "--dry-run"),
    ("replay", "kafka:t", "kafka:prod/t", "--dry-run"),
    ("gaps", "kafka:t", "postgres:t"),
    ("live", "kafka:t", "postgres:t", "--dry-run"),
    ("ingest", "udp://127.0.0.1:0", "kafka:t", "--dry-run"),
    ("context", "show"),
    ("context", "list"),
)


@pytest.fixture
def listener() -> Iterator[EmptyListener]:
    with EmptyListener() as listener:
        yield listener


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listener: EmptyListener) -> Path:
    """A clone in which somebody stands who has a context, a private key and a secret variable."""
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "COMP_WORDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VICTIM", SECRET)
    (tmp_path / "key").write_text(SECRET)
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text(f'[contexts.prod]\nbootstrap_servers = "{listener.address}"\n')
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    monkeypatch.chdir(clone)
    return clone


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def write(clone: Path, text: str, at: str = "127.0.0.1:9") -> Path:
    file = clone / "playhead.toml"
    file.write_text(text.format(at=at, key=clone.parent / "key"))
    file.chmod(0o644)  # some umasks let a group write
    return file


@pytest.mark.parametrize("field", HOSTILE)
def test_no_command_reaches_what_it_names(repository, listener, run, field):
    file = write(repository, HOSTILE[field], listener.address)
    for words in COMMANDS:
        code, out, err = run(*words)
        assert (code, out) == (6, ""), words
        assert f"{file} is not trusted" in err
        assert field in err
        assert f"playhead config trust {repository}" in err
        assert SECRET not in err
    assert not secrets.redact(SECRET).startswith("*"), "nobody has even read the secret"
    assert listener.brought() == []


@pytest.mark.parametrize("field", HOSTILE)
def test_the_tab_key_reaches_nobody(repository, listener, monkeypatch, field):
    write(repository, HOSTILE[field], listener.address)
    monkeypatch.setenv("COMP_WORDS", "playhead doctor --topic ")
    assert completion.topic_names("") == completion.group_names("") == []
    assert listener.brought() == []


@pytest.mark.parametrize("field", ["bootstrap_servers", "context"])
def test_the_tab_key_reaches_nobody_for_a_trusted_file_either(
    repository, listener, monkeypatch, field
):
    trust.trust(project.read(write(repository, HOSTILE[field], listener.address)))
    monkeypatch.setenv("COMP_WORDS", "playhead doctor --topic ")
    assert completion.topic_names("") == completion.group_names("") == []
    assert listener.brought() == []


def test_the_tab_key_reaches_the_users_own_servers(repository, listener, monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "playhead doctor -c prod --topic ")
    write(repository, 'timezone = "UTC"\n')
    completion.topic_names("")
    assert listener.brought(), "or the tests above would show nothing"


def test_python_reaches_nobody(repository):
    write(repository, HOSTILE["database"])
    with pytest.raises(NotTrusted):
        configure({})


def test_once_it_is_trusted_it_counts(repository, listener, run):
    write(repository, HOSTILE["bootstrap_servers"], listener.address)
    assert run("config", "trust")[0] == 0
    code, out, _ = run("doctor", "-o", "json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    assert listener.brought(), "or the tests above would show nothing"


def test_trusting_shows_what_is_trusted_and_no_secret(repository, run):
    write(repository, HOSTILE["kafka.sasl.mechanism"])
    code, out, err = run("config", "trust", str(repository))
    assert code == 0
    assert f"read from file:{repository.parent / 'key'}" in out
    assert "${VICTIM}" in out
    assert SECRET not in out + err


@pytest.mark.parametrize(
    "said",
    [
        'sasl.password = "{path}"',
        """sasl.jaas.config = 'o.a.k.PlainLoginModule required username="u" password="{path}";'""",
        """sasl.jaas.config = 'o.a.k.PlainLoginModule required password="\\146ile{rest}";'""",
    ],
)
def test_trusting_shows_the_whole_path_of_a_file_that_is_read(repository, run, said):
    """A clone may have a folder with a semicolon in its name, from which `..` leads elsewhere."""
    rest = ":/proc/self/cwd/notes;/../../key"
    write(repository, "[kafka]\n" + said.replace("{path}", f"file{rest}").replace("{rest}", rest))
    code, out, err = run("config", "trust", str(repository), "-o", "json")
    assert code == 0, err
    [row] = json.loads(out)["settings"]
    assert row["value"].endswith(f"read from file{rest}")


@pytest.mark.parametrize(
    "password",
    [
        'database = "postgresql://u:evil.example@127.0.0.1/db"\n',
        '[kafka]\nsasl.oauthbearer.token.endpoint.url = "https://u:evil.example@h/"\n',
    ],
)
def test_no_password_of_the_file_hides_what_it_names(repository, run, password):
    servers = 'bootstrap_servers = "evil.example:9092"\n'
    write(repository, servers + password)
    code, out, err = run("config", "trust", str(repository), "-o", "json")
    assert code == 0, err
    said = {row["setting"]: row["value"] for row in json.loads(out)["settings"]}
    assert said["kafka.bootstrap.servers"] == "evil.example:9092"


def test_what_is_harmless_counts_untrusted(repository):
    file = write(repository, 'timezone = "+05:30"\nspark_memory = "2g"\nread_only = true\n')
    found = configure({})
    assert (found.get("timezone"), found.get("spark_memory")) == ("+05:30", "2g")
    assert found.is_on("read_only")
    assert found.settings["timezone"].origin == str(file)


# --- what trust is bound to


def test_a_pull_that_changes_it_asks_again(repository, run):
    file = write(repository, HOSTILE["database"])
    run("config", "trust")
    assert configure({}).settings["database"].origin == str(file)
    file.write_text(file.read_text() + "# more\n")
    with pytest.raises(NotTrusted, match="has changed since it was trusted, and sets database"):
        configure({})
    assert "changed" in run("config", "trust", "--list")[1]


def test_the_same_file_elsewhere_is_another(repository, run, monkeypatch):
    write(repository, HOSTILE["database"])
    run("config", "trust")
    moved = repository.rename(repository.with_name("moved"))
    monkeypatch.chdir(moved)
    with pytest.raises(NotTrusted):
        configure({})


def test_a_folder_is_the_same_by_every_way_to_it(repository, run, monkeypatch):
    write(repository, HOSTILE["database"])
    way = repository.with_name("way")
    way.symlink_to(repository)
    monkeypatch.chdir(way)
    assert run("config", "trust", str(way))[0] == 0
    assert configure({}, folder=way).settings["database"]
    assert configure({}, folder=repository).settings["database"]


def test_trust_can_be_taken_back(repository, run):
    write(repository, HOSTILE["database"])
    run("config", "trust")
    assert run("config", "trust", "--remove")[0] == 0
    with pytest.raises(NotTrusted):
        configure({})
    assert run("config", "trust", "--remove")[0] == 2


def test_trust_can_be_taken_back_when_the_folder_is_gone(repository, run, monkeypatch):
    file = write(repository, HOSTILE["database"])
    run("config", "trust")
    file.unlink()
    assert "gone" in run("config", "trust", "--list")[1]
    assert run("config", "trust", "--remove", str(repository))[0] == 0
    assert run("config", "trust", "--list")[1].split() == []


def test_what_is_trusted_is_kept_for_the_user_alone(repository, run):
    before = os.umask(0)
    try:
        write(repository, HOSTILE["database"])
        repository.joinpath("playhead.toml").chmod(0o600)
        assert run("config", "trust")[0] == 0
    finally:
        os.umask(before)
    assert trust.store().stat().st_mode & 0o777 == 0o600
    trust.store().chmod(0o666)
    with pytest.raises(Refused, match="everyone can write it"):
        configure({})


# --- whose it is


def test_a_file_that_others_can_write_is_not_trusted_without_saying_so(repository, run):
    file = write(repository, HOSTILE["database"])
    file.chmod(0o666)
    code, _, err = run("config", "trust")
    assert (code, trust.trusted()) == (6, {})
    assert "everyone can write it" in err
    assert run("config", "trust", "--shared")[0] == 0
    assert configure({}).settings["database"]
    file.write_text("")
    with pytest.raises(NotTrusted):
        configure({})


def test_not_even_what_is_harmless_is_taken_from_others(repository):
    write(repository, 'timezone = "+05:30"\n').chmod(0o666)
    with pytest.raises(NotTrusted, match="everyone can write it") as caught:
        configure({})
    assert "--shared" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "found"),
    [
        (os.geteuid(), 0, 0o644, None),
        (0, 0, 0o644, None),
        (54_321, 0, 0o644, "belongs to user 54321"),
        (os.geteuid(), 54_321, 0o664, "its group can write"),
        (os.geteuid(), 0, 0o646, "everyone can write"),
    ],
)
def test_whose_a_file_is(uid, gid, mode, found):
    status = os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))
    said = why_not_ours(status)
    assert said is None if found is None else found in str(said)


def test_a_repository_that_somebody_makes_above_us_is_none(tmp_path):
    """As in /tmp, where anybody may put a .git and a playhead.toml."""
    common = tmp_path / "common"
    mine = common / "mine" / "deep"
    mine.mkdir(parents=True)
    (common / ".git").mkdir()
    (common / "playhead.toml").write_text(HOSTILE["database"])
    assert find_project_file(mine) == common / "playhead.toml"
    common.chmod(0o1777)
    assert find_project_file(mine) is None


MONSTERS = {
    "large": "# " + "x" * (1 << 18),
    "deep": "a = " + "[" * 20_000,
    "dotted": "kafka." + "a." * 20_000 + "b = 1",
    "long": "spark_memory = " + "9" * 20_000,
    "deep by dots": f"[kafka{'.a' * 490}]\n{'a.' * 490}b = 1",
    "deep by lists": "timezone = [" + f"\n{{{'a.' * 400}b = [" * 3 + "]}" * 3 + "]",
    "hexadecimal": "spark_memory = 0x" + "f" * 20_000,
    "hexadecimal in a list": "timezone = [0x" + "f" * 20_000 + "]",
}


@pytest.mark.parametrize("kind", ["link", "pipe", *MONSTERS])
def test_what_is_no_file_of_settings_is_refused_at_once(repository, kind):
    file = repository / "playhead.toml"
    if kind == "link":
        file.symlink_to(repository.parent / "key")
    elif kind in MONSTERS:
        file.write_text(MONSTERS[kind])
    else:
        os.mkfifo(file)
    with pytest.raises(UsageError) as caught:
        configure({})
    assert SECRET not in str(caught.value)


def test_a_projects_file_names_no_other_file(repository):
    (repository / "client.properties").write_text("bootstrap.servers=evil:1\n")
    trust.trust(project.read(write(repository, 'kafka_config = "client.properties"\n')))
    with pytest.raises(UsageError, match="a project file cannot name another file"):
        configure({})


def test_a_sandbox_that_others_can_write_is_none_of_ours(monkeypatch, tmp_path, listener):
    """Its context counts when nobody chose one, so it would be a way in as a project's file is."""
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", str(tmp_path / "sandbox"))
    file = tmp_path / "sandbox" / "context.toml"
    file.parent.mkdir()
    file.write_text(HOSTILE["bootstrap_servers"].format(at=listener.address))
    file.chmod(0o600)
    assert configure({}).context == "sandbox"
    file.chmod(0o666)
    with pytest.raises(Refused, match="is no sandbox of yours: everyone can write it"):
        configure({})


# --- programs of ours, started by one who stands in a clone


@pytest.fixture
def hostile_module(repository: Path) -> Path:
    """A module of the clone by the name of one that everything imports; it leaves the mark that is returned."""
    mark = repository.parent / "owned"
    for name in ("json", "pyspark", "playhead"):
        (repository / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    return mark


def test_a_program_of_ours_looks_for_no_module_in_the_working_folder(hostile_module):
    plain = [sys.executable, "-m", "json.tool", "--help"]
    subprocess.run(plain, capture_output=True, check=False)
    assert hostile_module.exists(), "or this test would show nothing"
    hostile_module.unlink()
    subprocess.run((*command_of("json.tool"), "--help"), capture_output=True, check=True)
    subprocess.run(plain, capture_output=True, check=True, env=os.environ | workers_path())
    assert not hostile_module.exists()


def test_whoever_looks_there_anyway_has_workers_that_do(monkeypatch):
    """A script that stands beside its modules has them in its workers, too."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert workers_path() == {}


def test_every_program_of_ours_is_started_so():
    source = Path(playhead.__file__).parent
    texts = {file: file.read_text(encoding="utf-8") for file in source.rglob("*.py")}
    # An option of ours is followed by its long name.
    asks = [file.name for file, text in texts.items() if re.search(r'"-m"(?!, "--)', text)]
    assert asks == ["runtimes.py"]
    starts_spark = [file.name for file, text in texts.items() if '"PYSPARK_PYTHON"' in text]
    assert starts_spark
    assert all("workers_path()" in texts[source / "spark" / name] for name in starts_spark)
