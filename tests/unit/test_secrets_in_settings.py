"""No text about the settings has a secret in it, and no secret hides which server they name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from playhead.capture.address import BadPlace, parse_place
from playhead.cli.app import main
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BadValue
from playhead.host import paths
from playhead.secrets import redact

Command = Callable[..., tuple[int, str, str]]

SECRET = "geheim-wort"
OAUTH = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.client.id=me
sasl.oauthbearer.client.secret=another
sasl.oauthbearer.token.endpoint.url=https://u:{SECRET}@tokens.example/
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture(autouse=True)
def _own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    for variable in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "PLAYHEAD_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    paths.config_file().parent.mkdir(parents=True)


@pytest.mark.parametrize(
    "text", [f"bootstrap.servers=u:{SECRET}@h:9092\n", f"bootstrap.servers=h:9092\n{OAUTH}"]
)
def test_a_password_in_an_address_of_a_file_is_not_shown(run, tmp_path, text):
    file = tmp_path / "client.properties"
    file.write_text(text)
    paths.config_file().write_text(f'[contexts.filed]\nkafka_config = "{file}"\n')
    for words in (
        ("context", "show", "--config", str(file)),
        ("context", "show", "-c", "filed"),
        ("config", "show", "-c", "filed", "-o", "json"),
    ):
        _, out, err = run(*words)
        assert "h:9092" in out, err
        assert SECRET not in out + err, words


def test_a_login_in_the_servers_is_hidden_however_short_it_is(run, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "g:1,u:pw9@h:9092")
    code, out, err = run("topics", "list")
    assert (code, "pw9" in out + err) == (2, False)
    assert "@h:9092" in err


@pytest.mark.parametrize(
    "text",
    [
        f'[contexts.a.kafka]\n"sasl.password" = ["{SECRET}"]\n',
        f'[contexts.a]\ndatabase = ["postgresql://u:{SECRET}@h/d"]\n',
        f'[contexts.a]\nkafka = "sasl.password={SECRET}"\n',
        f'[contexts]\na = "postgresql://u:{SECRET}@h/d"\n',
        f'contexts = ["postgresql://u:{SECRET}@h/d"]\n',
    ],
)
def test_a_secret_of_the_wrong_kind_is_not_quoted(run, text):
    paths.config_file().write_text(text)
    code, out, err = run("context", "list")
    assert (code, SECRET in out + err) == (2, False)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            'database = "host=evil.example user=u password=abcd"',
            "host=evil.example user=u password=********",
        ),
        (
            'database = "postgresql://u:evil.example@evil.example/db"',
            "postgresql://u:********@evil.example/db",
        ),
        (
            """database = "application_name='x password=' host=evil.example password='ab cd'" """,
            "application_name='x password=' host=evil.example password=********",
        ),
        # It goes to evil.example, and looks like a login for the other one.
        (
            'schema_registry = "https://evil.example:443?x=@good.example/"',
            "https://evil.example:443?x=@good.example/",
        ),
        (
            'schema_registry = "https://evil.example:443#@good.example/"',
            "https://evil.example:443#@good.example/",
        ),
        ('spark_remote = "sc://evil.example/;token=abcd"', "sc://evil.example/;token=********"),
        ('database = "file:/home/u/url"', "********, read from file:/home/u/url"),
        ('database = "${URL}"', "${URL}"),
    ],
)
def test_trusting_shows_the_server_whatever_is_written_around_it(run, tmp_path, said, shown):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "playhead.toml").write_text(said + "\n")
    code, out, err = run("config", "trust", str(clone), "-o", "json")
    assert code == 0, err
    [row] = json.loads(out)["settings"]
    assert row["value"] == shown


@pytest.mark.parametrize(
    "url",
    [
        f"jdbc:postgresql://u:{SECRET}@h.invalid/db",
        f" postgresql://u:{SECRET}@h.invalid/db",
        f"postgresql://h.invalid/db#password={SECRET}",
    ],
    ids=["jdbc", "space", "fragment"],
)
def test_a_password_in_an_address_that_libpq_does_not_read_is_hidden(run, monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url)
    for words in (("context", "show"), ("doctor",)):
        _, out, err = run(*words)
        assert "h.invalid" in out, err
        assert SECRET not in out + err, words
    code, out, err = run("context", "add", "new", "-b", "h:1", "--database", url)
    assert (code, SECRET in out + err, paths.config_file().exists()) == (2, False, False)


@pytest.mark.parametrize("password", [f"x/{SECRET}", f"{SECRET} x", f"{SECRET}@x"])
def test_the_password_of_a_proxy_is_hidden_where_a_library_quotes_it(
    run, tmp_path, monkeypatch, password
):
    file = tmp_path / "client.properties"
    text = f"bootstrap.servers=127.0.0.1:1\n{OAUTH}".replace("SASL_PLAINTEXT", "SASL_SSL")
    file.write_text(text.replace(f"u:{SECRET}@", ""))
    monkeypatch.setenv("https_proxy", f"http://u:{password}@proxy.invalid:3128")
    _, out, err = run("doctor", "--config", str(file))
    assert "proxy.invalid" in out, err
    assert SECRET not in out + err


@pytest.mark.parametrize(
    "address", [f"udp://u:{SECRET}@127.0.0.1:0", f"udp://127.0.0.1:0/?password={SECRET}"]
)
def test_a_password_in_the_address_of_ingest_is_hidden(run, address):
    code, out, err = run("ingest", address, "kafka:laps", "-b", "h:1")
    assert (code, SECRET in out + err) == (2, False)


@pytest.mark.parametrize(
    "written",
    ["u:{}@h:1", "kafka://u:{}@h:1", "SASL_SSL://u:{}@h", "https://h:1/?password={}"],
    ids=["bare", "kafka", "sasl", "query"],
)
def test_a_login_in_an_address_of_the_proxy_is_hidden(written: str) -> None:
    password = "pasted-with-the-address"
    with pytest.raises(BadPlace) as bad:
        parse_place("--upstream", written.format(password))
    assert password not in f"{bad.value} {bad.value.text}"


def test_the_brokers_of_a_variable_are_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERS", "playhead.local:9092,10.0.0.1:9092")
    given = {"bootstrap.servers": "${BROKERS}"}
    connection = KafkaConnection.from_properties(given, where="context a", references=True)
    text = f"no broker answered at {connection.bootstrap_servers}; try playhead doctor"
    assert redact(text) == text
    monkeypatch.setenv("BROKERS", f"me:{SECRET}@10.0.0.1:9092")
    with pytest.raises(BadValue) as caught:
        KafkaConnection.from_properties(given, where="context a", references=True)
    assert SECRET not in redact(f"{caught.value} and {SECRET}")


@pytest.mark.parametrize(
    "url", ["postgresql://caf\udce9:{}@127.0.0.1:9/d", "user=caf\udce9 host=h password={}"]
)
def test_no_part_of_a_long_password_is_shown_where_an_error_is_cut(run, monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url.format("wort" * 40))
    code, out, err = run("resume", "abc", "postgres:x", "--source", "kafka://127.0.0.1:9/t")
    assert (code, "wort" in out + err) == (1, False)
    assert "not UTF-8" in err


def test_a_secret_that_is_not_utf8_is_named_by_its_variable(run, monkeypatch):
    """The Kafka client took it for none, and said that a password must be set."""
    monkeypatch.setenv("PW", "wort\udce9wort")
    sasl = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN")
    login = ("-X", "sasl.username=u", "-X", "sasl.password=${PW}")
    code, out, err = run("topics", "list", "-b", "127.0.0.1:9", *sasl, *login)
    assert (code, "wort" in out + err) == (2, False)
    assert "needed: environment variable PW to be UTF-8" in err
