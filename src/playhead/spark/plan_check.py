"""Checks what Spark has parsed and analysed in an expression, before any of it runs.

`functions.check_calls` first checks our own tokens, from which the text for Spark is written. This second
check does not use our grammar: it inspects the tree of Spark's parser, in which no name is resolved, and
the tree of its analyser. Both may contain only what is listed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playhead.spark.allowed_functions import ALLOWED, is_moving, sections
from playhead.transform.path_sql import OWN_FUNCTIONS
from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import BadExpression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LIST = Path(__file__).with_name("expressions.txt")
_HOME, _ELSEWHERE = "org.apache.spark.sql.catalyst.expressions.", "org.apache.spark.sql.catalyst."
_CALL = f"{_ELSEWHERE}analysis.UnresolvedFunction"
# `between` is an operator, which the parser turns into a call.
_CALLED_BY_US = OWN_FUNCTIONS | {"between"}
# What a field of a schema may contain; a default would be an expression.
_CAST, _LITERAL = f"{_HOME}Cast", f"{_HOME}Literal"
_PARSERS = {f"{_HOME}ParseToDate", f"{_HOME}ParseToTimestamp"}
_TEXTS = ("string", "char", "varchar")
_TIMES = ("date", "timestamp", "timestamp_ntz")
# Values that differ by record; a text without them becomes a time only once, when the run begins.
_OF_RECORDS = {f"{_HOME}AttributeReference", f"{_HOME}NamedLambdaVariable"}
_REMARKS = {"__CHAR_VARCHAR_TYPE_STRING", "comment"}


@cache
def classes() -> frozenset[str]:
    """Return the classes that a tree may contain."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    names = [name for line in lines if not line.startswith("#") for name in line.split()]
    return frozenset(
        (_ELSEWHERE if name.startswith("analysis.") else _HOME) + name for name in names
    )


def can_be_asked(spark: "SparkSession") -> bool:
    """Return whether the engine shows its trees: Spark Connect does not, and then the first check is the only one."""
    return hasattr(spark, "_jsparkSession")


def refuse_read(spark: "SparkSession", expression: Expression) -> None:
    """Check the parser's tree; no function is resolved, and nothing runs."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    tree = json.loads(parser.parseExpression(expression.sql).toJSON())
    for node in _nodes(tree):
        name = str(node.get("nameParts", "")).strip("[]").lower()
        if node.get("class") == _CALL and name not in sections()[ALLOWED] | _CALLED_BY_US:
            raise _refused(expression, f"the function {name}")
    _refuse_others(expression, tree)


def refuse_meant(frame: "DataFrame", expression: Expression) -> None:
    """Check the analyser's tree, which is what would run."""
    plan = frame._jdf.queryExecution().analyzed()
    expressions = plan.expressions()
    if expressions.size() != 1 or plan.nodeName() != "Project":
        raise _refused(expression, f"a {plan.nodeName()}, which uses more than one record")
    if not plan.deterministic():
        raise _refused(expression, "a value that changes between runs")
    tree = json.loads(expressions.head().toJSON())
    _refuse_others(expression, tree)
    _refuse_moving(expression, tree)


def _refuse_moving(expression: Expression, tree: Any) -> None:
    """Refuse a text that becomes a time and may be a word like now, which Spark replaces by its clock."""
    for nodes in _lists(tree):
        for index, node in enumerate(nodes):
            if _makes_time(node):
                found = nodes[index + 1 : _end(nodes, index)]
                if _may_move(found):
                    raise _refused(expression, "a time that depends on the run")


def _makes_time(node: Mapping[str, Any]) -> bool:
    if node.get("class") == _CAST:
        return node.get("dataType") in _TIMES
    # With a format, a text is parsed by it, and such words have no meaning.
    return node.get("class") in _PARSERS and node.get("num-children") == 1


def _may_move(made_of: Sequence[Any]) -> bool:
    is_of_records = any(node.get("class") in _OF_RECORDS for node in made_of)
    if is_of_records or _makes_time(made_of[0]):
        return False  # In the second case, the nodes below have been checked separately.
    if len(made_of) == 1 and made_of[0].get("class") == _LITERAL:
        return is_moving(str(made_of[0].get("value")))
    # The parts of a text can be anything; a time derived from another time is not a text.
    return any(
        node.get("class") == _LITERAL and str(node.get("dataType")).startswith(_TEXTS)
        for node in made_of
    )


def _end(nodes: Sequence[Any], index: int) -> int:
    """Return where the next node begins that is not below this one; nodes are listed in pre-order."""
    open_ = 1
    while open_:
        open_ += int(nodes[index].get("num-children", 0)) - 1
        index += 1
    return index


def _lists(tree: Any) -> Iterator[Sequence[Any]]:
    """Return all trees in a document, including those in a node's fields."""
    if isinstance(tree, list) and tree and isinstance(tree[0], dict) and "num-children" in tree[0]:
        yield tree
    for inner in (
        tree if isinstance(tree, list) else tree.values() if isinstance(tree, dict) else ()
    ):
        yield from _lists(inner)


def _refuse_others(expression: Expression, tree: Any) -> None:
    for node in _nodes(tree):
        found = node.get("class")
        if isinstance(found, str) and found not in classes():
            raise _refused(expression, found.rpartition(".")[2])
        remarks = node.get("metadata")
        if remarks and not (isinstance(remarks, Mapping) and remarks.keys() <= _REMARKS):
            raise _refused(expression, "a schema with more than names and types")


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Return all objects of a JSON document."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _refused(expression: Expression, found: str) -> BadExpression:
    return expression.bad(
        expression.start,
        f"Spark finds {found} in it, which an expression must not contain",
        "docs/guides/transforms.md lists what is allowed",
        length=expression.end - expression.start,
    )
