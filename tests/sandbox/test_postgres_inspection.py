"""What a table says to a replay before anything is written: refusals, and things worth knowing."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from playhead.errors import PlayheadError, Refused
from playhead.postgres.errors import RightMissing
from playhead.postgres.own_table import NoLedger
from playhead.postgres.table_name import BadTableName, parts_of
from playhead.postgres.target import PostgresTarget
from playhead.records import Records
from playhead.sandbox import Endpoints
from playhead.source import SourceFacts
from playhead.tables.sql import listed
from playhead.target import Inspection, InspectRequest
from playhead.testing.target_case import terms
from tests.sandbox.postgres_table import Table, record

SAMPLES = [
    record(0, {"id": 1, "v": "a", "more": 1}),
    record(1, {"ID": 2, "v": None, "even_more": 1}),
]


def inspected(table: Table, *samples: Any) -> Inspection:
    rows = [Records.of(samples or SAMPLES)]
    return table.target.inspect(InspectRequest(SourceFacts("elsewhere", {}), {"cars": 1}, rows))


def codes(table: Table, *samples: Any) -> list[str]:
    return [note.code for note in inspected(table, *samples).notes]


class TestNotes:
    @pytest.mark.parametrize(
        ("columns", "told"),
        [
            ("id int PRIMARY KEY, v text", ["target-fields-left-out"]),
            ("id int PRIMARY KEY, v text, _extra jsonb", ["target-fields-kept"]),
            (
                "id int PRIMARY KEY, v text, more int, even_more int, w int",
                ["target-columns-unfilled"],
            ),
            (
                "id int PRIMARY KEY, v text, more int, even_more int, n int GENERATED ALWAYS AS (id) STORED",
                ["target-filled-by-server"],
            ),
            ("id int, v text, more int, even_more int", ["target-no-key"]),
            ("id int PRIMARY KEY, v text, more int, even_more int", []),
        ],
    )
    def test_of_columns(
        self, sandbox: Endpoints, schema: str, columns: str, told: list[str]
    ) -> None:
        assert codes(Table.made(sandbox.database_url, schema, columns)) == told

    def test_say_which_fields(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text, w int")
        left_out, unfilled = inspected(table).notes
        told = "has no column for fields of 2 of the sampled records, which are left out: "
        assert f"{told}even_more in 1, more in 1; --extra-fields" in left_out.text
        [refused, _] = inspected(table.with_options(extra_fields="fail")).notes
        assert "which are refused: even_more in 1" in refused.text
        assert "no sampled record fills w of" in unfilled.text

    def test_of_own_types_in_which_the_server_may_round(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text")
        exact, rounds = "(a numeric, b text)", "(a int, b numeric(8,2))"
        table.run(
            f"""CREATE TYPE "{schema}".exact AS {exact}; CREATE TYPE "{schema}".rounds AS {rounds};
                CREATE DOMAIN "{schema}".price AS numeric(8,2);
                CREATE TYPE "{schema}".outer AS (inner_row "{schema}".rounds[]);
                CREATE TYPE "{schema}".span AS RANGE (subtype = "{schema}".price);
                CREATE TYPE "{schema}".age AS (a interval); CREATE TYPE "{schema}".colour AS ENUM ('red');
                ALTER TABLE {{table}} ADD a "{schema}".exact, ADD b "{schema}".rounds,
                ADD c "{schema}".price, ADD d "{schema}".price[], ADD e "{schema}".outer,
                ADD f "{schema}".span, ADD g "{schema}".age, ADD h "{schema}".colour"""
        )
        given = record(0, {"id": 1, "v": "a", **dict.fromkeys("abcdefgh", "x")})
        [note] = inspected(table, given).notes
        assert note.code == "target-values-not-checked"
        assert " of b, d, e, f, g is not counted" in note.text.replace(" and ", ", ")

    def test_of_a_type_of_an_extension(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text")
        table.run("CREATE EXTENSION IF NOT EXISTS hstore; CREATE EXTENSION IF NOT EXISTS citext")
        table.run("ALTER TABLE {table} ADD a hstore, ADD b hstore[], ADD c citext, ADD d citext[]")
        given = record(0, {"id": 1, "v": "a", **dict.fromkeys("abcd", "x")})
        [note] = inspected(table, given).notes
        assert note.code == "target-values-not-checked"
        assert " of a, b is not counted" in note.text

    def test_of_what_happens_beside(self, sandbox: Endpoints, schema: str) -> None:
        columns = "id int PRIMARY KEY, v text, more int, even_more int"
        table = Table.made(sandbox.database_url, schema, columns)
        table.run(
            f"""ALTER TABLE {{table}} SET UNLOGGED; INSERT INTO {{table}} VALUES (1);
                CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN RETURN NEW; END$$; CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{schema}".f()"""
        )
        told = ["target-triggers", "target-unlogged", "target-not-empty"]
        assert codes(table) == told
        tombstone = record(2, None, key=b"1")
        assert codes(table, *SAMPLES, tombstone) == ["target-tombstones", *told]
        assert codes(table.with_options(on_conflict="ignore")) == told[:2]

    def test_of_a_partitioned_table(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int", "other")
        table.run(
            f"""CREATE TABLE "{schema}".cars (id int PRIMARY KEY, v text, more int, even_more int)
                PARTITION BY RANGE (id); CREATE TABLE "{schema}".low PARTITION OF "{schema}".cars
                FOR VALUES FROM (0) TO (10)"""
        )
        table = table.with_options(table=f"{schema}.cars")
        assert codes(table) == ["target-partitioned"]
        entry = table.commit([record(0, {"id": 1}), record(1, {"id": 99})], rule="skip")
        assert (entry.written, entry.skipped) == (1, 1)


class TestRefusals:
    def refused(self, of: Table, needed: str, **options: Any) -> PlayheadError:
        with pytest.raises(Refused, match=needed) as caught:
            inspected(of.with_options(**options))
        assert caught.value.hint
        return caught.value

    def test_a_column_that_nobody_fills_and_that_may_not_be_null(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "id int, must text NOT NULL")
        refusal = self.refused(table, "nothing fills must of .* which must not be null")
        assert "id, v, more, ID, even_more" in (refusal.hint or "")
        table.run("ALTER TABLE {table} ALTER must SET DEFAULT 'x'")
        assert inspected(table).notes

    def test_a_column_for_the_other_fields_that_is_not_there(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "id int, v text, rest jsonb")
        for name, what in (("none", "no column of that name"), ("v", "it as text")):
            refusal = self.refused(
                table, f"of type jsonb or json, and .* has {what}", extra_fields=name
            )
            assert f"ADD COLUMN {name} jsonb" in (refusal.hint or "")
        kept, _ = inspected(table.with_options(extra_fields="rest")).notes
        assert (kept.code, kept.text) == (
            "target-fields-kept",
            "fields of the values go to rest: even_more in 1, more in 1",
        )

    def test_rules_without_a_key(self, sandbox: Endpoints, schema: str) -> None:
        columns = (
            "id int, v text, w int UNIQUE DEFERRABLE, n int GENERATED ALWAYS AS IDENTITY UNIQUE"
        )
        table = Table.made(sandbox.database_url, schema, columns)
        self.refused(table, "rule ignore needs a unique key on .COLUMNS.", on_conflict="ignore")
        for key in ("id", "w"):
            needed = f"rule update needs a unique key on .{key}."
            self.refused(table, needed, on_conflict="update", key=(key,))
        for rule in (None, "update"):
            needed = "--key names the column vv, but .* has no such column"
            refusal = self.refused(table, needed, on_conflict=rule, key=("id", "vv"))
            assert (refusal.hint or "").startswith("did you mean v?")
            assert ": id, v" in (refusal.hint or "")
        self.refused(table, "--tombstones delete needs a unique key", tombstones="delete")
        needed = "identifies rows by n, which the server itself fills"
        self.refused(table, needed, on_conflict="update", key=("n",))

    @pytest.mark.parametrize("kind", ["_offset int8", "_timestamp timestamptz", "_headers jsonb"])
    def test_tombstones_with_a_key_of_what_is_their_own(
        self, sandbox: Endpoints, schema: str, kind: str
    ) -> None:
        name = kind.split(maxsplit=1)[0]
        columns = f"_partition int, v text, {kind}, UNIQUE (_partition, {name})"
        table = Table.made(sandbox.database_url, schema, columns)
        rules = {"on_conflict": "update", "key": ("_partition", name)}
        needed = f"a tombstone has a {name} of its own"
        self.refused(table, needed, tombstones="delete", **rules)

    def test_newer_without_something_to_compare(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v int")
        self.refused(table, "newer compares _timestamp", on_conflict="newer")
        needed = "--version-column names the column vs, but .* has no such column"
        self.refused(table, needed, on_conflict="newer", version_column="vs")
        more = {"on_conflict": "newer", "version_column": "v", "tombstones": "delete"}
        self.refused(table, "a tombstone has no v", **more)

    def test_what_is_no_table(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int, v text")
        table.run(f'CREATE VIEW "{schema}".seen AS SELECT * FROM {{table}}')
        self.refused(table, "is a view", table=f"{schema}.seen")
        self.refused(table, "there is no table", table=f"{schema}.nowhere")
        refusal = self.refused(table, "there is no table", table=f"{schema}.{table.name}s")
        assert (refusal.hint or "").startswith(f"did you mean {schema}.{table.name}? --create")
        self.refused(table, "is not a table name", table=f"{schema}." + "x" * 64)

    def test_a_user_who_may_not(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text")
        user = schema[-40:]
        url = psycopg.conninfo.make_conninfo(sandbox.database_url, user=user, password="x")
        role, place = sql.Identifier(user).as_string(), f'"{schema}"'
        table.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        try:
            self.may_not(table, url, "INSERT, SELECT, USAGE of its schema", on_conflict=None)
            table.run(f"GRANT USAGE ON SCHEMA {place} TO {role}")
            table.run(f"GRANT INSERT, SELECT ON ALL TABLES IN SCHEMA {place} TO {role}")
            self.may_not(table, url, "UPDATE", on_conflict="update")
            self.may_not(table, url, "DELETE", tombstones="delete")
            other = table.with_options(url=url)
            with pytest.raises(NoLedger):
                inspected(other.with_options(ledger_table="nowhere.ledger"))
            assert inspected(other).identity == inspected(table).identity
            other.commit([record(0, {"id": 1})])
            assert table.rows("id") == [(1,)]
        finally:
            table.run(f"DROP OWNED BY {role}; DROP ROLE {role}")

    def may_not(self, table: Table, url: str, what: str, **options: Any) -> None:
        with pytest.raises(RightMissing, match=f"lacks the right {what} on") as caught:
            inspected(table.with_options(url=url, **options))
        assert (caught.value.hint or "").startswith("GRANT ")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            ("cars", (None, "cars")),
            ("raw.cars", ("raw", "cars")),
            ("raw.shop.orders", ("raw", "shop.orders")),
            ("{topic}", (None, "a.b")),
            ("raw.{topic}", ("raw", "a.b")),
            ('"My.Schema"."A ""b"', ("My.Schema", 'A "b')),
            ('"a.b"', (None, "a.b")),
        ],
    )
    def test_parts(self, name: str, parts: tuple[str | None, str]) -> None:
        assert parts_of(name, "a.b") == parts

    @pytest.mark.parametrize("name", ["", "a.", ".b", '"a', '"a"b', 'a."b".c', "é" * 32])
    def test_that_are_none(self, name: str) -> None:
        with pytest.raises(BadTableName):
            parts_of(name)

    def test_an_unsaid_schema_is_that_of_the_search_path(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        made = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, v text", "cars_here")
        url = psycopg.conninfo.make_conninfo(
            sandbox.database_url, options=f"-csearch_path={schema}"
        )
        table = made.with_options(url=url, table="CARS_here")
        table.commit([record(0, {"id": 1})])
        assert made.rows("id") == [(1,)]
        look = InspectRequest(SourceFacts("elsewhere", {}), {"cars": 1}, [Records.of(SAMPLES)])
        making = PostgresTarget(url, "made_here", create=True, ledger_table=f"{schema}.ledger")
        inspection = making.inspect(look)
        making.prepare("7f3b", inspection, terms("cars"))
        assert made.run(f"SELECT to_regclass('{schema}.made_here') IS NOT NULL") == [(True,)]

    def test_the_ledger_does_not_catch_the_tables_of_a_user_named_playhead(
        self, sandbox: Endpoints
    ) -> None:
        PostgresTarget(sandbox.database_url, "any").prepare("7f3a", Inspection(""), terms())
        with psycopg.connect(sandbox.database_url) as connection:
            found = connection.execute("SELECT current_user::text, current_schema()::text")
            assert found.fetchone() == ("playhead", "public")


class TestSeveralTopics:
    """Topics of one replay that go to one table."""

    @staticmethod
    def inspected(
        sandbox: Endpoints, table: str, *topics: str, partitions: int = 1, **options: Any
    ) -> Inspection:
        values = ({"x": 1, "v": "a"}, {"x": "text", "w": 2.5})
        given = [
            Records.of([replace(record(0, value), topic=topic)])
            for topic, value in zip(topics, values, strict=False)
        ]
        target = PostgresTarget(sandbox.database_url, table, create=True, **options)
        counts = dict.fromkeys(topics, partitions)
        return target.inspect(InspectRequest(SourceFacts("elsewhere", {}), counts, given))

    def test_a_new_table_has_the_fields_of_all(self, sandbox: Endpoints, schema: str) -> None:
        made = self.inspected(sandbox, f"{schema}.both", "a", "b")
        [table] = made.needs["tables"]
        assert table["columns"][:3] == [["x", "jsonb"], ["v", "text"], ["w", "double precision"]]
        assert [row.get("w") for row in made.rows] == [None, "2.5"]

    def test_a_new_table_may_have_the_topic_in_its_key(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        for key in (("_topic", "x"), ("_key",)):
            made = self.inspected(
                sandbox, f"{schema}.both", "a", "b", key=key, on_conflict="update"
            )
            assert f"PRIMARY KEY ({listed(key)})" in made.creates[0]
        for name in ("none", "_headers"):
            with pytest.raises(Refused, match=f"no sampled record has {name}"):
                self.inspected(sandbox, f"{schema}.both", "a", "b", key=("_topic", name))

    @pytest.mark.parametrize(
        ("topics", "partitions", "options", "told"),
        [
            (["a", "b"], 1, {"key": ("x",), "on_conflict": "update"}, "the last of its partition"),
            (["a"], 2, {"key": ("x",), "on_conflict": "ignore"}, "the first of its partition"),
            (["a"], 2, {"key": ("x",), "on_conflict": "newer"}, "the latest _timestamp wins"),
            (["a"], 1, {"key": ("x",), "on_conflict": "update"}, None),
            (["a"], 2, {"on_conflict": "ignore"}, None),
            (["a"], 2, {}, None),
        ],
    )
    def test_the_plan_of_a_new_table_says_that_partitions_have_no_order(
        self,
        sandbox: Endpoints,
        schema: str,
        topics: list[str],
        partitions: int,
        options: dict[str, Any],
        told: str | None,
    ) -> None:
        made = self.inspected(sandbox, f"{schema}.both", *topics, partitions=partitions, **options)
        found = [note.text for note in made.notes if note.code == "target-order"]
        assert len(found) == (told is not None)
        assert told is None or told in found[0]

    @pytest.mark.parametrize("is_there", [True, False])
    @pytest.mark.parametrize(
        ("rule", "last", "told"), [("newer", 3, True), ("newer", 1, False), ("update", 3, False)]
    )
    def test_the_plan_says_that_newer_compares_whole_rows(
        self, sandbox: Endpoints, schema: str, rule: Any, last: int, told: bool, is_there: bool
    ) -> None:
        if is_there:
            columns = "x int PRIMARY KEY, a int, b int, _timestamp timestamptz"
            Table.made(sandbox.database_url, schema, columns, "both")
        values = [{"x": 1, "a": 1}, {"x": 2, "b": 1}, {"X" if is_there else "x": 1, "a": 2}]
        given = [Records.of([record(n, value) for n, value in enumerate(values[:last])])]
        options: dict[str, Any] = {"key": ("x",), "on_conflict": rule, "create": True}
        target = PostgresTarget(sandbox.database_url, f"{schema}.both", **options)
        made = target.inspect(InspectRequest(SourceFacts("elsewhere", {}), {"cars": 1}, given))
        found = [note.text for note in made.notes if note.code == "target-partial-records"]
        assert len(found) == told
        assert not told or "lack a, b;" in found[0]

    def test_what_a_schema_says_of_a_field_of_both(self, sandbox: Endpoints, schema: str) -> None:
        kinds = {"a": {"x": "integer", "y": "date"}, "b": {"x": "text", "z": "uuid"}}
        target = PostgresTarget(sandbox.database_url, f"{schema}.both", create=True)
        look = InspectRequest(SourceFacts("elsewhere", {}), {"a": 1, "b": 1}, [], kinds=kinds)
        [table] = target.inspect(look).needs["tables"]
        assert table["columns"][:3] == [["x", "jsonb"], ["y", "date"], ["z", "uuid"]]

    def test_one_table_for_topics_that_should_have_their_own_is_refused(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        """The table of one is there in small letters, and a name that is not there is folded."""
        Table.made(sandbox.database_url, schema, "x int, v text, w int", "cars")
        with pytest.raises(Refused, match="the topics Cars, cars would go to one table"):
            self.inspected(sandbox, f"{schema}.{{topic}}", "Cars", "cars")
        made = self.inspected(sandbox, f"{schema}.{{topic}}", "Bikes", "bikes")
        assert [table["table"][1] for table in made.needs["tables"]] == ["Bikes", "bikes"]
