"""What Spark itself has read in an expression, held against what may be in one, before any of it runs.

Our own words are checked first (`functions.check_calls`), and what Spark reads is written anew from them.
Here is the second net, which knows nothing of our words: the tree that Spark's parser makes, in which
no name is looked up yet, and the tree that its analyser makes of it. Both may hold what is listed, and
nothing else.
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
# `between` is an operator, of which the parser makes a call.
_CALLED_BY_US = OWN_FUNCTIONS | {"between"}
# What a field of a schema may carry; a default would be an expression of its own.
_CAST, _LITERAL = f"{_HOME}Cast", f"{_HOME}Literal"
_PARSERS = {f"{_HOME}ParseToDate", f"{_HOME}ParseToTimestamp"}
_TEXTS = ("string", "char", "varchar")
_TIMES = ("date", "timestamp", "timestamp_ntz")
# What differs from record to record; a text without them is made into a time once, when the run begins.
_OF_RECORDS = {f"{_HOME}AttributeReference", f"{_HOME}NamedLambdaVariable"}
_REMARKS = {"__CHAR_VARCHAR_TYPE_STRING", "comment"}


@cache
def classes() -> frozenset[str]:
    """The classes that a tree may have."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    names = [name for line in lines if not line.startswith("#") for name in line.split()]
    return frozenset(
        (_ELSEWHERE if name.startswith("analysis.") else _HOME) + name for name in names
    )


def can_be_asked(spark: "SparkSession") -> bool:
    """Whether the engine shows its trees: over Spark Connect it does not, and the first net is all."""
    return hasattr(spark, "_jsparkSession")


def refuse_read(spark: "SparkSession", expression: Expression) -> None:
    """Refuse by what the parser makes of an expression; no function is looked up, and nothing is run."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    tree = json.loads(parser.parseExpression(expression.sql).toJSON())
    for node in _nodes(tree):
        name = str(node.get("nameParts", "")).strip("[]").lower()
        if node.get("class") == _CALL and name not in sections()[ALLOWED] | _CALLED_BY_US:
            raise _refused(expression, f"the function {name}")
    _refuse_others(expression, tree)


def refuse_meant(frame: "DataFrame", expression: Expression) -> None:
    """Refuse by what the analyser has made of it, which is what would be run."""
    plan = frame._jdf.queryExecution().analyzed()
    expressions = plan.expressions()
    if expressions.size() != 1 or plan.nodeName() != "Project":
        raise _refused(expression, f"a {plan.nodeName()}, more than one value of one record")
    if not plan.deterministic():
        raise _refused(expression, "what gives another answer each time")
    tree = json.loads(expressions.head().toJSON())
    _refuse_others(expression, tree)
    _refuse_moving(expression, tree)


def _refuse_moving(expression: Expression, tree: Any) -> None:
    """Refuse a text that becomes a time and may be a word like now: Spark means its own clock by it."""
    for nodes in _lists(tree):
        for index, node in enumerate(nodes):
            if _makes_time(node):
                found = nodes[index + 1 : _end(nodes, index)]
                if _may_move(found):
                    raise _refused(expression, "a time that depends on when it runs")


def _makes_time(node: Mapping[str, Any]) -> bool:
    if node.get("class") == _CAST:
        return node.get("dataType") in _TIMES
    # With a format beside it a text is read by that, and the words mean nothing.
    return node.get("class") in _PARSERS and node.get("num-children") == 1


def _may_move(made_of: Sequence[Any]) -> bool:
    is_of_records = any(node.get("class") in _OF_RECORDS for node in made_of)
    if is_of_records or _makes_time(made_of[0]):
        return False  # in the second case what is below has been looked at by itself
    if len(made_of) == 1 and made_of[0].get("class") == _LITERAL:
        return is_moving(str(made_of[0].get("value")))
    # What a text is made of can be anything; a time of which another one is made is no text.
    return any(
        node.get("class") == _LITERAL and str(node.get("dataType")).startswith(_TEXTS)
        for node in made_of
    )


def _end(nodes: Sequence[Any], index: int) -> int:
    """Where the next one begins that is not below a node: they are listed from the top, each before its own."""
    open_ = 1
    while open_:
        open_ += int(nodes[index].get("num-children", 0)) - 1
        index += 1
    return index


def _lists(tree: Any) -> Iterator[Sequence[Any]]:
    """All trees in a document, also those in a node's fields."""
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
    """All objects of a JSON document."""
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
        f"Spark reads {found} in it, which is nothing that an expression may have",
        "docs/guides/transforms.md says what it may have",
        length=expression.end - expression.start,
    )
