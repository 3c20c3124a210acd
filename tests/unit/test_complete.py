"""Completion understands the half-typed line, answers in time, and never says anything but names."""

import hashlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import playhead
from playhead.cli import completion
from playhead.cli.app import app
from playhead.cli.completion_script import COMPLETES, BashWords
from playhead.config.context import Configuration
from playhead.errors import PlayheadError
from playhead.host import paths

SOURCE_FOLDER = Path(playhead.__file__).parents[1]


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """Two contexts, one broker that nobody is at, and no words typed yet."""
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "COMP_WORDS"):
        monkeypatch.delenv(name, raising=False)
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text(
        "[contexts.production]\nbootstrap_servers = 'prod:1'\n[contexts.staging]\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed(monkeypatch):
    """Sets what zsh says of the words up to now; bash says a word a line."""

    def typed(*words: str) -> Configuration:
        monkeypatch.setenv("COMP_WORDS", " ".join(["playhead", "doctor", *words]))
        return completion._configuration_so_far()

    return typed


@pytest.fixture
def nobody_there():
    """A port that refuses: bound, so nobody else gets it, and not listened on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def servers(found: Configuration) -> str | None:
    return found.kafka().bootstrap_servers


def test_contexts_are_completed():
    assert completion.context_names("") == ["production", "staging"]
    assert completion.context_names("st") == ["staging"]
    assert completion.context_names("x") == []


def test_a_broken_file_completes_nothing_and_says_nothing(capsys):
    paths.config_file().write_text("[contexts")
    assert completion.context_names("") == []
    assert capsys.readouterr() == ("", "")


def test_properties_are_completed_up_to_the_equals_sign():
    assert "sasl.mechanism=" in completion.property_names("sasl.")
    assert all(name.startswith("sasl.") for name in completion.property_names("sasl."))
    assert completion.property_names("nope") == []


@pytest.mark.parametrize("flag", ["-b", "--bootstrap-servers"])
def test_the_broker_that_was_typed_is_asked(typed, flag):
    assert servers(typed(flag, "typed:9092", "--topic", "t")) == "typed:9092"


def test_a_value_may_be_joined_to_its_flag(typed):
    assert servers(typed("--bootstrap-servers=typed:9092", "--topic", "t")) == "typed:9092"
    assert typed("--context=production", "--topic", "t").context == "production"


@pytest.mark.parametrize("flag", ["-c", "--context"])
def test_the_context_that_was_typed_is_asked(typed, flag):
    found = typed(flag, "production", "--topic", "t")
    assert (found.context, servers(found)) == ("production", "prod:1")


def test_properties_that_were_typed_count(typed):
    found = typed("-X", "client.id=me", "-X", "bootstrap.servers=typed:1", "-X", "half")
    assert (servers(found), found.kafka().tuning) == ("typed:1", {"client.id": "me"})


def test_the_file_that_was_typed_counts(typed, place):
    (place / "client.properties").write_text("bootstrap.servers=file:1\n")
    assert servers(typed("--config", str(place / "client.properties"), "--topic", "")) == "file:1"


def test_a_flag_that_has_no_value_yet_is_none(typed):
    assert typed("-c").context is None


def test_bashs_pieces_are_put_together_again(monkeypatch):
    pieces = (
        "playhead doctor -b h : 9092,i : 9093 -X client.id = me --context = production --topic t"
    )
    monkeypatch.setenv("COMP_WORDS", pieces.replace(" ", "\n"))
    found = completion._configuration_so_far()
    assert found.context == "production"
    assert servers(found) == "h:9092,i:9093"
    assert found.kafka().tuning == {"client.id": "me"}


def test_bash_and_the_command_understand_each_other(place):
    """As the script asks it, in a real bash, up to the names that it offers."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    (place / "playhead").write_text(
        f"#!/bin/sh\nPYTHONPATH={SOURCE_FOLDER} exec {sys.executable} -m playhead.cli.app\n"
    )
    (place / "playhead").chmod(0o755)
    script = (
        "COMP_WORDS=(playhead doctor -c prod); COMP_CWORD=3; IFS=$'\\n';"
        'env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD '
        "_PLAYHEAD_COMPLETE=bash_complete ./playhead"
    )
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, timeout=20)
    assert (done.stdout.split(), done.stderr) == (["plain,production"], "")


@pytest.mark.parametrize("names", [completion.topic_names, completion.group_names])
def test_a_broker_that_is_not_there_completes_nothing_in_time(names, typed, nobody_there, capfd):
    typed("-b", nobody_there)
    began = time.monotonic()
    assert names("") == []
    assert time.monotonic() - began < 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("names", [completion.topic_names, completion.group_names])
def test_without_any_broker_nothing_is_completed(names, typed, capfd):
    typed()
    assert names("") == []
    assert capfd.readouterr() == ("", "")


def test_a_line_that_cannot_be_understood_completes_nothing(typed, monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "playhead doctor -c nowhere --topic")
    assert completion.topic_names("") == []


def test_an_answer_is_kept_for_the_next_tab(typed):
    asked: list[Configuration] = []

    def ask(configuration: Configuration) -> list[str]:
        asked.append(configuration)
        return ["alpha", "beta"]

    typed("-b", "h:1")
    assert [completion._kept("topics", ask) for _ in range(2)] == [["alpha", "beta"]] * 2
    assert len(asked) == 1
    completion._kept("groups", ask)
    typed("-b", "other:1")
    completion._kept("topics", ask)
    assert len(asked) == 3


def test_an_old_answer_is_asked_for_again(typed):
    typed("-b", "h:1")
    completion._kept("topics", lambda _: ["old"])
    (file,) = (paths.cache_dir() / "completion").iterdir()
    os.utime(file, (time.time() - 60, time.time() - 60))
    assert completion._kept("topics", lambda _: ["new"]) == ["new"]
    assert json.loads(file.read_text()) == ["new"]


def test_a_torn_answer_completes_nothing(typed):
    typed("-b", "h:1")
    completion._kept("topics", lambda _: ["old"])
    (file,) = (paths.cache_dir() / "completion").iterdir()
    file.write_text("[")
    assert completion._kept("topics", lambda _: ["new"]) in ([], ["new"])


def test_trouble_is_not_kept(typed):
    def fail(_: Configuration) -> list[str]:
        raise PlayheadError("no")

    typed("-b", "h:1")
    assert completion._kept("topics", fail) == []
    assert completion._kept("topics", lambda _: ["now"]) == ["now"]


EVIL = (
    "zz$(touch owned)",
    "zz`touch owned`",
    "zz;touch owned",
    "zz&touch",
    "zz|touch",
    "zz>owned",
    "zz\ntouch owned",
    "zz\\",
    "zz'",
    'zz"',
    "zz owned",
    "zz*",
    "zz?",
    "zz{a,b}",
    "zz!!",
    "~root",
    "--yes",
    "-X",
    "zz\x1b[2J",
    "zz\u202egnirts",
    "",
)


def test_only_names_that_every_shell_takes_as_one_word_are_completed(monkeypatch):
    plain = ["orders", "orders-2", "a.b_c", "10"]
    monkeypatch.setattr(completion, "_kept", lambda _what, _ask: [*EVIL, *plain])
    assert completion.group_names("") == completion.topic_names("") == plain
    assert completion.group_names("zz") == []


SHELLS = {
    "bash": ("bash", "--norc", "-c"),
    "zsh": ("zsh", "-f", "-c"),
    "fish": ("fish", "--no-config", "-c"),
}


@pytest.fixture(params=SHELLS)
def echoed(request, place):
    """What a shell makes of words, when somebody presses Enter."""
    if shutil.which(request.param) is None:
        pytest.skip(f"needs {request.param}")

    def echoed(*words: str) -> str:
        line = f"echo {' '.join(words)}"
        environment = os.environ | {"HOME": str(place)}
        command = [*SHELLS[request.param], line]
        done = subprocess.run(
            command, cwd=place, check=True, capture_output=True, env=environment, timeout=60
        )
        return done.stdout.decode().rstrip("\n")

    return echoed


@pytest.mark.parametrize("name", EVIL)
def test_a_group_whose_name_is_a_command_is_run_by_no_shell(place, monkeypatch, echoed, name):
    monkeypatch.setattr(completion, "_kept", lambda _what, _ask: [name])
    echoed(*completion.group_names(""))
    assert not (place / "owned").exists()


def test_every_sign_of_a_completed_name_is_only_itself_in_every_shell(place, monkeypatch, echoed):
    (place / "zzfile").touch()
    signs = [chr(code) for code in range(1, 127)]
    names = [
        f"{before}{sign}{after}"
        for sign in signs
        for before, after in (("zz", "a"), ("zz", ""), ("", "zz"), ("z=", "z"), ("z:", "z"))
    ]
    monkeypatch.setattr(completion, "_kept", lambda _what, _ask: names)
    taken = completion.group_names("")
    assert len(taken) > len(signs)
    assert echoed(*taken) == " ".join(taken)


# --- a whole line, as bash completes it


@pytest.fixture
def bash(place, typed):
    """Completes words as bash splits them; the broker's topics are those of an answer that is kept."""
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    (place / "playhead").write_text(
        f'#!/bin/sh\nPYTHONPATH={SOURCE_FOLDER} exec {sys.executable} -m playhead.cli.app "$@"\n'
    )
    (place / "playhead").chmod(0o755)
    script = BashWords(app, {}, "playhead", COMPLETES).source()
    shown = typed("-b", "h:9092").kafka().shown()
    key = hashlib.sha256(f"topics {shown}".encode()).hexdigest()[:16]

    def complete(*parts: str) -> list[str]:
        file = paths.cache_dir() / "completion" / f"{key}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('["laps", "later", "pits"]')
        words = " ".join(shlex.quote(part) for part in ("playhead", *parts))
        lines = f"""{script}
            COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            complete() {{ :; }}; compopt() {{ echo "compopt $*"; }}
            _playhead_completion playhead; printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        environment = os.environ | {"PATH": f"{place}:{os.environ['PATH']}"}
        del environment["COMP_WORDS"]
        done = subprocess.run(
            ["bash", "--norc", "-c", lines],
            capture_output=True,
            text=True,
            env=environment,
            timeout=30,
        )
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    return complete


AT = ("-b", "h", ":", "9092")


@pytest.mark.slow  # starts the command several times
def test_sources_and_targets_are_completed_by_system_and_by_topic(bash):
    assert bash("replay", *AT, "kafka", ":", "la") == ["laps", "later"]
    assert bash("replay", *AT, "kafka", ":") == ["laps", "later", "pits"]
    assert bash("replay", *AT, "la") == [""]
    assert bash("replay", *AT, "kafka", ":", "laps", "po") == ["postgres:", "postgresql:"]
    one = bash("replay", *AT, "kafka", ":", "laps", "parq")
    assert one == ["compopt -o nospace", "parquet:"]
    assert "rrpair:" in bash("replay", *AT, "")
    assert "rrpair:" not in bash("replay", *AT, "kafka", ":", "laps", "")


@pytest.mark.slow  # starts the command several times
def test_values_of_options_are_completed(bash):
    assert bash("consume", "laps", "-o", "js") == ["json", "jsonl"]
    assert bash("produce", "laps", "--acks", "al") == ["all"]
    assert bash("produce", "laps", "--compression", "=", "z") == ["zstd"]
    assert bash("consume", *AT, "lat") == ["later"]
    assert bash("consume", "--bootstrap-server", "h", ":", "9092", "lat") == ["later"]
