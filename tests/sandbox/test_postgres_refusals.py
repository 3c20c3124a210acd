"""What the server says of one record takes that record, under its rule, and nobody with it."""

from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.postgres.errors import RightMissing, StatementRefused
from playhead.record import Record
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record


class TestWhatTheServerRefuses:
    """Rows 0 and 2 are good."""

    def rows(self, bad: Any, good: Any = "x") -> list[Record]:
        return [record(n, {"id": n, "v": v}) for n, v in enumerate((good, bad, good))]

    def made(self, sandbox: Endpoints, schema: str, kind: str, **options: Any) -> Table:
        columns = f"_offset int8, id int PRIMARY KEY, v {kind}"
        return Table.made(sandbox.database_url, schema, columns, **options)

    @pytest.mark.parametrize("rule", [None, "ignore", "update"])
    def test_a_text_too_long_for_its_index(
        self, sandbox: Endpoints, schema: str, rule: Any
    ) -> None:
        table = self.made(sandbox, schema, "text", on_conflict=rule)
        table.run("CREATE INDEX ON {table} (v)")
        # Of letters that do not repeat, so that it does not shrink.
        long = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(6000))
        assert table.refused(self.rows(long)) == [(1, "too_long")]
        assert table.column("id") == [0, 2]

    @pytest.mark.parametrize("rule", [None, "ignore", "update"])
    def test_a_row_of_many_columns_that_is_larger_than_a_page(
        self, sandbox: Endpoints, schema: str, rule: Any
    ) -> None:
        names = [f"c{n}" for n in range(150)]
        columns = ", ".join(f"{name} name" for name in names)
        table = self.made(sandbox, schema, f"text, {columns}", on_conflict=rule)
        bad = record(1, {"id": 1} | dict.fromkeys(names, "x"))
        first, _, last = self.rows("x")
        assert table.refused([first, bad, last]) == [(1, "too_long")]
        assert table.column("id") == [0, 2]

    @pytest.mark.parametrize("rule", [None, "update"])
    def test_what_a_trigger_raises(self, sandbox: Endpoints, schema: str, rule: Any) -> None:
        table = self.made(sandbox, schema, "text", on_conflict=rule)
        for number, raised in enumerate(("", "USING ERRCODE = 'U0042'")):
            table.run(
                f"""CREATE OR REPLACE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                    $$BEGIN IF NEW.v = 'bad' THEN RAISE EXCEPTION 'not %', NEW.v {raised}; END IF;
                    RETURN NEW; END$$;
                    CREATE OR REPLACE TRIGGER t BEFORE INSERT ON {{table}}
                    FOR EACH ROW EXECUTE FUNCTION "{schema}".f();
                    TRUNCATE {{table}}; TRUNCATE "{schema}".ledger"""
            )
            assert table.refused(self.rows("bad")) == [(1, "check")], number
            assert table.column("id") == [0, 2]

    @pytest.mark.parametrize(
        ("kind", "bad", "good"),
        [
            ("tsvector", "a ' b", "a b"),
            ("tsquery", "(", "a"),
            # The server calls this an internal error.
            ("tsquery", f"{'!' * 1000}a", "a"),
            ("public.ltxtquery", f"{'!' * 100_000}a", "a"),
            ("jsonpath", "$.a[", "$.a"),
            ("public.ltree", "a..b", "a.b"),
            ("public.hstore", "a b", "a=>b"),
            ("regtype", "no_such_type", "integer"),
            # Of these, the server's parser of statements says what is wrong.
            ("regtype", "[1", "integer"),
            ("regtype[]", "{integer,[1}", "{integer}"),
            ("regprocedure", "now(int[)", "now()"),
            ("regclass", "no_such_table", "pg_class"),
        ],
    )
    def test_texts_that_a_type_cannot_read(
        self, sandbox: Endpoints, schema: str, kind: str, bad: str, good: str
    ) -> None:
        table = Table.made(sandbox.database_url, schema, "_offset int8, id int", "first")
        for extension in ("ltree", "hstore"):
            table.run(f"CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA public")
        table = self.made(sandbox, schema, kind)
        assert table.refused(self.rows(bad, good)) == [(1, "type")]
        assert table.column("id") == [0, 2]

    def test_a_point_that_an_index_cannot_place(self, sandbox: Endpoints, schema: str) -> None:
        """The server calls this an internal error too, as extensions do with texts that they cannot read."""
        table = self.made(sandbox, schema, "point")
        table.run(
            """INSERT INTO {table} SELECT 0, 100 + n, point(n, n % 100) FROM generate_series(1, 3000) n;
               CREATE INDEX ON {table} USING spgist (v)"""
        )
        assert table.refused(self.rows("(NaN,NaN)", "(1,2)")) == [(1, "type")]

    @pytest.mark.parametrize("code", ["XX000", "XX001", "42501", "42P01", "55000", "28000"])
    def test_a_trigger_raises_what_it_likes(
        self, sandbox: Endpoints, schema: str, code: str
    ) -> None:
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN IF NEW.v = 'bad' THEN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END IF;
                RETURN NEW; END$$;
                CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{schema}".f()"""
        )
        assert [offset for offset, _ in table.refused(self.rows("bad"))] == [1]
        assert table.column("id") == [0, 2]

    def test_a_policy_for_rows(self, sandbox: Endpoints, schema: str) -> None:
        table = self.secured(sandbox, schema, "")
        assert table.refused(self.rows("bad")) == [(1, "check")]
        assert table.column("id") == [0, 2]

    def test_a_right_that_is_missing_is_nobodys_value(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = self.secured(sandbox, schema, "REVOKE INSERT ON {table} FROM ROLE_OF_IT")
        with pytest.raises(RightMissing) as caught:
            table.commit(self.rows("x"), rule="skip")
        assert "GRANT" in (caught.value.hint or "")

    def test_a_schema_that_nobody_may_use_is_named(self, sandbox: Endpoints, schema: str) -> None:
        table = self.secured(sandbox, schema, f'REVOKE USAGE ON SCHEMA "{schema}" FROM ROLE_OF_IT')
        with pytest.raises(RightMissing) as caught:
            table.commit(self.rows("x"), rule="skip")
        assert f"GRANT USAGE ON SCHEMA {schema} TO" in (caught.value.hint or "")

    def secured(self, sandbox: Endpoints, schema: str, more: str) -> Table:
        """Of a user whom a policy lets write anything but "bad"."""
        role = f"r_{schema[-8:]}"
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""DO $$BEGIN CREATE ROLE "{role}" LOGIN PASSWORD 'p';
                EXCEPTION WHEN duplicate_object THEN NULL; END$$;
                GRANT USAGE ON SCHEMA "{schema}" TO "{role}";
                GRANT ALL ON ALL TABLES IN SCHEMA "{schema}" TO "{role}";
                ALTER TABLE {{table}} ENABLE ROW LEVEL SECURITY;
                CREATE POLICY p ON {{table}} USING (true) WITH CHECK (v <> 'bad')"""
        )
        if more:
            table.run(more.replace("ROLE_OF_IT", f'"{role}"'))
        server = sandbox.database_url.rpartition("@")[2]
        return table.with_options(url=f"postgresql://{role}:p@{server}")

    @pytest.mark.parametrize(
        "wrong", ["PERFORM no_such_function()", "EXECUTE 'SELECT (no_such_function'"]
    )
    def test_what_is_wrong_with_the_statement_takes_no_record(
        self, sandbox: Endpoints, schema: str, wrong: str
    ) -> None:
        """A function that a trigger calls is not there: no record is to be left out for that."""
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN {wrong}; RETURN NEW; END$$;
                CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{schema}".f()"""
        )
        with pytest.raises(StatementRefused, match="no_such_function|end of input"):
            table.commit(self.rows("x"), rule="skip")
        assert table.column("id") == []

    def test_a_broken_trigger_is_not_tried_with_every_record(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""CREATE SEQUENCE "{schema}".tries;
                CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN PERFORM nextval('"{schema}".tries'); PERFORM no_such_function(); RETURN NEW; END$$;
                CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{schema}".f()"""
        )
        with pytest.raises(StatementRefused, match="no_such_function"):
            table.commit([record(n, {"id": n, "v": "x"}) for n in range(1_000)], rule="skip")
        # No rollback takes a number back.
        [(tries,)] = table.run(f'SELECT last_value FROM "{schema}".tries')
        assert tries < 300

    @pytest.mark.parametrize(
        "made_of_it",
        [
            "PERFORM NEW.v::regclass",
            "EXECUTE 'SELECT ' || NEW.v",
            "EXECUTE 'SELECT 1 FROM public.no_table_' || NEW.v",
        ],
    )
    def test_a_statement_that_a_trigger_makes_of_a_value(
        self, sandbox: Endpoints, schema: str, made_of_it: str
    ) -> None:
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN IF NEW.id = 1 THEN {made_of_it}; END IF; RETURN NEW; END$$;
                CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{schema}".f()"""
        )
        assert [offset for offset, _ in table.refused(self.rows("no such"))] == [1]
        assert table.column("id") == [0, 2]
        with pytest.raises(StatementRefused):
            table.commit([record(9, {"id": 1, "v": "no such"})], rule="skip")

    def test_a_trigger_of_the_whole_statement_takes_no_record(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        table = self.made(sandbox, schema, "text")
        table.run(
            f"""CREATE FUNCTION "{schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN RAISE EXCEPTION 'closed today'; END$$;
                CREATE TRIGGER t BEFORE INSERT ON {{table}}
                FOR EACH STATEMENT EXECUTE FUNCTION "{schema}".f()"""
        )
        with pytest.raises(PlayheadError, match="closed today"):
            table.commit(self.rows("x"), rule="skip")
        assert table.column("id") == []


class TestTombstonesThatAreRefused:
    @pytest.fixture
    def table(self, sandbox: Endpoints, schema: str) -> Table:
        columns = "id int PRIMARY KEY, v text, _topic text, _partition int, _offset int8"
        options = {"on_conflict": "update", "tombstones": "delete"}
        table = Table.made(sandbox.database_url, schema, columns, **options)
        table.run(
            f"""INSERT INTO {{table}} VALUES (1, 'a', 'cars', 0, 0), (2, 'a', 'cars', 0, 0);
                CREATE TABLE "{schema}".laps (car int REFERENCES {{table}});
                INSERT INTO "{schema}".laps VALUES (1)"""
        )
        return table

    def test_a_row_that_others_refer_to_stays(self, table: Table) -> None:
        rows = [
            record(1, None, key=b"1"),
            record(2, None, key=b"2"),
            record(3, {"id": 3, "v": "c"}),
        ]
        assert table.refused(rows) == [(1, "reference")]
        assert table.rows("id, v") == [(1, "a"), (3, "c")]

    def test_records_of_its_key_count_all_the_same(self, table: Table) -> None:
        rows = [
            record(1, {"id": 1, "v": "b"}),
            record(2, None, key=b"1"),
            record(3, {"id": 2, "v": "b"}),
            record(4, None, key=b"2"),
        ]
        assert table.refused(rows) == [(2, "reference")]
        assert table.rows("id, v") == [(1, "b")]

    def test_what_a_trigger_raises(self, table: Table) -> None:
        table.run(
            f"""CREATE FUNCTION "{table.schema}".f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN IF OLD.id = 2 THEN RAISE EXCEPTION 'not this one'; END IF;
                RETURN OLD; END$$;
                CREATE TRIGGER t BEFORE DELETE ON {{table}}
                FOR EACH ROW EXECUTE FUNCTION "{table.schema}".f();
                TRUNCATE "{table.schema}".laps"""
        )
        rows = [record(1, None, key=b"1"), record(2, None, key=b"2")]
        assert table.refused(rows) == [(2, "check")]
        assert table.rows("id, v") == [(2, "a")]

    def test_rows_of_the_table_itself_may_go_together(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = f'id int PRIMARY KEY, up int REFERENCES "{schema}".tree, _offset int8'
        table = Table.made(sandbox.database_url, schema, columns, "tree", tombstones="delete")
        table.run("INSERT INTO {table} VALUES (1, NULL), (2, 1), (3, NULL), (4, 3)")
        keys = (b"1", b"2", b"3")
        rows = [record(n, None, key=key) for n, key in enumerate(keys)]
        assert table.refused(rows) == [(2, "reference")]
        assert table.rows("id") == [(3,), (4,)]
