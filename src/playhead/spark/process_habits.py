"""What PySpark does to the process that it is in, kept away from ours."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@contextmanager
def kept_away() -> Iterator[None]:
    """Start a session in here. PySpark takes Ctrl-C for itself, and asks the JVM first, which may hang."""
    logging.getLogger().addFilter(_is_not_theirs)
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and before is not None:
            signal.signal(signal.SIGINT, before)


def quiet(context: "SparkContext") -> None:
    """Its server of accumulators prints a traceback when the JVM goes away; we say what has gone."""
    context._accumulatorServer.handle_error = lambda *_: None


def start_callbacks() -> None:
    """Have the JVM say its secret when it calls back; PySpark lets anybody call who finds the port.

    What PySpark starts by itself has neither side ask: its Java half forgets the secret on the way.
    """
    from py4j.clientserver import ClientServer
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = SparkContext._gateway
    # Another kind of gateway, which a user's own session may have, says it by itself.
    if not isinstance(gateway, ClientServer) or gateway.__dict__.get("_callback_server"):
        return
    gateway.python_parameters.auth_token = gateway.java_parameters.auth_token
    ensure_callback_server_started(gateway)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    client = server.getCallbackClient()
    secret = client.getClass().getSuperclass().getDeclaredField("authToken")
    secret.setAccessible(True)
    secret.set(client, gateway.java_parameters.auth_token)


def for_each_round(
    stream: "DataStreamWriter", on_round: Callable[["DataFrame", int], None]
) -> "DataStreamWriter":
    """The stream with what is called for each of its rounds.

    To say so starts PySpark's own server for that, which lets anybody call; so ours has to be there.
    """
    start_callbacks()
    return stream.foreachBatch(on_round)


def _is_not_theirs(record: logging.LogRecord) -> bool:
    """Not what py4j says, with a traceback, of a connection that broke: we say why it did."""
    return record.module not in ("java_gateway", "clientserver")


def stop_accumulators_aside(context: "SparkContext") -> None:
    """PySpark's server of accumulators, which we have none of, looks once a second whether it has to stop.

    Nobody needs to wait for that. When the JVM is gone before, it would print a traceback about it.
    """
    server, context._accumulatorServer = context._accumulatorServer, None
    server.handle_error = lambda *_: None
    threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()
