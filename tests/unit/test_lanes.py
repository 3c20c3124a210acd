"""Targets of the Makefile run beside one another: nothing they print is mixed, and no failure is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "lanes.py"
# `exec`, because a signal that comes while the shell starts a child does not reach the child.
MAKEFILE = """
good:
	@echo good begins; sleep 0.2; echo good ends
other:
	@echo other begins; sleep 0.2; echo other ends
bad:
	@echo bad begins; exit 3
long:
	@echo $$$$ > long.pid; exec sleep 60
tests:
	@echo 'SKIPPED [1] a.py:3: no root'; echo 'FAILED a.py::b'; echo '== 1 failed, 2 passed in 3 s =='; exit 1
crash:
	@exec $(PYTHON) -X faulthandler -c 'import faulthandler; exec("def deep():\\n faulthandler._sigsegv()"); deep()'
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text("PYTHON := " + sys.executable + MAKEFILE)
    return tmp_path


def started(project: Path, *lanes: str) -> "subprocess.Popen[str]":
    # What `make` around the tests has to say is not meant for the one in them.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.Popen(
        [sys.executable, str(TOOL), *lanes],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    with process:
        try:
            output = process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, output


def test_lanes_run_at_once_and_each_target_is_printed_in_one_piece(project: Path) -> None:
    code, output = ended(started(project, "good", "other"))
    assert code == 0
    assert "good begins\ngood ends\n" in output
    assert "other begins\nother ends\n" in output
    assert output.count("== good: ok") == output.count("== other: ok") == 1


@pytest.mark.parametrize(
    "lanes", [("good", "bad other"), ("bad", "good other"), ("bad good other",)]
)
def test_a_failure_fails_the_run_and_the_others_run_all_the_same(
    project: Path, lanes: tuple[str, ...]
) -> None:
    code, output = ended(started(project, *lanes))
    assert code == 1
    assert "== bad: FAILED" in output
    assert "bad begins" in output
    summary = output.partition("== summary\n")[2]
    lines = sorted(" ".join(line.split()[:2]) for line in summary.splitlines())
    assert lines == ["FAILED bad", "ok good", "ok other"]


def test_the_summary_names_what_failed_and_what_was_skipped(project: Path) -> None:
    summary = ended(started(project, "tests", "good"))[1].partition("== summary\n")[2]
    lines = [line.strip() for line in summary.splitlines()]
    said = ["SKIPPED [1] a.py:3: no root", "FAILED a.py::b", "1 failed, 2 passed in 3 s"]
    place = lines.index(said[0])
    assert lines[place - 1].startswith("FAILED  tests")
    assert lines[place : place + 3] == said


def test_the_summary_says_where_a_process_died(project: Path) -> None:
    code, output = ended(started(project, "crash"))
    assert code == 1
    summary = output.partition("== summary\n")[2]
    assert "Fatal Python error: Segmentation fault" in summary
    assert "in deep" in summary.partition("Current thread ")[2]


def test_a_target_that_does_not_exist_is_a_failure(project: Path) -> None:
    code, output = ended(started(project, "good nobody"))
    assert code == 1
    assert "== nobody: FAILED" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs_and_starts_nothing_more(
    project: Path, number: signal.Signals
) -> None:
    process = started(project, "long good")
    deadline = time.monotonic() + 30
    while not (project / "long.pid").exists() or not (project / "long.pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    code, output = ended(process)
    assert code == 130
    assert "== long: FAILED" in output
    assert "== good" not in output
    assert not Path(f"/proc/{(project / 'long.pid').read_text().strip()}").exists()
