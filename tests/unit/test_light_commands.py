"""A small command loads neither a validation library nor one for terminals, and reads its values itself."""

import json
import os
import subprocess
import sys

import pytest

FAKE = ["-b", "127.0.0.1:1"]
TELL = "import json, sys; print(); print(json.dumps(sorted(sys.modules)))"


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    program = f"from playhead.cli.app import main\ntry: main({list(words)})\nfinally:\n    {TELL}"
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, timeout=60
    )


def loaded(done: "subprocess.CompletedProcess[str]") -> set[str]:
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "words", [["context", "list"], ["context", "show", *FAKE, "-X", "client.id=me", "-q"]]
)
def test_plain_values_load_no_validation_and_plain_tables_no_terminal(words):
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert not loaded(done) & {"pydantic", "rich"}


def test_lists_of_texts_arrive_whole():
    done = run("context", "show", "-X", "client.id=me", "-X", "fetch.min.bytes=7", "-o", "json")
    assert "kafka.client.id" in done.stdout
    assert "kafka.fetch.min.bytes" in done.stdout


@pytest.mark.parametrize("wait", ["soon", "-1"])
def test_a_number_that_is_none_is_refused(wait):
    done = run("cancel", "some-replay", "--wait", wait)
    assert done.returncode == 2
    assert "--wait" in done.stderr
