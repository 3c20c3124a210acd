"""A login that others can read is warned of, once; one that they cannot is not."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import psycopg
import pytest

from playhead import secrets
from playhead.cli.app import _tell_of_thread
from playhead.config import exposed_logins
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BadValue, DatabaseUnavailable, UsageError
from playhead.files.stores.s3 import S3Store
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.postgres import server
from playhead.postgres.server import checked, connect
from playhead.postgres.session import open_session
from playhead.replay.pipelines import Pipelines
from playhead.schemas.registry import Registry
from playhead.spark import process_habits, session


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(exposed_logins, "_said", set())
    monkeypatch.setattr(exposed_logins, "teller", heard.append)
    for name in ("PGPASSWORD", "PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSERVICE", "PGSYSCONFDIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PGSERVICEFILE", "PGPASSFILE"):
        monkeypatch.setenv(name, "/nowhere")
    return heard


@pytest.mark.parametrize(
    ("protocol", "brokers", "is_warned"),
    [
        ("SASL_PLAINTEXT", "kafka.example:9092", True),
        ("sasl_plaintext", "127.0.0.1:9092,kafka.example:9092", True),
        ("SASL_PLAINTEXT", "127.0.0.1:9092, localhost:9093,[::1]:9094", False),
        ("SASL_SSL", "kafka.example:9092", False),
        ("PLAINTEXT", "kafka.example:9092", False),
    ],
)
def test_a_login_to_kafka(
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    brokers: str,
    is_warned: bool,
) -> None:
    for name in ("make_consumer", "make_producer", "make_admin"):
        monkeypatch.setattr(clients, name, lambda settings, **more: settings)
    settings = {"security.protocol": protocol, "bootstrap.servers": brokers}
    for make in (clients.consumer, clients.producer, clients.admin):
        make(settings)
    assert len(said) == is_warned
    assert all("SASL_SSL" in text for text in said)


@pytest.mark.parametrize(
    ("protocol", "brokers", "told"),
    [
        ("SASL_PLAINTEXT", "localhost:9092", ["the login to 10.0.0.1:9092 travels"]),
        ("SASL_PLAINTEXT", "far:1", ["the login to far:1 travels"]),
        ("SASL_SSL", "localhost:9092", []),
        ("PLAINTEXT", "localhost:9092", []),
    ],
)
def test_a_login_to_the_addresses_that_the_brokers_advertise(
    said: list[str], monkeypatch: pytest.MonkeyPatch, protocol: str, brokers: str, told: list[str]
) -> None:
    made = SimpleNamespace(list_topics=lambda timeout: found)
    found = SimpleNamespace(
        cluster_id="abc",
        topics={},
        brokers={
            n: SimpleNamespace(host=host, port=9092)
            for n, host in enumerate(("localhost", "10.0.0.1"))
        },
    )
    monkeypatch.setattr(clients, "make_admin", lambda settings: made)
    Admin(KafkaConnection(brokers, protocol, "PLAIN", "me", "pass")).cluster()
    assert len(said) == len(told)
    assert all(text.startswith(begins) for text, begins in zip(said, told, strict=True))


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://me:pass@registry.example", True),
        ("http://registry.example", False),
        ("https://me:pass@registry.example", False),
        ("http://me:pass@localhost:8081", False),
    ],
)
def test_a_login_to_a_registry(said: list[str], url: str, is_warned: bool) -> None:
    Registry(url)
    Registry(url)
    assert len(said) == is_warned
    assert "pass" not in "".join(said)


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [
        ("postgresql://u:pass@db.example/d", True),
        ("host=db.example password=pass", True),
        ("postgresql://u:pass@127.0.0.1,db.example/d", True),
        ("postgresql://u:pass@db.example/d?sslmode=allow", True),
        ("postgresql://u:pass@db.example/d?sslmode=require", False),
        ("postgresql://u:pass@db.example/d?sslmode=verify-full", False),
        ("postgresql://u@db.example/d", False),
        ("postgresql://u:pass@localhost/d", False),
        ("postgresql://u:pass@[::1]:5432/d", False),
        ("postgresql:///d?host=/run/postgresql&password=pass", False),
        ("postgresql://u:pass@127.0.0.1/d?hostaddr=192.0.2.1", True),
    ],
)
def test_a_password_for_postgresql(said: list[str], address: str, is_warned: bool) -> None:
    checked(address)
    checked(address)
    assert len(said) == is_warned
    assert "pass@" not in "".join(said)


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [
        ("host=db.example hostaddr=127.0.0.1 password=pass", False),
        ("host=db.example,far.example hostaddr=127.0.0.1, password=pass", True),
        ("host=,db.example hostaddr=127.0.0.1, password=pass", True),
        ("host=db.example,db.example hostaddr=127.0.0.1,10.0.0.1 password=pass", True),
        ("host=a.example,localhost hostaddr=127.0.0.1, password=pass", False),
    ],
)
def test_hosts_and_their_addresses_are_paired(
    said: list[str], address: str, is_warned: bool
) -> None:
    checked(address)
    assert len(said) == is_warned


def test_what_the_environment_says_of_postgresql_counts(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "pass")
    monkeypatch.setenv("PGHOST", "db.example")
    checked("postgresql:///d")
    assert len(said) == 1
    monkeypatch.setenv("PGSSLMODE", "require")
    checked("postgresql://other.example/d")
    assert len(said) == 1


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [
        ("postgresql:///d?service=far", True),
        ("service=far sslmode=verify-full", False),
        ("postgresql:///d?service=safe", False),
        ("postgresql:///d?service=near", False),
        ("postgresql:///d?service=open", False),
        ("postgresql:///d?service=none", False),
        ("postgresql://u@filed.example/d", True),
        ("postgresql://u@filed.example/d?sslmode=require", False),
        ("postgresql://u@other.example/d", False),
        ("postgresql://u@commented.example/d", False),
        ("postgresql://u@[fe80::1]/d", True),
    ],
)
def test_a_password_that_a_file_of_libpq_has(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, is_warned: bool
) -> None:
    files = {
        "PGSERVICEFILE": "[far]\nhost=db.example\npassword=pass%word\n[open]\nhost=db.example\n"
        "[safe]\nhost=db.example\npassword=pass\nsslmode=require\n"
        "[near]\nhost=127.0.0.1\npassword=pass\n",
        "PGPASSFILE": "#commented.example:*:*:u:pass\nfiled.example:5432:*:u:pass\nfe80\\:\\:1:*:*:u:pass\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    checked(address)
    checked(address)
    assert len(said) == is_warned
    assert "pass%word" not in "".join(said)


def test_no_half_of_a_password_is_left_where_an_error_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "_known", set())
    secrets.remember("unseen-and-long-99")

    def answers(_: str) -> NoReturn:
        raise psycopg.ProgrammingError("x" * 190 + "unseen-and-long-99")

    monkeypatch.setattr(server, "connect", answers)
    with pytest.raises(DatabaseUnavailable) as caught:
        server.ask("postgresql://h/d")
    assert "unseen" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "variables"),
    [
        ("postgresql://u@db.example/d", {"PGPASSWORD": "un:see\\n99"}),
        ("postgresql:///d?service=far", {}),
        ("postgresql:///d", {"PGSERVICE": "far"}),
        ("postgresql://u@filed.example/d", {}),
        ("postgresql:///d", {}),
        ("postgresql:///d", {"PGHOSTADDR": "192.0.2.7"}),
    ],
)
def test_a_password_that_libpq_takes_by_itself_is_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, variables: dict[str, str]
) -> None:
    monkeypatch.setattr(secrets, "_known", set())
    filed = "un\\:see\\\\n99"
    files = {
        "PGSERVICEFILE": "[far]\nhost=db.example\npassword=un:see\\n99\n",
        "PGPASSFILE": f"filed.example:*:*:u:{filed}\nlocalhost:*:*:u:{filed}\n192.0.2.7:*:*:u:{filed}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    checked(address)
    assert secrets.redact('FATAL: no entry for password "un:see\\n99"') == (
        'FATAL: no entry for password "********"'
    )


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        ("http://tokens.example/get", True),
        ("HTTP://tokens.example/get", True),
        ("https://tokens.example/get", False),
        ("http://127.0.0.1:9/get", False),
    ],
)
def test_the_secret_of_a_client_for_its_tokens(
    said: list[str], monkeypatch: pytest.MonkeyPatch, url: str, is_warned: bool
) -> None:
    monkeypatch.setattr(clients, "make_admin", lambda settings, **more: settings)
    clients.admin({"sasl.oauthbearer.token.endpoint.url": url})
    assert len(said) == is_warned


@pytest.mark.parametrize(
    ("endpoint", "unsigned", "is_warned"),
    [
        ("http://store.example:9000", "", True),
        ("https://store.example", "", False),
        ("http://127.0.0.1:9000", "", False),
        ("http://store.example:9000", "true", False),
    ],
)
def test_what_is_signed_for_s3(
    said: list[str], monkeypatch: pytest.MonkeyPatch, endpoint: str, unsigned: str, is_warned: bool
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", unsigned)
    S3Store.at("s3://bucket/x")
    assert len(said) == is_warned


@pytest.mark.parametrize(
    "address", ["postgresql://u:p@ss@h/db", "postgresql://u:p/ss@h/db", "password=p ss host=h"]
)
def test_a_password_that_libpq_would_cut_reaches_nobody(address: str) -> None:
    with pytest.raises(UsageError, match="the login in") as caught, connect(address):
        pass
    with pytest.raises(UsageError) as again, open_session(address, grant=""):
        pass
    for error in (caught.value, again.value):
        assert "ss@" not in f"{error} {error.hint}"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:p%z@127.0.0.1:1/d",
        "postgresql://u:p%zz@127.0.0.1:1/d",
        "postgresql://127.0.0.1:1/d?password=p z",
        "postgresql://u:p]z@[::1/d",
    ],
)
def test_what_libpq_quotes_of_an_address_it_cannot_read_is_hidden(address: str) -> None:
    for opening in (connect(address), open_session(address, grant="")):
        with pytest.raises(DatabaseUnavailable) as caught, opening:
            pass
        shown = "".join(traceback.format_exception(caught.value))
        assert "p%z" not in shown
        assert "z" not in caught.value.reason.replace("percent", ""), caught.value.reason
        assert " z" not in caught.value.where, caught.value.where


def test_spark_connect_elsewhere_wants_tls(said: list[str]) -> None:
    exposed_logins.of_connect("sc://spark.example:15002/;use_ssl=true;token=abcd")
    exposed_logins.of_connect("sc://127.0.0.1:15002")
    assert not said
    exposed_logins.of_connect("sc://spark.example:15002/;token=abcd")
    assert len(said) == 1
    assert "abcd" not in said[0]


def test_what_is_written_down_of_an_error_has_no_password(tmp_path: Path) -> None:
    secrets.remember("opensesame")
    Pipelines(tmp_path).note("p", {"away": "no opensesame", "lag": 1})
    written = (tmp_path / "live" / "p" / "status.json").read_text()
    assert "opensesame" not in written
    assert json.loads(written)["lag"] == 1


def test_what_ends_a_thread_is_said_without_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets.remember("opensesame")
    monkeypatch.setattr(threading, "excepthook", _tell_of_thread)

    def fail() -> None:
        raise RuntimeError("no opensesame")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    said = capsys.readouterr().err
    assert "RuntimeError: no ********" in said
    assert "opensesame" not in said


_CONNECTS = """
import sys
from playhead.spark import session
session.session("x", remote=sys.argv[1])
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_no_proxy_gets_the_jobs_for_spark_connect_on_this_machine(host: str, variable: str) -> None:
    family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
    here = socket.create_server((host.strip("[]"), 0), family=family)
    proxy = socket.create_server(("127.0.0.1", 0))
    port, behind = here.getsockname()[1], proxy.getsockname()[1]
    environment = {
        **os.environ,
        variable: f"http://127.0.0.1:{behind}",
        "no_proxy": "other.example",
    }
    with (
        here,
        proxy,
        subprocess.Popen(
            [sys.executable, "-c", _CONNECTS, f"sc://{host}:{port}"], env=environment
        ) as process,
    ):
        called, _, _ = select.select([here, proxy], [], [], 60)
        process.kill()
    assert called == [here]


def test_a_token_of_the_environment_for_spark_connect_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may repeat it in an error."""

    def stop_here(_: str) -> NoReturn:
        raise ConnectionError

    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "t0ken-of-mine")
    monkeypatch.setattr(process_habits, "keep_off_proxies", stop_here)
    with pytest.raises(ConnectionError):
        session.session("x", remote="sc://127.0.0.1:1")
    assert secrets.redact("no: t0ken-of-mine is unknown") == "no: ******** is unknown"


@pytest.mark.parametrize(
    "remote",
    [
        "sc://[::1",
        "sc://h:x/;token=opensesame",
        "sc://h:99999/;token=opensesame",
        "sc://h/;token",
        "sc:///;token=opensesame",
        "sc://h/x;token=opensesame",
        "http://me:opensesame@h",
        "me:opensesame@h:15002",
        "me=x:opensesame@h:15002",
    ],
)
def test_an_address_that_is_none_of_spark_connect_is_an_error_without_its_token(
    remote: str,
) -> None:
    with pytest.raises(BadValue, match="needed: sc://HOST:PORT") as caught:
        session.session("x", remote=remote)
    assert "opensesame" not in str(caught.value)
