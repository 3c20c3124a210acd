"""Undoes PySpark's side effects on the process that it runs in."""

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from playhead.config import exposed_logins
from playhead.host.listeners import clients, listeners

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

import sys
from importlib.machinery import ModuleSpec

_PANDAS = "pandas"
_NO_PROXY = "no_grpc_proxy"
# A message passes the filters of its own logger only. Some messages of py4j go to the root logger.
_LOGGERS = (None, "py4j.java_gateway", "py4j.clientserver")
_gateways: Final = set[int]()
"""The ports of the engines that we have started."""


@contextmanager
def kept_away() -> Iterator[None]:
    """Start a session in this block. PySpark takes Ctrl-C for itself and asks the JVM first, which may hang."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_not_theirs)
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and before is not None:
            signal.signal(signal.SIGINT, before)


def leave_servers_at_once() -> None:
    """Ask a Spark Connect server only once to end our session; by default, for ten minutes if it is gone."""
    from pyspark.sql.connect.client.core import SparkConnectClient

    end = SparkConnectClient._on_exit

    def end_at_once(client: SparkConnectClient) -> None:
        client.set_retry_policies([])
        end(client)

    if end.__name__ != end_at_once.__name__:
        SparkConnectClient._on_exit = end_at_once


def without_advice() -> None:
    """Print no advice of a Spark Connect server about settings, which we set on purpose."""
    text = r"The SQL config 'spark\.sql\."
    warnings.filterwarnings("ignore", text, UserWarning, r"pyspark\.sql\.connect\.conf")


def keep_off_proxies(remote: str) -> None:
    """Reach a Spark Connect server of this machine without a proxy, which would get the jobs with their passwords."""
    host = urlsplit(remote).hostname or ""
    said = os.environ.get(_NO_PROXY) or os.environ.get("no_proxy") or ""
    if not exposed_logins.is_elsewhere([host]) and host not in said.split(","):
        os.environ[_NO_PROXY] = ",".join(filter(None, (said, host)))


def quiet(context: "SparkContext") -> None:
    """Silence its accumulator server, which prints a traceback when the JVM ends; we report what ended."""
    context._accumulatorServer.handle_error = lambda *_: None


def refuse_strangers(port: int) -> None:
    """Refuse each new connection to the gateway at this port if a process of another user listens there.

    Another user can take the port of an engine that has ended. Py4J would send the secret there, and believe
    the answers: PySpark unpickles what these lead to, which runs code.
    """
    from py4j.clientserver import ClientServerConnection
    from py4j.java_gateway import GatewayConnection

    _gateways.add(port)
    for kind in (ClientServerConnection, GatewayConnection):
        if kind._authenticate_connection.__module__ != __name__:
            kind._authenticate_connection = _after_a_look(kind._authenticate_connection)


def _after_a_look(log_in: Callable[[Any], None]) -> Callable[[Any], None]:
    def look_and_log_in(connection: Any) -> None:
        port = connection.socket.getpeername()[1]
        if port in _gateways and listeners(port) not in (None, {os.geteuid()}):
            # The error of a port at which nothing listens: the engine has ended.
            raise ConnectionRefusedError(f"another user listens on the engine's port {port}")
        log_in(connection)

    return look_and_log_in


def start_callbacks() -> None:
    """Require a secret for callbacks; by default PySpark accepts anyone who finds the port.

    The server that PySpark starts by itself has no authentication: its Java half loses the secret
    on the way.
    """
    from py4j.clientserver import ClientServer
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = SparkContext._gateway
    # Another kind of gateway, as in a user's own session, authenticates by itself.
    if not isinstance(gateway, ClientServer) or gateway.__dict__.get("_callback_server"):
        return
    # Not the gateway's own: when this process has ended, the JVM may send it to another user at this port.
    gateway.python_parameters.auth_token = token_hex(32)
    ensure_callback_server_started(gateway)
    gateway._callback_server.server_socket = _OwnClients(gateway._callback_server.server_socket)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    client = server.getCallbackClient()
    secret = client.getClass().getSuperclass().getDeclaredField("authToken")
    secret.setAccessible(True)
    secret.set(client, gateway.python_parameters.auth_token)


class _OwnClients:
    """A listening socket that hangs up on other users at once.

    Py4J starts a thread for each client, and reads a whole line before it asks for the secret: one endless line fills
    the memory, and a thousand clients take all files that the process may open.
    """

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._port = door.getsockname()[1]

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            client, address = self._door.accept()
            if clients(address[1], of=self._port) in (None, {os.geteuid()}):
                return client, address
            client.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)


def for_each_round(
    stream: "DataStreamWriter", on_round: Callable[["DataFrame", int], None]
) -> "DataStreamWriter":
    """Return the stream with the function that is called for each round.

    Setting it starts PySpark's own callback server, which accepts anyone; so ours must run before.
    """
    start_callbacks()
    return stream.foreachBatch(on_round)


def _is_not_theirs(record: logging.LogRecord) -> bool:
    """Filter py4j's tracebacks about a broken connection: we report the cause."""
    return record.module not in ("java_gateway", "clientserver")


def stop_accumulators_aside(context: "SparkContext") -> None:
    """Stop PySpark's accumulator server in the background, because it checks only once a second.

    If the JVM ended first, it would print a traceback.
    """
    server, context._accumulatorServer = context._accumulatorServer, None
    server.handle_error = lambda *_: None
    threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()


class _Hidden:
    """Makes the import of one name fail."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{name} is not available in this task", name=name)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Block the import of pandas in this block, unless it was imported before; later users can import it."""
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)
        _look_anew()


def _look_anew() -> None:
    """Make PyArrow check again, because it caches the result."""
    looked = getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
    if looked is not None:
        looked.__init__()
