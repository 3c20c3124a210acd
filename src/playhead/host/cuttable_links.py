"""Connections of an HTTP request that another thread can cut: a read that waits cannot be ended otherwise."""

import socket
import urllib.request
from contextlib import suppress
from typing import Any


class CuttableLinks:
    """The connections of one request of `urllib`."""

    def __init__(self) -> None:
        self._kept: list[socket.socket] = []
        self._is_cut = False

    def handlers(self) -> tuple[urllib.request.BaseHandler, ...]:
        """Return the handlers for `build_opener`."""
        return _Http(self), _Https(self)

    def connect(self, *args: Any, **more: Any) -> socket.socket:
        """As `socket.create_connection`."""
        made = socket.create_connection(*args, **more)
        # A duplicate, because TLS takes the socket's descriptor away.
        self._kept.append(made.dup())
        if self._is_cut:
            self.cut()
        return made

    def cut(self) -> None:
        """End all connections, also those that are still to come."""
        self._is_cut = True
        while self._kept:
            with self._kept.pop() as link, suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)


class _Cuttable(urllib.request.AbstractHTTPHandler):
    def __init__(self, links: CuttableLinks) -> None:
        super().__init__()
        self._links = links

    def do_open(self, http_class: Any, req: Any, **more: Any) -> Any:
        def connection(host: str, **each: Any) -> Any:
            made = http_class(host, **each)
            made._create_connection = self._links.connect
            return made

        return super().do_open(connection, req, **more)


class _Http(_Cuttable, urllib.request.HTTPHandler):
    pass


class _Https(_Cuttable, urllib.request.HTTPSHandler):
    pass
