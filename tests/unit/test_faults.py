"""An abort point does nothing until it is named, and then exactly what was asked, once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import playhead.host.faults
from playhead.host.faults import EXIT_ABORTED, Aborted, abort_point, abort_points, armed

PACKAGE = Path(playhead.host.faults.__file__).parent
THREE_PASSINGS = """
from playhead.host.faults import abort_point
for number in (1, 2, 3):
    abort_point("test.other")
    print("before", number, flush=True)
    abort_point("test.point")
"""


@contextmanager
def passing(spec: str | None) -> Iterator[subprocess.Popen[str]]:
    environment = {key: value for key, value in os.environ.items() if key != "PLAYHEAD_ABORT_AT"}
    environment["PYTHONPATH"] = str(PACKAGE.parent)
    if spec is not None:
        environment["PLAYHEAD_ABORT_AT"] = spec
    with subprocess.Popen(
        [sys.executable, "-c", THREE_PASSINGS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # one that stopped would never end


@pytest.mark.parametrize(
    ("spec", "code", "passings"),
    [
        (None, 0, 3),
        ("", 0, 3),
        ("test.elsewhere", 0, 3),
        ("test.point", -signal.SIGKILL, 1),
        ("test.point#3", -signal.SIGKILL, 3),
        ("test.point#4", 0, 3),
        ("test.point#2=kill", -signal.SIGKILL, 2),
        ("test.point=exit", EXIT_ABORTED, 1),
        ("test.point#2=raise", 1, 2),
    ],
)
def test_a_process_dies_at_the_passing_that_is_named(spec, code, passings):
    with passing(spec) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out.count("before")) == (code, passings)
    assert ("Aborted: abort point test.point" in err) == (code == 1)


def test_a_process_stops_until_it_is_continued():
    with passing("test.point#2=stop") as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out.count("before")) == (0, 3)


@pytest.mark.parametrize("spec", ["test.point#0", "test.point#", "test.point=die", "#1", "a b"])
def test_a_spec_that_makes_no_sense_is_an_error(spec):
    with (
        pytest.raises(ValueError, match=f"PLAYHEAD_ABORT_AT: found '{spec}', needed NAME"),
        armed(spec),
    ):
        pass


def test_a_point_is_armed_inside_a_block_and_fires_once():
    abort_point_passed = []

    def pass_it() -> None:
        abort_point("test.in_process")
        abort_point_passed.append(True)

    with armed("test.in_process#2=raise"):
        pass_it()
        with pytest.raises(Aborted, match=r"abort point test\.in_process"):
            pass_it()
        pass_it()
    pass_it()
    assert len(abort_point_passed) == 3


def test_points_are_found_by_reading_the_code(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.py").write_text("import faults\n\nfaults.abort_point('one.done')\n")
    (tmp_path / "sub" / "two.py").write_text("def f():\n    abort_point('two.done')\n")
    (tmp_path / "three.py").write_text("# abort_point('comment')\nother_point('no')\n")
    assert abort_points(tmp_path) == {"one.done": "one.py:3", "two.done": "sub/two.py:2"}


def test_a_name_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "one.py").write_text("abort_point('done')\n\nabort_point('done')\n")
    with pytest.raises(ValueError, match=r"'done' exists twice: one.py:1, one.py:3"):
        abort_points(tmp_path)


@pytest.mark.parametrize("call", ["abort_point(name)", "abort_point(f'a.{b}')", "abort_point()"])
def test_a_name_that_cannot_be_read_is_refused(tmp_path, call):
    (tmp_path / "one.py").write_text(call)
    with pytest.raises(ValueError, match=r"one.py:1: .* must be a literal"):
        abort_points(tmp_path)


def test_every_point_of_this_package_has_a_name_of_its_own():
    for name in abort_points(PACKAGE):
        with armed(name):  # it can be named in the environment
            pass
