"""Checks a transform with Spark before anything runs, and applies it to records."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playhead.spark.allowed_functions import check_calls, compared_literals
from playhead.spark.arrow_rows import RAW, TROUBLE
from playhead.spark.plan_check import can_be_asked, refuse_meant, refuse_read
from playhead.spark.repeated_parts import check_repetition
from playhead.spark.selected_columns import DOCUMENT, HEADERS, HIDDEN, JSON, columns_of, field_of
from playhead.spark.sql_errors import COLUMNS, at_all_of, complaint
from playhead.spark.value_types import is_hashed
from playhead.transform.selected_fields import selected_paths
from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import BadExpression, TokenKind
from playhead.transform.transform import Output, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

# A bad record must not end a run: what cannot be computed is NULL. And a text means the same in
# every session.
_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    # Spark's own limit of ten thousand records may exceed the heap.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.session.timeZone": "UTC",
    # Otherwise `${env:NAME}` in a text would insert a variable or a setting of the engine.
    "spark.sql.variable.substitute": "false",
    "spark.sql.variant.allowDuplicateKeys": "true",
}
# Records whose fields are selected, their parsed keys and values, and why they cannot be selected.
_READ, _UNREAD = f"NOT {HIDDEN}is_end AND {HIDDEN}keep", f"{HIDDEN}unread"
_NO_TIME_MS = -1
# Spark's timestamps are in the years 1 to 9999; other times overflow in sums and would end a run.
# To expressions they are NULL, and they stay in the record.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_CONTENT = ("key", "value", "headers", RAW)


@contextmanager
def forgiving(spark: "SparkSession") -> Iterator[None]:
    """Yield a session in which an expression that fails for a record gives NULL.

    A plan made inside keeps this when it runs outside, except with Spark Connect, which makes the plan at the
    run: then the run must be inside too.
    """
    before = {key: spark.conf.get(key, None) for key in _SETTINGS}
    try:
        for key, value in _SETTINGS.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PySpark's JSON errors on stderr, which contain the JVM's whole stack."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


_vetted: "tuple[SparkSession, Transform] | None" = None


def vet(spark: "SparkSession", transform: Transform) -> None:
    """Refuse what an expression must not contain, by our tokens and by Spark's trees.

    Nothing of a transform runs before, because another person may have written it.
    """
    global _vetted  # noqa: PLW0603 - the samples of a plan are many, and their transform is one
    if _vetted == (spark, transform):
        return
    expressions = transform.expressions()
    for expression in expressions:
        check_calls(expression)
        check_repetition(expression)
    with forgiving(spark), _quiet():
        visible = _sample(spark).select(*COLUMNS)
        for expression in expressions:
            _vet(spark, visible, expression)
        for output in transform.outputs():
            _refuse_misfit(visible, output)
    _vetted = spark, transform


def _vet(spark: "SparkSession", visible: "DataFrame", expression: Expression) -> None:
    is_shown = can_be_asked(spark)
    try:
        if is_shown:
            refuse_read(spark, expression)
        analysed = _analysed(visible, expression)
        if is_shown:
            refuse_meant(analysed, expression)
    except BadExpression:
        raise
    except Exception as exc:  # Spark's analysis raises errors that are not PySparkException.
        raise complaint(expression, exc) from exc


def _analysed(visible: "DataFrame", expression: Expression) -> "DataFrame":
    from pyspark.sql import functions

    frame = visible.select(functions.expr(expression.sql).alias("made"))
    _ = frame.schema  # Spark Connect analyses only on demand.
    return frame


def check(spark: "SparkSession", transform: Transform) -> None:
    """Raise `BadExpression` for what Spark cannot parse, and for what an expression must not contain."""
    vet(spark, transform)
    condition, outputs = transform.condition(), transform.outputs()
    with forgiving(spark), _quiet():
        scope = _sample(spark)
        if condition is not None:
            _check_condition(scope, condition)
        for output in outputs:
            _check_output(scope, output)
        # Some errors appear only at run time: an invalid pattern or format.
        for expression in transform.expressions():
            _run_once(scope, expression)


def apply(frame: "DataFrame", transform: Transform) -> "DataFrame":
    """Return the transformed records, with `keep`: false where `where` is not true.

    Rejected records lose key, value and headers, and keep offset and time for the accounting. Rows with
    `is_end` pass unchanged, and so do records whose selected fields cannot be read, with the reason. Rows keep
    their order and partitions.
    """
    from pyspark.sql import functions

    vet(frame.sparkSession, transform)
    with forgiving(frame.sparkSession):
        scope = _scope(frame)
        is_end = functions.col(f"{HIDDEN}is_end")
        condition = transform.condition()
        verdict = functions.lit(True) if condition is None else functions.expr(condition.sql)
        keep = functions.when(is_end, functions.lit(True)).otherwise(
            functions.coalesce(verdict, functions.lit(False))
        )
        judged = scope.select("*", keep.alias(f"{HIDDEN}keep"))
        parsed = sorted({path.column for path in selected_paths(transform.outputs())})
        if parsed:
            judged = _with_documents(judged, parsed, has_trouble=TROUBLE in frame.columns)
            is_end |= functions.col(_UNREAD).isNotNull()
        new_columns = columns_of(judged, transform.outputs())
        if "value" in new_columns:
            new_columns[RAW] = functions.lit(None).cast("binary")
        is_kept = functions.col(f"{HIDDEN}keep")
        columns = []
        for name in frame.columns:
            new = new_columns.get(name)
            if name == TROUBLE and parsed:
                trouble = f"CASE WHEN {HIDDEN}is_end THEN {HIDDEN}{name} ELSE {_UNREAD} END"
                columns.append(functions.expr(f"{trouble} AS {name}"))
                continue
            if new is None:
                columns.append(functions.expr(_kept(name)))
                continue
            old = functions.col(HIDDEN + name)
            if name in _CONTENT:
                new = functions.when(is_end, old).when(is_kept, new)
            else:
                new = functions.when(is_end | ~is_kept, old).otherwise(new)
            columns.append(new.alias(name))
        return judged.select(*columns, is_kept.alias("keep"))


def _with_documents(
    judged: "DataFrame", parsed: Sequence[str], *, has_trouble: bool
) -> "DataFrame":
    """Add the documents of records whose fields are selected, and why a record cannot be selected.

    The trouble of such a record says what was found before the engine; the engine itself may have narrower limits.
    """
    judged = judged.selectExpr(
        "*", *(f"CASE WHEN {_READ} THEN try_parse_json({c}) END AS {DOCUMENT}{c}" for c in parsed)
    )
    whens = " ".join(
        f"WHEN {c} IS NOT NULL AND {DOCUMENT}{c} IS NULL "
        f"THEN 'the {c} is not JSON that the engine can read: no field of it can be selected'"
        for c in parsed
    )
    known = f"{HIDDEN}{TROUBLE}" if has_trouble else "CAST(NULL AS STRING)"
    reason = f"CASE WHEN {_READ} THEN coalesce({known}, CASE {whens} END) END"
    return judged.selectExpr("*", f"{reason} AS {_UNREAD}")


def _kept(name: str) -> str:
    """Return a column that no expression replaces; rejected records lose their content."""
    old = HIDDEN + name
    if name in _CONTENT:
        old = f"CASE WHEN {HIDDEN}is_end OR {HIDDEN}keep THEN {old} END"
    return f"{old} AS {name}"


def _scope(frame: "DataFrame") -> "DataFrame":
    """Add the columns that a user sees, and hide those of the record under other names.

    As texts: a column that Python composes takes ten calls into the JVM.
    """
    hidden = [f"{name} AS {HIDDEN}{name}" for name in frame.columns]
    raw = [name for name in (RAW, "value") if name in frame.columns]
    seen = {
        "key": "CAST(key AS STRING)",
        "value": "CAST(value AS STRING)",
        "timestamp": f"CASE WHEN timestamp_ms <> {_NO_TIME_MS} AND timestamp_ms BETWEEN {_FIRST_MS} AND "
        f"{_LAST_MS} THEN timestamp_millis(timestamp_ms) END",
        "key_bytes": "key",
        "value_bytes": f"coalesce({', '.join(raw)})",
    }
    return frame.selectExpr(*hidden, *(f"{seen.get(name, name)} AS {name}" for name in COLUMNS))


_probe: "tuple[SparkSession, DataFrame] | None" = None


def _sample(spark: "SparkSession") -> "DataFrame":
    """Return one record to test expressions on, with the columns of `_scope`."""
    global _probe  # noqa: PLW0603 - nothing of a command is in it
    kept = _probe  # Another thread may replace it by that of its own session.
    if kept is None or kept[0] is not spark:
        record = spark.range(1).selectExpr(
            "0 AS slice",
            "false AS is_end",
            "'' AS topic",
            "0 AS partition",
            "id AS offset",
            "id AS timestamp_ms",
            "0 AS timestamp_type",
            "CAST(CAST(id AS STRING) AS BINARY) AS key",
            "CAST(concat('{\"id\":', id, '}') AS BINARY) AS value",
            "array(named_struct('name', CAST(id AS STRING), 'value', CAST('' AS BINARY))) AS headers",
        )
        kept = _probe = spark, _scope(record)
    return kept[1]


def _check_condition(scope: "DataFrame", condition: Expression) -> None:
    found = _type_of(scope, condition)
    if found.typeName() != "boolean":
        hint = "compare it with something, or add ::boolean"
        raise at_all_of(condition, f"found {found.simpleString()}, needed a condition", hint)
    solid = [token for token in condition.tokens if token.kind is not TokenKind.SPACE]
    literals = list(compared_literals(solid))
    if not literals:
        return
    # Not the values: Python has no time before the year 1, and few after 9999.
    tries = [f"try_cast({literal.text} AS {type_}) IS NULL" for literal, type_ in literals]
    row = scope.selectExpr(*tries).collect()[0]
    for (literal, type_), is_none in zip(literals, row, strict=True):
        if is_none:
            reason = f"{literal.text} is no {type_}"
            raise condition.bad(literal.start, reason, length=len(literal.text))


def _check_output(scope: "DataFrame", output: Output) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    if output.replaces is not None or output.bare_path is not None:
        return
    try:
        _ = scope.select(functions.to_json(functions.struct(field_of(output)), JSON)).schema
    except PySparkException as exc:
        reason = f"{_type_of(scope, output.expression).simpleString()} has no form in JSON"
        raise at_all_of(output.expression, reason, "say ::string") from exc


def _refuse_misfit(visible: "DataFrame", output: Output) -> None:
    found = _analysed(visible, output.expression).schema[0].dataType
    problem = _misfit(output.replaces, found)
    if problem is not None:
        raise at_all_of(output.expression, f"found {found.simpleString()}, needed {problem}", None)


def _misfit(part: str | None, found: "DataType") -> str | None:
    """Return what the part of a record must be, if it has another type."""
    kind = found.typeName()
    if is_hashed(found.jsonValue()):
        return "texts as the keys of a map, as from hex(key_bytes)"
    if part == "timestamp" and kind not in ("timestamp", "timestamp_ntz", "date"):
        return "a timestamp, as from value:at::timestamp"
    if part == "headers":
        pair = getattr(found, "elementType", None)
        types = [field.dataType.typeName() for field in getattr(pair, "fields", [])]
        if kind != "array" or len(types) != 2 or {types[0], *types} - {"string", "binary"}:
            return HEADERS
        if types[0] != "string":
            return HEADERS
    return None


def _type_of(scope: "DataFrame", expression: Expression) -> "DataType":
    return _analysed(scope.select(*COLUMNS), expression).schema[0].dataType


def _run_once(scope: "DataFrame", expression: Expression) -> None:
    from pyspark.sql import functions

    run = scope.select(functions.expr(expression.sql).alias("made"))
    try:
        run.write.format("noop").mode("overwrite").save()
    except Exception as exc:  # A function's own error may be of any class.
        raise complaint(expression, exc) from exc
