"""Statements of ours name the schema of each function: another user may have one with a better match."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import playhead

SOURCES = Path(playhead.__file__).parent
# What else looks like a call: SQL's own syntax, and types with a length.
SYNTAX = re.compile(
    "all|any|array|case|cast|coalesce|exists|extract|filter|greatest|in|least|nullif|operator|over|overlay"
    "|position|row|some|substring|trim|values|xmlelement|xmlforest|xmlparse"
    "|bit|char|character|decimal|numeric|time|timestamp|varchar",
    re.IGNORECASE,
)
# House style: no space before the bracket of a call, one before that of a list. `\d(` is a regular expression.
CALL = re.compile(r"(?<![\w.\\])([A-Za-z_]\w*)\(")
NO_SQL = frozenset(
    (
        r"(?:^|[T\s])(\d\d?:[\d:.]*)\s*(.*?)\s*$|T(\d{4,6})\s*(.*?)\s*$",
        r"postgres(?:ql)?://|\s*\w+\s*=",
    )
)


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module without its docstrings; `{}` stands for what is put in."""
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    if isinstance(tree, ast.JoinedStr):
        fixed = (part.value if isinstance(part, ast.Constant) else "{}" for part in tree.values)
        yield "".join(map(str, fixed))
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(tree, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from texts(child)


def unqualified(source: str) -> set[str]:
    return {
        name
        for text in texts(ast.parse(source))
        if text not in NO_SQL
        for name in CALL.findall(text)
        if SYNTAX.fullmatch(name) is None
    }


def speaks_sql(path: Path) -> bool:
    source = path.read_text(encoding="utf-8")
    return (
        path.is_relative_to(SOURCES / "postgres")
        or "psycopg" in source
        or "postgres.session" in source
    )


ASKING = [
    path.relative_to(SOURCES).as_posix()
    for path in sorted(SOURCES.rglob("*.py"))
    if speaks_sql(path) and path.relative_to(SOURCES).parts[0] != "testing"
]


@pytest.mark.parametrize("name", ASKING)
def test_every_function_is_called_with_its_schema(name: str) -> None:
    assert unqualified((SOURCES / name).read_text(encoding="utf-8")) == set()


def test_a_call_without_a_schema_is_found() -> None:
    source = (
        'f"SELECT {a}, pg_catalog.max(b), coalesce(min({c}), 0)" + f"{d(f\'lag({e})\')} FROM x (y)"'
    )
    assert unqualified(source) == {"min", "lag"}
