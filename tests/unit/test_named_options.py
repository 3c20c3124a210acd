"""Every option that a text of the program names is one that the program has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import playhead
from playhead.cli.app import app

_SOURCE = Path(playhead.__file__).parent
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_OF_OTHERS = {
    "cli/warm/client.py": {"--at-once"},
    "cli/warm_engine.py": {"--at-once"},
    "kafka/admin/errors.py": {"--add", "--allow-principal", "--operation"},
    "sandbox/database.py": {"--auth", "--locale", "--pwfile"},
    "spark/jvm_cache.py": {"--background"},
    "spark/session.py": {"--conf"},
    "replay/engine_warmup.py": {"--background"},
    "queries/html_report.py": {"--then", "--now", "--bad"},
}
"""Those of style sheets, of Kafka's tools, of PostgreSQL's, of Spark's, and of a program that only we start."""
_OF_JAVA = "spark/jvm.py"


def _options(command: object) -> Iterator[str]:
    for parameter in getattr(command, "params", []):
        yield from (each for each in (*parameter.opts, *parameter.secondary_opts))
    yield from getattr(command, "kafka_flags", ())
    for each in getattr(command, "commands", {}).values():
        yield from _options(each)


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


HAS = {"--help", *_options(app)}
FILES = {str(each.relative_to(_SOURCE)): each for each in sorted(_SOURCE.rglob("*.py"))}


@pytest.mark.parametrize("name", sorted(FILES.keys() - {_OF_JAVA}))
def test_options_that_are_named_exist(name: str) -> None:
    known = HAS | _OF_OTHERS.get(name, set())
    wrong = [
        f"{name}:{line}: {option}"
        for line, text in _texts(ast.parse(FILES[name].read_text(encoding="utf-8")))
        for option in _OPTION.findall(text)
        if option not in known
    ]
    assert not wrong


def test_what_is_left_out_is_there() -> None:
    assert FILES.keys() >= {_OF_JAVA, *_OF_OTHERS}
