"""Pytest fixtures on real servers: `pytest_plugins = ["playhead.testing.fixtures"]` in a conftest.py.

The whole run shares one broker and one database, which are started for the first test that needs them and
stopped at the end, also when the run is killed. Every test gets its own topic and schema.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints, Sandbox
from playhead.sandbox.folder import LOOPBACK, free_port
from playhead.testing.link_proxy import LinkProxy

MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Yield a temporary folder that the user of the servers can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="playhead-tests-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def linked_port() -> int:
    """Return the port at which the broker listens for `broker_link` only."""
    return free_port()


@pytest.fixture(scope="session")
def broker_link(linked_port: int) -> Iterator[LinkProxy]:
    """Yield the link through which `linked_kafka` connects to the broker; cut, stall or delay it."""
    with LinkProxy(LOOPBACK, linked_port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def running_sandbox(
    servers_folder: Path, broker_link: LinkProxy, linked_port: int
) -> Iterator[Sandbox]:
    """Yield the run's sandbox; its broker also listens for `broker_link`, and advertises the link's address."""
    own = "PLAINTEXT://127.0.0.1:{broker_port}"
    control = "CONTROLLER://127.0.0.1:{controller_port}"
    listen = {
        "listeners": f"{own},{control},LINK://{LOOPBACK}:{linked_port}",
        "advertised.listeners": f"{own},LINK://{broker_link.address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINK:PLAINTEXT",
    }
    sandbox = Sandbox(servers_folder / "sandbox", broker_settings=listen)
    with sandbox.running():
        yield sandbox


@pytest.fixture(scope="session")
def sandbox(running_sandbox: Sandbox) -> Endpoints:
    """Return the addresses of the run's broker and database."""
    return running_sandbox.endpoints()


@pytest.fixture
def kafka(sandbox: Endpoints) -> KafkaConnection:
    """Return the connection to the run's broker."""
    return KafkaConnection(sandbox.bootstrap_servers)


@pytest.fixture
def linked_kafka(sandbox: Endpoints, broker_link: LinkProxy) -> Iterator[KafkaConnection]:  # noqa: ARG001
    """Yield the connection to the broker through `broker_link`, which is repaired after the test."""
    yield KafkaConnection(broker_link.address)
    broker_link.restore()


@pytest.fixture
def make_topic(kafka: KafkaConnection, request: pytest.FixtureRequest) -> MakeTopic:
    """Return a function that creates topics with unique names."""

    def make(partitions: int = 1, **settings: str) -> str:
        name = f"{_slug(request)}-{uuid.uuid4().hex[:8]}"
        with Admin(kafka) as admin:
            dotted = {key.replace("_", "."): value for key, value in settings.items()}
            admin.create_topic(name, partitions=partitions, settings=dotted)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """Return a topic for this test, with one partition."""
    return make_topic()


@pytest.fixture
def schema(sandbox: Endpoints, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a schema for this test, which is dropped afterwards."""
    name = f"{_slug(request)}_{uuid.uuid4().hex[:8]}".replace("-", "_")
    quoted = sql.Identifier(name)
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(quoted))
    yield name
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(quoted))


@pytest.fixture
def database_link(sandbox: Endpoints) -> Iterator[LinkProxy]:
    """Yield a link to the database; replace the server's address in a URL with the link's."""
    port = int(sandbox.database_url.rpartition(":")[2].partition("/")[0])
    with LinkProxy(LOOPBACK, port) as proxy:
        yield proxy


def _slug(request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0]
    return "".join(c if c.isalnum() else "-" for c in name.lower())[:40] + f"-{os.getpid()}"
