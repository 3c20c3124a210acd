"""Parts that the engine's JSON would repeat are refused by the words alone, before the engine reads them."""

import pytest

from playhead.spark.repeated_parts import check_repetition
from playhead.transform.tokens import BadExpression
from playhead.transform.transform import Transform


def check(**texts: str) -> None:
    for expression in Transform(**texts).expressions():
        check_repetition(expression)


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("case when true then true else ", " end"), ("CASE WHEN ", " THEN true END")],
)
def test_a_case_in_a_case_is_not_too_deep_for_the_engine(opens: str, closes: str) -> None:
    """Thirty filled the engine's memory, and fifteen took it up to twenty seconds."""
    check(where=opens * 12 + "true" + closes * 12)
    with pytest.raises(BadExpression, match="CASE, BETWEEN or functions such as nvl are nested"):
        check(where=opens * 15 + "true" + closes * 15)


@pytest.mark.parametrize(
    ("opens", "closes"),
    [
        ("zeroifnull(", ")"),
        ("ZeroIfNull (", ")"),
        ("`nvl`(", ", 1)"),
        ("nvl2(1, 2, ", ")"),
        ("(1 between 0 and ", ")"),
        ("(", " between 0 and 1)"),
        ("CASE WHEN true THEN nullif(", ", 1) END"),
        ("abs(btrim(", "))"),
        ("array(nvl(", ", 1))[0]"),
    ],
)
def test_a_chain_of_what_is_repeated_is_short(opens: str, closes: str) -> None:
    """Ten of zeroifnull took half a minute."""
    check(select=f"{opens * 4}offset{closes * 4} AS made")
    with pytest.raises(BadExpression, match="CASE, BETWEEN or functions such as nvl are nested"):
        check(select=f"{opens * 10}offset{closes * 10} AS made")


@pytest.mark.parametrize(
    "where",
    [
        " or ".join(["case key when 'a' then true end"] * 1_000),
        " or ".join(["offset between 1 and 2"] * 1_000),
        " or ".join(["nvl(key, 'a') = 'b'"] * 1_000),
        f"nvl(offset in ({', '.join(map(str, range(10_000)))}), false)",
        "(" * 100 + "offset > 1" + ")" * 100,
        "value:nvl > 1 AND nvl.between > 1 AND headers[0].end = 'a'",
    ],
)
def test_what_stands_side_by_side_is_not_repeated(where: str) -> None:
    check(where=where)


@pytest.mark.parametrize(
    "opens",
    [
        "CASE WHEN headers[0].end = 'a' THEN 'b' ELSE ",
        "CASE WHEN true THEN transform(array(1), end -> end + 1)[0] ELSE ",
        "CASE WHEN true THEN struct(1 AS end).end ELSE ",
        "CASE WHEN NOT end THEN 1 ELSE ",
    ],
)
def test_a_name_does_not_end_a_case(opens: str) -> None:
    with pytest.raises(BadExpression, match="are nested too deep"):
        check(select=f"{opens * 20}1{' END' * 20} AS made")


def test_a_case_within_brackets_after_a_case_is_not_inside_it() -> None:
    one = "CASE WHEN value:a THEN key END"
    check(select=", ".join(f"concat({one}, {one}, ({one})) AS c{at}" for at in range(30)))
    check(where=" or ".join([f"({one}) = headers[0]['end']"] * 300))


def test_a_between_of_the_whole_counts() -> None:
    inner = "nvl(" * 7 + "offset" + ", 1)" * 7
    check(where=f"{inner} > 1")
    with pytest.raises(BadExpression, match="are nested too deep"):
        check(where=f"nvl({inner}, 1) between 1 and 2")


def test_the_word_at_the_limit_is_shown() -> None:
    where = "CASE WHEN " * 20 + "true" + " THEN true END" * 20
    with pytest.raises(BadExpression) as raised:
        check(where=where)
    assert raised.value.hint is not None
    assert "coalesce(a, b, c)" in raised.value.hint
    assert where[raised.value.start :].startswith(("CASE", "WHEN"))


def test_columns_of_select_count_each_by_itself() -> None:
    deep = "CASE WHEN " * 12 + "true" + " THEN true END" * 12
    check(select=", ".join(f"{deep} AS c{at}" for at in range(5)))


def test_rules_in_rules_with_texts_made_tidy_are_not_too_deep() -> None:
    time_of = "nvl(to_timestamp(btrim(value:at), 'yyyy-MM-dd'), timestamp)"
    rules = " ELSE ".join(f"CASE WHEN value:kind = '{at}' THEN {time_of}" for at in range(6))
    check(select=f"{rules} END END END END END END AS at")
