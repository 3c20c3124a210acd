"""Transforms on a real engine: what is kept, what is made, what is refused and how it is said."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError

from playhead.host.threads import call_within
from playhead.records import Records
from playhead.spark.allowed_functions import ALLOWED, sections
from playhead.spark.failures import StackFull, failure
from playhead.spark.run import transformed
from playhead.spark.transform import COLUMNS, apply, check, forgiving
from playhead.transform.tokens import BadExpression
from playhead.transform.transform import Transform
from tests.unit.replaying import record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SCHEMA = (
    "slice int, is_end boolean, topic string, partition int, offset long, timestamp_ms long, "
    "timestamp_type int, key binary, value binary, "
    "headers array<struct<name: string, value: binary>>"
)
TIME_MS = 1_628_080_200_123  # 2021-08-04T12:30:00.123Z
DEFAULTS: dict[str, Any] = {
    "slice": 0,
    "is_end": False,
    "topic": "laps",
    "partition": 1,
    "offset": 7,
    "timestamp_ms": TIME_MS,
    "timestamp_type": 0,
    "key": b"car-01",
    "value": b'{"speed": 301.5, "car": "44", "n": 2, "lap": {"sector": [{"time": 31.5}]}}',
    "headers": [("trace", b"a"), ("other", b"\xff"), ("trace", b"b")],
}


@pytest.fixture(autouse=True)
def settings_are_left_alone(spark: "SparkSession") -> Iterator[None]:
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    yield
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before


def frame_of(spark: "SparkSession", *records: dict[str, Any]) -> "DataFrame":
    rows = [tuple((DEFAULTS | record).values()) for record in records]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def after(spark: "SparkSession", record: dict[str, Any], **texts: str) -> "Row":
    """What a transform leaves of one record; checked first, as it is in a run."""
    transform = Transform(**texts)
    check(spark, transform)
    return apply(frame_of(spark, record), transform).collect()[0]


def keeps(spark: "SparkSession", where: str, **record: Any) -> bool:
    return bool(after(spark, record, where=where).keep)


@pytest.mark.parametrize(
    ("where", "is_kept"),
    [
        ("key = 'car-01'", True),
        ("key_bytes = X'6361722D3031'", True),
        ("value:speed > 300", True),
        ("value:speed > 301.5", False),
        ("value:speed between 301 and 302", True),
        ("value:n in (1, 2)", True),
        ("value:n in (1, 3)", False),
        ("value:car > 300", False),
        ("10 > value:n", True),
        ("value:lap.sector[0].time::decimal(5,2) = 31.50", True),
        ("value:missing = 'x'", False),
        ("not (value:missing = 'x')", False),
        ("value:missing is null", True),
        ("headers:trace = 'b'", True),
        ("headers:none is null", True),
        ("exists(headers, h -> h.value = X'FF')", True),
        ("timestamp >= '2021-08-04T12:30:00.123Z' and timestamp < '2021-08-04T12:30:00.124'", True),
        ("topic = 'laps' and partition = 1 and offset = 7", True),
        ("key like any ('a%', 'car%')", True),
        ("true -- and false", True),
        ("key = 'value:speed'", False),
    ],
)
def test_records_are_kept_for_which_the_condition_is_true(spark, where, is_kept):
    assert keeps(spark, where) is is_kept


@pytest.mark.parametrize(
    "where",
    [
        "value:speed > 300",
        "value:speed + 1 > 300",
        "value:speed::int / (value:n::int - 2) > 0",
        "1 / (offset - 7) > 0",
        "array(1)[offset] = 1",
        "to_date(key) > date'2021-01-01'",
        "cast(key as int) = 1",
        "key::timestamp > timestamp",
        "get(array(1), offset::int) = 1",
        "try_parse_json(value) is null and value:a = 1",
        "unhex(key) = X'00'",
        "substring(key, 1000)::int = 5",
        "value:speed::array<int>[0] = 1",
        "map('a', 1)[key] = 1",
    ],
)
def test_a_bad_record_is_left_out_and_ends_nothing(spark, where):
    check(spark, Transform(where=where))
    values = [b'{"speed": "abc", "n": 2}', b"{bad", b"", b"\xff\xfe", b"5", None]
    frame = frame_of(spark, *({"value": value} for value in values))
    rows = apply(frame, Transform(where=where)).collect()
    assert [row.keep for row in rows] == [False] * len(values)


@pytest.mark.parametrize("text", ["12:30", "T12", " +1:30:00", "12:30:00.5Z"])
def test_a_time_of_day_does_not_get_the_date_of_the_run(spark, text):
    value = json.dumps({"at": text}).encode()
    for where in ("value:at::timestamp is null", "cast(value:at as timestamp) is null"):
        assert keeps(spark, where, value=value)
    for where in (
        "value::timestamp is null",
        "to_timestamp(value) is null",
        "lower(value)::string::timestamp is null",
    ):
        assert keeps(spark, where, value=text.encode())
    assert keeps(spark, "value::timestamp = '2021-08-04T12:30:00Z'", value=b"2021-08-04 12:30")


def test_numbers_are_compared_as_numbers_and_exactly(spark):
    value = b'{"speed": 1000, "id": 9007199254740993, "d": 0.12345678901234567}'
    assert keeps(spark, "value:speed > 300", value=value)
    assert keeps(spark, "value:id = 9007199254740993", value=value)
    assert not keeps(spark, "value:id = 9007199254740992", value=value)
    assert keeps(spark, "value:d = 0.12345678901234567", value=value)
    assert not keeps(spark, "value:d = 0.12345678901234568", value=value)


def test_one_left_out_keeps_its_place_and_loses_its_load(spark):
    row = after(spark, {}, where="false")
    assert (row.keep, row.key, row.value, row.headers) == (False, None, None, None)
    assert (row.slice, row.topic, row.partition, row.offset) == (0, "laps", 1, 7)
    assert (row.timestamp_ms, row.timestamp_type) == (TIME_MS, 0)


def test_rows_that_end_something_pass_as_they_are(spark):
    row = after(
        spark, {"is_end": True, "offset": -1}, where="false", select="upper(key) AS key, topic"
    )
    assert row.keep
    assert {name: row[name] for name in ("key", "value", "offset")} == {
        "key": DEFAULTS["key"],
        "value": DEFAULTS["value"],
        "offset": -1,
    }
    assert [tuple(pair) for pair in row.headers] == DEFAULTS["headers"]


def test_the_schema_is_the_same_and_keep_and_the_order_stays(spark):
    transform = Transform(where="offset % 2 = 0", select="value:speed, upper(key) AS key")
    frame = frame_of(spark, *({"offset": number} for number in range(50)))
    made = apply(frame, transform)
    assert made.columns == [*frame.columns, "keep"]
    assert [f.dataType for f in made.schema][:-1] == [f.dataType for f in frame.schema]
    rows = made.collect()
    assert [row.offset for row in rows] == list(range(50))
    assert [row.keep for row in rows] == [number % 2 == 0 for number in range(50)]


def test_where_alone_leaves_every_byte(spark):
    record = {"key": b"\xff\x00", "value": b"\xfe", "headers": [("a", None), ("a", b"")]}
    row = after(spark, record, where="offset = 7")
    assert (bytes(row.key), bytes(row.value)) == (b"\xff\x00", b"\xfe")
    assert [tuple(pair) for pair in row.headers] == [("a", None), ("a", b"")]


def test_fields_become_a_new_value(spark):
    select = (
        "value:car AS car, upper(key) AS key, value:speed::double AS speed, timestamp, topic, offset,"
        " key_bytes AS raw, 1.10BD AS price, null AS nothing, value:missing, value:lap, headers:trace"
    )
    row = after(spark, {}, select=select)
    assert bytes(row.key) == b"CAR-01"
    assert bytes(row.value).decode() == (
        '{"car":"44","speed":301.5,"timestamp":"2021-08-04T12:30:00.123000Z","topic":"laps",'
        f'"offset":7,"raw":"{base64.b64encode(b"car-01").decode()}","price":1.10,"nothing":null,'
        '"missing":null,"lap":{"sector":[{"time":31.5}]},"trace":"b"}'
    )
    assert [tuple(pair) for pair in row.headers] == DEFAULTS["headers"]
    assert row.timestamp_ms == TIME_MS


def test_a_path_by_itself_keeps_its_json_type(spark):
    value = (
        b'{"d": 12345678901234567890.123456789012345678, "s": "1", "b": true, "a": [1, "x"], "n": null,'
        b' "twice": 1, "twice": 2}'
    )
    row = after(
        spark, {"value": value}, select="value:d, value:s, value:b, value:a, value:n, value:none"
    )
    assert bytes(row.value).decode() == (
        '{"d":12345678901234567890.123456789012345678,"s":"1","b":true,"a":[1,"x"],"n":null,"none":null}'
    )
    row = after(
        spark, {"value": value}, select="value:d::string AS d, value:d::decimal(38,18) AS e"
    )
    assert json.loads(bytes(row.value))["d"] != "12345678901234567890.123456789012345678"
    assert bytes(row.value).endswith(b'"e":12345678901234567890.123456789012345678}')


def test_microseconds_are_kept(spark):
    row = after(spark, {}, select="timestamp + interval 1 microsecond AS at")
    assert json.loads(bytes(row.value)) == {"at": "2021-08-04T12:30:00.123001Z"}


def test_a_tombstone_stays_one(spark):
    assert after(spark, {"value": None}, select="key AS k, value:a").value is None
    assert after(spark, {"value": None}, select="value").value is None
    assert bytes(after(spark, {"value": None}, select="'x' AS value").value) == b"x"
    assert bytes(after(spark, {"value": b""}, select="key AS k").value) == b'{"k":"car-01"}'


@pytest.mark.parametrize(
    ("record", "found", "where", "said"),
    [
        ({"value": b'{"a":1'}, None, None, "the value is not JSON that the engine can read"),
        ({"value": b'{"a":1'}, None, "false", None),
        ({}, "two fields", None, "two fields"),
        ({}, "two fields", "false", None),
        ({"is_end": True}, "undecodable", "false", "undecodable"),
        ({}, None, None, None),
        ({"value": None}, None, None, None),
    ],
)
def test_what_cannot_be_selected_has_trouble_if_it_is_kept(spark, record, found, where, said):
    trouble = "CAST(NULL AS STRING)" if found is None else f"'{found}'"
    frame = frame_of(spark, record).selectExpr(
        "*", "CAST(NULL AS BINARY) AS raw", f"{trouble} AS trouble"
    )
    row = apply(frame, Transform(where=where, select="value:speed")).collect()[0]
    assert row.trouble is None if said is None else said in row.trouble
    if said is not None:
        assert row.value == frame.collect()[0].value


def test_parts_that_are_not_selected_stay(spark):
    row = after(spark, {"value": b"\xff"}, select="lower(key) AS key")
    assert bytes(row.value) == b"\xff"
    row = after(spark, {"key": b"\xff"}, select="key, value:car")
    assert bytes(row.key) == b"\xff"
    assert after(spark, {"key": None}, select="value:car").key is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("value:n::int", b"2"),
        ("value_bytes", DEFAULTS["value"]),
        ("value:n", b"2"),
        ("named_struct('a', 1, 'b', null)", b'{"a":1,"b":null}'),
        ("array(1, 2)", b"[1,2]"),
        ("timestamp", b"2021-08-04T12:30:00.123000Z"),
        ("cast('12.50' as decimal(5,2))", b"12.50"),
        ("true", b"true"),
        ("value:lap::variant", b'{"sector":[{"time":31.5}]}'),
        ("cast(null as string)", None),
    ],
)
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_part_is_made_of_any_type(spark, part, expression, expected):
    made = after(spark, {}, select=f"{expression} AS {part}")[part]
    assert (None if made is None else bytes(made)) == expected


def test_headers_are_made_of_pairs(spark):
    select = "array(struct('a' AS x, 'b' AS y), struct('c' AS x, null AS y), struct(null AS x, 'd' AS y)) AS headers"
    assert [tuple(pair) for pair in after(spark, {}, select=select).headers] == [
        ("a", b"b"),
        ("c", None),
    ]
    row = after(spark, {}, select="filter(headers, h -> h.name <> 'trace') AS headers")
    assert [tuple(pair) for pair in row.headers] == [("other", b"\xff")]


def test_a_time_is_replaced_where_it_is_said(spark):
    value = b'{"at": "2021-01-01T00:00:00.5Z"}'
    row = after(
        spark, {"value": value, "timestamp_type": 1}, select="value:at::timestamp AS timestamp"
    )
    assert (row.timestamp_ms, row.timestamp_type) == (1_609_459_200_500, 0)
    assert bytes(row.value) == value
    row = after(
        spark, {"value": b"{}", "timestamp_type": 1}, select="value:at::timestamp AS timestamp"
    )
    assert (row.timestamp_ms, row.timestamp_type) == (TIME_MS, 1)


@pytest.mark.parametrize("time_ms", [-1, (1 << 63) - 1, -(1 << 63)])
def test_a_record_without_a_time_has_none(spark, time_ms):
    row = after(spark, {"timestamp_ms": time_ms}, where="timestamp is null", select="timestamp")
    assert row.keep
    assert row.timestamp_ms == time_ms
    assert json.loads(bytes(row.value)) == {"timestamp": None}


REFUSED = [
    ("upper(kk) = 'x'", "kk", "there is no column 'kk'"),
    ("upper(topik) = 'x'", "topik", "there is no column 'topik'"),
    ("slice = 1", "slice", "there is no column 'slice'"),
    ("__key = 'a'", "__key", "there is no column '__key'"),
    ("value:a = 1 and uper(key) = 'x'", "uper", "there is no function 'uper'"),
    ("value:a = 1 and nokey = 'x'", "nokey", "there is no column 'nokey'"),
    ("value:a::doubel > 1", "doubel", "there is no type 'doubel'"),
    ("key = 'a' and key + ", "+", "cannot end here"),
    ("key = 'a' oops", "oops", "cannot end here"),
    ("key = 'a' AS b", "b", "cannot end here"),
    ("key = 'a' b c", "c", "is not expected here"),
    ("key", "key", "found string, needed a condition"),
    ("value:flag", "value:flag", "found string, needed a condition"),
    ("value.a = 1", "value.a", "Can't extract a value"),
    ("upper(key, 3) = 'x'", "upper(key, 3)", "requires 1 parameters"),
    ("key rlike '('", "key rlike '('", "Unclosed group"),
    (
        "date_format(timestamp, 'bbbbb') = 'x'",
        "date_format(timestamp, 'bbbbb')",
        "datetime pattern",
    ),
    ("timestamp > '2021-13-01'", "'2021-13-01'", "is no timestamp"),
    ("timestamp not between '2021-01-01' and 'x'", "'x'", "is no timestamp"),
    ("'soon' < timestamp", "'soon'", "is no timestamp"),
    ("offset = '12a'", "'12a'", "is no bigint"),
    ("'abc'::date > timestamp", "'abc'", "is no date"),
    ("key = :a", ":", "`:` has a meaning"),
    ("value :a = 1", ":", ""),
    ("rand() < 0.5", "rand", "another answer each time"),
    ("RAND (1) < 0.5", "RAND", "another answer each time"),
    ("`rand`() < 0.5", "`rand`", "another answer each time"),
    ("rand/* */() < 0.5", "rand", "another answer each time"),
    ("uuid() = key", "uuid", "another answer each time"),
    (
        "monotonically_increasing_id() = 1",
        "monotonically_increasing_id",
        "another answer each time",
    ),
    ("now() > timestamp", "now", "depends on when it runs"),
    ("current_timestamp > timestamp", "current_timestamp", "depends on when it runs"),
    ("`current_date` > timestamp", "`current_date`", "depends on when it runs"),
    ("localtime is null", "localtime", "depends on when it runs"),
    ("timestamp'now' > timestamp", "'now'", "depends on the"),
    ("timestamp < 'today'", "'today'", "depends on the"),
    ("cast(' now ' as timestamp) > timestamp", "' now '", "depends on the"),
    ("' tomorrow UTC '::date > timestamp", "' tomorrow UTC '", "depends on the"),
    ("to_timestamp('now') > timestamp", "'now'", "depends on the"),
    ("session_user = 'x'", "session_user", "depends on where"),
    ("current_user() = 'x'", "current_user", "depends on where"),
    ("input_file_name() = 'x'", "input_file_name", "depends on where"),
    ("reflect('java.lang.System', 'exit', 1) = 'x'", "reflect", "runs code"),
    ("java_method('java.lang.System', 'exit', 1) = 'x'", "java_method", "runs code"),
    ("try_reflect('java.lang.System', 'exit', 1) = 'x'", "try_reflect", "runs code"),
    ("identifier('reflect')('java.lang.System') = 'x'", "identifier", "there is no function"),
    ("system.builtin.rand() < 1", "rand", "by their own name only"),
    ("my_udf(key)", "my_udf", "there is no function 'my_udf'"),
    ("assert_true(false) is null", "assert_true", "ends the run"),
    ("raise_error('x') is null", "raise_error", "ends the run"),
    ("parse_json(value) is null", "parse_json", "fails on the first record"),
    ("count(*) > 1", "count", "many records together"),
    ("sum(offset) over () > 1", "sum", "many records together"),
    ("any(key = 'a')", "any", "many records together"),
    ("some(key = 'a')", "some", "many records together"),
    ("explode(array(1)) = 1", "explode", "several rows of one"),
    ("key = (select 'a')", "select", "contain a query"),
    ("exists (select 1)", "select", "contain a query"),
    ("key in (/* */ SELECT 'a')", "SELECT", "contain a query"),
    ("key = (values 'a')", "values", "contain a query"),
    ("key = (table t)", "table", "contain a query"),
    ("key = (from t)", "from", "contain a query"),
    ("key = (map key using 'cat')", "using", "contain a query"),
    ("key = (with t as (select 1) select * from t)", "with", "contain a query"),
    ("struct(*) is null", "*", "stands for no columns"),
    ("from_protobuf(value, 'a', '/etc/passwd') is null", "from_protobuf", "reads files"),
    ("element_at(array(1), offset::int) = 1", "element_at", "fails where its index is 0"),
    ("xpath_string(value, 'a') = 'b'", "xpath_string", "parses XML"),
]


@pytest.mark.parametrize(("where", "part", "reason"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_bad_condition_is_refused_and_pointed_at(spark, capfd, where, part, reason):
    with pytest.raises(BadExpression) as caught:
        check(spark, Transform(where=where))
    error = caught.value
    assert reason in error.reason
    assert "\n" not in error.reason
    assert not re.search(
        r"SQLSTATE|org\.apache|get_json_object|try_cast|docs/latest|\[[A-Z_.]+\]", error.reason
    )
    assert where[error.start :].startswith(part)
    assert error.exit_code == 2
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


_KNOWN_COLUMNS = f"columns: {', '.join(COLUMNS)}"


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("topik = 'a'", "did you mean topic?"),
        ("lenght(key) = 1", "did you mean length or len or bit_length?"),
        ("value:a::doubel = 1", "did you mean double?"),
        ("amount > 5", f"a field of the JSON value is written value:amount; {_KNOWN_COLUMNS}"),
        ("`the amount` > 5", _KNOWN_COLUMNS),
        ("parse_json(value) is null", "use try_parse_json"),
    ],
)
def test_the_hint_names_what_is_near(spark, where, hint):
    with pytest.raises(BadExpression) as caught:
        check(spark, Transform(where=where))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("select", "part", "reason"),
    [
        ("key AS a, uper(key) AS key", "uper", "there is no function"),
        ("key AS a,\n  value:b::doubel AS b", "doubel", "there is no type"),
        ("key AS a, nokey AS b", "nokey", "there is no column"),
        ("key AS a, value:at AS timestamp", "value:at", "found string, needed a timestamp"),
        ("key AS headers", "key", "found string, needed array<struct"),
        ("array(struct(1, 'a')) AS headers", "array", "needed array<struct"),
        ("array(struct('a', 1)) AS headers", "array", "needed array<struct"),
        ("map('a', 'b') AS headers", "map", "needed array<struct"),
        ("key AS a, rand() AS b", "rand", "another answer each time"),
        ("value:a, regexp_replace(key, '(', '') AS b", "regexp_replace", "is invalid"),
        ("key a AS b", "a", ""),
    ],
)
def test_a_bad_selection_is_refused_and_pointed_at(spark, select, part, reason):
    with pytest.raises(BadExpression) as caught:
        check(spark, Transform(select=select))
    assert reason in caught.value.reason
    assert select[caught.value.start :].startswith(part)


def test_every_function_of_spark_is_allowed_or_refused(spark):
    """A new function of a new Spark belongs to one of the sections; so does one that has gone."""
    listed = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    keywords = {"and", "between", "case", "div", "in", "not", "or", "when"}
    sorted_in = sorted(name for names in sections().values() for name in names)
    assert len(sorted_in) == len(set(sorted_in))
    assert sorted_in == sorted({name for name in listed if name.isidentifier()} - keywords)


@pytest.mark.torture
def test_no_allowed_function_says_that_it_is_not_deterministic(spark):
    doubtful = []
    for name in sorted(sections()[ALLOWED]):
        lines = [row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()]
        text = " ".join(lines)
        if "deterministic" in text or ".aggregate." in text or "python" in text.lower():
            doubtful.append(name)
    assert doubtful == []


REMOTE = """
import sys
from playhead.transform.tokens import BadExpression
from playhead.spark import session
from playhead.spark.transform import apply, check, forgiving
from playhead.transform.transform import Transform
from tests.unit.replaying import record
from tests.spark.test_transform import frame_of

spark = session.session("elsewhere", remote=sys.argv[1])
transform = Transform(where="value:speed + 1 > 300", select="upper(key) AS key, value:speed, timestamp")
check(spark, transform)
frame = frame_of(spark, {}, {"value": b'{"speed": "abc"}'})
with forgiving(spark):
    for row in apply(frame, transform).collect():
        print(row.keep, row.key and bytes(row.key), row.value and bytes(row.value))
for bad in ("key = 'a' and uper(key) = 'b'", "topik = 'a'", "key = 'a' and", "key rlike '('"):
    try:
        check(spark, Transform(where=bad))
    except BadExpression as error:
        print(error.column, error.reason)
session.stop(spark)
"""


def test_it_is_the_same_through_spark_connect(connect_server: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REMOTE, connect_server], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        """True b'CAR-01' b'{"speed":301.5,"timestamp":"2021-08-04T12:30:00.123000Z"}'""",
        "False None None",
        "15 there is no function 'uper'",
        "1 there is no column 'topik'",
        "11 the expression cannot end here",
        "1 Unclosed group near index 1",
    ]


def test_the_settings_come_back_after_an_error(spark: "SparkSession") -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    inside = forgiving(spark)
    inside.__enter__()
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    assert inside.__exit__(ValueError, ValueError("on the way"), None) is False
    assert spark.conf.get("spark.sql.ansi.enabled") == before


def test_a_schema_is_too_deep_in_words(spark) -> None:
    """Its tree is JSON, which Java's writer and Python's reader both give up at some depth."""
    for depth in (300, 700, 1_000, 3_000):
        schema = f"a {'array<' * depth}int{'>' * depth}"
        with suppress(BadExpression):
            check(spark, Transform(where=f"from_json(value, '{schema}') IS NULL"))


REPEATED_GROUPS = ["^(\\\\w|-)+$", "^(a|b)*$", "(.|\\\\n)*z"]


@pytest.mark.parametrize("pattern", REPEATED_GROUPS)
def test_a_record_that_fills_the_stack_fails_the_plan_in_words(spark, pattern) -> None:
    """A thread of the engine ended by it, and Python waited for its answer forever."""
    transform = Transform(where=f"value RLIKE '{pattern}'")
    records = Records.of([replace(record(0), value=b"ab" * 20_000)])
    with pytest.raises(StackFull, match="needs more stack for a record"):
        call_within(lambda: transformed(spark, [records], transform), 60, name="plan")
    assert transformed(spark, [Records.of([replace(record(0), value=b"ab-z")])], transform) != []


def test_a_record_that_fills_the_stack_fails_its_task_in_words(spark) -> None:
    """It ended the engine, with the commands in it, and each retry did the same."""
    transform = Transform(where="value RLIKE '^(a|b)*$'")
    check(spark, transform)
    frame = frame_of(spark, {"value": b"ab" * 20_000}, {}).repartition(2)
    with pytest.raises(Py4JError) as raised:
        apply(frame, transform).collect()
    assert isinstance(failure(raised.value), StackFull)
    assert spark.range(3).count() == 3
