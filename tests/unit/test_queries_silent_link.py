"""A session whose server is silent while it connects is given up, and does not hold the run."""

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from playhead.queries import connections
from playhead.queries.connections import Connections
from playhead.queries.session import Doing
from playhead.server import LinkLost


@pytest.mark.parametrize("becomes", [Doing.CONNECTING, Doing.IDLE])
def test_a_link_that_does_not_open_is_lost(monkeypatch: pytest.MonkeyPatch, becomes: Doing) -> None:
    monkeypatch.setattr(connections, "_CONNECT_WITHIN_S", 0.05)
    lost: list[LinkLost] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        while True:  # so that it cannot be written either
            try:
                ours.send(b"x" * 65_536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
        link = cast("Any", SimpleNamespace(fileno=ours.fileno()))
        links = Connections(
            connect=lambda: link,
            most=1,
            opened=lambda _: None,
            failed=lambda _, reason: lost.append(reason),
        )
        session = cast("Any", SimpleNamespace(link=None, registered=-1, doing=Doing.IDLE))
        links.ask(session)
        session.doing = becomes
        assert links.wait(0.5) == []
    assert len(lost) == (becomes is Doing.CONNECTING)
