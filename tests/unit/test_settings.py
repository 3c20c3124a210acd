"""References are followed when a value is asked for, and no secret is listed or taken from a command line."""

import pytest

from playhead import secrets
from playhead.config.context import Configuration, Resolved, configure
from playhead.config.settings import SETTINGS, as_switch
from playhead.errors import BadValue, MissingPiece, PlayheadError, UsageError
from playhead.replay.engine import Engine


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())


def saying(kafka: dict[str, str] | None = None, **settings: str) -> Configuration:
    return Configuration(
        None,
        {name: Resolved(value, "here") for name, value in settings.items()},
        {key: Resolved(value, "here") for key, value in (kafka or {}).items()},
    )


def shown(configuration: Configuration, name: str) -> str | None:
    (value,) = [row["value"] for row in configuration.rows() if row["setting"] == name]
    return value


# --- asked for


def test_a_reference_is_followed_and_what_it_leads_to_is_a_secret(monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "opensesame")
    found = saying(database="postgresql://me:${DB_PASSWORD}@h/db")
    assert found.get("database") == "postgresql://me:opensesame@h/db"
    assert secrets.redact("say opensesame") == f"say {secrets.HIDDEN}"


def test_what_is_no_secret_is_followed_and_not_redacted(monkeypatch):
    monkeypatch.setenv("MEMORY", "2000m")
    assert saying(spark_memory="${MEMORY}").get("spark_memory") == "2000m"
    assert secrets.redact("2000m") == "2000m"


def test_a_missing_reference_is_named_with_setting_and_place(monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(BadValue, match=r"database in here is .*NOWHERE"):
        saying(database="${NOWHERE}").get("database")


def test_a_secret_in_a_file_is_read(tmp_path):
    (tmp_path / "url").write_text("postgresql://me:opensesame@h/db\n")
    found = saying(database=f"file:{tmp_path / 'url'}").get("database")
    assert found == "postgresql://me:opensesame@h/db"
    assert secrets.redact("opensesame") == secrets.HIDDEN


def test_a_password_that_was_written_out_is_redacted_once_it_is_used():
    saying(database="postgresql://me:opensesame@h/db").get("database")
    assert secrets.redact("say opensesame") == f"say {secrets.HIDDEN}"


def test_a_setting_that_is_nowhere_is_none():
    assert saying().get("database") is None


def test_a_needed_setting_that_is_nowhere_names_the_ways_to_set_it():
    with pytest.raises(MissingPiece, match="looking needs setting database") as caught:
        saying().need("database", needed_for="looking")
    assert "DATABASE_URL or --database" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("value", "is_on"),
    [
        *((value, True) for value in ("true", "Yes", "ON", "1")),
        *((value, False) for value in ("false", "No", "OFF", "0")),
    ],
)
def test_a_switch_is_read_as_people_write_it(value, is_on):
    assert saying(read_only=value).is_on("read_only") is is_on


@pytest.mark.parametrize("value", ["perhaps", "", "2", " true"])
def test_a_switch_that_is_neither_names_its_place(value):
    with pytest.raises(BadValue, match=r"read_only in here is .*; needed: true or false"):
        saying(read_only=value).is_on("read_only")
    with pytest.raises(BadValue):
        as_switch(value, key="k", where="w")


@pytest.mark.parametrize(
    ("value", "zone"), [("utc", "UTC"), ("+0530", "+05:30"), ("Europe/Berlin", "Europe/Berlin")]
)
def test_a_zone_is_given_in_its_one_spelling(value, zone):
    assert saying(timezone=value).get("timezone") == zone


def test_a_zone_that_is_none_names_its_place_and_the_nearest():
    with pytest.raises(BadValue, match="timezone in here is 'Europe/Berln'; needed: UTC") as caught:
        saying(timezone="Europe/Berln").get("timezone")
    assert "Europe/Berlin" in (caught.value.hint or "")


@pytest.mark.parametrize("value", ["480m", "512M", "1g", "2T", "16t", "503316480", "491520k"])
def test_a_heap_that_is_large_enough(value):
    assert saying(spark_memory=value).get("spark_memory") == value


@pytest.mark.parametrize(
    "value",
    ["0", "479m", "450m", "491519k", "503316479", "1 g", "1gb", "0.5g", "-1g", "lots", "17t", ""],
)
def test_a_heap_that_spark_would_refuse_is_refused_before_it_starts(value):
    found = saying(spark_memory=value)
    needed = "spark_memory in here is .*; needed: a heap of at least 480m"
    for ask in (lambda: found.get("spark_memory"), lambda: Engine(found), found.check):
        with pytest.raises(BadValue, match=needed):
            ask()


def test_the_zone_is_taken_from_flag_environment_or_default(monkeypatch, tmp_path):
    monkeypatch.delenv("PLAYHEAD_TIMEZONE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert configure({}, folder=tmp_path).get("timezone") == "UTC"
    monkeypatch.setenv("PLAYHEAD_TIMEZONE", "Asia/Kathmandu")
    assert configure({}, folder=tmp_path).get("timezone") == "Asia/Kathmandu"
    assert configure({"timezone": "-08"}, folder=tmp_path).get("timezone") == "-08:00"


# --- listed


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://me:opensesame@h/db",
        "postgresql://me:open#sesame@h/db",
        "postgresql://me:open/sesame@h/db",
        "postgresql://h/db?user=me&password=opensesame",
        "host=h password=opensesame",
        "${PART}opensesame",
        "file:/opensesame",
    ],
)
def test_no_row_shows_a_databases_password(database):
    assert "sesame" not in str(saying(database=database).rows())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sasl.password", "opensesame"),
        ("ssl.key.password", "opensesame"),
        ("ssl.keystore.key", "opensesame"),
        ("sasl.jaas.config", 'org.apache.X required password="opensesame";'),
        ("sasl.password", "${HOME}opensesame"),
        ("a.key.nobody.knows", "opensesame"),
    ],
)
def test_no_row_shows_a_clients_secret(key, value):
    assert shown(saying({key: value}), f"kafka.{key}") == secrets.HIDDEN


def test_no_row_shows_the_token_of_a_spark_server():
    value = shown(saying(spark_remote="sc://h:15002/;token=opensesame"), "spark_remote")
    assert value == "sc://h:15002/;token=********"


def test_a_row_shows_the_name_of_the_variable_that_holds_a_secret():
    found = saying({"sasl.password": "${KAFKA_PW}"}, database="${DB_URL}")
    assert shown(found, "database") == "${DB_URL}"
    assert shown(found, "kafka.sasl.password") == "${KAFKA_PW}"


def test_what_is_no_secret_is_shown():
    found = saying({"client.id": "me"}, database="postgresql://me@h/db", spark_master="local[2]")
    assert shown(found, "kafka.client.id") == "me"
    assert shown(found, "database") == "postgresql://me@h/db"
    assert shown(found, "spark_master") == "local[2]"


def test_a_secret_that_was_used_is_hidden_in_every_row(monkeypatch):
    monkeypatch.setenv("PW", "opensesame")
    found = saying({"sasl.password": "${PW}", "client.id": "opensesame"})
    with pytest.raises(PlayheadError):
        found.kafka()  # follows the reference, and misses a mechanism
    assert shown(found, "kafka.client.id") == secrets.HIDDEN


def test_every_setting_has_a_row_in_the_order_of_its_declaration():
    kafka_only = {"bootstrap_servers", "kafka_config"}
    names = [setting.name for setting in SETTINGS if setting.name not in kafka_only]
    assert [row["setting"] for row in saying().rows()] == names
    assert {row["origin"] for row in saying().rows()} == {"not set"}


def test_every_setting_can_be_set_somehow():
    assert all(setting.ways for setting in SETTINGS)
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)


# --- secrets are no words of a command line


@pytest.mark.parametrize(
    "word",
    [
        "sasl.password=opensesame",
        "ssl.key.password=opensesame",
        "sasl.password=${}opensesame",
        'sasl.jaas.config=org.apache.X required password="opensesame";',
    ],
)
def test_a_property_that_is_a_secret_is_refused_and_not_repeated(tmp_path, word):
    with pytest.raises(UsageError, match="of -X is a secret") as caught:
        configure({}, assignments=[word], folder=tmp_path)
    assert "opensesame" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("database", "postgresql://me:opensesame@h/db"),
        ("database", "postgresql://me:open#sesame@h/db"),
        ("database", "postgresql://me:open[sesame@h/db"),
        ("database", "postgresql://h/db?password=opensesame"),
        ("database", "host=h password=opensesame"),
        ("spark_remote", "sc://h:15002/;token=opensesame"),
    ],
)
def test_a_flag_with_a_secret_in_it_is_refused_and_not_repeated(tmp_path, name, url):
    with pytest.raises(UsageError, match=f"of --{name.replace('_', '-')} is a secret") as caught:
        configure({name: url}, folder=tmp_path)
    assert "sesame" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:${PW}@h/db",
        "postgresql://me@h/db",
        "postgresql://me:@h/db",
        "file:/url",
        "${DB}",
    ],
)
def test_a_flag_without_a_secret_or_with_a_reference_is_none(tmp_path, url):
    assert configure({"database": url}, folder=tmp_path).settings["database"].value == url


@pytest.mark.parametrize("value", ["${PW}", "file:/run/secrets/pw"])
def test_a_secret_property_may_be_a_reference(tmp_path, value):
    found = configure({}, assignments=[f"sasl.password={value}"], folder=tmp_path)
    assert found.kafka_properties["sasl.password"].value == value
