"""The command ends with the code that says what happened, and with a sentence instead of a traceback."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import playhead
from playhead import secrets
from playhead.cli import app as face
from playhead.cli.app import main
from playhead.errors import PlayheadError, Refused, Stopped
from playhead.version import __version__

SOURCE_FOLDER = Path(playhead.__file__).parents[1]
COMMAND = [sys.executable, "-m", "playhead.cli.app"]


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A user with nothing configured, in a folder of their own."""
    monkeypatch.setattr(secrets, "_known", set())
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "PLAYHEAD_SANDBOX_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(SOURCE_FOLDER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def failing(monkeypatch):
    """Makes `playhead boom` raise what it is given."""
    app = click.Group("playhead")
    monkeypatch.setattr(face, "app", app)

    def make(error: BaseException) -> None:
        @app.command()
        @click.option("-v", "--verbose", count=True)
        def boom(verbose: int) -> None:
            raise error

    return make


def test_done_is_0(run):
    assert run("--version") == (0, f"playhead {__version__}\n", "")
    assert run("context", "show", "-o", "json")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "No such command 'nope'"),
        (["context", "show", "--nope"], "No such option '--nope'"),
        (["context", "show", "-o", "xml"], "'xml'; needed: table, json, jsonl or csv"),
        (["context", "use"], "Missing argument"),
        (["demo", "--cars", "0"], "needed: a whole number, 1 to 99"),
        (["context", "show", "-X", "client.id"], "-X client.id has no value"),
        *(
            ([*words, ""], "the topic's name is ''; needed: letters")
            for words in (
                ["consume"],
                ["produce"],
                ["topics", "describe"],
                ["topics", "alter"],
                ["topics", "trim"],
                ["topics", "delete"],
                ["topics", "create"],
            )
        ),
        (["consume", "good", "kafka://127.0.0.1:1/t"], "-b host:port for the broker"),
        (
            ["produce", "kafka:t"],
            "hint: write the topic's name alone, and -b host:port for the broker",
        ),
    ],
)
def test_what_cannot_be_understood_is_2(run, words, said):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("error: ")
    assert "\nhint: " in err or "needed: " in err
    assert "Traceback" not in err


def test_a_usage_errors_hint_is_the_help_of_that_command(run):
    assert run("context", "show", "--nope")[2].splitlines()[-1].endswith("context show --help")


@pytest.mark.parametrize("words", [[], ["sandbox"], ["context"], ["config"]])
def test_without_a_command_the_help_is_on_stderr_and_is_no_error(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ")
    assert "hint:" not in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["topics", "sizes"], "playhead topics describe --sizes"),
        (["topics", "offsets"], "playhead topics describe --offsets"),
        (["groups", "members", "g"], "playhead groups describe --members"),
        (["groups", "delete-offsets", "g", "--topic", "t"], "playhead groups delete --topic"),
        (["config", "show"], "playhead context show"),
    ],
)
def test_an_old_spelling_works_on_and_names_the_new_one(run, old, new):
    code, _, err = run(*old)
    name = " ".join(["playhead", *old[:2]])
    assert err.startswith(f"note: {name} is {new} now; the next version removes the old name\n")
    assert "a connection to Kafka needs" in err if code else old == ["config", "show"]
    assert f"\n  {old[1]} " not in run(old[0], "--help")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topics", "describe", "--sizes", "--offsets"], "--sizes and --offsets contradict"),
        (["topics", "describe", "--sizes", "--at", "now-1h"], "--sizes and --at contradict"),
        (["topics", "describe", "--by", "topic"], "hint: add --sizes"),
        (["groups", "describe", "g", "--members", "--no-times"], "contradict"),
        (["groups", "delete", "g", "--topic", ""], "error: "),
        (["groups", "delete", "g", "--topic", "t", "--wait", "1s"], "--wait and --topic"),
        (["context", "show", "there", "-b", "h:1"], "leave out there"),
    ],
)
def test_what_describe_delete_and_show_cannot_do_at_once_is_2(run, words, said):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err


def test_an_unknown_key_has_its_nearest_match_as_hint(run):
    code, _, err = run("context", "show", "-X", "client.idd=me")
    assert code == 2
    assert "error: unknown key 'client.idd' in -X" in err
    assert "hint: did you mean client.id" in err


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (
            ["-b", "h:1", "-X", "security.protocol=bogus"],
            {},
            "error: security.protocol in -X is 'bogus'",
        ),
        (["-X", "ssl.keystore.type=JKS"], {}, "JKS"),
        (["-b", ""], {}, "--bootstrap-servers is ''"),
        (["--timezone", "Mars/Base"], {}, "Mars/Base"),
        ([], {"PLAYHEAD_READ_ONLY": "maybe"}, "PLAYHEAD_READ_ONLY is 'maybe'"),
    ],
)
def test_a_shown_setting_that_every_command_refuses_is_2(run, monkeypatch, words, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code, out, err = run("context", "show", *words)
    assert code == 2
    assert "timezone" in out
    assert err.startswith("error: ")
    assert said in err


def test_showing_asks_nobody_for_a_password(run, monkeypatch):
    monkeypatch.setattr("getpass.getpass", lambda *_: pytest.fail("asked"))
    words = (
        "-X",
        "security.protocol=SASL_SSL",
        "-X",
        "sasl.mechanism=PLAIN",
        "-X",
        "sasl.username=me",
    )
    assert run("context", "show", *words, "-X", "sasl.password=prompt:")[0] == 0


def test_the_sandboxs_name_is_reserved(run):
    code, _, err = run("context", "add", "sandbox", "-b", "h:1")
    assert code == 2
    assert "error: sandbox is reserved" in err
    assert "already exists" not in err


def test_without_any_broker_the_ways_to_name_one_are_said(run):
    code, out, err = run("topics", "list")
    assert (code, out) == (1, "")
    assert "error: a connection to Kafka needs a broker's address" in err
    assert "librdkafka" not in err
    assert all(way in err for way in ("-b", "KAFKA_BOOTSTRAP_SERVERS", "-c", "playhead sandbox up"))


def test_a_sandbox_that_is_not_up_is_1_with_the_way_out(run):
    code, out, err = run("sandbox", "env")
    assert (code, out) == (1, "")
    assert "error: the sandbox in" in err
    assert "hint: start it: playhead sandbox up" in err


def test_the_sandboxs_status_is_data_also_when_it_is_down(run):
    code, out, err = run("sandbox", "status", "-o", "json")
    assert (code, err) == (1, "")
    assert json.loads(out)["up"] is False


@pytest.mark.parametrize(
    "words", [["-X", "list"], ["context", "show", "-X", "list"], ["-X", "help"]]
)
def test_x_list_names_every_property_in_all_its_spellings(run, words):
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    (line,) = [line for line in out.splitlines() if line.startswith("sasl.mechanism ")]
    assert "sasl.mechanisms" in line
    assert "OAUTHBEARER" in line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PlayheadError("it broke", hint="mend it"), 1),
        (Refused("no", hint="ask"), 6),
        (Stopped("half way", hint="resume"), 5),
    ],
)
def test_errors_of_ours_become_their_codes_and_two_lines(failing, run, error, code):
    failing(error)
    assert run("boom") == (code, "", f"error: {error.message}\nhint: {error.hint}\n")


def test_a_fault_of_ours_is_a_sentence(failing, run):
    failing(ZeroDivisionError("by 0"))
    code, out, err = run("boom")
    assert (code, out) == (1, "")
    assert err.startswith("error: ZeroDivisionError: by 0\nhint: ")
    assert "Traceback" not in err


def test_a_full_disk_is_no_fault_of_ours(failing, run):
    # Python names no file for a stream that was opened before, such as stdout.
    failing(OSError(errno.ENOSPC, "No space left on device"))
    code, out, err = run("boom")
    assert (code, out) == (1, "")
    assert err.startswith("error: No space left on device\nhint: free some space")


def test_a_broken_disk_is_no_fault_of_ours(failing, run):
    failing(OSError(errno.EIO, "Input/output error"))
    code, out, err = run("boom")
    assert (code, out) == (1, "")
    assert err.startswith("error: Input/output error\nhint: a disk or a file system")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [([], False), (["-v"], False), (["-vv"], True), (["-v", "-v"], True), (["-vvv"], True)],
)
def test_a_traceback_is_shown_only_to_those_who_ask_twice(failing, run, words, wanted):
    failing(PlayheadError("it broke"))
    code, _, err = run("boom", *words)
    assert code == 1
    assert ("Traceback (most recent call last)" in err) is wanted
    assert "error: it broke" in err


def test_secrets_are_redacted_from_errors_and_tracebacks(failing, run):
    secrets.remember("opensesame")
    failing(PlayheadError("cannot say opensesame", hint="not opensesame"))
    _, _, err = run("boom", "-vv")
    assert "opensesame" not in err
    assert f"error: cannot say {secrets.HIDDEN}\nhint: not {secrets.HIDDEN}\n" in err


def test_a_keyboard_interrupt_is_130(failing, run):
    failing(KeyboardInterrupt())
    code, out, err = run("boom")
    assert (code, out) == (130, "")
    assert err.strip() == "interrupted"


def test_a_broken_connection_is_no_success(failing, run):
    failing(BrokenPipeError("a socket's"))
    assert run("boom")[0] == 1


def test_sigterm_does_what_it_did_before_when_main_has_ended(run):
    before = signal.getsignal(signal.SIGTERM)
    run("--version")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_real_signal_ends_it_with_its_code_and_its_cleaning_up(number, code, said):
    program = (
        "import time, click; from playhead.cli import app as face; face.app = click.Group()"
        "\ndef wait():"
        "\n    try:"
        "\n        print('waiting', flush=True)"
        "\n        while True: time.sleep(0.01)"
        "\n    finally: print('cleaned up', flush=True)"
        "\nface.app.command(name='wait')(wait); face.main(['wait'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (code, "cleaned up\n")
    assert err.strip() == said


@pytest.mark.parametrize(
    "words", [["context", "show"], ["context", "show", "-o", "csv"], ["-X", "list"], ["--version"]]
)
def test_a_reader_who_leaves_is_no_error(words):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run([*COMMAND, *words], stdout=gone, stderr=subprocess.PIPE, timeout=20)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_works_without_any_standard_stream(place):
    program = "import os; [os.close(n) for n in (0, 1, 2)]; os.execv(os.sys.executable, {})"
    words = [*COMMAND, "context", "use", "nope"]
    done = subprocess.run([sys.executable, "-c", program.format(words)], timeout=20)
    assert done.returncode == 2
