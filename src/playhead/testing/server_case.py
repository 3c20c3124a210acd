"""Helpers of the server contract suite: connections, and statements on them."""

import select
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from playhead.server import Answer, Control, Link, LinkLost, Server, ServerFacts
from playhead.testing.target_case import terms

WITHIN_S = 20.0
"""Time limit of a check, in seconds."""


def new_id() -> str:
    return f"contract-{uuid.uuid4().hex[:8]}"


@contextmanager
def control_of(server: Server) -> Iterator[Control]:
    control = server.control()
    try:
        yield control
    finally:
        control.close()


def begun(server: Server) -> str:
    replay_id = new_id()
    with control_of(server) as control:
        control.prepare(replay_id, terms())
    return replay_id


def facts_of(server: Server) -> ServerFacts:
    with control_of(server) as control:
        return control.facts()


@contextmanager
def opened_link(server: Server, facts: ServerFacts, *, has_checksums: bool) -> Iterator[Link]:
    """Yield an open connection for a session."""
    link = server.linker(facts, has_checksums=has_checksums)()
    try:
        until = time.monotonic() + WITHIN_S
        while not link.go_on_connecting():
            _wait(link, is_writing=link.wants_to_write, until=until)
        yield link
    finally:
        link.close()


def _wait(link: Link, *, is_writing: bool, until: float) -> None:
    left_s = until - time.monotonic()
    assert left_s > 0, "no answer within the time of a check"
    select.select([link.fileno], [link.fileno] if is_writing else [], [], left_s)


def link_to(server: Server) -> AbstractContextManager[Link]:
    return opened_link(server, facts_of(server), has_checksums=False)


def answered(link: Link) -> Answer:
    until = time.monotonic() + WITHIN_S
    while (answer := link.receive()) is None:
        _wait(link, is_writing=not link.flush(), until=until)
    return answer


def play(link: Link, *texts: str | bytes) -> Answer:
    """Play one text after the other; return the answer to the last one."""
    answer = Answer()
    for text in texts:
        link.send_text(text if isinstance(text, bytes) else text.encode())
        answer = answered(link)
    return answer


def transaction(link: Link) -> str:
    return "failed" if link.is_aborted else "open" if link.in_transaction else "none"


def is_gone(link: Link) -> bool:
    try:
        play(link, "SELECT 1")
    except LinkLost:
        return True
    return False
