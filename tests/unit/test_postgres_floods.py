"""A PostgreSQL server whose answer does not end fills no memory."""

import select
import struct
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from playhead import secrets
from playhead.errors import PlayheadError
from playhead.host.threads import BackgroundCall
from playhead.postgres import explain, query_link
from playhead.postgres.adbc import ArrowConnection
from playhead.postgres.bounded_connection import AnswerTooLarge, received, refuse_values
from playhead.postgres.explain import NotExplained, open_explainer
from playhead.postgres.query_link import QueryLink
from playhead.postgres.session import open_session
from playhead.server import LinkLost
from tests.lying_server import Flood, LyingServer, error, message, ready

_MOST_BYTES = 900 << 20
_COLUMNS = message(b"T", struct.pack(">h", 1) + b"a\0" + struct.pack(">ihihih", 0, 0, 20, 8, -1, 1))
_VALUE = message(b"D", struct.pack(">hiq", 1, 8, 7))
_NULL = message(b"D", struct.pack(">hi", 1, -1))
_NOTICE = message(b"N", b"SNOTICE\0C00000\0M" + b"x" * 200 + b"\0\0")
_SETTINGS = b"".join(message(b"S", b"%d\0" % each + b"v" * 29_000 + b"\0") for each in range(64))
_PARSED = message(b"1", b"") + message(b"2", b"")
_ONE_ROW = _COLUMNS + struct.pack(">cihi", b"D", 1 << 30, 1, (1 << 30) - 6)
FLOODS = {
    "rows": Flood(_COLUMNS, _VALUE * 4_000),
    "rows of null": Flood(_COLUMNS, _NULL * 8_000),
    "one row": Flood(_ONE_ROW, bytes(1 << 20)),
    "notices": Flood(b"", _NOTICE * 1_000),
    "settings": Flood(b"", _SETTINGS),
    "notifications": Flood(b"", message(b"A", struct.pack(">i", 1) + b"to\0it\0") * 4_000),
}
_COPIED = Flood(
    message(b"H", struct.pack(">bhh", 0, 1, 0)), message(b"d", b"7" * 9_999 + b"\n") * 40
)
_ASK = {
    "the doctor": "from playhead.postgres.server import ask as call",
    "statements": "from playhead.postgres.statement_connection import StatementConnection\n"
    "call = lambda url: StatementConnection(url).ask('SELECT 1', ())",
    "Arrow": "from playhead.postgres.adbc import ArrowConnection as call",
    "plans": "from playhead.postgres.explain import NotExplained, open_explainer\n"
    "def call(url):\n"
    "    with open_explainer(url) as explainer:\n"
    "        try: explainer.plan(b'SELECT 1', None)\n"
    "        except NotExplained as exc: print(exc)",
    "queries": "from playhead.postgres.query_link import QueryLink\n"
    "def call(url):\n"
    "    link = QueryLink(url.encode())\n"
    "    while not link.go_on_connecting(): pass",
}
_MEASURED = """
import sys
from pathlib import Path
from playhead.errors import PlayheadError
{ask}
try:
    call(sys.argv[1] + "?connect_timeout=30")
except PlayheadError as exc:
    print(exc)
# Not ru_maxrss, which begins with what the process that started this one has.
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")))
"""


def asked(how: str, server: LyingServer) -> tuple[str, int]:
    """What the error says, and the most memory that the process had."""
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED.format(ask=_ASK[how]), server.url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said, _, most = ran.stdout.strip().rpartition("\n")
    assert said, ran.stderr[-2_000:]
    return said, int(most)


def open_link(server: LyingServer) -> QueryLink:
    link = QueryLink(server.url.encode())
    while not link.go_on_connecting():
        waits = [link.fileno]
        select.select(
            [] if link.wants_to_write else waits, waits if link.wants_to_write else [], [], 10
        )
    return link


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much has arrived")
@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("the doctor", "rows"),
        ("plans", "rows"),
        *((how, kind) for how in ("statements", "Arrow") for kind in FLOODS),
    ],
)
def test_an_answer_without_an_end_fills_no_memory(how: str, kind: str) -> None:
    # The extended protocol says first that it has parsed.
    flood = FLOODS[kind]
    flood = Flood((_PARSED if how == "statements" else b"") + flood.beginning, flood.then)
    with LyingServer(flood) as server:
        said, most = asked(how, server)
    assert "sent more than 134,217,728 bytes for one statement" in said
    assert most < _MOST_BYTES


@pytest.mark.parametrize("kind", ["notices", "settings"])
@pytest.mark.parametrize("how", ["the doctor", "statements", "plans", "queries"])
def test_a_login_without_an_end_fills_no_memory(how: str, kind: str) -> None:
    with LyingServer(greeting=FLOODS[kind]) as server:
        said, most = asked(how, server)
    assert "sent more than 4,194,304 bytes for a login" in said
    assert most < _MOST_BYTES


def test_more_values_than_any_answer_has_are_not_read() -> None:
    refuse_values(5_000_005)  # the longest answer: a million rows of five, and one more
    with pytest.raises(AnswerTooLarge, match="values for one statement"):
        refuse_values(9_000_000)


def test_a_plan_without_an_answer_is_not_explained() -> None:
    with (
        LyingServer(ready(b"I"), ready(b"I")) as server,
        open_explainer(server.url) as explainer,
        pytest.raises(NotExplained, match="gave no answer"),
    ):
        explainer.plan(b"SELECT 1", None)


@pytest.mark.parametrize("sent", [b"", _NOTICE], ids=["silence", "drops"])
def test_a_plan_is_not_waited_for_longer_than_its_limit(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_LIMIT_S", 0.3)
    begun = time.monotonic()
    with (
        LyingServer(sent) as server,
        open_explainer(server.url) as explainer,
        pytest.raises(NotExplained, match=r"no whole answer within 0\.3 s"),
    ):
        explainer.plan(b"SELECT 1", None)
    assert time.monotonic() - begun < 5


def test_a_server_that_refuses_a_value_of_ours_is_an_error_of_ours() -> None:
    """As one that only resembles PostgreSQL does: there is no record that could be refused."""
    refused = error("22023", "invalid value for DateStyle")
    with (
        LyingServer(refused) as server,
        pytest.raises(PlayheadError, match="refused: invalid value for DateStyle"),
        open_session(server.url, grant=""),
    ):
        pass


def test_an_error_of_a_megabyte_is_cut() -> None:
    with (
        LyingServer(error("XX000", "x" * 1_000_000)) as server,
        pytest.raises(PlayheadError) as caught,
        open_session(server.url, grant=""),
    ):
        pass
    assert "refused: xxx" in str(caught.value)
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("kind", ["one row", "notices", "settings", "rows", "copied rows"])
def test_a_session_of_a_query_replay_is_lost_when_its_answer_does_not_end(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are taken as they come, so these may come without an end."""
    monkeypatch.setattr(query_link, "_MOST_BYTES", 4 << 20)
    arrived = 0
    goes_on = kind in ("rows", "copied rows")
    with LyingServer(FLOODS.get(kind, _COPIED)) as server:
        link = open_link(server)
        before = received(link.fileno)
        link.send_text(b"SELECT 1")
        with nullcontext() if goes_on else suppress(LinkLost):
            while (arrived := received(link.fileno) - before) < 64 << 20:
                select.select([link.fileno], [], [], 10)
                link.receive()
        link.close()
    assert (arrived >= 64 << 20) is goes_on


@pytest.mark.parametrize("beginning", ["", "x" * 9_994 + "un5eenUn6een"])
def test_an_error_of_a_megabyte_in_a_session_of_a_query_replay_is_cut(beginning: str) -> None:
    """No beginning of a password is left where it is cut."""
    secrets.remember("un5eenUn6een")
    with LyingServer(error("22012", beginning + "x" * 1_000_000, b"I")) as server:
        link = open_link(server)
        link.send_text(b"SELECT 1/0")
        while (answer := link.receive()) is None:
            select.select([link.fileno], [], [], 10)
        link.close()
    assert answer.sqlstate == "22012"
    assert (
        answer.said == (beginning.replace("un5eenUn6een", secrets.HIDDEN) or "x" * 10_000)[:10_000]
    )


def test_a_connection_whose_answer_is_not_waited_for_any_longer_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after Ctrl-C: to close it beside the thread that waits was refused by the driver, and shown as our fault."""
    asked, answered = Event(), Event()

    class Waiting(ArrowConnection):
        def __init__(self) -> None:
            self._limit_s, self._is_left_behind, self._is_well = None, False, False
            self._connection = self._database = SimpleNamespace(close=self._refuse)  # type: ignore[assignment]
            self.closed = 0

        def _asked(self, *_: object) -> Any:
            asked.set()
            answered.wait(20)
            return [], 0

        def _refuse(self) -> None:
            assert answered.is_set()
            self.closed += 1

    def interrupted(*_: object) -> bool:
        asked.wait(20)
        raise KeyboardInterrupt

    link = Waiting()
    monkeypatch.setattr(BackgroundCall, "is_over", interrupted)
    with pytest.raises(KeyboardInterrupt), link.answering_within(20):
        link.ask("SELECT 1", ())
    link.close(is_kept=False)
    assert link.closed == 0
    answered.set()
