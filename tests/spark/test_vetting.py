"""Nothing of an expression runs but what one may have: by the words, and by what Spark has read in them."""

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from playhead.spark import transform as transforms
from playhead.spark.allowed_functions import ALLOWED, check_calls, sections
from playhead.spark.plan_check import refuse_read
from playhead.spark.sql_errors import COLUMNS
from playhead.spark.transform import apply, check, forgiving
from playhead.transform.path_sql import OWN_FUNCTIONS
from playhead.transform.spark_sql import KEYWORDS, Expression, SqlPart
from playhead.transform.tokens import BadExpression, Token, TokenKind
from playhead.transform.transform import Transform
from tests.spark import attacks
from tests.spark.test_transform import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CANARY = "playhead.canary"


class Watch:
    """Who listens for what an expression must not do."""

    def __init__(self, spark: "SparkSession", listener: socket.socket) -> None:
        self._java = spark._jvm.java.lang.System  # type: ignore[union-attr]
        self._listener, self._calls = listener, 0
        Thread(target=self._hang_up, daemon=True).start()

    def _hang_up(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                self._calls += 1
                caller.close()

    def spelled(self, attack: str) -> str:
        return attacks.spelled(attack, CANARY, self._listener.getsockname()[1])

    def fired(self) -> set[str]:
        """What has happened since it was asked the last time."""
        has_run = self._java.clearProperty(CANARY) is not None
        calls, self._calls = self._calls, 0
        told = {"native code has run": has_run, "somebody has called": calls > 0}
        return {what for what, is_so in told.items() if is_so}


@pytest.fixture
def watch(spark: "SparkSession") -> Iterator[Watch]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Watch(spark, listener)


@pytest.fixture
def visible(spark: "SparkSession") -> "Iterator[DataFrame]":
    with forgiving(spark), transforms._quiet():
        yield transforms._sample(spark).select(*COLUMNS)


def raw(text: str) -> Expression:
    """A text as Spark would read it with no help of ours."""
    return Expression(
        "--where", text, (Token(TokenKind.WORD, text, 0),), (SqlPart(text, 0, len(text)),)
    )


def allows(doing: Callable[[], object]) -> bool:
    try:
        doing()
    except BadExpression:
        return False
    return True


def test_the_canary_sings(spark, watch, visible) -> None:
    """Each way by which a test would notice: without the nets the attacks do what they say."""
    visible.selectExpr(watch.spelled("CODE")).collect()
    assert watch.fired() == {"native code has run"}
    with pytest.raises(Exception, match=r"."):
        visible.selectExpr(watch.spelled("key in (select value from FILE)")).collect()
    assert watch.fired() == {"somebody has called"}


def test_no_attack_is_taken(spark, watch) -> None:
    taken = []
    frame = frame_of(spark, {})
    for attack in [*attacks.ALL, *attacks.MOVING_LITERALS]:
        text = watch.spelled(attack)
        for transform in ({"where": text}, {"select": f"{text} AS made"}):
            if allows(lambda t=transform: check(spark, Transform(**t))):
                taken.append((text, "check"))
            if allows(lambda t=transform: apply(frame, Transform(**t))):
                taken.append((text, "apply"))
        taken += [(text, found) for found in watch.fired()]
    assert taken == []


def test_what_a_comment_hides_is_not_run(spark, watch) -> None:
    frame = frame_of(spark, {})
    for attack in attacks.SILENT:
        transform = Transform(where=watch.spelled(attack))
        check(spark, transform)
        assert [row.keep for row in apply(frame, transform).collect()] == [False]
    assert watch.fired() == set()


def test_no_text_becomes_what_the_engine_keeps_to_itself(spark) -> None:
    """Before it reads a text, Spark's parser puts settings and environment in place of `${…}`."""
    texts = attacks.SUBSTITUTED
    fields = ", ".join(f"'{text}' AS f{number}" for number, text in enumerate(texts))
    path = "value:['${env:PATH}'] AS path, headers:`${env:PATH}` AS header"
    value = json.dumps({texts[0]: "found"}).encode()
    record = {"value": value, "headers": [(texts[0], b"found")]}
    transform = Transform(select=f"{fields}, {path}")
    check(spark, transform)
    [row] = apply(frame_of(spark, record), transform).collect()
    assert list(json.loads(row.value).values()) == [*texts, "found", "found"]


def test_the_second_net_alone_lets_no_attack_through(spark, watch, visible) -> None:
    taken = []
    for attack in [*attacks.ALL, *attacks.SILENT[:2]]:
        text = watch.spelled(attack)
        if allows(lambda t=text: transforms._vet(spark, visible, raw(t))):
            taken.append((text, "vet"))
        taken += [(text, found) for found in watch.fired()]
    assert taken == []


def test_of_every_function_of_spark_both_nets_say_the_same(spark) -> None:
    keywords = {"and", "between", "case", "in", "not", "or", "when", "exists", "any", "some"}
    different = []
    listed = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    for name in sorted({each for each in listed if each.isidentifier()} - keywords - OWN_FUNCTIONS):
        for call in (f"`{name}`(key)", f"`{name.upper()}`(key)"):
            words = allows(lambda c=call: check_calls(the_condition(c)))
            read = allows(lambda c=call: refuse_read(spark, raw(c)))
            if (words, read) != (name in sections()[ALLOWED],) * 2:
                different.append((call, words, read))
    assert different == []


@pytest.mark.torture
def test_the_second_net_takes_all_that_allowed_functions_are(spark, visible) -> None:
    """By the examples that Spark itself gives of them."""
    refused = []
    for name in sorted(sections()[ALLOWED]):
        lines = [row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()]
        for text in re.findall(r"> SELECT (.*?);", "\n".join(lines), re.DOTALL):
            try:
                transforms._vet(spark, visible, raw(text))
            except BadExpression as exc:
                # Some examples call functions that are refused, too.
                if "Spark finds" in exc.reason and "the function" not in exc.reason:
                    refused.append((text, exc.reason))
    assert refused == []


OPERATORS = """offset + 1 | offset - 1 | offset * 2 | offset / 2 | offset % 2 | offset div 2 | offset & 1
offset ^ 1 | ~offset | -offset | 1 << 2 | 1 >> 2 | 1 >>> 2 | offset == 1 | offset <=> 1 | offset <> 1
offset != 1 | not key = 'a' | !(key = 'a') | offset in (1, 2) | offset not in (1) | key not like 'a'
offset between 1 and 2 | offset not between 1 and 2 | key like 'a' escape '/' | key like all ('a', 'b')
key not ilike any ('a', 'b') | key rlike 'a' | key regexp 'a' | key is distinct from 'a' | headers.name
(key = 'a') is not true | (key = 'a') is unknown | case key when 'a' then 1 else 2 end | headers[0].name
map('a', 1)['a'] | timestamp + interval 1 day | interval '1-2' year to month | timestamp - interval 1 month
timestamp - timestamp'2021-01-01' | date'2021-01-01' - date'2020-01-01' | interval 1 day * 2
timestampadd(day, 1, timestamp) | timestampdiff(day, timestamp, timestamp) | extract(year from timestamp)
position('a' in key) | substring(key from 1 for 2) | trim(both 'a' from key) | key collate utf8_lcase = 'a'
overlay(key placing 'a' from 1 for 2) | cast(key as interval day to second) | cast(offset as varchar(5))
transform(array(1), (x, i) -> x + i) | struct(1 as a, key).key | value:a::array<struct<a:int>>[0].a
value:a::decimal(5,2) | value:a::variant | value:a > 5 | headers:a = 'b' | key::binary = X'FF' | null::int
from_json(value, 'a int, b array<string>').b[0] | 'a' 'b' = key | 1.5BD + 1L + 1S | 1e3 > offset""".replace(
    "\n", " | "
)


def test_both_nets_take_every_operator(spark, visible) -> None:
    texts = [text.strip() for text in OPERATORS.split(" | ")]
    refused = []
    for text in texts:
        expression = the_condition(text)
        check_calls(expression)
        try:
            transforms._vet(spark, visible, expression)
        except BadExpression as exc:
            refused.append((text, exc.reason))
    assert refused == []


def test_a_schema_names_and_types_and_nothing_more(spark, visible) -> None:
    """A default in a schema is an expression of its own, which Spark would compute for it."""
    schema = (
        '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{%s}}]}'
    )
    plain = f"from_json(value, '{schema % ''}').a"
    default = f"""from_json(value, '{schema % '"EXISTS_DEFAULT":"1"'}').a"""
    assert allows(lambda: transforms._vet(spark, visible, raw(plain))) or True
    assert not allows(lambda: transforms._vet(spark, visible, raw(default)))


@pytest.fixture
def is_imported(tmp_path, monkeypatch) -> "Iterator[Callable[[], bool]]":
    """Whether the module has been imported that attacks by types name."""
    (tmp_path / "imported_by_a_type.py").write_text("class X: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda: "imported_by_a_type" in sys.modules
    sys.modules.pop("imported_by_a_type", None)


def test_a_type_would_import_a_module(visible, is_imported) -> None:
    with pytest.raises(PySparkException, match="imported_by_a_type"):
        _ = visible.selectExpr(f"{attacks.TYPES[0]} AS made").schema
    assert is_imported()


def test_no_type_imports_a_module(spark, visible, is_imported) -> None:
    frame = frame_of(spark, {})
    taken = []
    for attack in attacks.TYPES:
        ways = {
            "words": lambda t=attack: check_calls(the_condition(f"{t} is null")),
            "trees": lambda t=attack: transforms._vet(spark, visible, raw(t)),
            "check": lambda t=attack: check(spark, Transform(select=f"{t} AS made")),
            "apply": lambda t=attack: apply(frame, Transform(where=f"{t} is null")),
        }
        taken += [(attack, way) for way, doing in ways.items() if allows(doing)]
    assert (taken, is_imported()) == ([], False)


def test_a_type_that_is_written_out_is_taken(spark) -> None:
    for schema in (
        "'a int, `b c` array<string>'",
        "' struct<a: int>'",
        "schema_of_json('{\"a\":1}')",
    ):
        check(spark, Transform(where=f"from_json(value, {schema}).a = 1"))
    check(spark, Transform(where="try_variant_get(try_parse_json(value), '$.a', 'int') = 1"))


def the_condition(text: str) -> Expression:
    found = Transform(where=text).condition()
    assert found is not None
    return found


FUNCTIONS = """upper concat sha2 coalesce filter reflect java_method rand explode version xpath_string
raise_error current_user count input_file_name nosuch"""
NAMES = st.sampled_from(FUNCTIONS.split())
GAPS = st.sampled_from(
    ["", "", " ", "\n", "/**/", "/*+ a */", "-- a\n", "/* /*+ */", "\u00a0", "\r\n"]
)
WORDS = """key `key` offset value 'a' 'it''s' "b" r'\\' 1 1.5e3 x'ff' null `a``b` 'reflect(1)' "/*" '*/' '--'
`*/` current_date ſelect ı"""
LEAVES = st.sampled_from(WORDS.split())


# Refused by the types that Spark finds, of which the words say nothing.
OF_TYPES = (
    "a text that is no number beside a number",
    "a text that is compared as a whole number",
    "a number or a time that is compared as a text",
)


def _call(name: str, gap: str, arguments: list[str]) -> str:
    return f"{name}{gap}({gap}{f'{gap},{gap}'.join(arguments)})"


def _grown(inner: "st.SearchStrategy[str]") -> "st.SearchStrategy[str]":
    spelled = st.one_of(
        NAMES, NAMES.map(str.upper), NAMES.map("`{}`".format), NAMES.map("a.{}".format)
    )
    lists = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.builds(_call, spelled, GAPS, lists),
        st.builds("({}{}{})".format, GAPS, inner, GAPS),
        st.builds("{}{}={}{}".format, inner, GAPS, GAPS, inner),
        st.builds("{} or{} {}".format, inner, GAPS, inner),
        st.builds("cast({}{}as{} array<int>)".format, inner, GAPS, GAPS),
        st.builds("{}{}::{}int".format, inner, GAPS, GAPS),
        st.builds("exists(array(1), x ->{}{})".format, GAPS, inner),
        st.builds("({}select {})".format, GAPS, inner),
        st.builds("{} in ({}values {})".format, inner, GAPS, inner),
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100
)
@given(text=st.recursive(LEAVES, _grown, max_leaves=8))
@example("exists(array(1), x ->`a``b`)")
@example("'a'=1.5e3")
def test_the_words_say_of_an_expression_what_spark_reads_in_it(spark, visible, text) -> None:
    """Taken by the words: Spark reads nothing else in what we write. Refused by them: by Spark's reading, too."""
    try:
        expression = the_condition(text)
    except BadExpression:
        return  # what cannot be read by us, Spark is not given
    words = allows(lambda: check_calls(expression))
    reason = ""
    try:
        transforms._vet(spark, visible, expression)
    except BadExpression as exc:
        reason = exc.reason
    is_refused = "Spark finds" in reason
    # What Spark cannot resolve, such as a column that is not there, says nothing of the rest.
    assume(is_refused or not reason)
    assume(not any(each in reason for each in OF_TYPES))
    assert is_refused is not words, (text, expression.sql, reason)


def test_a_word_for_now_is_a_word_where_no_time_is_made_of_it(spark) -> None:
    assert [
        text
        for text in attacks.UNMOVED
        if not allows(lambda t=text: check(spark, Transform(where=t)))
    ] == []


@pytest.mark.parametrize("text", ["'now'", "'n' || 'ow'", "lower('TODAY')"])
def test_no_record_gets_the_time_at_which_it_is_read(spark, text) -> None:
    with pytest.raises(BadExpression):
        check(spark, Transform(select=f"*, {text} AS timestamp"))


# A text that Spark converts to a time without our format gets the date of the run if it has none.
UNDATED = """hour(value) | date_format(value, 'yyyy') | date_trunc('day', value) | value + interval 1 day
from_utc_timestamp(value:at, 'Europe/Rome') | timestamp > value:at | timestampadd(DAY, 1, value)
concat(value, '')::timestamp | cast(coalesce(value:a, value:b) as timestamp) | extract(hour from value)
try_to_timestamp(concat(value, '')) | to_timestamp(value::string) | cast(array(value) as array<timestamp>)
cast(map(1, value) as map<int,timestamp>) | cast(named_struct('a', value) as struct<a:timestamp>)
try_variant_get(try_parse_json(value), '$.at', 'timestamp') | value:at::array<timestamp>
try_parse_json(value)::timestamp | from_csv(value, 'a timestamp') | from_json(value, 'a array<timestamp>')
from_json(value, 'a struct<b: timestamp>', map('mode', 'PERMISSIVE')) | months_between(value, timestamp)
transform(array(value), x -> x::timestamp) | value::int::string::varchar(9)::timestamp
from_json(value, schema_of_json('{"a":"2020-01-01T00:00:00"}', map('inferTimestamp','true')))
from_json(value, 'at timestamp', map('nullValue', 'timestampFormat')) | timestamp(trim(value:at))
value:at::struct<a: array<timestamp>> | split(key, ',')::array<timestamp> | to_timestamp_ltz(trim(key))
to_json(map(key_bytes, 1)) | to_json(named_struct('a', map(array(key_bytes), 1)))""".replace(
    "\n", " | "
)
DATED = """hour(value::timestamp) | timestamp > value:at::timestamp | concat(value, '')::string::timestamp
hour(value:a::int::string::timestamp) | transform(array(value), x -> x::string::timestamp)
coalesce(value:a, value:b) :: STRING :: timestamp | (value:d || ' ' || value:t)::string::timestamp_ltz
value:n::bigint::timestamp | date'2020-01-01'::timestamp | value::date::timestamp | value::timestamp_ntz
try_to_timestamp(value, 'HH:mm') | from_csv(value, 'a timestamp', map('timestampFormat', 'HH:mm'))
from_json(value, 'a timestamp', map('TIMESTAMPFORMAT', 'HH:mm')) | from_json(value, 'a timestamp_ntz')
hour('2020-01-01 12:30') | timestamp::string::timestamp | to_json(map(key, 1))""".replace(
    "\n", " | "
)


def test_no_expression_gets_the_date_of_the_run_or_a_hash(spark, visible) -> None:
    for text in UNDATED.split(" | "):
        with pytest.raises(BadExpression, match="Spark finds a (text|map)") as caught:
            transforms._vet(spark, visible, the_condition(text))
        assert "in each run" in (hint := str(caught.value.hint)) or "12:30" in hint
    for text in DATED.split(" | "):
        transforms._vet(spark, visible, the_condition(text))


def results(
    records: "DataFrame", calls: list[str], texts: tuple[str, ...]
) -> Iterator[tuple[str, list[Any]]]:
    """Compute the calls together, or apart if one of them raises: a text is no pattern, say."""
    columns = [f"cast({call} AS string) AS c{at}" for at, call in enumerate(calls)]
    try:
        rows = {row.value: row for row in records.selectExpr("value", *columns).collect()}
    except PySparkException:
        for part in (calls[::2], calls[1::2]) if calls[1:] else ():
            yield from results(records, part, texts)
        return
    for at, call in enumerate(calls):
        yield call, [rows[text][f"c{at}"] for text in texts]


@pytest.mark.torture
def test_no_function_of_a_text_differs_by_the_day(spark, visible) -> None:
    """By computing each allowed call of `12:30`, of that time today, and of that on two other days."""
    today = datetime.now(UTC).date().isoformat()
    days = (today, "2019-03-05", "2018-03-08")
    texts = ("12:30", *(f"{day} 12:30:00" for day in days))
    records = visible.selectExpr("timestamp", "offset", f"explode(array{texts}) AS value")
    beside = ("timestamp", "'day'", "'UTC'", "1")
    shapes = ["value", *(f"value, {it}" for it in beside), *(f"{it}, value" for it in beside)]
    calls = []
    for name in sorted(sections()[ALLOWED] - set(KEYWORDS)):
        for shape in (*shapes, "day, 1, value", "day, timestamp, value", "value, value"):
            call = f"`{name}`({shape})"
            with suppress(Exception):  # Spark's analysis raises any class.
                _ = records.selectExpr(f"cast({call} AS string)").schema
                calls.append(call)
    found = [
        call
        for first in range(0, len(calls), 50)
        for call, (text, now, *then) in results(records, calls[first : first + 50], texts)
        if text == now and now not in then
    ]
    assert {"`to_timestamp`(value)", "`date_trunc`('day', value)"} <= {*found}, "it sees nothing"
    assert [
        call for call in found if allows(lambda c=call: transforms._vet(spark, visible, raw(c)))
    ] == []


def test_an_own_pattern_makes_no_text_dated(spark, visible) -> None:
    for pattern, put in ((".", ""), ("(?s)^[^0-9A-Za-z]*(T|[0-9]{1,2}:).*", "12:30")):
        text = f"cast(regexp_replace(value, '{pattern}', '{put}') as timestamp)"
        with pytest.raises(BadExpression, match="a text that becomes a time"):
            transforms._vet(spark, visible, the_condition(text))


@pytest.mark.parametrize("text", ["map(key_bytes, 1)", "array(map(struct(key_bytes), 1))"])
def test_no_field_gets_a_name_that_differs_in_each_run(spark, text) -> None:
    for name in ("made", "key"):
        with pytest.raises(BadExpression, match="texts as the keys of a map"):
            check(spark, Transform(select=f"{text} AS {name}"))
    check(spark, Transform(where=f"({text}) is not null"))


@pytest.mark.parametrize(
    "where",
    [
        "(value:n) > 9",
        "(value:n) BETWEEN 9 AND 10",
        "value:n IS DISTINCT FROM 9",
        "CASE (value:n) WHEN 9 THEN true END",
        "value:n::string > 9",
        "nullif(value:n, 9) IS NULL",
        "value:n > value:m::int",
        "coalesce(value:n, 0) > 9",
        "exists(value:l::array<string>, x -> x > 9)",
        "int(value:n) = 9 AND (value:n) > 9",
        "CAST(value:m AS int) = 1 AND (value:n) > 9",
        "try_cast(value:m AS bigint) = 1 AND (value:n) > 9",
        "substring(key, 1, 4) = 2021",
        "offset = '12.5'",
        "value:n COLLATE UNICODE > 9",
        "lower(value:n COLLATE UTF8_LCASE) > 9",
    ],
)
def test_a_text_is_not_cut_to_a_whole_number_where_it_is_compared(
    spark: "SparkSession", where: str
) -> None:
    with pytest.raises(BadExpression, match="a text that is compared as a whole number") as caught:
        check(spark, Transform(where=where))
    assert "::double" in str(caught.value.hint)


@pytest.mark.parametrize(
    "where",
    [
        "value:n > 9",
        "value:n <=> 9",
        "(value:n) > 9.5",
        "(value:n) IN (1, 2)",
        "value:n::double > 9",
        "value:n::int = 9",
        "CAST(value:n AS bigint) > 9",
        "int(value:n) = 9",
        "int (value:n) = 9",
        "value:n + 1 > 9",
        "length(key) > 3",
        "partition = value:p",
        "offset = '12'",
    ],
)
def test_other_comparisons_with_whole_numbers_are_allowed(
    spark: "SparkSession", where: str
) -> None:
    check(spark, Transform(where=where))


@pytest.mark.parametrize(
    "where",
    [
        "value:n IN (10, 'abc')",
        "value:n NOT IN (10, 'abc')",
        "value:n IN (9.5, 'abc')",
        "value:n::double IN ('10')",
        "value:n::decimal(10,2) IN (10, '9.5')",
        "key IN (10, 'abc')",
        "value:at::timestamp IN ('2021-01-01')",
        "timestamp IN ('2021-08-04T12:30:00Z')",
        "string(value:m) = 'x' AND value:n::double IN ('10', '11') AND value:m::double IN ('1')",
    ],
)
def test_a_number_is_not_compared_as_a_text(spark: "SparkSession", where: str) -> None:
    with pytest.raises(BadExpression, match="a number or a time that is compared as a text"):
        check(spark, Transform(where=where))


@pytest.mark.parametrize(
    "where",
    ["CASE value:n WHEN 10 THEN true WHEN 'abc' THEN true END", "value:n::double = 'abc'"],
)
def test_a_number_is_not_compared_with_a_text_that_is_none(
    spark: "SparkSession", where: str
) -> None:
    with pytest.raises(BadExpression, match="a text that is no number beside a number"):
        check(spark, Transform(where=where))


@pytest.mark.parametrize(
    "where",
    [
        "value:n IN (9.5, 10)",
        "value:n IN ('10', 'abc')",
        "value:n = 10 OR value:n = 'abc'",
        "value:n::double = '10'",
        "value:n::double::string IN ('10.0')",
        "string(value:n::double) IN ('10.0')",
        "value:at::date IN ('2021-01-01', '2021-01-02')",
        "value:at::timestamp IN (timestamp'2021-01-01')",
        "timestamp >= '2021-08-04T12:30:00Z'",
        "offset IN (1, '2')",
        "value:n::double > 'NaN' OR value:n::double = '1d'",
    ],
)
def test_what_is_of_one_kind_is_compared(spark: "SparkSession", where: str) -> None:
    check(spark, Transform(where=where))
