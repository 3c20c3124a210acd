"""What a transform's text means: its tokens, its translation, and the place of every error."""

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from playhead.spark.allowed_functions import check_calls, compared_literals
from playhead.spark.sql_errors import complaint
from playhead.transform.path_sql import as_json
from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import BadExpression, tokens_of
from playhead.transform.transform import Transform

JSON = "get_json_object(value, '{}')"


def condition(text: str) -> Expression:
    made = Transform(where=text).condition()
    assert made is not None
    return made


def sql(text: str) -> str:
    """The translation without the brackets around it."""
    translated = condition(text).sql
    assert translated.startswith("(")
    assert translated.endswith(")")
    return translated[1:-1]


def refused(where: str | None = None, select: str | None = None) -> BadExpression:
    with pytest.raises(BadExpression) as caught:
        Transform(where=where, select=select)
    return caught.value


def double(path: str) -> str:
    return f"try_cast({JSON.format(path)} AS DOUBLE)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value:country = 'DE'", JSON.format("$.country") + " = 'DE'"),
        ("VALUE:Country = 'DE'", JSON.format("$.Country") + " = 'DE'"),
        ("key:id = 'x'", "get_json_object(key, '$.id') = 'x'"),
        ("value:lap.sector[0].time = 'x'", JSON.format("$.lap.sector[0].time") + " = 'x'"),
        ("value:['odd name'] = 'x'", JSON.format("$[\\'odd name\\']") + " = 'x'"),
        ("value:`odd name`.b = 'x'", JSON.format("$[\\'odd name\\'].b") + " = 'x'"),
        ("value:[\"a.b\"] = 'x'", JSON.format("$[\\'a.b\\']") + " = 'x'"),
        ("value:['it''s'] = 'x'", JSON.format("$.it\\'s") + " = 'x'"),
        ("value:[2].a = 'x'", JSON.format("$[2].a") + " = 'x'"),
        ("value:größe = 'x'", JSON.format("$.größe") + " = 'x'"),
        ("value:speed::double > value:limit::double", None),
        ("value:n::decimal(10, 2)", None),
    ],
)
def test_a_path_leads_into_json(text, expected):
    if expected is not None:
        assert sql(text) == expected
    assert ":" not in re.sub(r"'(?:[^'\\]|\\.)*'", "", sql(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value:n::int", f"try_cast({JSON.format('$.n')} AS int)"),
        ("value:n :: int", f"try_cast({JSON.format('$.n')}   AS int)"),
        (
            "value:n::int::string",
            f"try_cast(try_cast({JSON.format('$.n')} AS int) AS string)",
        ),
        (
            "value:n::int::string::timestamp",
            (
                f"try_cast(regexp_replace(try_cast(try_cast({JSON.format('$.n')} AS int) AS string), "
                "'(?s)^[^0-9A-Za-z]*(T|[0-9]{1,2}:).*', '') AS timestamp)"
            ),
        ),
        (
            "value:n::decimal(38,18)",
            (
                "coalesce(try_variant_get(try_parse_json(value), '$.n', 'decimal(38,18)'), "
                f"try_cast({JSON.format('$.n')} AS decimal(38,18)))"
            ),
        ),
        (
            "value:tags::array<struct<a:int,b:map<string,int>>>[0].a",
            (
                "try_variant_get(try_parse_json(value), '$.tags', "
                "'array<struct<a:int,b:map<string,int>>>')[0].a"
            ),
        ),
        ("upper(key)::int", "try_cast(upper(key) AS int)"),
        ("(1 + 2)::string", "try_cast((1 + 2) AS string)"),
        ("a.b(x)[1].c::string", "try_cast(a.b(x)[1].c AS string)"),
        ("1 and (key)::boolean", "1 and try_cast((key) AS boolean)"),
        ("-offset::string", "-try_cast(offset AS string)"),
        ("date '2021-01-01'::string", "try_cast(date '2021-01-01' AS string)"),
        (
            "case when case when a then b end then c end::int",
            "try_cast(case when case when a then b end then c end AS int)",
        ),
        ("cast(key as int)", "try_cast(key as int)"),
        ("value::double", "try_cast(value AS double)"),
        ("key::int between 1 and 2", "try_cast(key AS int) between 1 and 2"),
    ],
)
def test_a_type_is_a_cast_that_cannot_fail(text, expected):
    assert sql(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value:speed > 300", f"{double('$.speed')} > 300"),
        ("value:speed>=-3.5e2D", f"{double('$.speed')}>=-3.5e2D"),
        ("value:speed = (3)", f"{double('$.speed')} = (3)"),
        ("300 < value:speed", f"300 < {double('$.speed')}"),
        ("value:speed BETWEEN 1 AND 2", f"{double('$.speed')} BETWEEN 1 AND 2"),
        ("value:speed not between 1 and 2", f"{double('$.speed')} not between 1 and 2"),
        ("value:speed IN (1,2)", f"{double('$.speed')} IN (1,2)"),
        ("value:speed not in (-1, 2)", f"{double('$.speed')} not in (-1, 2)"),
        ("case value:speed when 1 then 2 end", f"case {double('$.speed')} when 1 then 2 end"),
        ("value:n < offset", f"{double('$.n')} < offset"),
        ("value:n <> 1 or key = 5", f"{double('$.n')} <> 1 or try_cast(key AS DOUBLE) = 5"),
        ("1 <value:n", f"1 <{double('$.n')}"),
        ("5 between value:a and value:b", f"5 between {double('$.a')} and {JSON.format('$.b')}"),
        (
            "headers:n > 5",
            (
                "try_cast(cast(try_element_at(filter(headers, header -> header.name = 'n'), -1).value "
                "AS STRING) AS DOUBLE) > 5"
            ),
        ),
        ("value:n = '5'", JSON.format("$.n") + " = '5'"),
        ("value:n in ('5')", JSON.format("$.n") + " in ('5')"),
        ("value:n || 'x' = 5", JSON.format("$.n") + " || 'x' = 5"),
        ("value:n::string > 5", f"try_cast({JSON.format('$.n')} AS string) > 5"),
        ("value:a < value:b * 2", f"{JSON.format('$.a')} < {JSON.format('$.b')} * 2"),
    ],
)
def test_beside_a_number_a_path_is_a_number(text, expected):
    assert sql(text) == expected


@pytest.mark.parametrize(
    ("number", "type_"),
    [
        ("123456789012345", "DOUBLE"),
        ("9007199254740993", "DECIMAL(38,18)"),
        ("-9007199254740993L", "DECIMAL(38,18)"),
        ("0.1234567890123456", "DECIMAL(38,18)"),
        ("1" * 30, "DECIMAL(38,7)"),
        ("1" * 40, "DOUBLE"),
        ("1.234567890123456789e5", "DOUBLE"),
    ],
)
def test_numbers_that_a_double_cannot_hold_are_compared_exactly(number, type_):
    assert f"AS {type_})" in sql(f"value:id = {number}")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("headers:trace", "trace"),
        ("headers:__playhead.errors.topic", "__playhead.errors.topic"),
        ("headers:['trace-id']", "trace-id"),
        ("headers:`it's`", "it\\'s"),
    ],
)
def test_a_header_is_found_by_name(text, name):
    assert f"header.name = '{name}'" in sql(text)
    assert sql(text).endswith(", -1).value AS STRING)")


@pytest.mark.parametrize(
    "text",
    [
        "key = 'value:a'",
        'key = "value:a"',
        "key = r'value:a'",
        "key = 'it''s value:a' or key = 'it\\'s value:a'",
        "`value:a` = 1",
        "x.value = 1",
        "myvalue = 1 and value2 = 2",
        "cast(x as struct<value:int>) is null".replace("cast", "try_cast"),
    ],
)
def test_nothing_is_translated_where_it_is_no_path(text):
    assert sql(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("key = 'x' -- value:a", "key = 'x'  "),
        ("key = 'x' --", "key = 'x'  "),
        ("key = 'x' -- \\\n or true", "key = 'x'  "),
        ("key = 'x' /* a /* key:b */ c */ or true", "key = 'x'   or true"),
        ("key = /*+ f(reflect('a', 'b')) */ 'x'", "key =   'x'"),
        ("key/**/= 'x'", "key = 'x'"),
        ("key\u00a0=\u2028'x'\r\n", "key = 'x' \n"),
        ("cast(key as /*+ a */ int) = 1", "try_cast(key as   int) = 1"),
        ("key:: /* a */ int = 1", "try_cast(key    AS int) = 1"),
    ],
)
def test_spark_sees_no_comment(text, seen):
    """`/*+` begins a hint to Spark, whose functions it calls; and of `--` it has rules of its own."""
    assert sql(text) == seen


def test_a_word_that_java_would_read_as_another_is_quoted():
    """To Spark ſ is an S, and ı an I, so that `ſelect` would begin a query."""
    assert sql("x = (ſelect y)") == "x = (`ſelect` y)"
    assert sql("größe = 1") == "`größe` = 1"


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        ("INT", "INT"),
        ("decimal ( 10 , -2 )", "decimal(10,-2)"),
        ("array < struct<a int, `b c`: string, größe:map<string,int>> >", None),
        ("interval day to second", "interval day to second"),
        ("varchar(5)", "varchar(5)"),
    ],
)
def test_a_type_is_read_and_written_again(type_, written):
    written = written or "array<struct<a:int,`b c`:string,`größe`:map<string,int>>>"
    seen = re.sub(r" +\)", ")", sql(f"cast(key as {type_}) is null"))
    assert seen == f"try_cast(key as {written}) is null"
    if not type_.startswith(("array", "interval")):
        assert sql(f"upper(key)::{type_} is null") == f"try_cast(upper(key) AS {written}) is null"


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("value:a::array<reflect('a')> = 1", "reflect", "no type 'reflect'"),
        ("value:a::array<int, string>", ", string", "needs '>'"),
        ("value:a::map<string>", ">", "needs ','"),
        ("value:a::struct<>", ">", "name of a field"),
        ("value:a::struct<a:int default reflect('x')>", "default", "needs '>'"),
        ("value:a::array<int --\n>", "--", "needs '>'"),
        ("cast(key as int, reflect('a'))", ", refl", "not expected behind a type"),
        ("cast(key as array<reflect('a', 'b')>)", "reflect", "no type 'reflect'"),
        ("try_cast(key as array<int> or reflect('a'))", "or", "not expected behind a type"),
        ("cast(key as)", ")", "a type is needed"),
        ("value:a::" + "array<" * 60 + "int" + ">" * 60, None, "more than 50 deep"),
    ],
)
def test_what_is_no_type_is_refused_where_a_type_belongs(text, at, reason):
    error = refused(where=text)
    assert reason in error.reason
    assert at is None or text[error.start :].startswith(at)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "found nothing"),
        (" -- only words", 1, "found nothing"),
        ("value:", 6, "needs the name"),
        ("value:a. = 1", 9, "needs the name"),
        ("value:a[-1] = 1", 8, "an index from 0 on"),
        ("value:a[b] = 1", 8, "an index from 0 on"),
        ("value:a(1)", 8, "cannot be called"),
        ("value:['*'] = 1", 7, "cannot name"),
        ("value:['a.b''c'] = 1", 7, "cannot name"),
        ("value:['  a'] = 1", 7, "cannot name"),
        ("value:[''] = 1", 7, "cannot name"),
        ("headers:a[1] = 'x'", 1, "no elements"),
        ("key = 'abc", 7, "not closed"),
        ("key = `abc", 7, "not closed"),
        ("key = 'abc\\'", 7, "not closed"),
        ("key /* abc", 5, "not closed"),
        ("key = $$abc$$", 7, "no meaning"),
        ("key = 'x'; drop", 10, "no meaning"),
        ("key = ?", 7, "no meaning"),
        ("upper(key", 6, "not closed"),
        ("upper(key))", 11, "closes nothing"),
        ("a[1)", 4, "closes nothing"),
        ("value:a::", 8, "needs a type"),
        ("value:a:: ", 8, "needs a type"),
        ("value:a::'x'", 10, "needs a type"),
        ("value:a::array<int", 18, "needs '>'"),
        ("::int = 3", 1, "needs a value before"),
        ("1 + ::int = 3", 5, "needs a value before"),
        ("value:a < value:b", 9, "'10' comes before '9'"),
        ("key >= value:b", 5, "'10' comes before '9'"),
    ],
)
def test_a_bad_condition_is_shown_with_a_caret(text, column, reason):
    error = refused(where=text)
    assert reason in error.message
    assert (error.line, error.column) == (1, column)
    assert error.message.startswith(f"--where, column {column}: ")
    shown, caret = error.message.split("\n")[1:]
    assert shown == f"    {text}"
    assert len(caret) - len(caret.lstrip()) == 4 + column - 1


@pytest.mark.parametrize("part", [".a", "::int", "[0]"])
def test_an_expression_without_an_end_is_an_error_of_ours(part):
    """Whoever wrote it: it may come from a plan."""
    with pytest.raises(BadExpression, match=r"expression is too long"):
        Transform(where="a" + part * 5_000 + "::int")


def test_of_several_lines_the_one_with_the_error_is_shown():
    error = refused(where="key = 'a'\n\tand value: = 'b'\nor true")
    assert (error.line, error.column) == (2, 12)
    assert error.message == (
        "--where, line 2, column 12: the path needs the name of a field here\n"
        "    \tand value: = 'b'\n"
        "    \t          ^"
    )


@pytest.mark.parametrize(
    "text",
    [
        "value:at::timestamp",
        "cast(key as timestamp)",
        "to_timestamp(value)",
        "headers:at::timestamp",
    ],
)
def test_a_text_that_becomes_a_time_needs_a_date(text):
    """Spark adds the date of the run to a time of day, and a resumed replay must give the same rows."""
    assert "regexp_replace(" in Transform(where=f"{text} is null").condition().sql


@pytest.mark.parametrize("text", ["value:at::date", "value:at", "f(value:at)::timestamp"])
def test_other_texts_are_as_they_are(text):
    assert "regexp_replace(" not in Transform(where=f"{text} is null").condition().sql


@pytest.mark.parametrize(
    "text",
    ["timestamp '12:30' > timestamp", "'T12'::timestamp is null", "timestamp > ' +1:30'",
     "format_string('%tH', offset) = '07'", "printf('%h', headers) = 'a'"],
)  # fmt: skip
def test_what_depends_on_the_day_or_the_machine_is_refused(text):
    with pytest.raises(BadExpression):
        check_calls(Transform(where=text).condition())


def names(select: str) -> list[tuple[str, str | None]]:
    return [(output.name, output.replaces) for output in Transform(select=select).outputs()]


def test_outputs_replace_parts_of_the_record_or_become_fields():
    select = (
        "value:car AS car, upper(key) AS KEY, value:lap.n, headers:trace, timestamp, topic,"
        " value:at::timestamp AS timestamp, offset AS `odd ``name`"
    )
    assert names(select) == [
        ("car", None),
        ("key", "key"),
        ("n", None),
        ("trace", None),
        ("timestamp", None),
        ("topic", None),
        ("timestamp", "timestamp"),
        ("odd `name", None),
    ]


def test_commas_in_brackets_types_and_texts_separate_nothing():
    select = (
        "value:m::map<string,int> AS m, concat(key, ',', value) AS v -- a, b\n, array(1, 2)[0] AS f"
    )
    assert names(select) == [("m", None), ("v", None), ("f", None)]


def test_a_part_selected_as_it_is_is_told_from_a_field_of_its_name():
    key, value = Transform(select="Key, `value`").outputs()
    assert key.is_bare
    assert value.is_bare
    (upper,) = Transform(select="upper(key) AS key").outputs()
    assert not upper.is_bare


def test_a_path_by_itself_keeps_its_json_type_and_one_with_a_type_does_not():
    speed, typed, header = Transform(
        select="value:speed, value:n::int AS n, headers:x AS x"
    ).outputs()
    assert speed.bare_path is not None
    assert as_json(speed.bare_path, "document") == "try_variant_get(document, '$.speed', 'variant')"
    assert typed.bare_path is None
    assert header.bare_path is None


@pytest.mark.parametrize(
    ("select", "column", "reason"),
    [
        ("", 1, "found nothing"),
        ("key, ", 4, "no expression follows"),
        ("key,, value", 5, "missing before"),
        (", key", 1, "missing before"),
        ("upper(key)", 1, "needs a name"),
        ("key AS a, value:list[0]", 11, "needs a name"),
        ("*", 1, "needs a name"),
        ("key AS a, value AS a", 11, "selected twice"),
        ("key, upper(key) AS KEY", 6, "selected twice"),
        ("value, value:a", 8, "whole value is selected"),
        ("value:a, key AS value", 1, "whole value is selected"),
        ("key AS a, value: AS b", 17, "needs the name"),
    ],
)
def test_a_bad_selection_is_shown_with_a_caret(select, column, reason):
    error = refused(select=select)
    assert reason in error.message
    assert error.message.startswith(f"--select, column {column}: ")


def test_a_transform_of_nothing_changes_nothing():
    assert Transform().changes_nothing
    assert Transform().condition() is None
    assert Transform().outputs() == ()
    assert not Transform(where="true").changes_nothing


PLAIN = st.sampled_from(
    [
        "key",
        "topic",
        "cast(key as int)",
        "offset",
        "'a:b'",
        "r'\\'",
        '"x"',
        "`value:a`",
        "12",
        "1.5e3",
        "+",
        "=",
        "||",
        " ",
        "\n",
        "/* value:x */",
        "-- key:y\n",
        "and",
        "upper",
        "->",
        ".",
        ",",
        "value",
        "<=",
        "headers",
    ]
)
PATHS = st.sampled_from(
    ["value:a", "key:a.b[0]", "headers:trace.id", "value:['odd, name']", "value:a::int"]
)


def attempt(text: str) -> Expression | BadExpression:
    try:
        return condition(text)
    except BadExpression as error:
        return error


@given(st.lists(PLAIN, max_size=12))
def test_a_text_with_no_paths_stays_as_it_is(parts):
    text = " ".join([*parts, "true"])
    outcome = attempt(text)
    if isinstance(outcome, BadExpression):
        assert "'10' comes before '9'" in outcome.reason
        return
    plain = re.sub(r"try_cast\((key|value) AS DOUBLE\)", r"\1", outcome.sql[1:-1])
    without = re.sub(r"/\* value:x \*/|-- key:y", " ", text)
    assert plain.replace("try_cast(key as", "cast(key as") == without


@given(st.lists(st.one_of(PLAIN, PATHS), min_size=1, max_size=12))
def test_the_tokens_of_a_text_are_the_text(parts):
    text = " ".join(parts)
    tokens = tokens_of(text, "--where")
    assert "".join(token.text for token in tokens) == text
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]


@given(st.lists(st.one_of(PLAIN, PATHS), min_size=1, max_size=12))
def test_every_place_of_the_translation_comes_from_a_place_of_the_text(parts):
    text = " ".join([*parts, "true"])
    made = attempt(text)
    if isinstance(made, BadExpression):
        return
    position, before = 0, 0
    for piece in made.pieces:
        for inside, sign in enumerate(piece.sql):
            start, end = made.source(position)
            assert before <= start < end <= len(text)
            if piece.is_verbatim:
                assert (start, end) == (piece.start + inside, piece.start + inside + 1)
                assert text[start] == sign
            position, before = position + 1, start
    assert position == len(made.sql)
    assert {token.start for token in made.tokens if token.text == "topic"} <= {
        made.source(match.start())[0] for match in re.finditer("topic", made.sql)
    }


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_place_in_it(text):
    outcome = attempt(text)
    if isinstance(outcome, BadExpression):
        assert 0 <= outcome.start <= len(text)
    else:
        assert "".join(token.text for token in outcome.tokens) == text


@pytest.mark.parametrize(
    "given",
    [{"where": "key = '\udcff'"}, {"where": "`\ud800` = 1"}, {"select": "key AS `a\udcff`"}],
)
def test_half_of_a_character_is_refused_where_it_is(given):
    """Bytes of a command line that are no UTF-8: the engine has no text for them."""
    [text] = given.values()
    with pytest.raises(BadExpression, match="here is half of a character") as caught:
        Transform(**given).expressions()
    assert "\ud7ff" < text[caught.value.start] < "\ue000"


@pytest.mark.parametrize("opening", ["(", "abs(", "[", "a["])
def test_brackets_without_end_are_refused_before_spark_reads_them(opening):
    with pytest.raises(BadExpression, match="nested more than 100 deep"):
        Transform(where=opening * 20_000)


def test_a_text_without_end_is_refused():
    with pytest.raises(BadExpression, match="needed at most 100,000"):
        Transform(where="key:a or " * 20_000)


@pytest.mark.parametrize("piece", ["value between ", "value in (1 "])
def test_a_range_or_list_without_end_takes_no_longer_than_its_text(piece):
    begun = time.monotonic()
    with suppress(BadExpression):
        Transform(where=piece * (90_000 // len(piece)))
    assert time.monotonic() - begun < 5


def test_a_list_of_thousands_of_texts_does_not_take_the_square_of_their_number() -> None:
    texts = ",".join(["'car'"] * 12_000)
    condition = Transform(where=f"key IN ({texts})").condition()
    assert condition is not None
    tokens = [token for token in condition.tokens if not token.text.isspace()]
    begun = time.process_time()
    check_calls(condition)
    assert list(compared_literals(tokens)) == []
    assert time.process_time() - begun < 5


def test_what_overflows_the_parser_of_the_engine_is_said_to_be_too_deep() -> None:
    exc = RuntimeError("calling o1.filter.\n: java.lang.StackOverflowError\n\tat org.apache")
    assert "too long or nested too deeply" in str(complaint(where("key = 'x'"), exc))


def test_an_error_that_quotes_the_expression_is_not_taken_for_an_overflow() -> None:
    """A search for this name in a topic of errors, with a mistake in it."""
    expression = where("kay = 'java.lang.StackOverflowError'")
    names = {"objectName": "`kay`"}
    plan = "'Filter ('kay = java.lang.StackOverflowError)"
    exc = PySparkException(f"no column; line 1 pos 1;\n{plan}", "UNRESOLVED_COLUMN", names)
    assert "there is no column 'kay'" in str(complaint(expression, exc))


def where(text: str) -> Expression:
    expression = Transform(where=text).condition()
    assert expression is not None
    return expression
