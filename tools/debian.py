"""Unpack Debian packages without installing them: `python tools/debian.py postgresql-15` prints where.

Tests and benches compare with programs that the project does not need otherwise: an older server, the older
tool. apt checks what it downloads; nothing of it runs or is configured. Root, or lists of packages that are
there already, are needed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_WITHIN_S = 240


class NoPackages(Exception):
    """The packages cannot be had on this machine."""


def unpacked(*packages: str) -> Path:
    """Return the folder with the files of these packages; download them the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "playhead" / "debian" / "+".join(packages)
    if folder.exists():
        return folder
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NoPackages("this is no Debian system: apt-get is missing")
    # Nobody else may put programs there, whatever the umask is; the user of a test's server may run them.
    before = os.umask(0o022)
    try:
        _unpack(packages, folder)
    finally:
        os.umask(before)
    return folder


def _unpack(packages: tuple[str, ...], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as name:
        temporary = Path(name)
        try:
            _run("apt-get", "download", "-q", *packages, folder=temporary)
        except NoPackages:
            if os.geteuid() != 0:
                raise
            _run("apt-get", "update", "-q", folder=temporary)
            _run("apt-get", "download", "-q", *packages, folder=temporary)
        for package in sorted(temporary.glob("*.deb")):
            _run("dpkg-deb", "-x", str(package), "files", folder=temporary)
        if not folder.exists():
            (temporary / "files").rename(folder)


def _run(*command: str, folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, check=False, capture_output=True, text=True, timeout=_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        raise NoPackages(f"{command[0]} {command[1]} has not ended in {_WITHIN_S} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise NoPackages(f"{command[0]} {command[1]}: {said[-1] if said else done.returncode}")


if __name__ == "__main__":
    try:
        print(unpacked(*sys.argv[1:]))
    except NoPackages as exc:
        sys.exit(f"error: {exc}")
