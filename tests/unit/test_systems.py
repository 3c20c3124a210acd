"""Systems stand in one table, and an installed package adds one; the folder we stand in adds none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import playhead
from playhead import systems
from playhead.endpoint import BadEndpoint, Endpoint, system_of
from playhead.systems import MakesSource, MakesTarget

SOURCES = str(Path(playhead.__file__).parents[1])
PLUGIN = '''
"""A package from outside with a system of its own, in lists."""

from playhead.endpoint import Endpoint
from playhead.systems import System
from playhead.testing import ListSource, ListTarget, sample_records

made = {}


class Lists(System):
    examples = {"lists": "lists:NAME"}

    def parse(self, text, scheme, rest):
        return Endpoint(scheme, rest)

    def source(self, end, spec, configuration):
        return ListSource(sample_records())

    def target(self, end, spec, configuration):
        return made.setdefault(end.name, ListTarget())


SYSTEM = Lists()
'''
REPLAY = """
from playhead import Replay
from playhead.endpoint import Endpoint
planned = Replay(source=Endpoint.parse("lists:a"), target=Endpoint.parse("lists:b")).plan()
import their_lists
from playhead.testing import exercise_target
from playhead.replay.assemble import target_at
from playhead.config.context import configure
end = Endpoint.parse("lists:b")
exercise_target(
    lambda: target_at(end, configure({})), lambda: their_lists.made["b"].records, exclusive=True
)
print(planned.plan.planned, planned.plan.source.identity, planned.plan.target.identity)
"""
PARSE = "from playhead.endpoint import Endpoint; print(Endpoint.parse('lists:a'))"


def install(folder: Path, *, name: str = "their_lists", value: str = "their_lists:SYSTEM") -> Path:
    """Put the package there as an installer does."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "their_lists.py").write_text(PLUGIN)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[playhead.systems]\nlists = {value}\n")
    return folder


def python(program: str, cwd: Path, *path: Path) -> "subprocess.CompletedProcess[str]":
    places = os.pathsep.join([SOURCES, *map(str, path)])
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_package_from_outside_adds_a_source_and_a_target(tmp_path: Path) -> None:
    there = install(tmp_path / "site")
    (tmp_path / "work").mkdir()
    done = python(REPLAY, tmp_path / "work", there)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 list:")


@pytest.mark.slow  # starts Python eight times
def test_the_working_folder_has_installed_nothing(tmp_path: Path) -> None:
    install(tmp_path)
    install(tmp_path / "inside")
    link = tmp_path.with_name(f"{tmp_path.name}-link")
    link.symlink_to(tmp_path)
    for path in ((), (tmp_path,), (tmp_path / "inside",), (Path(),), (link,), (link / "inside",)):
        done = python(PARSE, tmp_path, *path)
        assert "there is no system 'lists' here" in done.stderr, path
    (tmp_path / "beside").mkdir()
    for other in (
        tmp_path / "beside",
        Path("/"),
    ):  # in / stands who stands nowhere, as a service does
        assert python(PARSE, other, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ({"one": "nowhere:SYSTEM"}, "nowhere:SYSTEM cannot be loaded: No module named"),
        ({"one": "their_lists:made"}, "their_lists:made is {}; needed: a playhead.systems.System"),
        (
            {"one": "their_lists:SYSTEM", "two": "x:Y"},
            "several packages offer it: their_lists:SYSTEM, x:Y",
        ),
    ],
)
def test_a_package_that_offers_something_else_is_named(
    tmp_path: Path, packages: dict[str, str], says: str
) -> None:
    for name, value in packages.items():
        install(tmp_path / "site", name=name, value=value)
    (tmp_path / "work").mkdir()
    done = python(PARSE, tmp_path / "work", tmp_path / "site")
    assert f"BadSystem: system 'lists': {says}" in done.stderr


def test_every_scheme_of_ours_has_an_example_and_a_use() -> None:
    named = [scheme for row in systems.OURS for scheme in row.schemes]
    assert len(named) == len(set(named))
    for system in systems.ours():
        assert {*system.examples} <= {*named}
        assert all(text.startswith(f"{scheme}:") for scheme, text in system.examples.items())
        assert isinstance(system, MakesSource | MakesTarget)
    assert [name for name in named if systems.system_named(name) is None] == []
    assert {system_of(Endpoint(name, "x")).kind for name in named} == {
        "topic",
        "table",
        "archive",
        "capture",
    }


def test_a_system_of_ours_is_not_replaced_and_is_suggested() -> None:
    assert systems.system_named("kafka") is systems.system_named("kafka")
    with pytest.raises(BadEndpoint) as caught:
        Endpoint.parse("sqlit:x")
    assert "did you mean sqlite:x?" in (caught.value.hint or "")
