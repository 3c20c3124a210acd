"""Addresses and variables that would lead a login elsewhere; a listener behind each must stay empty."""

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from playhead import secrets
from playhead.cli.app import main
from playhead.errors import BadValue, DatabaseUnavailable, PlayheadError, Refused, UsageError
from playhead.files.archive import settled
from playhead.files.source import FilesSource
from playhead.files.stores.s3 import S3Store
from playhead.files.target import FilesTarget
from playhead.host.runtimes import find_java, find_spark_home
from playhead.postgres.query_link import address_of
from playhead.postgres.replay_server import PostgresServer
from playhead.postgres.server import ask
from playhead.postgres.service_file import group_in, service_of
from playhead.postgres.session import open_session
from playhead.schemas import registry as registry_module
from playhead.schemas.registry import Registry
from playhead.schemas.schema_id import SchemaId
from playhead.spark import jvm
from tests.empty_listener import EmptyListener

PASSWORD = "the-password-of-the-service"


@pytest.fixture
def listener() -> Iterator[EmptyListener]:
    with EmptyListener() as listener:
        yield listener


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGPASSWORD", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "services"
    file.write_text(
        f"[prod]\nhost=127.0.0.1\nport=9\nuser=me\npassword={PASSWORD}\n[open]\nuser=me\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.chdir(tmp_path)


def refused(url: str, error: type[PlayheadError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        ask(url)
    assert PASSWORD not in str(caught.value)
    with pytest.raises(error, match=match), open_session(url, grant=""):
        pass


# --- PostgreSQL


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://{host}:{port}/db?service=prod&sslmode=disable",
        "postgresql:///db?service=prod&hostaddr={host}&port={port}",
        "postgresql:///db?service=prod&port={port}",
        "postgresql://127.0.0.1:9,{host}:{port}/db?service=prod",
        "host={host} port={port} service=prod sslmode=disable",
        "postgresql://{host}:{port}/db?%73ervice=prod",
    ],
)
def test_the_password_of_a_service_goes_to_no_host_of_an_address(listener, url):
    host, _, port = listener.address.partition(":")
    refused(url.format(host=host, port=port), Refused, "password of the service prod there")
    assert listener.brought() == []


def test_nor_does_that_of_the_service_in_the_environment(monkeypatch, listener):
    monkeypatch.setenv("PGSERVICE", "prod")
    refused(f"postgresql://{listener.address}/db", Refused, "password of the service prod there")
    assert listener.brought() == []
    with pytest.raises(DatabaseUnavailable):
        ask("postgresql:///db")  # the service's own host


@pytest.mark.parametrize("query", ["", "?password=another"])
def test_a_service_without_a_password_or_an_address_with_its_own_is_allowed(
    monkeypatch, listener, query
):
    monkeypatch.setenv("PGSERVICE", "prod" if query else "open")
    with pytest.raises(DatabaseUnavailable):
        ask(f"postgresql://{listener.address}/db{query}")
    assert listener.brought()


def test_no_variable_leads_away_from_the_host_of_an_address(monkeypatch, listener):
    host, _, port = listener.address.partition(":")
    monkeypatch.setenv("PGHOSTADDR", host)
    refused(f"postgresql://me:{PASSWORD}@127.0.0.9:{port}/db", Refused, "PGHOSTADDR")
    assert listener.brought() == []


@pytest.mark.parametrize(
    ("address", "variables"),
    [
        ("postgresql://me:{password}@/db", {"PGHOST": "{host}", "PGPORT": "{port}"}),
        ("password={password}", {"PGHOSTADDR": "{host}", "PGPORT": "{port}"}),
        ("postgresql://me:{password}@{host}/db", {"PGPORT": "{port}"}),
        ("postgresql://me:{password}@/db", {"PGSERVICE": "other"}),
        ("postgresql://me:{password}@{host}/db", {"PGSERVICE": "other"}),
        ("postgresql://me:{password}@127.0.0.9:{port}/db", {"PGSERVICE": "address"}),
        ("postgresql://me:{password}@/db?service=open", {"PGHOST": "{host}", "PGPORT": "{port}"}),
    ],
)
def test_a_password_of_an_address_goes_to_no_server_of_the_environment(
    monkeypatch, listener, tmp_path, address, variables
):
    host, _, port = listener.address.partition(":")
    with (tmp_path / "services").open("a") as file:
        file.write(f"[other]\nhost={host}\nport={port}\n[address]\nhostaddr={host}\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(host=host, port=port))
    url = address.format(password=PASSWORD, host=host, port=port)
    refused(url, Refused, "has a password, but libpq would connect to")
    assert listener.brought() == []


@pytest.mark.parametrize("variable", ["PGHOST", "PGHOSTADDR"])
@pytest.mark.parametrize("url", ["postgresql:///db?service=far", "postgresql:///db"])
@pytest.mark.parametrize("key", ["host", "hostaddr"])
def test_no_variable_leads_away_from_the_server_of_a_service(
    monkeypatch, listener, tmp_path, variable, url, key
):
    host, _, port = listener.address.partition(":")
    far = f"[far]\n{key}=127.0.0.9\nport={port}\nuser=me\npassword={PASSWORD}\n"
    (tmp_path / "services").write_text(far)
    monkeypatch.setenv("PGSERVICE", "far")
    monkeypatch.setenv(variable, host)
    refused(url, Refused, f"the service far names a server, .* of {variable}")
    assert listener.brought() == []


@pytest.mark.parametrize("other", ["no pair", "password=caf\xe9", "[", "[[x", "=1", "%(x)s=1"])
@pytest.mark.parametrize("variable", ["PGHOST", "PGHOSTADDR"])
def test_a_line_of_another_service_hides_no_server(
    monkeypatch, listener, tmp_path, variable, other
):
    """libpq reads up to the end of the group, and takes the password that is in it."""
    host, _, port = listener.address.partition(":")
    far = f"[far]\n# a note\n\nhost=127.0.0.9\nhost=ignored\nport={port}\nuser=me\npassword={PASSWORD}\n"
    (tmp_path / "services").write_bytes(f"{far}[other]\n{other}\n".encode("latin-1"))
    monkeypatch.setenv(variable, host)
    refused("postgresql:///db?service=far", Refused, "the service far names a server")
    assert listener.brought() == []


@pytest.mark.parametrize("variable", ["PGHOST", "PGHOSTADDR", "PGPORT"])
def test_a_service_that_cannot_be_read_has_no_server_of_the_environment(
    monkeypatch, listener, variable
):
    """Another libpq may know it from a place that we do not."""
    host, _, port = listener.address.partition(":")
    monkeypatch.setenv(variable, port if variable == "PGPORT" else host)
    refused("postgresql:///db?service=absent", Refused, f"absent cannot be read, .*{variable}")
    assert listener.brought() == []


def test_no_service_file_of_the_working_folder_is_read(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PGSERVICEFILE")
    for folder in (tmp_path, tmp_path / "None"):
        folder.mkdir(exist_ok=True)
        (folder / "pg_service.conf").write_text("[mine]\nhost=127.0.0.9\n")
    assert service_of({"service": "mine"}) is None
    monkeypatch.setenv("PGSYSCONFDIR", "")
    assert service_of({"service": "mine"}) is None
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    assert service_of({"service": "mine"}) == {"host": "127.0.0.9"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a]\nhost=1\n[b]\nhost=2\n", {"host": "2"}),
        ("[b]\nhost=2\nhost=3\nport = 4\n", {"host": "2", "port ": " 4"}),
        (" [b] x\n\thost=2 \r\n#host=3\n\n", {"host": "2"}),
        ("host=1\n[bb]\nhost=2\n", None),
        ("[b]\nno pair\nhost=2\n", None),
        ("[b]\nhost=a=b\0c\n[c]\nno pair\n[b]\nport=1\n", {"host": "a=b"}),
        ("", None),
    ],
)
def test_a_service_is_read_as_libpq_reads_it(text, found):
    assert group_in(text.encode(), "b") == found


def test_a_password_of_an_address_goes_to_the_server_of_its_service(
    monkeypatch, listener, tmp_path
):
    host, _, port = listener.address.partition(":")
    (tmp_path / "services").write_text(f"[own]\nhost={host}\nport={port}\n")
    with pytest.raises(DatabaseUnavailable):
        ask(f"postgresql://me:{PASSWORD}@/db?service=own")
    assert listener.brought()


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("postgresql://u@127.0.0.1:1,127.0.0.2:2/d?load_balance_hosts=random", {}),
        ("host=127.0.0.1,127.0.0.2 dbname=d", {}),
        ("hostaddr=127.0.0.1,127.0.0.2 dbname=d", {}),
        ("postgresql:///d", {"PGHOST": "127.0.0.1,127.0.0.2"}),
        ("postgresql:///d?service=two", {}),
    ],
)
def test_queries_are_played_on_one_server(monkeypatch, tmp_path, url, variables):
    (tmp_path / "services").write_text("[two]\nhost=127.0.0.1,127.0.0.2\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    server = PostgresServer(url)
    for call in (server.control, lambda: server.database, lambda: address_of(url, major=17)):
        with pytest.raises(UsageError, match="on one server, and host"):
            call()


@pytest.mark.parametrize("key", ["sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"])
@pytest.mark.parametrize("by", ["address", "environment"])
def test_no_relative_path_is_handed_to_libpq(monkeypatch, listener, key, by):
    if by == "environment":
        monkeypatch.setenv(f"PG{key}".upper(), "clone.pem")
        url = f"postgresql://{listener.address}/db"
    else:
        url = f"postgresql://{listener.address}/db?{key}=clone.pem"
    refused(url, BadValue, "whole path")
    assert listener.brought() == []


@pytest.mark.parametrize("variable", ["PGSERVICEFILE", "PGSYSCONFDIR"])
def test_nor_are_services_looked_for_in_the_working_folder(monkeypatch, listener, variable):
    Path("pg_service.conf").write_text(f"[prod]\nhost={listener.address}\n")
    monkeypatch.setenv(variable, "pg_service.conf" if variable == "PGSERVICEFILE" else ".")
    refused("postgresql:///db?service=prod", BadValue, "whole path")
    assert listener.brought() == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/db?%70assword=geheimes-wort",
        "postgresql://h/db?user=me&pass%77ord=geheimes-wort",
        "postgresql://h/db?oauth_client_secret=geheimes-wort",
        "host=h scram_client_key=geheimes-wort",
        "host=h oauth_client_secret = 'geheimes-wort'",
    ],
)
def test_what_libpq_takes_for_a_secret_is_hidden(url):
    assert secrets.passwords_in(url) == ["geheimes-wort"]
    assert "geheim" not in secrets.without_password(url)


@pytest.mark.parametrize("url", ["postgresql://me:p@ss@h/db", "postgresql://me:p/s@h/db"])
def test_an_address_that_libpq_cuts_in_the_password_asks_nobody(url):
    with pytest.raises(UsageError, match="the login in the address"):
        ask(url)


# --- S3


@pytest.mark.parametrize(
    "root",
    [
        "s3://bucket/../other/x",
        "s3://bucket/a/../../other",
        "s3://bucket/./x",
        "s3a://bucket/x/..",
        "s3://bu?cket/x",
        "s3://../x",
        "s3://me@evil/x",
        "s3://evil.example#/x",
        "s3://bucket:80/x",
        "s3://bucket/\0x",
        "s3://bu\ncket/x",
        "s3://bücket/x",
        "s3://" + "b" * 300,
        "s3:///x",
        "s3://",
    ],
)
def test_no_name_of_s3_leads_to_another_bucket(monkeypatch, listener, root):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{listener.address}")
    for make in (FilesSource, FilesTarget):
        with pytest.raises(BadValue):
            make(root, "json")
    assert listener.brought() == []


def test_usual_names_of_s3_stay():
    assert (
        settled("s3a://my-bucket.of_2026//a b/..c/x?y=1/") == "s3://my-bucket.of_2026/a b/..c/x?y=1"
    )


@pytest.mark.parametrize(
    "url",
    [
        "ftp://{at}",
        "file:///etc/passwd",
        "{at}",
        "http://",
        "http://[::1",
        "http://127.0.0.1:999999",
        "http://me:{password}@{at}",
        "http://{at}/{password}@h",
        "me:{password}@{at}",
    ],
)
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_of_s3_that_is_none_is_refused(monkeypatch, listener, variable, url):
    monkeypatch.setenv(variable, url.format(at=listener.address, password=PASSWORD))
    with pytest.raises(BadValue, match="without a login") as caught:
        S3Store.at("s3://bucket/x")
    assert PASSWORD not in str(caught.value)
    assert listener.brought() == []


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_clones_file_of_aws_names_no_program_to_run(monkeypatch, listener, tmp_path, variable):
    mark = tmp_path / "owned"
    Path("aws").write_text(f"[default]\ncredential_process = touch {mark}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{listener.address}")
    monkeypatch.setenv(variable, "aws")
    with pytest.raises(BadValue, match="whole path"):
        S3Store.at("s3://bucket/x")
    assert not mark.exists()
    assert listener.brought() == []


# --- a schema registry


class _Registry(http.server.BaseHTTPRequestHandler):
    """Answers as the test says; beside it nobody is asked for anything."""

    status, body, to = 200, b"", ""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.status)
        self.send_header("Location", self.to)
        self.end_headers()
        with contextlib.suppress(OSError):
            for byte in self.body if self.to == "slowly" else ():
                self.wfile.write(bytes((byte,)))
                time.sleep(0.05)
            self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Registry(f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


def ask_registry(monkeypatch: pytest.MonkeyPatch, registry: Registry, **answer: object) -> str:
    for name, value in answer.items():
        monkeypatch.setattr(_Registry, name, value)
    with pytest.raises(PlayheadError) as caught:
        registry.schema(SchemaId(1))
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"schema":' * 100_000,
        b'{"schema":null}',
        b'{"schema":"\\ud800"}',
        b'{"schema":"1","references":5}',
        b'{"schema":"1","references":"ab"}',
        b'{"schema":"1","references":[{}]}',
        b'{"schema":"1","references":[[1]]}',
        b'{"schema":"1","references":[{"name":"a","subject":"b","version":"x"}]}',
        b'{"schema":"1","references":[{"name":"a","subject":"b","version":1e400}]}',
        b'{"schema":"1","references":[{"name":1,"subject":"b","version":1}]}',
        b'{"schema":' + b"9" * 6_000 + b"}",
        b'{"error_code":[[[],"message":{}}',
        b'{"error_code":1e999,"message":"x"}',
        b'{"error_code":-1e999,"message":"x"}',
        b'{"error_code":NaN,"message":"x"}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_no_answer_of_a_registry_is_a_fault_of_ours(monkeypatch, registry, status, body):
    assert ask_registry(monkeypatch, registry, status=status, body=body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["https://{at}/x", "file:///etc/passwd", "//{at}/x", "\x1b[2J"])
def test_no_redirect_of_a_registry_is_followed(monkeypatch, listener, registry, status, to):
    told = ask_registry(monkeypatch, registry, status=status, to=to.format(at=listener.address))
    assert str(status) in told
    assert "root:" not in told
    assert listener.brought() == []


@pytest.mark.parametrize("status", [200, 404, 503])
def test_a_registry_that_sends_byte_after_byte_does_not_keep_us(monkeypatch, registry, status):
    monkeypatch.setattr(registry_module, "_WHOLE_WITHIN_S", 0.2)
    monkeypatch.setattr(registry_module, "_PAUSE_S", 0.01)
    slow = {"status": status, "to": "slowly", "body": b" " * 400}
    monkeypatch.setattr(_Registry, "asked", [])
    assert "did not end" in ask_registry(monkeypatch, registry, **slow)
    assert len(_Registry.asked) == 1, "each try has the whole time"
    for thread in threading.enumerate():
        if thread.name.startswith("GET "):
            thread.join(5)
            assert not thread.is_alive(), "a thread waits for the rest"


@pytest.mark.parametrize("path", ["\u00e9", "\udce9"], ids=["letter", "byte of Latin-1"])
def test_a_path_of_a_registry_that_is_not_ascii_is_no_fault_of_the_records(path):
    with pytest.raises(BadValue, match="https://host:port"):
        Registry(f"http://127.0.0.1:1/{path}")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:{password}@..:1/",
        "http://me:{password}@[::1/",
        "http://me:{password}@h:99999999/",
        "http://me:{password}@h:x/",
        "http://me:{password}@℀/",
        "http://me:{password}@" + "a" * 70 + ".x/",
        # Python would ask the host `me`, and send it the rest.
        "http://me:/{password}@h",
        "http://me:8081/{password}@h",
        "http://corp/me:{password}@h",
        "http://me?x:{password}@h",
        "http://me#x:{password}@h",
        "file:///etc/passwd",
        "ftp://me:{password}@h/",
        "me:{password}@h:8081",
        "me=x:{password}@h:8081",
        "http:/me:{password}@h",
        "me:{password}@http://h",
        "//me:{password}@h",
        "~me:{password}@h",
        "//h/",
        "",
    ],
)
def test_an_address_that_is_no_registrys_is_refused_without_its_login(url):
    with pytest.raises(BadValue, match="https://host:port") as caught:
        Registry(url.format(password=PASSWORD))
    assert PASSWORD not in str(caught.value)


# --- what lies in a clone


VARIABLES = ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


@pytest.mark.parametrize("variable", VARIABLES)
def test_no_program_and_no_settings_of_the_engine_are_taken_from_the_working_folder(
    monkeypatch, variable
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    Path("own", "conf").mkdir(parents=True)
    monkeypatch.setenv(variable, "own")
    ask_for = {"JAVA_HOME": find_java, "SPARK_HOME": find_spark_home}
    with pytest.raises(BadValue, match="whole path"):
        ask_for.get(variable, lambda: jvm._conf_dirs(Path("/nowhere")))()


OF_A_CLONE = {
    ".env": "KAFKA_BOOTSTRAP_SERVERS={at}\nDATABASE_URL=postgresql://{at}/db\n",
    "pg_service.conf": "[prod]\nhost=127.0.0.1\n",
    ".pg_service.conf": "[prod]\nhost=127.0.0.1\n",
    ".pgpass": "*:*:*:*:x\n",
    ".aws/config": "[default]\nendpoint_url=http://{at}\n",
    ".aws/credentials": "[default]\naws_access_key_id=x\naws_secret_access_key=y\n",
    "config.toml": "[contexts.prod]\nbootstrap_servers='{at}'\n",
    "playhead/config.toml": "[contexts.prod]\nbootstrap_servers='{at}'\n",
    "current-context": "prod",
    "context.toml": "bootstrap_servers='{at}'\n",
    "client.properties": "bootstrap.servers={at}\n",
    "spark-defaults.conf": "spark.master spark://{at}\n",
    "conf/spark-defaults.conf": "spark.master spark://{at}\n",
}


def test_no_other_file_of_a_clone_names_a_server(monkeypatch, listener, tmp_path, capsys):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path.parent / f"{tmp_path.name}-{name}"))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "PGSERVICEFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".git").mkdir()
    for name, text in OF_A_CLONE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.format(at=listener.address))
    for words in (("topics", "list"), ("context", "list"), ("topics", "list", "-c", "prod")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code in (0, 1, 2), words
    assert listener.address not in "".join(capsys.readouterr())
    assert listener.brought() == []
