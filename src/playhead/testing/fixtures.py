"""Pytest fixtures on real servers: `pytest_plugins = ["playhead.testing.fixtures"]` in a conftest.py.

One broker and one database for the whole run, started when the first test asks and stopped at the end,
also when the run is killed. Every test gets a topic and a schema of its own.
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
    """A temporary folder that the servers' own user can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="playhead-tests-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def linked_port() -> int:
    """Where the broker listens for `broker_link` alone."""
    return free_port()


@pytest.fixture(scope="session")
def broker_link(linked_port: int) -> Iterator[LinkProxy]:
    """The link through which `linked_kafka` reaches the broker; cut, stall or delay it."""
    with LinkProxy(LOOPBACK, linked_port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def running_sandbox(
    servers_folder: Path, broker_link: LinkProxy, linked_port: int
) -> Iterator[Sandbox]:
    """The run's sandbox; its broker also listens where `broker_link` leads, and says so to clients."""
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
    """Where the run's broker and database are."""
    return running_sandbox.endpoints()


@pytest.fixture
def kafka(sandbox: Endpoints) -> KafkaConnection:
    """How to reach the run's broker."""
    return KafkaConnection(sandbox.bootstrap_servers)


@pytest.fixture
def linked_kafka(sandbox: Endpoints, broker_link: LinkProxy) -> Iterator[KafkaConnection]:  # noqa: ARG001
    """How to reach it through `broker_link`, which is whole again after the test."""
    yield KafkaConnection(broker_link.address)
    broker_link.restore()


@pytest.fixture
def make_topic(kafka: KafkaConnection, request: pytest.FixtureRequest) -> MakeTopic:
    """Makes topics with names that no other test has."""

    def make(partitions: int = 1, **settings: str) -> str:
        name = f"{_slug(request)}-{uuid.uuid4().hex[:8]}"
        with Admin(kafka) as admin:
            dotted = {key.replace("_", "."): value for key, value in settings.items()}
            admin.create_topic(name, partitions=partitions, settings=dotted)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of this test's own, with one partition."""
    return make_topic()


@pytest.fixture
def schema(sandbox: Endpoints, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema of this test's own, dropped after it."""
    name = f"{_slug(request)}_{uuid.uuid4().hex[:8]}".replace("-", "_")
    quoted = sql.Identifier(name)
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(quoted))
    yield name
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(quoted))


@pytest.fixture
def database_link(sandbox: Endpoints) -> Iterator[LinkProxy]:
    """A link to the database; put its address into a URL in place of the server's."""
    port = int(sandbox.database_url.rpartition(":")[2].partition("/")[0])
    with LinkProxy(LOOPBACK, port) as proxy:
        yield proxy


def _slug(request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0]
    return "".join(c if c.isalnum() else "-" for c in name.lower())[:40] + f"-{os.getpid()}"
