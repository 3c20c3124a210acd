"""Checks what Spark has parsed and analysed in an expression, before any of it runs.

`functions.check_calls` first checks our own tokens, from which the text for Spark is written. This second
check does not use our grammar: it inspects the tree of Spark's parser, in which no name is resolved, and
the tree of its analyser. Both may contain only what is listed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playhead.spark.allowed_functions import (
    ALLOWED,
    OPTIONS,
    SCHEMAS_OF_SAMPLES,
    TYPE_TEXTS,
    are_options,
    is_moving,
    is_written_as_type,
    sections,
)
from playhead.spark.value_types import gets_date, has_time, is_hashed
from playhead.transform.path_sql import OWN_FUNCTIONS, WITHOUT_DATE
from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import BadExpression, TokenKind

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
_TIMES = ("date", "timestamp", "timestamp_ntz")
# Classes whose values are no texts; what goes into them is checked by itself.
_NO_TEXT = """Abs Add AddMonths ConvertTimezone DateAdd DateAddInterval DateAddYMInterval DateFromUnixDate
    DateSub DatetimeSub Divide FromUTCTimestamp IntegralDivide LastDay MakeDate MakeTimestamp
    MakeTimestampFromDateTime MakeTimestampNTZ MicrosToTimestamp MillisToTimestamp Multiply NextDay
    SecondsToTimestamp Subtract TimeBucket TimestampAdd TimestampAddInterval TimestampAddYMInterval
    ToUTCTimestamp TruncDate TruncTimestamp UnaryMinus"""
_NO_TEXTS = _PARSERS | {_HOME + name for name in _NO_TEXT.split()}
# Values that differ by record; a text without them becomes a time only once, when the run begins.
_OF_RECORDS = {f"{_HOME}AttributeReference", f"{_HOME}NamedLambdaVariable"}
# Constants, whatever they are made of: a type's name has the fields' names in it.
_OF_TYPES = {f"{_HOME}TypeOf", f"{_HOME}Collation"}
# Text made of a record, and what makes a time of it.
_REPLACE, _VARIANT = f"{_HOME}RegExpReplace", f"{_HOME}variant.VariantGet"
_READERS = {f"{_HOME}JsonToStructs", f"{_HOME}CsvToStructs"}
_WRITER = f"{_HOME}StructsToJson"
_HINT = "docs/guides/transforms.md lists what is allowed"
_DATED_HINT = (
    "a text without a date, such as 12:30, would get the date of the run: write value:at::timestamp, or "
    "::string::timestamp after any other text"
)
_FORMAT_HINT = (
    "a text without a date, such as 12:30, would get the date of the run: add the option timestampFormat, "
    "or read the field as a string"
)
_HASHED_HINT = (
    "JSON would have another name for them in each run: use texts, as from hex(key_bytes)"
)
_CUT_HINT = "Spark would cut 9.5 to 9 there: add a type to the text, ::double, or ::bigint if its numbers are whole"
_APART_HINT = (
    "as a text, the number 10 is 10.0, and no text is 10: compare numbers with numbers, times with times and "
    "texts with texts, each in a comparison of its own, joined by OR"
)
_COMPARED = "EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In"
_COMPARISONS = {_HOME + name for name in _COMPARED.split()}
_WHOLE = ("byte", "short", "integer", "long")
_TEXT, _FRACTIONS = "string", ("double", "float", "decimal")
_CASTS_BY_NAME = ("tinyint", "smallint", "int", "bigint")
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
        name = _called(node)
        if name and name not in sections()[ALLOWED] | _CALLED_BY_US:
            raise _refused(expression, f"the function {name}")
    _refuse_others(expression, tree)
    _refuse_types(expression, tree)
    _refuse_options(expression, tree)


def _called(node: Mapping[str, Any]) -> str:
    """Return the name of the function that a node of the parser calls; empty if it calls none."""
    if node.get("class") != _CALL:
        return ""
    return str(node.get("nameParts", "")).strip("[]").lower()


def _refuse_types(expression: Expression, tree: Any) -> None:
    """Refuse a text that Spark would read as a type, unless it is written out as one of SQL.

    A type in JSON may name a Java class, which the analyser loads, and a Python module, which PySpark imports.
    """
    for nodes, at in _arguments(tree, TYPE_TEXTS):
        given = nodes[at]
        is_type = _is_text(given) and is_written_as_type(str(given.get("value")))
        if not is_type and _called(given) not in SCHEMAS_OF_SAMPLES:
            raise _refused(expression, "a type that is not written out")


def _refuse_options(expression: Expression, tree: Any) -> None:
    """Refuse options of files, such as a codec, whose Java class the analyser loads, whatever it is."""
    for nodes, at in _arguments(tree, OPTIONS):
        given = nodes[at + 1 : _end(nodes, at)]
        is_written = _called(nodes[at]) == "map" and all(map(_is_text, given))
        if not is_written or not are_options(str(each.get("value")) for each in given[::2]):
            raise _refused(expression, "an option that is not one of a text")


def _arguments(
    tree: Any, positions: Mapping[str, int]
) -> Iterator[tuple[Sequence[Mapping[str, Any]], int]]:
    """Yield the trees and the places in them of the arguments of functions."""
    for nodes in _lists(tree):
        for index, node in enumerate(nodes):
            position = positions.get(_called(node))
            if position is not None and position < int(node["num-children"]):
                yield nodes, _child(nodes, index, position)


def _is_text(node: Mapping[str, Any]) -> bool:
    return node.get("class") == _LITERAL and node.get("dataType") == "string"


def refuse_meant(frame: "DataFrame", expression: Expression) -> None:
    """Check the analyser's tree, which is what would run."""
    plan = frame._jdf.queryExecution().analyzed()
    expressions = plan.expressions()
    if expressions.size() != 1 or plan.nodeName() != "Project":
        raise _refused(expression, f"a {plan.nodeName()}, which uses more than one record")
    if not plan.deterministic():
        raise _refused(expression, "a value that changes between runs")
    head = expressions.head()
    tree = json.loads(head.toJSON())
    _refuse_others(expression, tree)
    _refuse_moving(expression, tree)
    _refuse_changing(expression, head, tree)
    _refuse_cut(expression, head, tree, frame.sparkSession)


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
    made = made_of[0]
    if _is_of_records(made_of) or made.get("class") in _NO_TEXTS or _makes_time(made):
        return False
    if made.get("class") == _LITERAL:
        return is_moving(str(made.get("value")))
    # Any other constant may be a text, and its parts need not show which: char(110) is a letter.
    return True


def _refuse_changing(expression: Expression, head: Any, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse what each run makes another value of: a text that gets its date, and bytes that get a hash."""
    # The engine numbers the nodes of a tree in the order of its JSON.
    for index, node in enumerate(nodes):
        found = node.get("class")
        if _makes_zoned_time(node) and not _is_dated(nodes, index + 1):
            if gets_date(_type_below(head.apply(index)), node.get("dataType")):
                raise _refused(expression, "a text that becomes a time", _DATED_HINT)
        elif found == _VARIANT and has_time(node.get("targetType")):
            raise _refused(expression, "a text that may become a time", _DATED_HINT)
        elif found in _READERS and has_time(node.get("schema")):
            options = head.apply(index).options().keys().mkString(" ")
            if "timestampformat" not in options.lower().split():
                raise _refused(expression, "a text that becomes a time", _FORMAT_HINT)
        elif found == _WRITER and is_hashed(_type_below(head.apply(index))):
            raise _refused(expression, "a map whose keys are bytes", _HASHED_HINT)


def _refuse_cut(
    expression: Expression, head: Any, nodes: Sequence[Mapping[str, Any]], spark: "SparkSession"
) -> None:
    """Refuse a text that Spark compares as a whole number, and a number or a time that it compares as a text.

    The type of the other side is the reason; in a list, that of all its members.
    """
    written = spark._jvm.org.apache.spark.sql.catalyst.expressions.Cast.USER_SPECIFIED_CAST()
    cut, as_text = 0, 0
    for index in _compared(nodes):
        node = nodes[index]
        if node.get("class") != _CAST or head.apply(index).getTagValue(written).isDefined():
            continue
        made, below = str(node.get("dataType")), str(_type_below(head.apply(index)))
        if below.startswith(_TEXT):  # A collation is a part of its name.
            cut += made in _WHOLE and not _is_whole(nodes[index + 1])
            if made.startswith(_FRACTIONS) and _is_no_number(nodes[index + 1]):
                raise _refused(expression, "a text that is no number beside a number", _APART_HINT)
        elif below.startswith((*_FRACTIONS, "timestamp")):
            as_text += made.startswith(_TEXT)
    # Such a call is a cast without the mark of one that is written.
    solid = [token for token in expression.tokens if token.kind is not TokenKind.SPACE]
    called = [token.name.lower() for token, behind in pairwise(solid) if behind.is_sign("(")]
    if cut > sum(name in _CASTS_BY_NAME for name in called):
        text = "a text that is compared as a whole number"
        raise _refused(expression, text, _CUT_HINT)
    if as_text > called.count(_TEXT):
        text = "a number or a time that is compared as a text"
        raise _refused(expression, text, _APART_HINT)


def _is_whole(node: Mapping[str, Any]) -> bool:
    """Return whether it is a text without decimals, such as '12'; one that is no number is refused later."""
    return node.get("class") == _LITERAL and "." not in str(node.get("value"))


def _is_no_number(node: Mapping[str, Any]) -> bool:
    """Return whether it is a written text that is no number, so that a comparison with it is never true."""
    if node.get("class") != _LITERAL:
        return False
    try:
        float(str(node.get("value")).rstrip("dDfF"))
    except ValueError:
        return True
    return False


def _compared(nodes: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    for index, node in enumerate(nodes):
        if node.get("class") in _COMPARISONS:
            for place in range(int(node["num-children"])):
                yield _child(nodes, index, place)


def _makes_zoned_time(node: Mapping[str, Any]) -> bool:
    """Return whether a node converts a value to a time with a zone, without a format."""
    is_parser = node.get("class") in _PARSERS and node.get("num-children") == 1
    return (is_parser or node.get("class") == _CAST) and has_time(node.get("dataType"))


def _is_dated(nodes: Sequence[Mapping[str, Any]], index: int) -> bool:
    """Return whether this is a literal, or a text from which we have removed what has no date."""
    if nodes[index].get("class") == _LITERAL:
        return True
    if nodes[index].get("class") != _REPLACE:
        return False
    parts = [nodes[_child(nodes, index, place)].get("value") for place in (1, 2)]
    return parts == [WITHOUT_DATE, ""]


def _type_below(node: Any) -> Any:
    """Return the type of the first child of one of the engine's own nodes; its JSON lacks it."""
    return json.loads(node.children().apply(0).dataType().json())


def _is_of_records(nodes: Sequence[Any]) -> bool:
    index = 0
    while index < len(nodes):
        found = nodes[index].get("class")
        if found in _OF_RECORDS:
            return True
        index = _end(nodes, index) if found in _OF_TYPES else index + 1
    return False


def _end(nodes: Sequence[Any], index: int) -> int:
    """Return where the next node begins that is not below this one; nodes are listed in pre-order."""
    open_ = 1
    while open_:
        open_ += int(nodes[index].get("num-children", 0)) - 1
        index += 1
    return index


def _child(nodes: Sequence[Any], index: int, position: int) -> int:
    """Return where a child of a node is."""
    child = index + 1
    for _ in range(position):
        child = _end(nodes, child)
    return child


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


def _refused(expression: Expression, found: str, hint: str = _HINT) -> BadExpression:
    return expression.bad(
        expression.start,
        f"Spark finds {found} in it, which an expression must not contain",
        hint,
        length=expression.end - expression.start,
    )
