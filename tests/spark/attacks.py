"""Expressions that would do more than look at a record: the kept corpus of what must never run.

`CODE` stands for a call of native code that sets a property of the engine's Java, by which a test sees that
it ran; `FILE` for a table that is a file at an address where somebody listens.
"""

REFLECT = "reflect('java.lang.System', 'setProperty', '{canary}', 'ran') is null"
FILE = "text.`webhdfs://127.0.0.1:{port}/x`"

# What hides from a look at the words, and is code to Spark all the same.
HIDDEN = [
    "key = '' /* /*+ */ or CODE -- */ */",
    "key = '' /*+ */ or CODE",
    "(upper(key)::array</*<*/int>) is null) or CODE or (true /*>*/ )",
    "cast(key as array<int>) is null /*+ x */ or CODE",
    "key in (ſelect value from FILE)",
    "key = any(ſelect value from FILE)",
    "exıſtſ (ſelect 1 from FILE)",
    "key = '' --\\\n or CODE\n or CODE",
    "key = '' -- x\r or CODE",
    "key = '' /* ' */ or CODE /* ' */",
    "key = r'\\' or CODE or key = r'\\'",
    "key = 'a\\' or CODE or key = \\'a' or CODE",
    'key = "a" or CODE or key = "b"',
    "x'00' = key_bytes or CODE",
    "`key` = '`' or CODE or '`' = `key`",
]
# What is no code any more once a comment is a comment: it is taken, and nothing of it runs.
SILENT = [
    "key = '' /* /*+ */ or CODE -- */",
    "key = '' /* /*+ x */ or CODE -- */ or key = ''",
    "key = '' /*+ or CODE */",
    "key = '' -- or CODE",
]
# Texts that a parser puts something else in place of: what the engine's process keeps to itself.
SUBSTITUTED = ["${env:PATH}", "${system:java.home}", "${spark.app.name}", "${spark:spark.app.name}"]
# Native code by every name and in every place.
CALLS = [
    "CODE",
    "rEfLeCt('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "reflect/**/('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "reflect\u00a0('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "`reflect`('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "java_method('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "try_reflect('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "system.builtin.reflect('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "`system`.`builtin`.`reflect`('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "identifier('reflect')('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "identifier('ref' || 'lect')('java.lang.System', 'setProperty', '{canary}', 'ran') is null",
    "identifier(reflect('java.lang.System', 'setProperty', '{canary}', 'ran')) is null",
    "exists(array(1), x -> CODE)",
    "aggregate(array(1), true, (a, x) -> a and CODE, a -> a)",
    "forall(map_keys(map('a', 1)), x -> (CODE))",
    "if(true, CODE, false)",
    "case when CODE then true else false end",
    "cast(CODE as boolean)",
    "(CODE)::boolean",
    "array(1)[cast(CODE as int)] = 1",
    "get_json_object(value, string(CODE)) is null",
    "key like any (string(CODE), 'a')",
    "key like 'a' escape string(CODE)",
    "extract(year from timestamp) = 1 and CODE",
    "from_json(value, schema_of_json(string(CODE))) is null",
    "from_json(value, string(CODE)) is null",
    "from_json(value, 'a int', map('mode', string(CODE))) is null",
    "schema_of_json(string(CODE)) is null",
    "to_json(struct(CODE as a)) is null",
    "timestampadd(day, int(CODE), timestamp) is null",
    "sequence(1, int(CODE)) is null",
    "regexp_replace(key, string(CODE), 'a') is null",
    "named_struct('a', CODE).a",
    "try_variant_get(try_parse_json(value), '$.a', string(CODE)) is null",
]
# Schemas, which may say what stands where nothing was.
SCHEMAS = [
    # As JSON, which a schema may be, too.
    (
        """from_json('{}', '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"""
        """"metadata":{"CURRENT_DEFAULT":"QUOTED","EXISTS_DEFAULT":"QUOTED"}}]}').a is null"""
    ),
    "from_json('{}', 'a string default QUOTED').a is null",
    "from_csv('', 'a string default QUOTED').a is null",
    "value:a::struct<a:string default CODE> is null",
    "cast(null as struct<a:string default CODE>) is null",
]
# Types as JSON: one of Java's, whose class is loaded, and one of Python's, whose module is imported.
_FIELD = '{"type":"struct","fields":[{"name":"a","type":%s,"nullable":true,"metadata":{}}]}'
OF_JAVA = (
    """{"type":"udt","class":"java.util.logging.FileHandler","pyClass":"","sqlType":"string"}"""
)
OF_PYTHON = (
    """{"type":"udt","pyClass":"imported_by_a_type.X","serializedClass":"","sqlType":"string"}"""
)
TYPES = [
    f"{function}({argument}, {spelled})"
    for type_ in (_FIELD % OF_PYTHON, _FIELD % OF_JAVA)
    for function, argument in (("from_json", "'{}'"), ("from_csv", "''"))
    for spelled in (f"'{type_}'", f"r'{type_}'", f"' ' '{type_}'", f"concat('{type_}', '')")
]
TYPES += [
    f"try_variant_get(try_parse_json(value), '$.a', '{OF_JAVA}')",
    f"`FROM_JSON`('{{}}', '\\u007b{(_FIELD % OF_JAVA)[1:]}')",
    f"from_json('{{}}', replace('x{_FIELD % OF_JAVA}', 'x', ''))",
    f"from_json(schema => '{_FIELD % OF_JAVA}', jsonStr => '{{}}')",
    f"transform(array(1), i -> from_json('{{}}', '{_FIELD % OF_JAVA}'))",
    f"from_json('{{}}', coalesce('{_FIELD % OF_JAVA}', schema_of_json('{{}}')))",
]
# Options that name a Java class, which is loaded.
_CODEC = "'compression', 'java.util.logging.FileHandler'"
_CALLS = (
    "from_json('{}', 'a int'",
    "from_csv('', 'a int'",
    "schema_of_json('{}'",
    "schema_of_csv('1'",
    "to_json(struct(key)",
    "to_csv(struct(key)",
    "to_xml(struct(key)",
)
_SPELLED = (
    f"map('mode', 'PERMISSIVE', {_CODEC})",
    f"map('\\u0063{_CODEC[2:]})",
    f"map_from_arrays(array({_CODEC[:13]}), array({_CODEC[15:]}))",
    f"map('CODEC', {_CODEC[15:]})",
    f"map(concat({_CODEC[:13]}), {_CODEC[15:]})",
    f"`map`({_CODEC})",
    f"map_concat(map({_CODEC}))",
)
OPTIONS = [f"{call}, map({_CODEC})) is null" for call in _CALLS]
OPTIONS += [f"{_CALLS[0]}, {options}) is null" for options in _SPELLED]
OPTIONS += [
    f"from_json('{{}}', schema_of_json('{{}}', map({_CODEC}))) is null",
    f"exists(array(1), i -> to_json(struct(i), map({_CODEC})) = '')",
]
QUERIES = [
    "key = (select value from FILE)",
    "key in (select value from FILE)",
    "exists (select 1 from FILE)",
    "not exists (from FILE)",
    "key in (from FILE select value)",
    "key = (from FILE |> select value)",
    "key = (table FILE)",
    "key in (select value from FILE tablesample (1 rows))",
    "key = (select /*+ broadcast(t) */ value from FILE t)",
    "key = (with t as (select value from FILE) select value from t)",
    "key = (/**/ select value from FILE)",
    "key = ((select value from FILE))",
    "array(select value from FILE)[0] is null",
    "key = (values 'a')",
    "key = (map key using 'cat')",
    "exists (select 1 from range(1))",
    "size(array(select 1)) > 0",
    "key = (select value from csv.`/etc/hostname`)",
]
# What is another one's, or another time's.
OTHERS = [
    "current_user() = 'a'",
    "current_user = 'a'",
    "session_user = 'a'",
    "user = 'a'",
    "`current_user` = 'a'",
    "version() = 'a'",
    "current_catalog() = 'a'",
    "current_database() = 'a'",
    "input_file_name() = 'a'",
    "spark_partition_id() = 1",
    "monotonically_increasing_id() = 1",
    "rand() > 0",
    "uuid() = 'a'",
    "now() > timestamp",
    "current_timestamp > timestamp",
    "localtimestamp() is null",
    "raise_error('a') is null",
    "assert_true(false) is null",
    "explode(array(1)) = 1",
    "stack(1, 2) = 2",
    "sum(offset) > 1",
    "count(*) filter (where key = 'a') > 1",
    "row_number() over (order by offset) > 1",
    "session.a = 1",
    "system.session.a = 1",
    "from_avro(value_bytes, 'a') is null",
    "from_xml(value, 'a int') is null",
    "xpath_string(value, 'a') = 'b'",
    "aes_encrypt(key_bytes, key_bytes) is null",
    "execute immediate 'select 1'",
    "key = :p",
    "key = ?",
    "key = 'a'; select 1",
    "key = '${spark.app.name}' or `${spark.app.name}` = 'a'",
    "format_string('%h', map(key_bytes, key_bytes)) = 'a'",
    "printf('%tH', offset) = '07'",
]
# What Spark takes for its own clock, however the word is spelled; `timestamp'now'` is the plain one.
MOVING = [
    "('now')::timestamp is null",
    "cast(concat('n', 'ow') as timestamp) is null",
    "'\\u006eow'::timestamp is null",
    "date('tod' || 'ay') is null",
    "to_date(lower('TODAY')) is null",
    "to_timestamp(lower('NOW')) is null",
    "timestamp > (('now'))",
    "year('today') = 2026",
    "'12:30'::timestamp is null",
    "timestamp > 'T12'",
    "hour(' +1:30:00') = 1",
    "date_add('today', 1) is null",
    "timestampadd(day, 1, 'now') is null",
    "datediff(timestamp, 'today') = 1",
    "convert_timezone('UTC', 'now') is null",
    "cast(char(110) || char(111) || char(119) as timestamp) is null",
    "year(char(110) || char(111) || char(119)) = 2026",
    "substr(typeof(cast(null as struct<now: int>)), 8, 3)::timestamp is null",
    "substr(typeof(struct(key as now)), 8, 3)::timestamp is null",
    "year(substr(typeof(transform(array(key), x -> struct(x as now))), 14, 3)) = 2026",
    "cast(translate(substr(collation(key), 1, 3), 'SYT', 'now') as date) is null",
]
# The same, where Spark's parser has put the time in the text's place before anybody can ask for its tree.
MOVING_LITERALS = [
    "date '\\u0074oday' is null",
    "timestamp 'n\\157w' is null",
    "timestamp 'now\tUTC' is null",
    "timestamp r'now' is null",
    "timestamp '12:30' is null",
    "timestamp r' T12' is null",
]
# Texts in which such a word, or a time, is nothing but what it says.
UNMOVED = [
    "key = 'now'",
    "'2026-01-01'::date is null",
    "'2026-01-01'::date > timestamp",
    "timestamp > '2026-01-01T00:00:00Z'",
    "concat(key, 'now')::string::timestamp is null",
    "to_date('2026', 'yyyy') is null",
    "date_trunc('day', timestamp)::date is null",
    "timestamp between '2026-01-01' and '2026-02-01'",
    "date_sub(date'2026-01-01', 1)::timestamp > timestamp",
    "make_date(2026, 1, 1)::timestamp > timestamp",
    "timestamp > 1700000000::timestamp",
    "date_add('2026-01-01', 1) > timestamp",
    "(key || typeof(key))::string::timestamp is null",
]
ALL = [*HIDDEN, *CALLS, *SCHEMAS, *OPTIONS, *QUERIES, *OTHERS, *MOVING]


def spelled(attack: str, canary: str, port: int) -> str:
    """An attack as it is typed, with the canary that it would wake."""
    code = REFLECT.format(canary=canary)
    quoted = code.replace("'", "\\'")
    text = attack.replace("{canary}", canary).replace("QUOTED", quoted).replace("CODE", code)
    return text.replace("FILE", FILE.format(port=port))
