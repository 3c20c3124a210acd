"""The engine's own trees show which functions repeat their arguments, and that the limit is reached in time."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from playhead.spark.allowed_functions import ALLOWED, sections
from playhead.spark.plan_check import _lists, refuse_meant
from playhead.spark.repeated_parts import REPEATING, check_repetition
from tests.spark.test_vetting import allows, raw, the_condition, visible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["visible"]
NAMES = sections()[ALLOWED]
# These are counted by their word.
WORDS = {"between", "case", "when"}
GIVEN = ("key", "offset", "key, 1", "offset, 1", "offset, 2, 3", "key, 5, key", "1, key, key")


def calls(spark: "SparkSession", name: str) -> Iterator[str]:
    """Spark's own examples, and calls of the columns."""
    lines = [row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()]
    yield from re.findall(r"> SELECT (.*?);", "\n".join(lines), re.DOTALL)
    for given in GIVEN:
        yield f"`{name}`({given})"


def repeats(visible: "DataFrame", text: str) -> bool:
    """Whether a tree is kept in a field of another."""
    analysed = visible.selectExpr(f"{text} AS made")._jdf.queryExecution().analyzed()
    return len([*_lists(json.loads(analysed.expressions().head().toJSON()))]) > 1


@pytest.mark.torture
def test_every_function_whose_arguments_are_there_twice_is_known(spark, visible) -> None:
    found, seen = set(), 0
    for name in NAMES - WORDS:
        for call in calls(spark, name):
            # Examples call other functions, too.
            if {word.lower() for word in re.findall(r"\w+", call)} & (REPEATING | WORDS) - {name}:
                continue
            try:
                is_repeated = repeats(visible, call)
            except Exception:  # noqa: S112 - Spark's analysis raises any class.
                continue
            seen += 1
            if is_repeated:
                found.add(name)
    assert seen > 500
    assert found == REPEATING


@pytest.mark.parametrize(
    ("opens", "closes", "least"),
    [
        ("zeroifnull(", ")", 5),
        ("decode(", ", 1, 2, 3)", 5),
        ("CASE WHEN ", " > 1 THEN 1 END", 12),
        ("CASE WHEN nvl(", ", 2) > 1 THEN 1 END", 4),
    ],
)
def test_what_is_just_not_too_deep_fills_no_memory(spark, visible, opens, closes, least) -> None:
    """In megabytes, because seconds depend on the machine: 80 took half a minute, and 150 were too many."""
    deep = [f"{opens * depth}offset{closes * depth}" for depth in range(1, 20)]
    taken = [text for text in deep if allows(lambda t=text: check_repetition(the_condition(t)))]
    analysed = visible.selectExpr(f"{taken[-1]} AS made")._jdf.queryExecution().analyzed()
    assert least <= len(taken) < 15
    assert len(analysed.expressions().head().toJSON()) < 20_000_000
    refuse_meant(visible.selectExpr(f"{taken[-1]} AS made"), raw(taken[-1]))
