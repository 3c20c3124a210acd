"""The grammar of endpoints: what each text means, that it reads back the same, and that no password is ever shown."""

import pytest

from playhead import endpoint, secrets
from playhead.endpoint import BadEndpoint, Endpoint

PASSWORD = "tops3cret"

UNDERSTOOD = [
    ("kafka:orders", Endpoint("kafka", "orders")),
    ("kafka:raw.{topic}", Endpoint("kafka", "raw.{topic}")),
    ("kafka:{topic}-copy", Endpoint("kafka", "{topic}-copy")),
    ("kafka:a,b.c,d_e", Endpoint("kafka", "a,b.c,d_e")),
    ("kafka:", Endpoint("kafka", "")),
    ("kafka://h:9092", Endpoint("kafka", "", "h:9092")),
    (r"kafka:/^shop\..*/", Endpoint("kafka", r"^shop\..*", is_pattern=True)),
    ("kafka:/a/b/", Endpoint("kafka", "a/b", is_pattern=True)),
    ("kafka://h:9092/orders", Endpoint("kafka", "orders", "h:9092")),
    ("kafka://h:1,g:2/orders", Endpoint("kafka", "orders", "h:1,g:2")),
    ("kafka://[::1]:9092/orders", Endpoint("kafka", "orders", "[::1]:9092")),
    ("kafka://h:9092//x.*/", Endpoint("kafka", "x.*", "h:9092", is_pattern=True)),
    ("postgres:laps", Endpoint("postgres", "laps")),
    ("postgres:raw.{topic}", Endpoint("postgres", "raw.{topic}")),
    ("postgresql://h/db?table=s.t", Endpoint("postgres", "s.t", "postgresql://h/db")),
    ("postgres://u@h:5/db?table=t", Endpoint("postgres", "t", "postgres://u@h:5/db")),
    ("postgresql:///db?host=/tmp&table=t", Endpoint("postgres", "t", "postgresql:///db?host=/tmp")),
    (
        "postgresql://h/db?options=-c%20a%3Db&table=raw.{topic}&sslmode=require",
        Endpoint("postgres", "raw.{topic}", "postgresql://h/db?options=-c%20a%3Db&sslmode=require"),
    ),
    ("postgresql://h/db?table=a%20b%2Bc", Endpoint("postgres", "a b+c", "postgresql://h/db")),
    ("parquet:archive/laps", Endpoint("parquet", "archive/laps")),
    ("parquet:s3://archive/laps", Endpoint("parquet", "s3://archive/laps")),
    ("json:/tmp/a b", Endpoint("json", "/tmp/a b")),
    ("csv:~/x:y", Endpoint("csv", "~/x:y")),
]


@pytest.mark.parametrize(("text", "meant"), UNDERSTOOD)
def test_it_is_understood_and_reads_back_the_same(text, meant):
    found = Endpoint.parse(text)
    assert found == meant
    assert Endpoint.parse(str(found)) == found
    assert found.shown() == str(found)


REFUSED = [
    ("orders", "it names no system", "write kafka:orders for a topic, postgres:orders for a table"),
    ("", "it names no system", "kafka:"),
    ("kafak:orders", "there is no system 'kafak' here", "did you mean kafka:orders?"),
    ("jsonl:x", "there is no system 'jsonl' here", "did you mean json:x?"),
    ("redis:x", "there is no system 'redis' here", "written as kafka:TOPIC"),
    ("kafka:/orders", "write a pattern between two slashes", "kafka:/REGEX/"),
    ("kafka:/", "write a pattern between two slashes", "kafka:/REGEX/"),
    ("kafka:/(/", "invalid pattern: missing )", "kafka:/REGEX/"),
    ("kafka:my topic", "'my topic' is not a topic name", "kafka:TOPIC"),
    ("kafka:a,,b", "'a,,b' is not a topic name", "kafka:TOPIC"),
    ("kafka:a{x}", "'a{x}' is not a topic name", "kafka:TOPIC"),
    ("kafka://h/orders", "the address needs HOST:PORT", "kafka://HOST:PORT/TOPIC"),
    ("kafka:///orders", "the address needs HOST:PORT", "kafka://HOST:PORT/TOPIC"),
    ("kafka://[::1]/orders", "the address needs HOST:PORT", "kafka://HOST:PORT/TOPIC"),
    ("kafka://h:1,g/orders", "the address needs HOST:PORT", "kafka://HOST:PORT/TOPIC"),
    ("postgres:", "it names no table", "postgres:SCHEMA.TABLE"),
    ("postgresql://h/db", "needs one table=NAME", "table=SCHEMA.TABLE"),
    ("postgresql://h/db?table=", "needs one table=NAME", "table=SCHEMA.TABLE"),
    ("postgresql://h/db?table=a&table=b", "needs one table=NAME", "table=SCHEMA.TABLE"),
    ("parquet:", "it names no folder", "parquet:FOLDER"),
]


@pytest.mark.parametrize(("text", "reason", "hint"), REFUSED)
def test_it_is_refused_with_the_way_out(text, reason, hint):
    with pytest.raises(BadEndpoint) as caught:
        Endpoint.parse(text)
    assert reason in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://u:{PASSWORD}@h/db?table=t",
        f"postgresql://u:{PASSWORD}@h/db",
        f"postgresql://h/db?table=t&password={PASSWORD}",
        f"postgresqls://u:{PASSWORD}@h/db?table=t",
        f"postgresq://u:{PASSWORD}@h/db?table=t",
        f"kafka://u:{PASSWORD}@h:9092/orders",
        f"parquet:s3://key:{PASSWORD}@bucket/laps",
    ],
)
def test_a_password_is_refused_and_shown_nowhere(text):
    with pytest.raises(BadEndpoint, match="it has a password") as caught:
        Endpoint.parse(text)
    error = caught.value
    assert PASSWORD not in f"{error} {error.hint} {error.text} {error!r} {error.args}"
    assert secrets.redact(f"x {PASSWORD} y") == f"x {secrets.HIDDEN} y"


def test_a_variable_may_stand_for_it():
    text = "postgresql://u:${PGPASSWORD}@h/db?table=t"
    assert Endpoint.parse(text).address == "postgresql://u:${PGPASSWORD}@h/db"


def test_an_address_that_a_program_gave_is_shown_without_its_password():
    end = endpoint.postgres("t", url=f"postgresql://u:{PASSWORD}@h/db")
    assert PASSWORD not in end.shown()
    assert PASSWORD not in repr(end)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (endpoint.kafka("orders"), "kafka:orders"),
        (endpoint.kafka("/x.*/", bootstrap_servers="h:1"), "kafka://h:1//x.*/"),
        (endpoint.postgres("s.t", url="postgresql://h/db"), "postgresql://h/db?table=s.t"),
        (endpoint.files("s3://b/p"), "parquet:s3://b/p"),
        (endpoint.files("x", form="csv"), "csv:x"),
    ],
)
def test_programs_write_them_as_people_do(made, text):
    assert str(made) == text
    assert Endpoint.parse(text) == made


@pytest.mark.parametrize("pattern", ["(" * 5_000, "(" * 3_000 + ")" * 3_000, "a{99999999999}", "["])
def test_a_pattern_that_cannot_be_compiled_is_an_error_of_ours(pattern):
    with pytest.raises(BadEndpoint, match="invalid pattern"):
        Endpoint.parse(f"kafka:/{pattern}/")
